"""File contents by their hash, in a private folder: put in, written out, gone when nobody refers to them any more.

The folder lies in the system's place for temporary files and is removed at close, when the store dies, and at the end
of the interpreter; what a killed process left is removed by the next one. A blob shares its blocks with the original
where the file system can do that copy-on-write (FICLONE), else it is a copy; it is never a hard link. This module
knows no trees, environments or checkpoints.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from rir_gym.errors import SnapshotError

if sys.platform != "win32":
    import fcntl

__all__ = ["Blob", "Blobs"]

_PREFIX = "rir-gym-files-"
_CHUNK = 1 << 18
_ZEROS = bytes(_CHUNK)
_FICLONE = 0x40049409


class Blob:
    """One content: ``size`` bytes whose BLAKE2b is ``digest``, in a file that lives as long as this object."""

    __slots__ = ("__weakref__", "digest", "path", "size")

    def __init__(self, path: str, digest: bytes, size: int) -> None:
        self.path, self.digest, self.size = path, digest, size

    def __repr__(self) -> str:
        return f"Blob({self.digest.hex()[:12]}, {self.size} bytes)"


class Blobs:
    """A store. A copy of one (pickled, deep-copied) is a new, empty store; so is what a forked child goes on with."""

    def __init__(self) -> None:
        self._by_digest: weakref.WeakValueDictionary[bytes, Blob] = weakref.WeakValueDictionary()
        self._uncloneable: set[int] = set()
        self._made = 0
        self._pid = 0
        self._folder = ""
        self._end: Any = None

    def __reduce__(self) -> tuple[type[Blobs], tuple[()]]:
        return Blobs, ()

    @property
    def folder(self) -> str:
        """Where the contents lie; made at first use."""
        if self._pid != os.getpid() or not self._end or not self._end.alive:
            _remove_stale(tempfile.gettempdir(), os.getpid())
            self._pid, self._by_digest = os.getpid(), weakref.WeakValueDictionary()
            name = f"{_PREFIX}{self._pid}-{_start_of(self._pid) or 0}-"
            self._folder = os.path.realpath(tempfile.mkdtemp(prefix=name))
            lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_SH)  # also tells cleaners of temporary files to leave the folder alone
            self._end = weakref.finalize(self, _remove, self._folder, lock, self._pid)
        return self._folder

    @property
    def bytes_held(self) -> int:
        """Bytes of all contents."""
        return sum(blob.size for blob in list(self._by_digest.values()))

    def find(self, fd: int) -> Blob | None:
        """The blob with the content of an open file, where the store has it."""
        return self._by_digest.get(_hashed(fd)) if len(self._by_digest) else None

    def put(self, fd: int, *, expected: Blob | None = None) -> Blob:
        """The content of an open file. Nothing is written where the file still has the ``expected`` content.

        Raises:
            OSError: it cannot be read, or there is no place to write it.
        """
        if expected is not None and _hashed(fd) == expected.digest:
            return expected
        path = os.path.join(self.folder, str(self._made))
        self._made += 1
        out = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            digest = self._transfer(fd, out)
            size = os.fstat(out).st_size
            blob = self._by_digest.get(digest) or Blob(path, digest, size)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(out)
        if blob.path != path:
            os.unlink(path)
            return blob
        self._by_digest[digest] = blob
        weakref.finalize(blob, _unlink, path, self._pid).atexit = False
        return blob

    def write(self, blob: Blob, fd: int) -> None:
        """Write a content to an empty open file.

        Raises:
            OSError: there is no place for it.
            SnapshotError: the stored content is gone or damaged.
        """
        try:
            source = os.open(blob.path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise SnapshotError(f"a saved content is gone from {os.path.dirname(blob.path)!r}") from error
        try:
            if self._transfer(source, fd) != blob.digest:
                raise SnapshotError(f"a saved content in {os.path.dirname(blob.path)!r} is not what was saved")
        finally:
            os.close(source)

    def close(self) -> None:
        """Remove the folder and all contents. The store can be used again."""
        if self._end is not None:
            self._end()
        self._by_digest = weakref.WeakValueDictionary()

    def _transfer(self, source: int, out: int) -> bytes:
        """Share or copy all of ``source`` into the empty file ``out``; the digest of what is there now."""
        device = os.fstat(source).st_dev
        if device not in self._uncloneable:
            try:
                fcntl.ioctl(out, _FICLONE, source)
                return _hashed(out)
            except OSError:  # not this file system, or not across two of them
                self._uncloneable.add(device)
        return _copied(source, out)


def _hashed(fd: int) -> bytes:
    digest, at = hashlib.blake2b(digest_size=32), 0
    while chunk := os.pread(fd, _CHUNK, at):
        digest.update(chunk)
        at += len(chunk)
    return digest.digest()


def _copied(source: int, out: int) -> bytes:
    """Copy; whole chunks of zeros become holes. The digest of what was read."""
    digest, at = hashlib.blake2b(digest_size=32), 0
    while chunk := os.pread(source, _CHUNK, at):
        digest.update(chunk)
        if chunk != _ZEROS:
            done = 0
            while done < len(chunk):
                done += os.pwrite(out, memoryview(chunk)[done:], at + done)
        at += len(chunk)
    os.ftruncate(out, at)
    return digest.digest()


def _unlink(path: str, pid: int) -> None:
    if os.getpid() == pid:
        with suppress(OSError):
            os.unlink(path)


def _remove(folder: str, lock: int, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _start_of(pid: int) -> str | None:
    """When a process started, in ticks since the machine did; None where it does not run, or nobody can say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


@cache
def _remove_stale(place: str, pid: int) -> None:
    """Once a process: the folders of this user whose process is gone and which nobody holds locked."""
    for found in Path(place).glob(f"{_PREFIX}*"):
        owner, started, *_ = [*found.name.removeprefix(_PREFIX).split("-"), "", ""]
        if not owner.isdecimal() or _start_of(int(owner)) == started or int(owner) == pid:
            continue
        with suppress(OSError):
            kept = found.lstat()
            if not stat.S_ISDIR(kept.st_mode) or kept.st_uid != os.geteuid():
                continue
            fd = os.open(found, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where a process that we cannot see holds it
                shutil.rmtree(found, ignore_errors=True)
            finally:
                os.close(fd)
