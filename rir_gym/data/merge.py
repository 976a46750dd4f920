"""Several sets of records into one folder: every episode once, each line exactly as it was.

Lines are copied, not written anew, so fields of later versions survive. The sets keep their provenance: records of
other configurations have other keys, and the new config.json names all of them. This module knows no environment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rir_gym.data.append import Appender
from rir_gym.data.config import config_text, read_config
from rir_gym.data.files import new_folder
from rir_gym.data.keys import Key, canonical, key_of
from rir_gym.data.lines import Compression, check_compression, pack, read_lines, suffix_of
from rir_gym.data.read import ReadReport, read_records, record_files
from rir_gym.data.store import SHARD_BYTES
from rir_gym.errors import RecordError, UsageError

__all__ = ["Merged", "content_of", "merge"]


@dataclass(frozen=True, slots=True)
class Merged:
    """How many episodes were written, how many were there again (the same, or with other content), and bad lines."""

    episodes: int
    repeated: int
    differing: int
    report: ReadReport = field(hash=False)


def merge(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    errors: Literal["raise", "skip"] = "raise",
    differing: Literal["refuse", "first"] = "refuse",
    compression: Compression = "none",
) -> Merged:
    """Write the episodes of several folders or files, in their order, into a new store.

    Args:
        errors: what to do with bad lines; see ``read_episodes``.
        differing: two records with one key and another content (versions of packages aside): "refuse" writes
            nothing, "first" keeps the first.

    Raises:
        UsageError: no paths, one that is not there, a bad argument.
        OutputExists: there is something at ``out``.
        RecordError: a bad line, or two differing records. ``out`` does not exist then.
    """
    if differing not in ("refuse", "first"):
        raise UsageError(f"differing={differing!r}: refuse or first")
    if errors not in ("raise", "skip"):
        raise UsageError(f"errors={errors!r}: raise or skip")
    check_compression(compression)
    if not paths:
        raise UsageError("paths=[]: at least one set of records")
    files = [file for path in paths for file in record_files(path)]
    configs = [read_config(path) if Path(path).is_dir() else None for path in paths]
    report, seen, repeated, other = ReadReport(), dict[Key, bytes](), 0, 0
    with new_folder(out) as folder:
        (folder / "config.json").write_bytes(config_text(_config(configs)))
        writer = _Writer(folder, compression)
        try:
            for record, line in read_records(files, errors=errors, report=report):
                key, content = key_of(record), content_of(record)
                if key not in seen:
                    seen[key] = content
                    writer.put(line)
                elif seen[key] == content:
                    repeated += 1
                elif differing == "first":
                    other += 1
                else:
                    raise RecordError(f"{key}: two records of this episode differ; keep the first, or merge others")
            _copy_times(paths, folder)
        finally:
            writer.close()
    return Merged(len(seen), repeated, other, report)


def content_of(record: dict[str, Any]) -> bytes:
    """A digest of all that a record says, but for the versions of packages."""
    header = {name: value for name, value in record["header"].items() if name != "versions"}
    return hashlib.sha256(canonical({**record, "header": header}).encode("ascii")).digest()


class _Writer:
    """Lines into numbered files of a limited size."""

    def __init__(self, folder: Path, compression: Compression) -> None:
        self._folder, self._compression = folder, compression
        self._number, self._file = 0, Appender(folder / f"episodes{suffix_of(compression)}")

    def put(self, line: bytes) -> None:
        if self._file.size >= SHARD_BYTES:
            self._file.close()
            self._number += 1
            self._file = Appender(self._folder / f"episodes-{self._number:05}{suffix_of(self._compression)}")
        self._file.append(pack(line, self._compression))

    def close(self) -> None:
        self._file.close()


def _config(configs: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """The one configuration of all sets, or the list of them."""
    plain = [config["config"] if config else None for config in configs]
    if plain[0] is not None and all(config == plain[0] for config in plain):
        return dict(plain[0])
    return {"merged": plain}


def _copy_times(paths: Sequence[str | Path], folder: Path) -> None:
    files = [file for path in paths if Path(path).is_dir() for file in sorted(Path(path).glob("times*.jsonl"))]
    if files:
        out = Appender(folder / "times.jsonl")
        try:
            for file in files:
                for line in read_lines(file):
                    if not line.fault and _is_row(line.data):
                        out.append(line.data)
        finally:
            out.close()


def _is_row(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False
