"""The ground truth of every episode of a run, in ``labels.jsonl`` beside its records: one line an episode.

A line holds the key of its episode (``config``, ``task``, ``seed``, ``attempt``), ``exact``, the fields of
``rir_gym.labels.StepLabel`` as columns by node (``distance``, ``calls_left``, ``wasted``, ``harmful``, ``lost``,
``rescuable``, ``rescue``), ``expert`` (what the environment's expert would have done at each of the agent's decisions)
and ``best`` (the oracle's best action by node, asked where there is no expert). Unknown is null. A line that is torn or
malformed is left out: it can be made again from its record. This module knows no environment and no mechanism.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gymnasium as gym

from rir_gym.base import Oracle, View
from rir_gym.bench.views import agent_views
from rir_gym.data.keys import Key
from rir_gym.distances import Distances
from rir_gym.errors import RecordError
from rir_gym.jsonable import decode, encode
from rir_gym.labels import StepLabel, labels
from rir_gym.trace import replay, trace_of

__all__ = ["LABELS", "Truth", "TruthIndex", "labelled_keys", "read_truths", "truth_line", "truth_of"]

LABELS = "labels.jsonl"
_COLUMNS = tuple(field.name for field in fields(StepLabel) if field.name not in ("node", "step"))
_KEY = ("config", "task", "seed", "attempt")


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of one episode beside its record.

    Args:
        exact: whether the oracle's distances are the fewest actions, not upper bounds.
        columns: the fields of ``StepLabel`` but node and step, each a tuple with an entry a node.
        expert: the expert's intended action at each of the agent's decisions; None where there is no expert.
        best: the oracle's best action at each node; None where it was not asked.
    """

    exact: bool
    columns: Mapping[str, tuple[Any, ...]]
    expert: tuple[str | None, ...] | None = None
    best: tuple[str | None, ...] | None = None


def truth_of(
    record: Mapping[str, Any], env: gym.Env[Any, Any], *, intent: Callable[[View], str] | None = None
) -> Truth:
    """The truth about a record, by doing it again in ``env``.

    Args:
        env: an instance of the record's id and arguments; it is reset and stepped.
        intent: what the environment's expert would do; without it the oracle's best action is noted.

    Raises:
        ReplayMismatch, RecordError, UsageError: as ``rir_gym.labels.labels`` and ``rir_gym.trace.replay``.
    """
    trace = trace_of(record)
    told: dict[int, tuple[float | None, str | None]] = {}
    exact = False
    for at in replay(env, trace):
        oracle: Oracle | None = env.get_wrapper_attr("oracle") if env.has_wrapper_attr("oracle") else None
        exact = getattr(oracle, "exact", False) is True
        best = oracle.best_action() if oracle is not None and intent is None and not trace.places[at].ended else None
        told[at] = (oracle.distance() if oracle is not None else None, best)
    known = Distances(tuple([told[at][0] for at in range(len(told))]), exact)
    found = labels(record, known)
    columns = {name: tuple([getattr(label, name) for label in found]) for name in _COLUMNS}
    if intent is None:
        return Truth(exact, columns, best=tuple([told[at][1] for at in range(len(told))]))
    meant = [intent(view) if view is not None else None for view in agent_views(record)]
    return Truth(exact, columns, expert=tuple(meant))


def truth_line(key: Key, truth: Truth) -> bytes:
    """One line of ``labels.jsonl``."""
    written = {**key._asdict(), "exact": truth.exact, **truth.columns, "expert": truth.expert, "best": truth.best}
    text = json.dumps(encode(written), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def read_truths(path: Path) -> Iterator[tuple[Key, Truth]]:
    """Every whole line of a file of labels; nothing where there is no such file. The last line of a key counts.

    Raises:
        RecordError: the file cannot be read.
    """
    for line in _file_lines(path):
        if (found := _parsed(line)) is not None:
            yield found


class TruthIndex:
    """Where each episode's line stands in a file of labels, so that none but the one asked for is in memory.

    Raises:
        RecordError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._places = path, dict[Key, int]()
        at = 0
        for line in _file_lines(path):
            if (key := _key(line)) is not None:
                self._places[key] = at
            at += len(line)

    def get(self, keys: Iterable[tuple[Key, Any]]) -> Iterator[tuple[Any, Truth | None]]:
        """For each (key, something): that, and what is known of the key's episode."""
        if not self._places:
            yield from ((something, None) for _, something in keys)
            return
        with self._path.open("rb") as file:
            for key, something in keys:
                truth = None
                if key in self._places:
                    file.seek(self._places[key])
                    found = _parsed(file.readline())
                    truth = found[1] if found is not None else None
                yield something, truth


def labelled_keys(path: Path) -> set[Key]:
    """The episodes that have a whole line."""
    return {key for key, _ in read_truths(path)}


def _file_lines(path: Path) -> Iterator[bytes]:
    if not path.exists():
        return
    try:
        with path.open("rb") as lines:
            yield from lines
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error})") from error


def _key(line: bytes) -> Key | None:
    """The key of a line, without reading the rest of it: what precedes "exact" (quotes inside a text are escaped)."""
    head, found, _ = line.partition(b',"exact":')
    try:
        value = json.loads(head + b"}") if found and line.endswith(b"\n") else {}
        key = Key(*(value[name] for name in _KEY))
        hash(key)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return key


def _parsed(line: bytes) -> tuple[Key, Truth] | None:
    try:
        value = decode(json.loads(line))
        key = Key(*(value[name] for name in _KEY))
        columns = {name: tuple(value[name]) for name in _COLUMNS}
        lists = {name: None if value[name] is None else tuple(value[name]) for name in ("expert", "best")}
        hash(key)
    except (ValueError, KeyError, TypeError, RecordError, RecursionError):
        return None
    if len({len(column) for column in columns.values()}) != 1:
        return None
    return key, Truth(bool(value["exact"]), columns, **lists)
