"""Episode records as files: a folder that appears whole or not at all, JSON Lines out, JSON Lines in.

A folder holds ``episodes*.jsonl`` (one record a line, ASCII, "\\n") and ``times*.json`` (the only place for clocks).
Nothing read here is ever unpickled or evaluated. This module knows no episode, environment or model.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from fnmatch import fnmatch
from itertools import count
from pathlib import Path
from typing import Any, Literal

from rir_gym.data.check import SCHEMA, check_record
from rir_gym.errors import OutputExists, RecordError, UsageError

__all__ = ["new_folder", "read_episodes", "write_episodes"]

_EPISODES = "episodes*.jsonl"
_OURS = (_EPISODES, "times*.json")


@contextmanager
def new_folder(path: str | Path, *, existing: Literal["refuse", "overwrite"] = "refuse") -> Iterator[Path]:
    """A folder to write into, which becomes ``path`` when the block ends, and vanishes when it raises.

    What is written lies in a hidden sibling until then. With "overwrite" an old folder stays as it is until that
    moment; it is replaced only where it is empty or holds nothing but records. A process that is killed inside the
    block leaves the sibling (``.NAME.PID.partial``), never a part of ``path``.

    Raises:
        OutputExists: there is something at ``path`` and it may not be replaced. Nothing was done.
        UsageError: it cannot be written there; or an unknown ``existing``. If the finished folder cannot be moved into
            place, it is kept and the message says where.
    """
    if existing not in ("refuse", "overwrite"):
        raise UsageError(f"existing={existing!r}: refuse or overwrite")
    made: list[Path] = []
    try:
        target = Path(path).resolve()
        _check_free(target, existing)
        made = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        work = _sibling(target, "partial")
        work.mkdir()
    except OutputExists:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        _remove_empty(made)
        raise UsageError(f"path={str(path)!r}: cannot be written ({error})") from error
    try:
        yield work
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        _remove_empty(made)
        raise
    _move(work, target, existing)


def write_episodes(
    folder: str | Path, records: Iterable[Mapping[str, Any]], times: Iterable[Mapping[str, float]], *, tag: str = ""
) -> int:
    """Write ``episodes<tag>.jsonl`` and ``times<tag>.json`` into an existing folder; the number of episodes.

    Records are written as they come; ``times``, one an episode (seconds by role), are taken after the last.

    Raises:
        OutputExists: one of the files is there already.
        UsageError: it cannot be written, or there are not as many times as records.
    """
    written = 0
    with _created(Path(folder) / f"episodes{tag}.jsonl") as put:
        for record in records:
            put(record)
            written += 1
    seconds = list(times)
    if len(seconds) != written:
        raise UsageError(f"times={len(seconds)}, records={written}: one of each for each episode")
    with _created(Path(folder) / f"times{tag}.json") as put:
        put({"schema": SCHEMA, "unit": "seconds", "episodes": seconds})
    return written


def read_episodes(path: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a file, or of every ``episodes*.jsonl`` of a folder by name, one at a time.

    Values stay as they are written: ``rir_gym.jsonable.decode`` turns an action or observation back.

    Raises:
        UsageError: at once: no such file or folder, or a folder without records.
        RecordError: while reading: a torn line, another schema, not a record; with the file and its line number.
    """
    place = Path(path)
    if not place.exists():
        raise UsageError(f"path={str(path)!r}: no such file or folder")
    files = sorted(place.glob(_EPISODES)) if place.is_dir() else [place]
    if not files:
        raise UsageError(f"path={str(path)!r}: the folder has no {_EPISODES}")
    return _read(files)


def _read(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        number = 0
        try:
            with file.open("rb") as lines:
                for number, line in enumerate(lines, 1):  # noqa: B007
                    yield check_record(_parse(line))
        except OSError as error:
            raise RecordError(f"{file}: cannot be read ({error.strerror or error})") from error
        except RecordError as error:
            raise RecordError(f"{file}, line {number}: {error}") from error


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        torn = "" if line.endswith(b"\n") else "torn line, "
        raise RecordError(f"{torn}not strict JSON ({error})") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    if (number := float(text)) in (float("inf"), float("-inf")):
        raise ValueError(f"{text}: beyond a float")
    return number


@contextmanager
def _created(file: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A new file, as a function that writes one line of JSON; on the disk when the block ends."""
    with _writing(file):
        out = file.open("x", encoding="ascii", newline="\n")

    def put(value: Mapping[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        with _writing(file):
            out.write(line + "\n")

    with closing(out):
        yield put
        with _writing(file):
            out.flush()
            os.fsync(out.fileno())


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise OutputExists(f"path={str(file)!r}: exists already") from error
    except OSError as error:
        raise UsageError(f"path={str(file)!r}: cannot be written ({error.strerror or error})") from error


def _check_free(target: Path, existing: str) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputExists(f"path={str(target)!r}: is a file; a folder that does not exist yet is required")
    if existing == "refuse":
        raise OutputExists(f"path={str(target)!r}: exists already; choose another or overwrite it")
    foreign = sorted(item.name for item in target.iterdir() if not any(fnmatch(item.name, name) for name in _OURS))
    if foreign:
        raise OutputExists(f"path={str(target)!r}: holds {foreign[0]!r}; only a folder of records is overwritten")


def _sibling(target: Path, what: str) -> Path:
    names = (f".{target.name[:100]}.{os.getpid()}{f'-{number}' if number else ''}.{what}" for number in count())
    return next(path for name in names if not (path := target.parent / name).exists())


def _move(work: Path, target: Path, existing: str) -> None:
    """Put the finished folder in its place; a folder cannot replace a full one, so an old one steps aside first."""
    old: Path | None = None
    try:
        if target.exists():
            _check_free(target, existing)
            old = _sibling(target, "old")
            target.rename(old)
        work.rename(target)
    except (OSError, OutputExists) as error:
        if old is not None and not target.exists():
            with suppress(OSError):
                old.rename(target)
        kind = OutputExists if isinstance(error, OutputExists) else UsageError
        raise kind(f"{error}; what was written is in {str(work)!r}") from error
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
