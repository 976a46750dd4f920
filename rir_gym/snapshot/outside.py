"""What an environment did outside the Python objects that it holds: threads, child processes, open files, settings.

None of that is put back by a mechanism that copies or rewrites objects. Read before and after an instance is made and
played; on systems without ``/proc`` threads alone are seen. This module knows no mechanism.
"""

from __future__ import annotations

import decimal
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["Outside", "look", "settings", "started"]

Outside = Counter[str]

_QUIET = ("pipe:", "anon_inode:", "/dev/", "/proc/")
_READ_ONLY = os.O_RDONLY


def look() -> Outside:
    """What there is now, by name and how often."""
    found = Counter(f"thread {thread.name}" for thread in threading.enumerate())
    for task in _entries("/proc/self/task"):
        with suppress(OSError):
            children = (task / "children").read_text().split()
            found.update(f"child process {pid}" for pid in children)
    for descriptor in _entries("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(descriptor)
            if not target.startswith(_QUIET) and _writable(descriptor.name):
                found[f"open file or socket {target}"] += 1
    return found


def started(before: Outside, after: Outside) -> str | None:
    """What is there now and was not before, in words; None for nothing."""
    return next(iter(sorted((after - before).keys())), None)


def settings() -> Iterator[tuple[str, str | int]]:
    """What a step can set for the whole process, by name: no mechanism puts it back."""
    try:
        yield "os.getcwd()", os.getcwd()
    except OSError:  # somebody has removed it
        yield "os.getcwd()", ""
    yield "sys.getrecursionlimit()", sys.getrecursionlimit()
    context = decimal.getcontext()
    for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp"):
        yield f"decimal.getcontext().{name}", getattr(context, name)
    yield from ((f"os.environ[{name!r}]", value) for name, value in sorted(os.environ.items()))


def _entries(folder: str) -> list[Path]:
    try:
        return sorted(Path(folder).iterdir())
    except OSError:
        return []


def _writable(descriptor: str) -> bool:
    """Files that are only read are no effect on the outside."""
    try:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        flags = next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))
    except (OSError, StopIteration, ValueError):
        return True
    return flags & os.O_ACCMODE != _READ_ONLY
