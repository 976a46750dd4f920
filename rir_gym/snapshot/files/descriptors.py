"""Operations below an open folder: every part of a path has to be a folder, and no link is ever followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from rir_gym.snapshot.files.tree import File, Folder, Link, Node

__all__ = ["OPEN_FOLDER", "USABLE", "Path", "delete", "opened", "parent_of", "set_meta", "set_mode"]

OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_OPEN_ANY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OPEN_NAME = os.O_RDONLY | getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0)
USABLE = stat.S_IRWXU
Path = tuple[str, ...]


def set_meta(parent: int, name: str, node: Node) -> None:
    """Owner, mode and time, where they differ."""
    assert isinstance(node, File | Folder | Link)
    now = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if (now.st_uid, now.st_gid) != (node.uid, node.gid):
        os.chown(name, node.uid, node.gid, dir_fd=parent, follow_symlinks=False)
        now = os.stat(name, dir_fd=parent, follow_symlinks=False)  # which may have taken bits of the mode away
    if not isinstance(node, Link) and stat.S_IMODE(now.st_mode) != node.mode:
        set_mode(parent, name, node.mode)
    if now.st_mtime_ns != node.mtime_ns:
        os.utime(name, ns=(now.st_atime_ns, node.mtime_ns), dir_fd=parent, follow_symlinks=False)


def set_mode(parent: int, name: str, mode: int) -> None:
    """Of a file or folder, by descriptor: a link in its place is an error and is not followed."""
    try:
        fd = os.open(name, _OPEN_ANY, dir_fd=parent)
        by_name = False
    except PermissionError:  # one that its owner cannot read
        fd = os.open(name, _OPEN_NAME, dir_fd=parent)
        by_name = True
    try:
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise OSError(f"{name!r} became a symbolic link")
        os.chmod(f"/proc/self/fd/{fd}", mode) if by_name else os.fchmod(fd, mode)
    finally:
        os.close(fd)


def delete(parent: int, name: str) -> None:
    """A folder with all that is in it, however deep: its folders are moved up and emptied one after the other."""
    top = os.open(name, OPEN_FOLDER, dir_fd=parent)
    try:
        device, waiting, number = os.fstat(top).st_dev, ["."], 0
        while waiting:
            folder = waiting.pop()
            fd = os.open(folder, OPEN_FOLDER, dir_fd=top)
            try:
                if os.fstat(fd).st_dev != device:
                    raise OSError(f"{folder!r} is on another file system")
                with os.scandir(fd) as found:
                    entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
                for each, is_folder in entries:
                    if not is_folder:
                        os.unlink(each, dir_fd=fd)
                        continue
                    set_mode(fd, each, USABLE)
                    number += 1
                    moved = f"d{number}"
                    os.rename(each, moved, src_dir_fd=fd, dst_dir_fd=top)
                    waiting.append(moved)
            finally:
                os.close(fd)
            if folder != ".":
                os.rmdir(folder, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


@contextmanager
def opened(root: int, path: Path) -> Iterator[int]:
    """The folder at a path below ``root``; every part has to be a folder, no link."""
    fd = os.dup(root)
    try:
        for part in path:
            inner = os.open(part, OPEN_FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


@contextmanager
def parent_of(root: int, path: Path) -> Iterator[tuple[int, str]]:
    """The open folder in which the last part of a path lies, and that part; for the empty path ``root`` and "."."""
    with opened(root, path[:-1]) as fd:
        yield fd, path[-1] if path else "."
