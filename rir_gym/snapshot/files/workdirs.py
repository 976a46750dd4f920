"""Working directories: saved as trees, and made to be such trees again, all of them or none.

This module knows no checkpoints, mechanisms or episodes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rir_gym.errors import NotRestorable, SnapshotError
from rir_gym.snapshot.files.blobs import Blob, Blobs
from rir_gym.snapshot.files.declared import declared, lies_in, open_folder, open_for_writing
from rir_gym.snapshot.files.descriptors import set_meta
from rir_gym.snapshot.files.put_back import Change, Made, change, made_there
from rir_gym.snapshot.files.reading import Seen, scan, survey
from rir_gym.snapshot.files.tree import Folder, difference, folder_of

__all__ = ["Trees", "Workdirs", "left_as_they_were", "still_open"]

_ROUNDS = 3

Trees = dict[str, Folder | None]
"""By absolute path, the directory; None where there is none."""


class Workdirs:
    """Directories that are saved as trees and made to be such a tree again; what was last seen of each is known.

    A copy of one knows and holds nothing.
    """

    def __init__(self) -> None:
        self.blobs = Blobs()
        self.seen: dict[str, Seen] = {}

    def __reduce__(self) -> tuple[type[Workdirs], tuple[()]]:
        return Workdirs, ()

    def save(self, paths: Sequence[str]) -> tuple[Trees, list[Blob]]:
        """The directories as they are, and the contents that are new in the store.

        Raises:
            SnapshotError: something in them cannot be saved, with its path; nothing was changed.
        """
        new: list[Blob] = []

        def content(fd: int, status: os.stat_result, was: Blob | None) -> Blob:
            blob = self.blobs.put(fd, expected=was)
            if blob is not was:
                new.append(blob)
            return blob

        seen: dict[str, Seen] = {}
        trees: Trees = {}
        for path in paths:
            try:
                self._check(path)
            except OSError as error:
                raise SnapshotError(f"there is no place for the contents of {path!r}: {error}") from error
            with open_folder(path) as root:
                if root is not None:
                    seen[path] = scan(root, content, known=self.seen.get(path))
                trees[path] = seen[path].folder if root is not None else None
        self.seen = seen
        return trees, new

    @contextmanager
    def put(self, trees: Trees) -> Iterator[Putting]:
        """Make the directories what they were; undone if the block raises, final after it.

        Raises:
            SnapshotError: a directory cannot be put back; all are as they were, or the message says what is not.
        """
        with ExitStack() as opened:
            putting = Putting(self, opened)
            try:
                putting.make(trees)
                yield putting
            except BaseException:
                putting.undo()
                raise
            putting.commit()

    def close(self) -> None:
        """Remove all contents and what is known."""
        self.seen = {}
        self.blobs.close()

    def survey(self, path: str, root: int, made: Made, without: frozenset[str]) -> Folder:
        """What there is now, contents that the store does not have left unknown."""

        def content(fd: int, status: os.stat_result, was: Blob | None) -> Blob | None:
            return made_there(made, status) or self.blobs.find(fd)

        seen = survey(root, content, known=self.seen.get(path), without=without)
        self.seen[path] = seen
        return seen.folder

    def _check(self, path: str) -> None:
        if lies_in(self.blobs.folder, path):
            raise SnapshotError(f"workdir={path!r}: temporary files lie in it; set TMPDIR to a place outside")
        if (name := open_for_writing(path)) is not None:
            raise SnapshotError(still_open(name))


def still_open(name: str) -> str:
    """Why a directory cannot be saved in which a file is open for writing."""
    return f"{name!r} is open for writing; a file that is put back is another one: close it first"


@dataclass(slots=True)
class Putting:
    """Directories on their way back."""

    workdirs: Workdirs
    opened: ExitStack
    roots: dict[str, int] = field(default_factory=dict)
    changes: list[tuple[str, Change]] = field(default_factory=list)
    made: Made = field(default_factory=dict)
    before: dict[str, Folder] = field(default_factory=dict)
    wanted: Trees = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    known: dict[str, Seen] = field(default_factory=dict)

    def make(self, trees: Trees) -> None:
        """Until nothing differs any more; again after somebody may have changed something.

        Raises:
            SnapshotError: what differs does not go away, or a directory cannot be put back.
        """
        self.known = self.known or dict(self.workdirs.seen)
        for path, tree in trees.items():
            self.wanted[path] = tree
            found: str | None = None
            for _ in range(_ROUNDS):
                if (root := self._root(path, tree)) is None:
                    break
                areas = frozenset(change.area for at, change in self.changes if at == path)
                now = self.workdirs.survey(path, root, self.made, areas)
                wanted = tree if tree is not None else Folder(now.mode, now.uid, now.gid, now.mtime_ns, {})
                found = difference(now, wanted) or found
                if (done := change(root, now, wanted, self.workdirs.blobs, self.made)) is None:
                    self._finish(root, path, wanted)
                    break
                self.changes.append((path, done))
            else:
                raise SnapshotError(f"{path!r} does not become what it was: {found}")

    def undo(self) -> None:
        """Take everything back.

        Raises:
            SnapshotError: something could not be taken back.
        """
        failed: list[SnapshotError] = []
        for _, done in reversed(self.changes):
            try:
                done.undo()
            except SnapshotError as error:
                failed.append(error)
        for path, root in self.roots.items():
            with suppress(SnapshotError):  # where it cannot be set, it was not
                self._finish(root, path, self.before[path])
        for path in self.created:
            with suppress(OSError):
                os.rmdir(path)
        self.workdirs.seen = self.known
        if failed:
            raise failed[0]

    def commit(self) -> None:
        """Delete what was moved away, and set the times of the directories themselves. What stays is warned of."""
        for path, done in self.changes:
            try:
                done.commit()
            except OSError as error:
                warnings.warn(f"{path!r} is put back, but {done.area!r} in it stays: {error}", stacklevel=3)
        for path, root in self.roots.items():
            try:
                if (tree := self.wanted[path]) is not None:
                    set_meta(root, ".", tree)
                else:
                    self.workdirs.seen.pop(path, None)
                    os.rmdir(path)
            except OSError as error:
                warnings.warn(f"{path!r} is put back, but it has another time, or is there: {error}", stacklevel=3)

    def _finish(self, root: int, path: str, wanted: Folder) -> None:
        """The directory's own mode, owner and time: what ``commit`` sets again, tried while all can still be undone."""
        try:
            set_meta(root, ".", wanted)
        except OSError as error:
            raise SnapshotError(f"{path!r}: its mode, owner or time cannot be set: {error.strerror}") from error

    def _root(self, path: str, tree: Folder | None) -> int | None:
        """The open directory, made where it is to be there and is not."""
        if path not in self.roots or not _is_at(self.roots[path], path):
            self.roots.pop(path, None)  # somebody has removed it, and perhaps made another one
            root = self.opened.enter_context(open_folder(path))
            if root is None and tree is not None:
                try:
                    os.mkdir(path, 0o700)
                except OSError as error:
                    raise SnapshotError(f"{path!r} cannot be made again: {error.strerror}") from error
                self.created.append(path)
                root = self.opened.enter_context(open_folder(path))
            if root is None:
                return None
            self.roots[path] = root
            self.before[path] = folder_of(os.fstat(root), {})
        return self.roots[path]


def _is_at(folder: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(folder), os.lstat(path))
    except FileNotFoundError:
        return False


@contextmanager
def left_as_they_were(env: gym.Env[Any, Any]) -> Iterator[None]:
    """Whatever is done to the environment, or to another one like it, its directories are afterwards as before.

    Raises:
        NotRestorable: they cannot be saved, and nothing was done; or cannot be put back.
    """
    workdirs = Workdirs()
    try:
        paths = declared(env)
        trees, _ = workdirs.save(paths)
    except SnapshotError as error:
        workdirs.close()
        raise NotRestorable(f"the working directory cannot be saved: {error}") from error
    try:
        yield
    finally:
        try:
            with workdirs.put(trees):
                pass
        finally:
            workdirs.close()
