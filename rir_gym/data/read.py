"""Records out of files, one at a time and in constant memory; a bad line is an error or a line of a report.

Reads folders of either kind (a whole one, a store) and single files, plain or zstd. Nothing read here is ever
unpickled or evaluated: a file that holds no JSON Lines is a ``RecordError`` with its first line. This module knows no
episode, environment or model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rir_gym.data.check import check_record
from rir_gym.data.lines import Line, read_lines
from rir_gym.errors import RecordError, UsageError

__all__ = ["EPISODES", "BadLine", "ReadReport", "parse_record", "read_episodes", "read_records", "record_files"]

EPISODES = ("episodes*.jsonl", "episodes*.jsonl.zst")


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record: where, why, and whether it is torn (its end was never written)."""

    file: Path
    number: int
    reason: str
    torn: bool = False

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}: {self.reason}"


@dataclass(slots=True)
class ReadReport:
    """What a reader has met so far: how many episodes, and which lines it left out."""

    episodes: int = 0
    bad: list[BadLine] = field(default_factory=list)


def read_episodes(
    path: str | Path, *, errors: Literal["raise", "skip"] = "raise", report: ReadReport | None = None
) -> Iterator[dict[str, Any]]:
    """The records of a file, or of every ``episodes*.jsonl`` and ``episodes*.jsonl.zst`` of a folder, one at a time.

    Values stay as they are written: ``rir_gym.jsonable.decode`` turns an action or observation back. Memory is that of
    one record.

    Args:
        errors: "raise" stops at the first bad line; "skip" reads on, and the report says what was left out.
        report: counts what was read and lists the bad lines.

    Raises:
        UsageError: at once: no such file or folder, a folder without records, an unknown ``errors``.
        RecordError: while reading: a torn line, another schema, not a record; with the file and its line number. A
            file that cannot be read at all, whatever ``errors`` says.
        MissingDependency: while reading: a ``.zst`` file without the extra ``data``.
    """
    if errors not in ("raise", "skip"):
        raise UsageError(f"errors={errors!r}: raise or skip")
    seen = ReadReport() if report is None else report
    return (record for record, _ in read_records(record_files(path), errors=errors, report=seen))


def record_files(path: str | Path) -> list[Path]:
    """The file, or the files of records of a folder: the first one, then those with a number or tag by name.

    Raises:
        UsageError: no such file or folder, or a folder without records.
    """
    place = Path(path)
    if not place.exists():
        raise UsageError(f"path={str(path)!r}: no such file or folder")
    if not place.is_dir():
        return [place]
    files = [file for name in EPISODES for file in place.glob(name)]
    if not files:
        raise UsageError(f"path={str(path)!r}: the folder has no {' or '.join(EPISODES)}")
    return sorted(files, key=lambda file: (file.name.split(".")[0], file.name))


def read_records(
    files: Iterable[Path], *, errors: Literal["raise", "skip"], report: ReadReport
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Every record with its line as it stands in the file; otherwise as ``read_episodes``."""
    for file in files:
        try:
            for line in read_lines(file):
                try:
                    record = parse_record(line)
                except RecordError as error:
                    bad = BadLine(file, line.number, str(error), line.torn)
                    if errors == "raise":
                        raise RecordError(str(bad)) from error
                    report.bad.append(bad)
                else:
                    report.episodes += 1
                    yield record, line.data
        except OSError as error:
            raise RecordError(f"{file}: cannot be read ({error.strerror or error})") from error


def parse_record(line: Line) -> dict[str, Any]:
    """The record of a line.

    Raises:
        RecordError: the line is torn or damaged, no strict JSON, or no record.
    """
    if line.fault:
        raise RecordError(line.fault)
    try:
        value = json.loads(line.data.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not strict JSON ({error})") from error
    return check_record(value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    if (number := float(text)) in (float("inf"), float("-inf")):
        raise ValueError(f"{text}: beyond a float")
    return number
