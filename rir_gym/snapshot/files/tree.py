"""A directory as a value: files, links and folders with their modes, owners, times and contents. Knows no disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from rir_gym.snapshot.files.blobs import Blob

__all__ = ["File", "Folder", "Link", "Node", "Other", "difference", "files_of", "folder_of"]


@dataclass(frozen=True, slots=True)
class File:
    """``links``: all paths in the directory that are this one file, where they are more than one.

    ``blob`` is None for a content that the reader could not or need not know; such files equal nothing.
    """

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    blob: Blob | None
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, wherever it leads."""

    uid: int
    gid: int
    mtime_ns: int
    target: str


@dataclass(frozen=True, slots=True, eq=False)
class Other:
    """What cannot be saved: a named pipe, a socket, a device, an unreadable folder. Equals nothing but itself."""

    why: str
    elsewhere: bool = False  # on another file system


@dataclass(frozen=True, slots=True)
class Folder:
    """``mode`` holds the permission bits only, as everywhere here."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    children: dict[str, Node] = field(hash=False)


Node = File | Link | Folder | Other


def folder_of(status: os.stat_result, children: dict[str, Node]) -> Folder:
    """A folder with a status as the system gives it."""
    return Folder(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns, children)


def difference(one: Folder, other: Folder, *, path: str = "") -> str | None:
    """The first path that differs, and how, or None. The mode, owner and time of the top folders are not compared."""
    if path and (one.mode, one.uid, one.gid, one.mtime_ns) != (other.mode, other.uid, other.gid, other.mtime_ns):
        return f"{path!r}: mode, owner or time"
    for name in sorted(one.children.keys() | other.children.keys()):
        here, a, b = f"{path}/{name}" if path else name, one.children.get(name), other.children.get(name)
        if a is b or a == b:
            continue
        if isinstance(a, Folder) and isinstance(b, Folder):
            if (found := difference(a, b, path=here)) is not None:
                return found
            continue
        if a is None or b is None:
            return f"{here!r}: {'not ' if a is None else ''}there"
        return f"{here!r}: {a} and {b}"
    return None


def files_of(folder: Folder) -> Iterator[File]:
    """Every file of a tree."""
    stack = [folder]
    while stack:
        for node in stack.pop().children.values():
            if isinstance(node, Folder):
                stack.append(node)
            elif isinstance(node, File):
                yield node
