"""Episode records as files: a folder that appears whole or not at all, JSON Lines out.

A folder holds ``episodes*.jsonl`` (one record a line, ASCII, "\\n"; or the same as ``.jsonl.zst``) and ``times*`` (the
only place for clocks). Here it is written as a whole; ``store`` writes one episode by episode, ``read`` reads both.
This module knows no episode, environment or model.
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

from rir_gym.data.check import SCHEMA
from rir_gym.data.lock import lock
from rir_gym.data.read import EPISODES, read_episodes
from rir_gym.errors import OutputExists, StoreError, UsageError

__all__ = ["OURS", "new_folder", "read_episodes", "remove_empty", "set_aside", "write_episodes"]

OURS = (*EPISODES, "times*.json", "times*.jsonl", "config.json", "settings.toml*", "torn-*")


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
        remove_empty(made)
        raise UsageError(f"path={str(path)!r}: cannot be written ({error})") from error
    try:
        yield work
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        remove_empty(made)
        raise
    _move(work, target, existing)


@contextmanager
def set_aside(path: str | Path) -> Iterator[None]:
    """Move a folder of records out of the way while another is made in its place.

    It is deleted when the block ends, or raises and has left a folder at ``path``; put back when the block raises and
    has left nothing. Nothing at ``path`` is fine. A process that is killed inside the block leaves the hidden sibling
    ``.NAME.PID.old``.

    Raises:
        OutputExists: a file, or a folder that holds something else than records. Nothing was done.
        StoreError: another process writes to it. Nothing was done.
        UsageError: it cannot be moved.
    """
    target = Path(path).resolve()
    if not target.exists():
        yield
        return
    _check_free(target, "overwrite")
    old = _sibling(target, "old")
    try:
        with _unused(target):
            target.rename(old)
    except OSError as error:
        raise UsageError(f"path={str(target)!r}: cannot be overwritten ({error.strerror or error})") from error
    try:
        yield
    finally:
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)


@contextmanager
def _unused(folder: Path) -> Iterator[None]:
    """The lock of a store, where it is one."""
    file = folder / "config.json"
    if not file.exists():
        yield
        return
    fd = os.open(file, os.O_RDWR)
    try:
        if not lock(fd):
            raise StoreError(f"path={str(folder)!r}: another process is writing to it")
        yield
    finally:
        os.close(fd)


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
    foreign = sorted(item.name for item in target.iterdir() if not any(fnmatch(item.name, name) for name in OURS))
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


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of the folders that are empty, in their order."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
