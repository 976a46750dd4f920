"""Snapshot by doing it again: a fresh instance, the recorded reset, the actions of the branch, every result compared.

Costs nothing to save and the whole branch to restore. The live instance is given up only after the fresh one has
shown every recorded observation, reward and flag; at the first difference the live world stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import ReplayMismatch, SnapshotError
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.reseed import reseed
from rir_gym.values import fresh, same_value

__all__ = ["Replay"]


@dataclass(frozen=True, slots=True)
class Replay:
    """The token is the node and the reset that began its episode. ``make`` gives a fresh instance of the stack."""

    make: Callable[[], gym.Env[Any, Any]]
    name: str = "replay"
    sized: bool = True
    repeats: bool = True
    tied: bool = False

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> tuple[Node, Start]:
        """Nothing is copied. An unseeded reset cannot be repeated."""
        if start.seed is None:
            raise SnapshotError("replay: the episode was begun without a seed, so its reset cannot be repeated")
        return node, start

    def restore(self, env: gym.Env[Any, Any], token: tuple[Node, Start]) -> gym.Env[Any, Any]:
        """A fresh instance at the node.

        Raises:
            ReplayMismatch: step, expected and seen of the first difference; the live instance is untouched.
        """
        node, start = token
        root, *rest = node.branch()
        if done := [made.t for made in rest if made.step.info.get("committed")]:
            raise SnapshotError(f"replay: step {done[0]} had an effect outside, which doing it again would repeat")
        live = self.make()
        try:
            expected_stack = [type(layer).__name__ for layer in layers(env)]
            if (stack := [type(layer).__name__ for layer in layers(live)]) != expected_stack:
                raise SnapshotError(f"replay: a fresh instance is {stack}, the live one {expected_stack}")
            observation, info = live.reset(seed=start.seed, options=fresh(start.options))
            _compare(0, "observation", root.step.observation, observation)
            _compare(0, "admissible", _listed(root.step.info), _listed(info))
            for made in rest:
                if made.id in start.reseeds:
                    reseed(live, start.reseeds[made.id])
                observation, reward, terminated, truncated, info = live.step(fresh(made.step.action))
                _compare(made.t, "observation", made.step.observation, observation)
                _compare(made.t, "reward", made.step.reward, float(reward))
                _compare(made.t, "terminated", made.step.terminated, bool(terminated))
                _compare(made.t, "truncated", made.step.truncated, bool(truncated))
                _compare(made.t, "admissible", _listed(made.step.info), _listed(info))
        except BaseException:
            live.close()
            raise
        env.close()
        return live

    def size(self, token: Any) -> int | None:
        """Zero: the history holds all that is needed."""
        return 0

    def drop(self, token: Any) -> None:
        """Nothing to do: the token holds nothing of its own."""

    def forget(self) -> None:
        """Nothing to do."""


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
