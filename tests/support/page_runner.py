"""Runs a page of the docs as its reader would: its code blocks, in order, in a fresh folder.

Blocks of ``python`` share one namespace, blocks of ``bash`` go to bash, which stops at the first error. A block of
``text`` that comes next after one of these is what it prints ("..." stands for anything). Every other block (``py``,
``console``, ``json``) is only to be read. Knows no page.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Block", "blocks_of", "play"]

_FENCE = re.compile(r"^(`{3,})([\w+-]*)[^\n`]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_RUN = ("python", "bash")
_MARK = "\x1e"


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is that of its first line of content, ``prints`` None where the page does not say."""

    language: str
    text: str
    line: int
    prints: str | None = None


def blocks_of(page: str) -> list[Block]:
    """The blocks that run, in order."""
    found = [Block(m[2], m[3], page.count("\n", 0, m.start()) + 2) for m in _FENCE.finditer(page)]
    following = [*found, Block("", "", 0)][1:]
    return [
        Block(block.language, block.text, block.line, after.text if after.language == "text" else None)
        for block, after in zip(found, following, strict=True)
        if block.language in _RUN
    ]


def play(page: Path, folder: Path, *, changes: Mapping[str, str] | None = None, timeout_s: float = 300) -> list[str]:
    """What each block printed.

    Args:
        page: the Markdown file.
        folder: an empty folder, in which everything runs.
        changes: texts of the page that are other ones here, such as the address of a server; each must occur.
        timeout_s: for the whole page.

    Raises:
        AssertionError: a block failed, or printed something else than the page says.
    """
    text = page.read_text(encoding="utf-8")
    for old, new in (changes or {}).items():
        assert old in text, f"{page.name} does not say {old!r}"
        text = text.replace(old, new)
    blocks = blocks_of(text)
    assert blocks, f"{page.name} has no block to run"
    job = [[block.language, block.text, f"{page.name}, line {block.line}"] for block in blocks]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONIOENCODING": "utf-8",
        "COLUMNS": "120",
    }
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps(job),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    printed = done.stdout.split(_MARK)[:-1]
    at = job[min(len(printed), len(job) - 1)][2]
    assert done.returncode == 0, f"{at}: failed\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    assert len(printed) == len(blocks), f"{at}: ended the run"
    check = doctest.OutputChecker().check_output
    for block, got, (_, _, place) in zip(blocks, printed, job, strict=True):
        if block.prints is not None:
            want = block.prints.rstrip() + "\n"
            same = check(want, got.rstrip() + "\n", doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            assert same, f"{place}: the page says\n{want}\nand it printed\n{got}"
    return printed


_DRIVER = f"""
import json, subprocess, sys, types
module = types.ModuleType("__main__")
module.__dict__["__builtins__"] = __builtins__
jobs = json.load(sys.stdin)
sys.modules["__main__"] = module
sys.path.insert(0, "")
for language, text, place in jobs:
    if language == "python":
        exec(compile(text, place, "exec"), module.__dict__)
    else:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(done.returncode)
    sys.stdout.write({_MARK!r})
    sys.stdout.flush()
"""
