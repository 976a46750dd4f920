"""An oracle's distance at every node of an episode that has ended: by restoring its nodes, or by doing it again.

Only mechanisms with ``uses_oracle`` ask while they run; this asks afterwards, for any of them. An oracle says by the
attribute ``exact = True`` that its ``distance`` is the fewest actions; one without it is taken for an upper bound, as a
planner that is not optimal gives. This module knows no environment and no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rir_gym.base import Oracle
from rir_gym.episode import Episode
from rir_gym.errors import UsageError
from rir_gym.rollback import RollbackWrapper
from rir_gym.snapshot.auto import maker_of
from rir_gym.trace import Source, replay, trace_of

__all__ = ["Distances", "distances", "replayed_distances"]


@dataclass(frozen=True, slots=True)
class Distances:
    """What an oracle said at every node, by node id; ``exact``: fewest actions, not an upper bound of them.

    Raises:
        UsageError: a value that is neither None nor a number of at least 0.
    """

    values: tuple[float | None, ...]
    exact: bool

    def __post_init__(self) -> None:
        for at, value in enumerate(self.values):
            if value is not None and (not isinstance(value, int | float) or not value >= 0):
                raise UsageError(f"distances[{at}]={value!r}: None, or a number of at least 0")


def distances(env: RollbackWrapper, episode: Episode) -> Distances:
    """The oracle's distance at every node of the episode that ``env`` still holds; ``env`` ends where it stands now.

    Every node is restored (which counts in ``env.rollbacks_done``), or, where the wrapper's limits forbid that, the
    episode is replayed in a fresh instance made from the spec.

    Raises:
        UsageError: ``env`` holds another episode; or nodes cannot be restored, and no fresh instance can be made or a
            replay would do again what has effects outside (``committed``).
        ReplayMismatch: as ``replayed_distances``.
    """
    if len(env.nodes) != len(episode.nodes) or any(a is not b for a, b in zip(env.nodes, episode.nodes, strict=True)):
        raise UsageError(f"env={env}: holds another episode; use replayed_distances")
    reasons = [why for node in env.nodes if (why := env.refusal(node)) is not None]
    if env.settings["max_rollbacks"] is not None:
        reasons.append(f"max_rollbacks={env.settings['max_rollbacks']}")
    if not reasons:
        return _restored(env)
    committed = any(node.step.info.get("committed") for node in env.nodes)
    make = None if committed else maker_of(env.env)
    if make is None:
        why = "a replay would repeat effects outside" if committed else "no fresh instance can be made from its spec"
        raise UsageError(f"env={env}: {reasons[0]}, and {why}; use replayed_distances")
    fresh = make()
    try:
        return replayed_distances(fresh, episode)
    finally:
        fresh.close()


def replayed_distances(env: gym.Env[Any, Any], source: Source) -> Distances:
    """The same, by replaying the actions of every branch in another instance: ``env`` is reset, and stepped.

    Args:
        env: of the same id and arguments, in a RollbackWrapper or not. Its oracle is asked at every node.
        source: an episode, or a record of one (schema 1).

    Raises:
        ReplayMismatch: the first node whose observation or end is not the recorded one, or whose action cannot be done.
        RecordError: a record that lacks what is needed, or events that are not those that made the nodes.
    """
    trace = trace_of(source)
    said = {at: _distance(env) for at in replay(env, trace)}
    return Distances(tuple([said[at] for at in range(len(trace.places))]), _exact(env))


def _restored(env: RollbackWrapper) -> Distances:
    here, said = env.node, list[float | None]()
    try:
        for node in env.nodes:
            env.rollback(node)
            said.append(_distance(env))
    finally:
        env.rollback(here)
    return Distances(tuple(said), _exact(env))


def _oracle(env: gym.Env[Any, Any]) -> Oracle | None:
    """That of the instance which is live now: a restore may have put another one there."""
    return env.get_wrapper_attr("oracle") if env.has_wrapper_attr("oracle") else None


def _distance(env: gym.Env[Any, Any]) -> float | None:
    oracle = _oracle(env)
    return None if oracle is None else oracle.distance()


def _exact(env: gym.Env[Any, Any]) -> bool:
    return getattr(_oracle(env), "exact", False) is True
