"""Doing recorded steps again on a live environment, every result compared with what was recorded.

An environment may offer ``replay_step(action)``, which does to the world what ``step`` does and returns the same
observation, reward and flags, but may leave out of ``info`` what is dear to compute. This module knows no mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import ReplayMismatch, SnapshotError
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.reseed import reseed
from rir_gym.values import fresh, same_value

__all__ = ["committed_in", "compare_reset", "do_again"]


def committed_in(nodes: Sequence[Node]) -> int | None:
    """The first step among these that had an effect outside, which must not be done again."""
    return next((node.t for node in nodes if node.step.info.get("committed")), None)


def compare_reset(root: Node, observation: Any, info: Mapping[str, Any]) -> None:
    """The recorded root against a reset that was done again.

    Raises:
        ReplayMismatch: the first difference.
    """
    _compare(0, "observation", root.step.observation, observation)
    _compare(0, "admissible", _listed(root.step.info), _listed(info))


def do_again(env: gym.Env[Any, Any], nodes: Sequence[Node], start: Start) -> None:
    """The steps that led to these nodes, in their order, from the parent of the first one.

    Raises:
        SnapshotError: one of them had an effect outside; nothing was done.
        ReplayMismatch: step, expected and seen of the first difference; the environment stands there.
    """
    if (done := committed_in(nodes)) is not None:
        raise SnapshotError(f"replay: step {done} had an effect outside, which doing it again would repeat")
    with _cheaper(env) as cheap:
        for made in nodes:
            if made.id in start.reseeds:
                reseed(env, start.reseeds[made.id])
            observation, reward, terminated, truncated, info = env.step(fresh(made.step.action))
            _compare(made.t, "observation", made.step.observation, observation)
            _compare(made.t, "reward", made.step.reward, float(reward))
            _compare(made.t, "terminated", made.step.terminated, bool(terminated))
            _compare(made.t, "truncated", made.step.truncated, bool(truncated))
            if not cheap or "admissible" in info:
                _compare(made.t, "admissible", _listed(made.step.info), _listed(info))


@contextmanager
def _cheaper(env: gym.Env[Any, Any]) -> Iterator[bool]:
    """While it lasts, the innermost ``step`` is the environment's ``replay_step``, so that wrappers count as ever."""
    base = layers(env)[-1]
    if not callable(getattr(type(base), "replay_step", None)):
        yield False
        return
    base.step = base.replay_step  # type: ignore[attr-defined, method-assign]
    try:
        yield True
    finally:
        del base.step


def _compare(step: int, what: str, expected: Any, seen: Any) -> None:
    if not same_value(expected, seen):
        raise ReplayMismatch(f"replay: step={step}: {what} was {_short(expected)} and is now {_short(seen)}")


def _listed(info: Mapping[str, Any]) -> list[str] | None:
    """In one order: that of a set may differ between two instances."""
    listed = info.get("admissible")
    return None if listed is None else sorted(map(str, listed))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
