"""Ground truth after an episode: which step was wasted, harmful or lost, and where one should have resumed.

d(v) is the fewest actions from node v to success, which an environment's oracle knows at best: 0 at success, ``inf``
where the episode terminated without it or it is out of reach. b(v) = B_agent − N_agent is the number of agent calls
left when v was reached; a step costs one call, and no rollback gives one back. For the step from u to v:

- *wasted*: d(v) ≥ d(u). The call brought success no nearer: a detour, a refused command, a way back, a look around.
- *harmful*: d(v) > d(u) + 1. Repairing is dearer than rolling back: going on takes d(v) calls; taking the step back
  takes d(u), the redo among them, and 1 (``ROLLBACK_CALLS``), since a rollback drops the action that was proposed.
- *lost*: d(v) > b(v), or the episode is over without success. No way of going on reaches success any more.
- *rescue*: r* of the method, seen from v: the latest restore point i ≤ t of its branch with d(v_i) ≤ b(v) − 1, not
  before a commitment. Nothing is paid for i = t, which is r* where v is not lost, nor at the end of an episode,
  where no action is proposed.

The truth is relative to full knowledge of a world in which the same action has the same future: a look around is a
wasted call to somebody who knows everything. B_rb, dropped checkpoints and limits on steps that the oracle does not
know are not part of it. Where the oracle's distances are not ``exact``, they are taken for upper bounds of d, of which
only ``inf`` (proven out of reach) and 0 are exact. What then follows from no distance is None, never a guess. This
module knows no environment, no mechanism and no file; ``distances`` asks the oracle.

Source of r*: Yu et al., "Rollback the World, Keep the Reflection", arXiv 2609.18304. The other rules are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym

from rir_gym.distances import Distances, distances, replayed_distances
from rir_gym.errors import UsageError
from rir_gym.jsonable import encode
from rir_gym.trace import Place, Source, Trace, trace_of

__all__ = [
    "ROLLBACK_CALLS",
    "Distances",
    "Landmarks",
    "StepLabel",
    "distances",
    "label_record",
    "labels",
    "landmarks",
    "replayed_distances",
]

ROLLBACK_CALLS = 1


@dataclass(frozen=True, slots=True)
class StepLabel:
    """The truth about the step that led to ``node``, as the module defines it; None where it is not known.

    Args:
        node, step: the node, and its t: how many actions lie before it on its branch.
        distance: as the oracle said.
        calls_left: b(v).
        wasted, harmful: None at the root, too: no step led there.
        rescuable: whether there is a rescue point, this node itself included.
        rescue: r*, a restore point t; None where there is none, or where the latest is not known.
    """

    node: int
    step: int
    distance: float | None
    calls_left: int
    wasted: bool | None
    harmful: bool | None
    lost: bool | None
    rescuable: bool | None
    rescue: int | None


@dataclass(frozen=True, slots=True)
class Landmarks:
    """The first wasted, harmful and lost step of one branch, and r* seen from the first lost one: restore points t.

    Where a step is lost from the start, ``lost`` is 0. None means that there is none, or, where its name stands in
    ``unknown``, that a label before it is not known.
    """

    wasted: int | None
    harmful: int | None
    lost: int | None
    rescue: int | None
    unknown: tuple[str, ...] = ()


# --- labels ---------------------------------------------------------------------------------------------------------


def labels(source: Source, known: Distances) -> tuple[StepLabel, ...]:
    """One label a node, ``labels[i].node == i``, from the distances at the nodes alone.

    Args:
        source: an episode of ``run``, or a record of one (schema 1).
        known: from ``distances`` or ``replayed_distances``.

    Raises:
        UsageError: not one distance a node; or distances that contradict each other or the episode, so that they are
            not what they claim (an exact distance falls by at most 1 a step, and a lost goal stays lost).
        RecordError: events and nodes that do not belong together, or a record that lacks what is needed.
    """
    trace = trace_of(source)
    if len(known.values) != len(trace.places):
        raise UsageError(f"distances={len(known.values)}: one for each of {len(trace.places)} nodes")
    bounds = _bounds(trace.places, known)
    return tuple([_label(at, trace, bounds, said) for at, said in enumerate(known.values)])


def landmarks(source: Source, found: Sequence[StepLabel], *, leaf: int | None = None) -> Landmarks:
    """The landmarks of the branch that ends in node ``leaf``, by default of the surviving one.

    Raises:
        UsageError: ``found`` are not the labels of the episode, or it has no such node.
        RecordError: as ``labels``.
    """
    trace = trace_of(source)
    last, count = trace.last if leaf is None else leaf, len(trace.places)
    if len(found) != count or last not in range(count):
        raise UsageError(f"labels={len(found)}, leaf={last!r}: a label for each of {count} nodes, and one of them")
    branch = [found[at] for at in trace.branch(last)]
    marks = {
        "wasted": _first([each.wasted for each in branch[1:]], at=1),
        "harmful": _first([each.harmful for each in branch[1:]], at=1),
        "lost": (lost := _first([each.lost for each in branch], at=0)),
        "rescue": _UNKNOWN if lost == _UNKNOWN else None if lost is None else _rescue_of(branch[lost]),
    }
    unknown = tuple(name for name, mark in marks.items() if mark == _UNKNOWN)
    return Landmarks(**{name: None if name in unknown else mark for name, mark in marks.items()}, unknown=unknown)


def label_record(record: Mapping[str, Any], env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Labels of a record as one JSON object, for a file beside the records (strict JSON, as ``rir_gym.jsonable``).

    Args:
        env: an instance of the record's id and arguments; it is replayed in.

    Returns:
        ``schema`` (1), ``seed``, ``exact``, ``labels`` (fields of ``StepLabel``), ``landmarks`` (surviving branch).

    Raises:
        ReplayMismatch, RecordError, UsageError: as ``replayed_distances`` and ``labels``.
    """
    known = replayed_distances(env, record)
    found = labels(record, known)
    told = {"labels": [asdict(each) for each in found], "landmarks": asdict(landmarks(record, found))}
    written: dict[str, Any] = encode({"schema": 1, "seed": record["header"]["seed"], "exact": known.exact, **told})
    return written


