"""Reading a directory from the disk into a tree.

``scan`` refuses what cannot be put back; ``survey`` reads anything, for whoever only wants to know what differs. Both
follow no link, stay on one file system, and open by descriptor, so that a path that is swapped under them leads
nowhere else. A file is read only where its size, times, inode or mode differ from those of the last reading, or where
that reading was so soon after its last change that another one could hide behind the same time stamp. Folders that
did not change are the same objects in every tree. This module writes nothing.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.files.blobs import Blob
from rir_gym.snapshot.files.descriptors import OPEN_FOLDER
from rir_gym.snapshot.files.stamps import resolution_ns
from rir_gym.snapshot.files.tree import File, Folder, Link, Node, Other, folder_of

__all__ = ["Contents", "Entry", "Seen", "scan", "survey"]

_OPEN_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_DEEPEST = 200
_READINGS = 3
_ELSEWHERE = "is on another file system"
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Contents = Callable[[int, os.stat_result, Blob | None], Blob | None]
"""From an open file, its status, and the content that it may still have to its blob."""

Entry = tuple[int, int, int, int, int, File | Link]
_Odd = Callable[[str, str], Node]


@dataclass(slots=True)
class Seen:
    """What the last reading saw of one folder.

    ``entries``: name → (ctime in ns, or -1 where it may hide a change, mtime in ns, size, inode, mode, node).
    """

    folder: Folder
    entries: dict[str, Entry]
    below: dict[str, Seen]


def scan(root: int, contents: Contents, *, known: Seen | None = None) -> Seen:
    """Read the open folder ``root`` whole.

    Raises:
        SnapshotError: an unreadable or special file, another file system, a file that changes meanwhile: with its path.
    """
    return _Reading(contents, _refuse).read(root, known, frozenset())


def survey(root: int, contents: Contents, *, known: Seen | None = None, without: frozenset[str] = frozenset()) -> Seen:
    """Read what can be read; what cannot is an ``Other``. Names in ``without`` are left out at the top.

    Raises:
        SnapshotError: the folder itself cannot be read.
    """
    return _Reading(contents, lambda path, why: Other(why, why == _ELSEWHERE)).read(root, known, without)


def _refuse(path: str, why: str) -> NoReturn:
    raise SnapshotError(f"{path!r} {why}")


@dataclass(slots=True)
class _Draft:
    """A folder that has been listed: its tree node is made when all links of all files are known."""

    status: os.stat_result
    known: Seen | None
    entries: dict[str, Entry] = field(default_factory=dict)
    children: dict[str, Node] = field(default_factory=dict)
    below: dict[str, _Draft] = field(default_factory=dict)


@dataclass(slots=True)
class _Reading:
    """One pass over a directory. ``place``: the device and the inode of the directory."""

    contents: Contents
    odd: _Odd
    place: tuple[int, int] = (0, 0)
    began_ns: int = field(default_factory=time.time_ns)
    linked: dict[int, list[tuple[str, _Draft, str]]] = field(default_factory=dict)
    blobs: dict[int, Blob | None] = field(default_factory=dict)

    def read(self, root: int, known: Seen | None, without: frozenset[str]) -> Seen:
        try:
            status = os.fstat(root)
            self.place = status.st_dev, status.st_ino
            draft = self._list(root, "", status, known, without, 0)
        except OSError as error:
            raise SnapshotError(f"the working directory cannot be read: {error}") from error
        for members in self.linked.values():
            paths = tuple(sorted(path for path, _, _ in members)) if len(members) > 1 else ()
            for _, folder, name in members:
                node = folder.children[name]
                if isinstance(node, File) and node.links != paths:
                    folder.children[name] = node = replace(node, links=paths)
                    folder.entries[name] = (*folder.entries[name][:5], node)
        return _finished(draft)

    def _list(
        self, fd: int, path: str, status: os.stat_result, known: Seen | None, without: frozenset[str], depth: int
    ) -> _Draft:
        draft = _Draft(status, known)
        names = [name for name in os.listdir(fd) if name not in without] if without else os.listdir(fd)
        for name in names if known is None else self._not_as_it_was(fd, path, names, draft, known):
            old = draft.entries.pop(name, None)
            try:
                seen = os.lstat(name, dir_fd=fd)
            except FileNotFoundError:
                draft.children[name] = self.odd(_joined(path, name), "went away while the directory was read")
                continue
            kind = stat.S_IFMT(seen.st_mode)
            if kind == stat.S_IFDIR:
                self._enter(fd, _joined(path, name), name, seen, draft, depth, status.st_dev)
            elif kind == stat.S_IFREG or kind == stat.S_IFLNK:
                self._look(fd, _joined(path, name), name, seen, draft, old, status.st_dev)
            else:
                draft.children[name] = self.odd(_joined(path, name), f"is {_KINDS.get(kind, 'a special file')}")
        return draft

    def _not_as_it_was(self, fd: int, path: str, names: list[str], draft: _Draft, known: Seen) -> list[str]:
        """The names that need a closer look. All others are put into the draft; this is where most of the time goes."""
        entries, children = dict(known.entries), dict(known.folder.children)
        for gone in children.keys() - names:
            del children[gone]
            entries.pop(gone, None)
        draft.entries, draft.children = entries, children
        changed, status_of = [name for name in names if name not in entries], os.lstat
        for name, (ctime_ns, mtime_ns, size, inode, mode, _) in entries.items():
            try:
                seen = status_of(name, dir_fd=fd)
            except FileNotFoundError:
                changed.append(name)
                continue
            if (
                seen.st_ctime_ns != ctime_ns
                or seen.st_mtime_ns != mtime_ns
                or seen.st_size != size
                or seen.st_ino != inode
                or seen.st_mode != mode
            ):
                changed.append(name)
            elif seen.st_nlink > 1:
                self._note_link(seen, _joined(path, name), draft, name)
        return changed

    def _enter(
        self, fd: int, path: str, name: str, seen: os.stat_result, draft: _Draft, depth: int, device: int
    ) -> None:
        if seen.st_dev != device:
            draft.children[name] = self.odd(path, _ELSEWHERE)
            return
        if depth >= _DEEPEST:
            draft.children[name] = self.odd(path[:80], f"lies deeper than {_DEEPEST} folders")
            return
        try:
            inner = os.open(name, OPEN_FOLDER, dir_fd=fd)
        except OSError as error:
            draft.children[name] = self.odd(path, f"cannot be read: {error.strerror}")
            return
        try:
            below = draft.known.below.get(name) if draft.known is not None else None
            draft.below[name] = self._list(inner, path, os.fstat(inner), below, frozenset(), depth + 1)
        except OSError as error:
            draft.children[name] = self.odd(path, f"cannot be read: {error.strerror}")
            for number, members in self.linked.items():  # what was met inside is not in the tree
                self.linked[number] = [each for each in members if not each[0].startswith(f"{path}/")]
        finally:
            os.close(inner)

    def _look(
        self, fd: int, path: str, name: str, seen: os.stat_result, draft: _Draft, old: Entry | None, device: int
    ) -> None:
        """A file or link that is new, changed, or was changed just before it was last read."""
        was = old[5] if old is not None else None
        node: Node
        try:
            if stat.S_ISLNK(seen.st_mode):
                node = Link(seen.st_uid, seen.st_gid, seen.st_mtime_ns, os.readlink(name, dir_fd=fd))
            elif seen.st_dev != device:
                node = self.odd(path, _ELSEWHERE)
            else:
                same = old is not None and old[1:5] == (seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode)
                node, seen = self._file(fd, path, name, was.blob if same and isinstance(was, File) else None)
        except OSError as error:
            node = self.odd(path, f"cannot be saved: {error.strerror or error}")
        if isinstance(node, File | Link):
            node = was if was is not None and was == _without_links(node, was) else node
            unknown = isinstance(node, File) and node.blob is None
            ctime = -1 if unknown else self._settled(seen.st_ctime_ns)
            draft.entries[name] = ctime, seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_mode, node
        draft.children[name] = node
        if isinstance(node, File) and seen.st_nlink > 1:
            self._note_link(seen, path, draft, name)
        elif isinstance(node, File) and node.links:
            draft.children[name] = node = replace(node, links=())
            draft.entries[name] = (*draft.entries[name][:5], node)

    def _file(self, fd: int, path: str, name: str, expected: Blob | None) -> tuple[Node, os.stat_result]:
        """Read until nothing changed meanwhile."""
        for _ in range(_READINGS):
            opened = os.open(name, _OPEN_FILE, dir_fd=fd)
            try:
                before = os.fstat(opened)
                if not stat.S_ISREG(before.st_mode):
                    continue
                blob: Blob | None
                if before.st_nlink > 1 and before.st_ino in self.blobs:
                    blob = self.blobs[before.st_ino]
                else:
                    self.blobs[before.st_ino] = blob = self.contents(opened, before, expected)
                after = os.fstat(opened)
            finally:
                os.close(opened)
            if _version(before) == _version(after):
                mode = stat.S_IMODE(after.st_mode)
                return File(mode, after.st_uid, after.st_gid, after.st_mtime_ns, blob), after
            self.blobs.pop(before.st_ino, None)
        return self.odd(path, "changes while it is read"), before

    def _note_link(self, seen: os.stat_result, path: str, draft: _Draft, name: str) -> None:
        if stat.S_ISREG(seen.st_mode):
            self.linked.setdefault(seen.st_ino, []).append((path, draft, name))

    def _settled(self, ctime_ns: int) -> int:
        """The time stamp where no later change can bear the same one, else -1: never met, so that it is read again."""
        return ctime_ns if ctime_ns + resolution_ns(*self.place, ctime_ns) < self.began_ns else -1


def _finished(draft: _Draft) -> Seen:
    below = {name: _finished(inner) for name, inner in draft.below.items()}
    draft.children.update((name, seen.folder) for name, seen in below.items())
    folder = folder_of(draft.status, draft.children)
    if draft.known is not None and draft.known.folder == folder:
        folder = draft.known.folder
    return Seen(folder, draft.entries, below)


def _without_links(node: File | Link, was: File | Link) -> File | Link:
    """``node`` with the links that the file had; they are known only after the whole pass."""
    return replace(node, links=was.links) if isinstance(node, File) and isinstance(was, File) else node


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode, status.st_nlink


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
