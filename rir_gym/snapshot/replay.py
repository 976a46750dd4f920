"""Snapshot by doing it again: a fresh instance, the recorded reset, the actions of the branch, every result compared.

Costs nothing to save and the whole branch to restore. The live instance is given up only after the fresh one has
shown every recorded observation, reward and flag; at the first difference the live world stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import ReplayMismatch, SnapshotError
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.protocol import Start
from rir_gym.values import same_value

__all__ = ["Replay"]


@dataclass(frozen=True, slots=True)
class Replay:
    """The token is the node and the reset that began its episode. ``make`` gives a fresh instance of the stack."""

    make: Callable[[], gym.Env[Any, Any]]
    name: str = "replay"

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
        fresh = self.make()
        try:
            expected_stack = [type(layer).__name__ for layer in layers(env)]
            if (stack := [type(layer).__name__ for layer in layers(fresh)]) != expected_stack:
                raise SnapshotError(f"replay: a fresh instance is {stack}, the live one {expected_stack}")
            observation, _ = fresh.reset(seed=start.seed, options=dict(start.options) if start.options else None)
            root, *rest = node.branch()
            _compare(0, "observation", root.step.observation, observation)
            for made in rest:
                observation, reward, terminated, truncated, _ = fresh.step(made.step.action)
                _compare(made.t, "observation", made.step.observation, observation)
                _compare(made.t, "reward", made.step.reward, float(reward))
                _compare(made.t, "terminated", made.step.terminated, bool(terminated))
                _compare(made.t, "truncated", made.step.truncated, bool(truncated))
        except BaseException:
            fresh.close()
            raise
        env.close()
        return fresh

    def size(self, token: Any) -> int | None:
        """Zero: the history holds all that is needed."""
        return 0


def _compare(step: int, what: str, expected: Any, seen: Any) -> None:
    if not same_value(expected, seen):
        raise ReplayMismatch(f"replay: step={step}: {what} was {_short(expected)} and is now {_short(seen)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
