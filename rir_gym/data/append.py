"""A file that only grows, by whole lines: what is interrupted or does not fit leaves no trace in it.

When it is opened, a torn tail (a process was killed while it wrote, or a disk lost its last blocks) is moved into a
file beside it. Every append is given to the operating system at once, so that a killed process loses nothing; it is
forced to the disk at most once in ``SYNC_S`` seconds, and when the file is closed, so that a power failure loses no
more than the appends of that time. This module knows neither records nor JSON.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from rir_gym.data.lines import whole_bytes
from rir_gym.errors import StoreError

__all__ = ["SYNC_S", "Appender", "set_tail_aside", "sync_folder"]

SYNC_S = 0.5
Write = Callable[[int, bytes], int]


class Appender:
    """An open file; ``size`` is its length in bytes, all of it whole lines.

    Args:
        path: made where it does not exist. A torn tail should have been set aside.
        write: ``os.write``, or what stands in for it.

    Raises:
        StoreError: it cannot be opened.
    """

    def __init__(self, path: Path, *, write: Write = os.write) -> None:
        self.path = path
        self._write = write
        self._synced_at = time.monotonic()
        self._dirty = self._broken = False
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
            self.size = os.fstat(self._fd).st_size
            if not self.size:
                sync_folder(path.parent)
        except OSError as error:
            raise _cannot(path, error) from error

    def append(self, data: bytes) -> None:
        """Add all of it or nothing.

        Raises:
            StoreError: it cannot be written (a full disk); the file is as it was.
        """
        if self._broken:
            raise StoreError(f"path={str(self.path)!r}: an earlier append could not be taken back; open it again")
        try:
            left = memoryview(data)
            while left:
                left = left[self._write(self._fd, bytes(left)) :]
        except BaseException as error:
            self._take_back()
            if isinstance(error, OSError):
                raise _cannot(self.path, error) from error
            raise
        self.size += len(data)
        self._dirty = True
        if time.monotonic() - self._synced_at >= SYNC_S:
            self.sync()

    def sync(self) -> None:
        """Force what was appended to the disk; nothing where nothing was.

        Raises:
            StoreError: the disk refuses.
        """
        if not self._dirty:
            return
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise _cannot(self.path, error) from error
        self._synced_at = time.monotonic()
        self._dirty = False

    def close(self) -> None:
        """Sync and close; may be called twice.

        Raises:
            StoreError: the last appends could not be forced to the disk; the file is closed all the same.
        """
        if self._fd < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._fd)
            self._fd = -1

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self._broken = True


def set_tail_aside(path: Path) -> tuple[Path, int] | None:
    """Move the torn tail of a file into ``torn-NAME-n`` beside it: that file and its bytes; None where all is whole.

    Raises:
        StoreError: it cannot be read or written; the tail is still in its place.
    """
    try:
        whole = whole_bytes(path)
        if whole == path.stat().st_size:
            return None
        names = (path.with_name(f"torn-{path.name}-{number}") for number in count())
        aside = next(name for name in names if not name.exists())
        with path.open("rb+") as file:
            file.seek(whole)
            moved = _copy_rest(file.fileno(), aside, whole)
            sync_folder(path.parent)
            file.truncate(whole)
            os.fsync(file.fileno())
    except OSError as error:
        raise _cannot(path, error) from error
    return aside, moved


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can."""
    with suppress(OSError):  # Windows opens no folders
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _copy_rest(source: int, aside: Path, start: int) -> int:
    try:
        with aside.open("xb") as out, os.fdopen(os.dup(source), "rb") as file:
            file.seek(start)
            moved = 0
            while block := file.read(1 << 20):
                moved += out.write(block)
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    return moved


def _cannot(path: Path, error: OSError) -> StoreError:
    return StoreError(f"path={str(path)!r}: cannot be written ({error.strerror or error}); what it holds is whole")
