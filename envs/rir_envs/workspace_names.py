"""Which paths a workspace has, and how large things may get in it. Knows no disk, no task and no tool.

A path is one to four names joined by "/": folders without a dot, then a file with one. Names are lower case ASCII,
begin with a letter or digit and hold nothing but letters, digits, "_", "-" and (files only) dots. So no path leaves
the workspace or means another one, on any file system, and nothing can be a file and a folder at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["COMMAND", "FILE", "FILES", "OUTPUT", "TOTAL", "folder_problem", "path_problem", "size_problem"]

COMMAND = 8_000
"""Characters of a command."""
FILE = 65_536
"""Bytes of a file."""
TOTAL = 1_048_576
"""Bytes of all files together."""
FILES = 256
"""Files in a workspace."""
OUTPUT = 6_000
"""Characters of what a tool answers."""

_LONGEST = 120
_DEPTH = 4
_FOLDER = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FILE = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)+")
_RULE = "a path is like notes/a.txt: folders without a dot, a file with one, a-z 0-9 _ - only, no leading / and no .."


def path_problem(path: str) -> str | None:
    """Why a text is no path of a file; None where it is one."""
    if len(path) > _LONGEST:
        return f"a path has at most {_LONGEST} characters"
    *folders, name = path.split("/")
    if len(folders) >= _DEPTH or not _FILE.fullmatch(name) or not all(map(_FOLDER.fullmatch, folders)):
        return f"{_shown(path)} is no path of a file here; {_RULE}"
    return None


def folder_problem(path: str) -> str | None:
    """Why a text is no path of a folder; None where it is one."""
    if len(path) > _LONGEST or len(names := path.split("/")) >= _DEPTH or not all(map(_FOLDER.fullmatch, names)):
        return f"{_shown(path)} is no folder; {_RULE}"
    return None


def size_problem(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str | None:
    """Why the files by path may not become these; None where they may. What was there already may be any size."""
    if any(len(data) > FILE and data not in before.values() for data in after.values()):
        return f"a file holds at most {FILE} bytes"
    if len(after) > max(FILES, len(before)):
        return f"there can be at most {FILES} files"
    if sum(map(len, after.values())) > max(TOTAL, sum(map(len, before.values()))):
        return f"all files together hold at most {TOTAL} bytes"
    return None


def _shown(path: str) -> str:
    return ascii(path if len(path) <= 60 else path[:57] + "...")
