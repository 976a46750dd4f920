"""A store: a folder that takes episodes one by one and keeps every one of them, whatever becomes of the process.

    config.json             the configuration, its digest, schema and package version; the lock is on this file
    episodes.jsonl          records, one a line; goes on in episodes-00001.jsonl, ... (or .jsonl.zst)
    times.jsonl             seconds of each episode, the only place for clocks; the last line of an episode counts
    torn-NAME-n             what was cut off a file whose last line was never finished

One process at a time writes; its lock dies with it. An episode is in the store or not at all; ``append`` promises what
``rir_gym.data.append`` says of kills and power failures. When a store is opened again, torn tails are set aside, every
line is read and checked, and ``keys`` are the episodes that are whole. Plain bad lines in the middle stay where they
are (``faults`` names them); their episodes are not in ``keys``. This module knows no environment or mechanism.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rir_gym.data.append import Appender, set_tail_aside
from rir_gym.data.check import check_record
from rir_gym.data.config import settle_config
from rir_gym.data.files import remove_empty
from rir_gym.data.keys import Key, digest_of, key_of
from rir_gym.data.lines import Compression, check_compression, pack, suffix_of
from rir_gym.data.lock import lock
from rir_gym.data.read import EPISODES, ReadReport, read_records, record_files
from rir_gym.errors import OutputExists, RecordError, StoreError, UsageError
from rir_gym.jsonable import encode

__all__ = ["SHARD_BYTES", "Store", "line_of", "open_store"]

SHARD_BYTES = 256 << 20
_SHARD = re.compile(r"episodes(?:-(\d+))?\.jsonl(?:\.zst)?")


class Store:
    """An open store; ``open_store`` makes one.

    ``keys`` are the episodes it holds; ``digest`` is its configuration's; ``created`` says that it is new; ``repairs``
    are the torn tails that were set aside and ``faults`` the lines that cannot be read, both in words.
    """

    def __init__(
        self,
        path: Path,
        digest: str,
        *,
        created: bool,
        compression: Compression,
        shard_bytes: int,
        write: Callable[[int, bytes], int],
    ) -> None:
        self.path, self.digest, self.created, self.compression = path, digest, created, compression
        self.keys: set[Key] = set()
        self.repairs: list[str] = []
        self.faults: list[str] = []
        self._shard_bytes, self._write = shard_bytes, write
        self._shard: Appender | None = None
        self._times: Appender | None = None

    def append(self, record: Mapping[str, Any], *, seconds: Mapping[str, float] | None = None) -> Key:
        """Add one record and the seconds that its roles took; its key.

        Raises:
            RecordError: no record of this schema in plain JSON values. Nothing was written.
            UsageError: the store holds this episode already. Nothing was written.
            StoreError: it cannot be written (a full disk). The store is as it was.
        """
        key, line = line_of(record)
        self.append_line(key, pack(line, self.compression), seconds=seconds or {})
        return key

    def append_line(self, key: Key, packed: bytes, *, seconds: Mapping[str, float]) -> None:
        """Add the line of a record that was checked, counted and packed elsewhere; otherwise as ``append``."""
        if key in self.keys:
            raise UsageError(f"key={key}: the store has this episode already")
        shard = self._open_shard()
        before = shard.size
        try:
            shard.append(packed)
        finally:
            if shard.size > before:
                self.keys.add(key)
        if seconds:
            said = {"config": key.config, "task": key.task, "seed": key.seed, "attempt": key.attempt}
            row = {**said, "seconds": {name: round(value, 6) for name, value in seconds.items()}}
            self._open_times().append(json.dumps(row, separators=(",", ":")).encode("ascii") + b"\n")

    def sync(self) -> None:
        """Force everything to the disk now.

        Raises:
            StoreError: the disk refuses.
        """
        for file in (self._shard, self._times):
            if file is not None:
                file.sync()

    def _close(self) -> None:
        files, self._shard, self._times = (self._shard, self._times), None, None
        for file in files:
            if file is not None:
                file.close()

    def _scan(self) -> None:
        """Repair torn tails and take the keys of what is there."""
        for file in (*_shards(self.path), *self.path.glob("times*.jsonl")):
            if (aside := set_tail_aside(file)) is not None:
                self.repairs.append(f"{file}: a torn tail of {aside[1]} bytes is now in {aside[0].name}")
        report = ReadReport()
        for record, _ in read_records(_shards(self.path), errors="skip", report=report):
            if (key := key_of(record)) in self.keys:
                self.faults.append(f"{key}: is there twice")
            self.keys.add(key)
        self.faults += map(str, report.bad)

    def _open_shard(self) -> Appender:
        if self._shard is None:
            self._shard = self._next_shard(new=False)
        elif self._shard.size >= self._shard_bytes:
            self._shard.close()
            self._shard = self._next_shard(new=True)
        return self._shard

    def _next_shard(self, *, new: bool) -> Appender:
        numbered = [(int(match[1] or 0), file) for file in _shards(self.path) if (match := _SHARD.fullmatch(file.name))]
        number, last = max(numbered, default=(-1, self.path))
        fits = last.name.endswith(suffix_of(self.compression)) and last.stat().st_size < self._shard_bytes
        if not numbered or new or not fits:
            name = f"episodes-{number + 1:05}" if numbered else "episodes"
            last = self.path / f"{name}{suffix_of(self.compression)}"
        return Appender(last, write=self._write)

    def _open_times(self) -> Appender:
        if self._times is None:
            self._times = Appender(self.path / "times.jsonl", write=self._write)
        return self._times


@contextmanager
def open_store(
    path: str | Path,
    config: Mapping[str, Any],
    *,
    compression: Compression = "none",
    shard_bytes: int = SHARD_BYTES,
    write: Callable[[int, bytes], int] = os.write,
) -> Iterator[Store]:
    """Open a store for writing, or make one; it is this process's until the block ends.

    Args:
        path: a store, an empty folder, or nothing yet.
        config: what every episode of it has in common, as plain values; must equal that of an existing store.
        compression: of what is appended; what is there stays as it is. "zstd" makes each episode one frame.
        shard_bytes: a file that has grown to this size is followed by another.
        write: ``os.write``, or what stands in for it.

    Raises:
        OutputExists: a file, or a folder that is no store. Nothing was done.
        StoreError: another process writes to it; it was made with another configuration (the difference is named); or
            it cannot be written.
        RecordError: its config.json is damaged or of another schema.
        MissingDependency: "zstd" without the extra ``data``.

    A new store that is still empty when the block raises is taken away again.
    """
    check_compression(compression)
    folder, made = _folder(Path(path))
    plain = encode(dict(config))
    try:
        fd = _locked(folder)
    except BaseException:
        remove_empty([folder, *made] if made else [])
        raise
    store = None
    try:
        created = settle_config(folder, fd, plain, empty=not _shards(folder))
        store = Store(
            folder,
            digest_of(plain),
            created=created,
            compression=compression,
            shard_bytes=shard_bytes,
            write=write,
        )
        store._scan()
        yield store
    except BaseException:
        if store is not None:
            with suppress(StoreError):
                store._close()
            if store.created and not store.keys and not store.faults:
                _take_away(folder, made)
        raise
    else:
        store._close()
    finally:
        os.close(fd)


def line_of(record: Mapping[str, Any]) -> tuple[Key, bytes]:
    """The key of a record, and its line.

    Raises:
        RecordError: no record of this schema in plain JSON values.
    """
    checked = check_record(record)
    try:
        text = json.dumps(checked, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"not plain JSON ({error}): see rir_gym.jsonable.encode") from error
    return key_of(checked), text.encode("ascii") + b"\n"


# --- opening ----------------------------------------------------------------------------------------------------------


def _shards(folder: Path) -> list[Path]:
    return record_files(folder) if any(True for name in EPISODES for _ in folder.glob(name)) else []


def _folder(path: Path) -> tuple[Path, list[Path]]:
    """The folder, made where it is not there; and the folders that were made, the innermost first."""
    try:
        folder = path.resolve()
        if folder.exists() and not folder.is_dir():
            raise OutputExists(f"path={str(path)!r}: is a file; a store is a folder")
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        inside = sorted(item.name for item in folder.iterdir())
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        if isinstance(error, OutputExists):
            raise
        raise StoreError(f"path={str(path)!r}: cannot be written ({error})") from error
    if inside and "config.json" not in inside:
        raise OutputExists(f"path={str(path)!r}: holds {inside[0]!r} and no config.json; a store or an empty folder")
    return folder, made


def _locked(folder: Path) -> int:
    file = folder / "config.json"
    try:
        fd = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise StoreError(f"path={str(folder)!r}: cannot be written ({error.strerror or error})") from error
    try:
        if not lock(fd) or os.fstat(fd).st_nlink == 0:  # 0: taken away meanwhile
            raise StoreError(f"path={str(folder)!r}: another process is writing to it; wait for it or choose another")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _take_away(folder: Path, made: list[Path]) -> None:
    for name in ("episodes*.jsonl*", "times.jsonl", "config.json"):
        for file in folder.glob(name):
            with suppress(OSError):
                file.unlink()
    remove_empty(made)