_UNKNOWN = -1

_Bounds = tuple[float, float]


def _first(marks: Sequence[bool | None], *, at: int) -> int | None:
    """The first step marked True, counted from ``at``; ``_UNKNOWN`` where None stands before it; None: all False."""
    for step, mark in enumerate(marks, at):
        if mark is not False:
            return step if mark else _UNKNOWN
    return None


def _rescue_of(label: StepLabel) -> int | None:
    return _UNKNOWN if label.rescue is None and label.rescuable is not False else label.rescue


def _label(at: int, trace: Trace, bounds: Sequence[_Bounds], distance: float | None) -> StepLabel:
    place, wasted, harmful = trace.places[at], None, None
    if place.parent is not None:
        before, after = bounds[place.parent], bounds[at]
        nearer = _more(before, after)
        wasted = None if nearer is None else not nearer
        harmful = _more(after, (before[0] + ROLLBACK_CALLS, before[1] + ROLLBACK_CALLS))
    left = float(place.calls_left)
    lost = _more(bounds[at], (left, left))
    if place.ended:
        lost = None if place.won is None else not place.won
    rescuable, rescue = _rescue(at, trace, bounds, lost)
    return StepLabel(at, place.t, distance, place.calls_left, wasted, harmful, lost, rescuable, rescue)


def _rescue(at: int, trace: Trace, bounds: Sequence[_Bounds], lost: bool | None) -> tuple[bool | None, int | None]:
    """(whether any, the latest) restore point from which success is within the calls left."""
    place = trace.places[at]
    left = float(place.calls_left - (0 if place.ended else ROLLBACK_CALLS))
    unclear = False
    for i in reversed(trace.branch(at)):
        beyond = lost if i == at else _more(bounds[i], (left, left))
        if beyond is False:
            return True, None if unclear else trace.places[i].t
        unclear = unclear or beyond is None
        if trace.places[i].committed:
            break
    return None if unclear else False, None


def _more(a: _Bounds, b: _Bounds) -> bool | None:
    """a > b, from what is known of both."""
    return True if a[0] > b[1] else False if a[1] <= b[0] else None


def _bounds(places: Sequence[Place], known: Distances) -> list[_Bounds]:
    """Least and greatest possible d at every node: what the oracle said, and that d(u) ≤ d(v) + 1 along every step."""
    low, high = list[float](), list[float]()
    for place, told in zip(places, known.values, strict=True):
        said = (
            None if place.ended == "truncated" and told == math.inf else told
        )  # lost by time, perhaps, not by the step
        least = 0.0 if place.won is not False else math.inf if place.ended == "terminated" else 1.0
        certain = said is not None and (known.exact or said in (0, math.inf))
        low.append(max(least, said) if said is not None and certain else least)
        high.append(0.0 if place.won else math.inf if said is None or least == math.inf else float(said))
    for at in reversed(range(1, len(places))):
        parent = places[at].parent or 0
        high[parent] = min(high[parent], high[at] + 1)
    for at in range(1, len(places)):
        low[at] = max(low[at], low[places[at].parent or 0] - 1)
    for at, said in enumerate(known.values):
        if low[at] > high[at]:
            kind = "exact distance" if known.exact else "upper bound"
            raise UsageError(f"distances[{at}]={said!r}: no {kind}, other nodes of the episode contradict it")
    return list(zip(low, high, strict=True))
