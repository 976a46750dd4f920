"""Random edits of a directory, and an independent look at all of it: what the checks of working directories use."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable
from typing import Any

__all__ = ["EDITS", "edit", "look"]

NAMES = ("a", "b", "c.txt", "ü", "with space", "-", ".hidden", "new\nline", "\udcff")
MODES = (0o644, 0o600, 0o755, 0o700, 0o444, 0o555, 0o4755, 0o1777, 0o2750)
TARGETS = ("a", "../..", "/etc", "nowhere", ".")


def look(root: str) -> dict[str, tuple[Any, ...]]:
    """By relative path: kind, mode, owner, times in ns, content or target, and which paths are the same file."""
    found: dict[str, tuple[Any, ...]] = {}
    first: dict[tuple[int, int], str] = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        full = os.path.join(root, path)
        status = os.lstat(full)
        common = (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)
        if stat.S_ISDIR(status.st_mode):
            found[path] = ("folder", *common)
            waiting += sorted((os.path.join(path, name) for name in os.listdir(full)), reverse=True)
        elif stat.S_ISLNK(status.st_mode):
            found[path] = ("link", *common, os.readlink(full))
        elif stat.S_ISREG(status.st_mode):
            with open(full, "rb") as file:
                content = file.read()
            same = first.setdefault((status.st_dev, status.st_ino), path)
            found[path] = ("file", *common, content, same, status.st_nlink)
        else:
            found[path] = ("special", *common)
    return found


def _everything(root: str) -> tuple[list[str], list[str], list[str]]:
    """Folders (the root first), files, links; in one order on every system."""
    folders, files, links = [root], [], []
    for folder, below, names in os.walk(root):
        for name in (*below, *names):
            path = os.path.join(folder, name)
            (links if os.path.islink(path) else folders if name in below else files).append(path)
    return sorted(folders), sorted(files), sorted(links)


def _write(rng: random.Random, path: str) -> None:
    with open(path, "wb") as file:
        file.write(rng.randbytes(rng.randrange(3000)))


def _append(rng: random.Random, path: str) -> None:
    with open(path, "ab") as file:
        file.write(rng.randbytes(20))


def _truncate(rng: random.Random, path: str) -> None:
    os.truncate(path, rng.randrange(2000))


def _same_size(rng: random.Random, path: str) -> None:
    with open(path, "r+b") as file:
        file.write(rng.randbytes(os.path.getsize(path)))


def _same_size_and_time(rng: random.Random, path: str) -> None:
    before = os.stat(path)
    _same_size(rng, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(rng: random.Random, path: str) -> None:
    _write(rng, path + ".new")
    os.rename(path + ".new", path)


def _touch(rng: random.Random, path: str) -> None:
    times = rng.randrange(1 << 60), rng.randrange(1 << 60)
    os.utime(path, ns=times, follow_symlinks=False)


def _delete(rng: random.Random, path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path) if rng.random() < 0.3 else os.rmdir(path)
    else:
        os.unlink(path)


EDITS: dict[str, Callable[[random.Random, str, str], None]] = {
    "write": lambda rng, path, new: _write(rng, new),
    "append": lambda rng, path, new: _append(rng, path),
    "truncate": lambda rng, path, new: _truncate(rng, path),
    "same size": lambda rng, path, new: _same_size(rng, path),
    "same size and time": lambda rng, path, new: _same_size_and_time(rng, path),
    "replace": lambda rng, path, new: _replace(rng, path),
    "touch": lambda rng, path, new: _touch(rng, path),
    "move": lambda rng, path, new: os.rename(path, new),
    "delete": lambda rng, path, new: _delete(rng, path),
    "chmod": lambda rng, path, new: os.chmod(path, rng.choice(MODES)),
    "mkdir": lambda rng, path, new: os.mkdir(new, rng.choice((0o755, 0o700))),
    "symlink": lambda rng, path, new: os.symlink(rng.choice(TARGETS), new),
    "link": lambda rng, path, new: os.link(path, new),
}
_ON_FILES = ("append", "truncate", "same size", "same size and time", "replace", "link")


def edit(root: str, rng: random.Random) -> str | None:
    """One random edit below a directory, never through a link; its name, or None where it could not be done."""
    name = rng.choice(list(EDITS))
    folders, files, links = _everything(root)
    new = os.path.join(rng.choice(folders), rng.choice(NAMES))
    if name in _ON_FILES:
        choices = files
    elif name == "chmod":
        choices = folders[1:] + files
    else:
        choices = folders[1:] + files + links
    if name not in ("write", "mkdir", "symlink") and not choices:
        return None
    if name == "write" and os.path.islink(new):
        return None
    try:
        EDITS[name](rng, rng.choice(choices) if choices else "", new)
    except OSError:  # a name that is taken, a folder that is not empty, a folder moved into itself
        return None
    return name
