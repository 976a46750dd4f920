"""The files of an export: JSON Lines or Parquet, one a split, row by row, and what stands beside them.

Memory is that of one batch of rows. This module knows no record.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rir_gym.data.exports.schema import arrow_features
from rir_gym.errors import MissingDependency, UsageError

__all__ = ["BATCH_BYTES", "JsonFiles", "ParquetFiles", "RowFiles", "finishing", "writing"]

BATCH_BYTES = 32 << 20
"""A batch of a Parquet file (a row group) has about so many bytes of JSON."""


class RowFiles(Protocol):
    """Takes rows of one table. After ``close`` the file of every split that got any stands in ``names``."""

    rows: Counter[str]
    names: dict[str, str]

    def put(self, split: str, row: Mapping[str, Any]) -> None:
        """Write one row."""
        ...

    def close(self) -> None:
        """Finish the files."""
        ...


@contextmanager
def finishing(*tables: RowFiles) -> Iterator[None]:
    """Close all of them when the block ends, also where it raises."""
    try:
        yield
    except BaseException:
        for table in tables:
            with suppress(Exception):
                table.close()
        raise
    for table in tables:
        table.close()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Faults of the disk as ``UsageError``."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"path={str(path)!r}: cannot be written ({error.strerror or error})") from error


@dataclass(slots=True)
class JsonFiles:
    """Strict JSON Lines in ASCII, one file a split."""

    folder: Path
    prefix: str = ""
    rows: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    _open: dict[str, Any] = field(default_factory=dict)

    def put(self, split: str, row: Mapping[str, Any]) -> None:
        """Write one row.

        Raises:
            UsageError: it cannot be written.
        """
        line = json.dumps(row, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"
        path = self.folder / f"{self.prefix}{split}.jsonl"
        with writing(path):
            if split not in self._open:
                self._open[split] = path.open("x", encoding="ascii", newline="\n")
            self._open[split].write(line)
        self.rows[split] += 1

    def close(self) -> None:
        """Finish the files."""
        for split in sorted(self._open, reverse=True):
            file = self._open.pop(split)
            with writing(Path(file.name)), closing(file):
                file.flush()
                os.fsync(file.fileno())
            self.names[split] = Path(file.name).name


@dataclass(slots=True)
class ParquetFiles:
    """Parquet with the types of ``datasets``, one file a split.

    Raises:
        MissingDependency: without the extra ``data``.
    """

    folder: Path
    columns: Mapping[str, str]
    prefix: str = ""
    batch_bytes: int = BATCH_BYTES
    rows: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    _schema: Any = None
    _batches: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    _sizes: Counter[str] = field(default_factory=Counter)
    _open: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find what is needed before anything is read."""
        try:
            self._schema = arrow_features(self.columns).arrow_schema
        except ImportError as error:
            raise MissingDependency("Parquet files", "data") from error

    def put(self, split: str, row: Mapping[str, Any]) -> None:
        """Write one row, with its batch.

        Raises:
            UsageError: it cannot be written.
        """
        self._batches.setdefault(split, []).append(row)
        self._sizes[split] += sum(_size(value) for value in row.values())
        self.rows[split] += 1
        if self._sizes[split] >= self.batch_bytes:
            self._flush(split)

    def close(self) -> None:
        """Finish the files."""
        for split in sorted(self._batches, reverse=True):
            self._flush(split)
            with writing(self._path(split)):
                self._open[split].close()
            self.names[split] = self._path(split).name
        self._batches.clear()

    def _path(self, split: str) -> Path:
        return self.folder / f"{self.prefix}{split}.parquet"

    def _flush(self, split: str) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        rows = self._batches[split]
        if not rows:
            return
        with writing(self._path(split)):
            if split not in self._open:
                self._open[split] = ParquetWriter(self._path(split), self._schema, compression="zstd")
            self._open[split].write_table(pa.Table.from_pylist(rows, schema=self._schema))
        rows.clear()
        self._sizes[split] = 0


def _size(value: Any) -> int:
    """About how many bytes a value takes."""
    if isinstance(value, str):
        return len(value) + 8
    if isinstance(value, dict):
        return sum(_size(item) for item in value.values())
    if isinstance(value, list):
        return 8 * len(value) if value and isinstance(value[0], int) else sum(_size(item) for item in value)
    return 8
