"""Make a directory what a tree says, all or nothing: new things are built aside, then swapped in, then the old ones go.

Everything new is built in a folder of its own inside the directory, where a full disk shows before anything else is
touched. Whatever has to go is moved there, so that each move can be taken back; it is deleted at ``commit``. Only what
differs is touched, no file is written in place, and every path is walked by descriptors that follow no link. This
module knows no checkpoints and no environments.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.files.blobs import Blob, Blobs
from rir_gym.snapshot.files.descriptors import (
    OPEN_FOLDER,
    USABLE,
    Path,
    delete,
    opened,
    parent_of,
    set_meta,
    set_mode,
)
from rir_gym.snapshot.files.plan import Plan, planned
from rir_gym.snapshot.files.tree import File, Folder, Link, Node

__all__ = ["Change", "Made", "change", "made_there"]

_AREA = ".rir-gym-restore"
Made = dict[tuple[int, int], File]
"""By device and inode, the files that were built."""


def made_there(made: Made, status: os.stat_result) -> Blob | None:
    """The content of a file that was built, and not written to since."""
    node = made.get((status.st_dev, status.st_ino))
    if node is None or node.blob is None or (node.mtime_ns, node.blob.size) != (status.st_mtime_ns, status.st_size):
        return None
    return node.blob


def change(root: int, current: Folder, wanted: Folder, blobs: Blobs, made: Made) -> Change | None:
    """Make the open folder ``root``, now ``current``, into ``wanted``, but for its own mode, owner and time.

    None where nothing differs.

    Args:
        made: gets each file that is built.

    Raises:
        SnapshotError: something could not be done; the directory is as it was, or the message says what is not.
    """
    try:
        if (plan := planned(root, current, wanted)) is None:
            return None
        done = Change(root, current, plan)
        try:
            done.apply(blobs, made)
        except BaseException:
            done.undo()
            raise
    except OSError as error:
        raise SnapshotError(f"the working directory cannot be put back: {error}") from error
    return done


@dataclass(slots=True)
class Change:
    """A change that was made and can still be undone. ``area``: the name of the folder aside, in the directory."""

    root: int
    before: Folder
    plan: Plan
    area: str = ""
    _moves: list[tuple[Path, Path]] = field(default_factory=list)
    _modes: list[tuple[Path, int]] = field(default_factory=list)
    _numbers: int = 0

    def apply(self, blobs: Blobs, made: Made) -> None:
        """Do it.

        Raises:
            OSError, SnapshotError: after which ``undo`` is to be called.
        """
        self._usable(())
        self._open_area()
        with opened(self.root, (self.area,)) as area:
            builder = _Builder(area, blobs, made, self._number)
            built = [(path, builder.build(node), node) for path, node in self.plan.build]
        for path in reversed(self.plan.folders):
            self._usable(path)
        for path in self.plan.remove:
            with suppress(FileNotFoundError):
                self._move(path, (self.area, self._number()))
        for path, name, node in built:
            self._move((self.area, name), path)
            if isinstance(node, Folder):  # only now: a closed folder cannot be moved
                self._set(path, node)
        for path, _, node in self.plan.adjust:
            self._set(path, node)

    def undo(self) -> None:
        """Take everything back.

        Raises:
            SnapshotError: something could not be taken back; what was moved away stays in the folder aside.
        """
        moves, self._moves = self._moves, []
        acts: list[Callable[[], None]] = []
        acts += [partial(self._usable, path) for path in ((), *reversed(self.plan.folders))]
        acts += [partial(self._move, there, here) for here, there in reversed(moves)]
        acts += [partial(self._set, path, node) for path, node, _ in self.plan.adjust]
        failed = [error for act in acts if (error := _tried(act)) is not None]
        for path, mode in reversed(self._modes):
            with suppress(OSError):
                self._set_mode(path, mode)
        if not failed:
            failed += [error for error in (_tried(self._close), _tried(self._finish)) if error is not None]
        if failed:
            what = f"; what is missing lies in {self.area!r} there" if self.area else ""
            raise SnapshotError(f"the working directory is not as it was before: {failed[0]}{what}")

    def commit(self) -> None:
        """Delete what was moved away; the change is final.

        Raises:
            OSError: something stays in the folder aside; everything else is done.
        """
        self._usable(())
        with suppress(FileNotFoundError):  # the environment has cleared the directory, and the folder aside with it
            self._close()

    def _number(self) -> str:
        self._numbers += 1
        return str(self._numbers)

    def _open_area(self) -> None:
        for number in range(1000):
            name = f"{_AREA}-{os.getpid()}-{number}"
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self.root)
                self.area = name
                return
        raise FileExistsError(f"{name!r} is there already")

    def _finish(self) -> None:
        set_meta(self.root, ".", self.before)

    def _close(self) -> None:
        if self.area:
            delete(self.root, self.area)

    def _usable(self, path: Path) -> None:
        """Let the owner move things in and out of a folder that is closed to them; its mode is set again in the end."""
        with parent_of(self.root, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if found.st_mode & USABLE != USABLE and os.geteuid() != 0:
                mode = stat.S_IMODE(found.st_mode)
                self._modes.append((path, mode))
                set_mode(parent, name, mode | USABLE)

    def _move(self, here: Path, there: Path) -> None:
        with parent_of(self.root, here) as (one, old), parent_of(self.root, there) as (other, new):
            try:
                os.rename(old, new, src_dir_fd=one, dst_dir_fd=other)
            except PermissionError:  # a folder that may not be written cannot be moved either
                if not stat.S_ISDIR(os.stat(old, dir_fd=one, follow_symlinks=False).st_mode):
                    raise
                self._usable(here)
                os.rename(old, new, src_dir_fd=one, dst_dir_fd=other)
        self._moves.append((here, there))

    def _set_mode(self, path: Path, mode: int) -> None:
        with parent_of(self.root, path) as (parent, name):
            set_mode(parent, name, mode)

    def _set(self, path: Path, node: Node) -> None:
        with parent_of(self.root, path) as (parent, name):
            set_meta(parent, name, node)


def _tried(act: Callable[[], None]) -> str | None:
    try:
        act()
    except OSError as error:
        return str(error)
    return None


@dataclass(slots=True)
class _Builder:
    """Builds nodes in the folder aside; files that are several links of one are built once."""

    area: int
    blobs: Blobs
    made: Made
    number: Callable[[], str]
    linked: dict[tuple[str, ...], str] = field(default_factory=dict)

    def build(self, node: Node) -> str:
        name = self.number()
        self._build(self.area, name, node)
        return name

    def _build(self, fd: int, name: str, node: Node) -> None:
        if isinstance(node, Folder):
            os.mkdir(name, 0o700, dir_fd=fd)
            inner = os.open(name, OPEN_FOLDER, dir_fd=fd)
            try:
                for child, below in node.children.items():
                    self._build(inner, child, below)
            finally:
                os.close(inner)
            if fd != self.area:
                set_meta(fd, name, node)
        elif isinstance(node, Link):
            os.symlink(node.target, name, dir_fd=fd)
            set_meta(fd, name, node)
        elif isinstance(node, File) and node.blob is not None:
            if not node.links:
                self._write(fd, name, node, node.blob)
                return
            if node.links not in self.linked:
                self.linked[node.links] = self.number()
                self._write(self.area, self.linked[node.links], node, node.blob)
            source = self.linked[node.links]
            os.link(source, name, src_dir_fd=self.area, dst_dir_fd=fd, follow_symlinks=False)

    def _write(self, fd: int, name: str, node: File, blob: Blob) -> None:
        out = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=fd)
        try:
            self.blobs.write(blob, out)
            status = os.fstat(out)
            self.made[status.st_dev, status.st_ino] = node
        finally:
            os.close(out)
        set_meta(fd, name, node)
