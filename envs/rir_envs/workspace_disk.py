"""A private folder on disk that holds the files of one workspace, and goes away with it.

Only regular files at paths of the workspace count. Whatever else somebody puts there (links, pipes, other names, files
that are too large) is not seen, never followed, and gives way where a file of that path is written. This module knows
no tool and no task.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress

from rir_envs.workspace_names import folder_problem, path_problem

__all__ = ["ATTACHMENT", "Disk"]

ATTACHMENT = 8 * 1024 * 1024
"""Bytes of a file that a task may begin with; what tools make is smaller."""

_NEW = ".new"
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Disk:
    """The folder; it is removed by ``close``, when ``owner`` is collected, and when the process that made it ends.

    The last two do nothing in a forked child, whose folder is its parent's; a ``close`` there is meant.
    """

    def __init__(self, owner: object) -> None:
        self.path = os.path.realpath(tempfile.mkdtemp(prefix="rir-workspace-"))
        self._end = weakref.finalize(owner, _removed, self.path, os.getpid())

    def close(self) -> None:
        """Remove the folder; closing twice is fine."""
        if self._end.detach() is not None:
            shutil.rmtree(self.path, ignore_errors=True)

    def read(self) -> dict[str, bytes]:
        """The files, by path, as they are now."""
        return dict(_files(self.path, ""))

    def write(self, files: Mapping[str, bytes]) -> None:
        """Make the files these and no others; folders come and go with what is in them.

        Raises:
            OSError: something could not be written; what was done before stays.
        """
        now = self.read()
        for path in sorted(now.keys() - files.keys()):
            os.unlink(os.path.join(self.path, path))
            self._prune(os.path.dirname(path))
        for path in sorted(files):
            if now.get(path) != files[path]:
                self._put(path, files[path])

    def _put(self, path: str, data: bytes) -> None:
        folder = self.path
        os.makedirs(folder, mode=0o700, exist_ok=True)
        *names, name = path.split("/")
        for each in names:
            folder = os.path.join(folder, each)
            if not _kind(folder, stat.S_ISDIR):
                _cleared(folder)
                os.mkdir(folder, 0o700)
        new, target = os.path.join(self.path, _NEW), os.path.join(folder, name)
        _cleared(new)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(data)
        if not _kind(target, stat.S_ISREG):
            _cleared(target)
        os.replace(new, target)

    def _prune(self, folder: str) -> None:
        while folder:
            try:
                os.rmdir(os.path.join(self.path, folder))
            except OSError:  # something is in it
                return
            folder = os.path.dirname(folder)


def _files(root: str, folder: str) -> Iterator[tuple[str, bytes]]:
    try:
        with os.scandir(os.path.join(root, folder)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir(follow_symlinks=False):
            if folder_problem(path) is None:
                yield from _files(root, path)
        elif entry.is_file(follow_symlinks=False) and path_problem(path) is None:
            with suppress(OSError):
                fd = os.open(entry.path, _FLAGS)
                with os.fdopen(fd, "rb") as file:
                    if (size := os.fstat(fd).st_size) <= ATTACHMENT:
                        yield path, file.read(size)


def _kind(path: str, is_kind: object) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return bool(is_kind(mode))  # type: ignore[operator]


def _cleared(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _removed(path: str, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)
