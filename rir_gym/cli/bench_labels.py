"""The truth about the episodes of a run: ``labels.jsonl`` filled by doing each again, in this process or in several.

A label that cannot be made is said and left out. Whatever happens, what is in the file stays there.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import gymnasium as gym

from rir_gym.bench.sidecar import LABELS, labelled_keys, truth_line, truth_of
from rir_gym.cli.bar import bar, tell
from rir_gym.cli.request import known_id
from rir_gym.data.append import Appender, set_tail_aside
from rir_gym.data.keys import Key, canonical, key_of
from rir_gym.data.read import ReadReport, read_episodes
from rir_gym.errors import CollectError, RirError
from rir_gym.jsonable import decode

__all__ = ["Labeller", "fill_labels", "label_records"]

_CHUNK = 8
_FEW = 64  # so many labels are made here, before another process would have started


def fill_labels(folder: Path, keys: set[Key], *, workers: int, quiet: bool) -> None:
    """Add the missing lines of ``labels.jsonl``."""
    file = folder / LABELS
    if file.exists():
        set_tail_aside(file)
    missing = keys - labelled_keys(file)
    if not missing:
        return
    out, without = Appender(file), 0
    with closing(out), bar("labels", len(keys), len(keys) - len(missing), quiet=quiet) as advance:
        for line in _lines(folder, missing, workers if len(missing) > _FEW else 0):
            if isinstance(line, bytes):
                out.append(line)
            else:
                without += 1
                if without == 1:
                    tell(line)
            advance(1)
    if without:
        tell(f"{without} episodes have no labels")


def _lines(folder: Path, missing: set[Key], workers: int) -> Iterator[bytes | str]:
    wanted = (
        record for record in read_episodes(folder, errors="skip", report=ReadReport()) if key_of(record) in missing
    )
    if workers == 0:
        with closing(Labeller()) as labeller:
            for record in wanted:
                yield labeller.line(record)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_attend)
    try:
        waiting: list[Future[list[bytes | str]]] = []
        for some in _chunks(wanted):
            waiting.append(pool.submit(label_records, some))
            if len(waiting) >= 3 * workers:
                yield from waiting.pop(0).result()
        while waiting:
            yield from waiting.pop(0).result()
    except BrokenProcessPool as error:
        raise CollectError("a worker died while it looked up labels; the same command goes on from there") from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _chunks(records: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for record in records:
        some.append(record)
        if len(some) == _CHUNK:
            yield some
            some = []
    if some:
        yield some


def _attend() -> None:
    """In a worker: interrupts are the parent's affair, and it ends when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (parent := parent_process()) is not None:
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


@dataclass(slots=True)
class Labeller:
    """Makes lines of ``labels.jsonl``; keeps an environment for the next record where its id may be used again."""

    kept: dict[str, gym.Env[Any, Any]] = field(default_factory=dict)

    def line(self, record: Mapping[str, Any]) -> bytes | str:
        """The line, or why there is none, in words."""
        header = record["header"]
        task = header["task"]
        arguments, known = decode(task["arguments"]), known_id(task["env"])
        place = canonical([task["env"], task["arguments"]])
        try:
            intent = None
            if known is not None and known.policies:
                # What the expert means to do does not depend on its slips; its beliefs do on its trust.
                trust = header["agent"].get("trust", 0.0) if isinstance(header["agent"], dict) else 0.0
                intent = importlib.import_module(known.policies).Expert(trust=trust, slip=0.0).intent
            env = self.kept.pop(place, None) or gym.make(known.id if known is not None else task["env"], **arguments)
            try:
                truth = truth_of(record, env, intent=intent)
            except BaseException:
                env.close()
                raise
            if known is not None and known.reusable:
                self.kept[place] = env
                if len(self.kept) > 4:
                    self.kept.pop(next(iter(self.kept))).close()
            else:
                env.close()
        except RirError as error:
            return f"{key_of(record)}: no labels: {error}"
        return truth_line(key_of(record), truth)

    def close(self) -> None:
        """Close what was kept."""
        while self.kept:
            self.kept.popitem()[1].close()


_labeller: Labeller | None = None


def label_records(records: Sequence[Mapping[str, Any]]) -> list[bytes | str]:
    """Lines of n records, in a worker process that keeps its environments."""
    global _labeller  # the state of a worker process
    _labeller = _labeller or Labeller()
    return [_labeller.line(record) for record in records]
