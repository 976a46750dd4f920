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
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.again import committed_in, compare_reset, do_again
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.protocol import Start
from rir_gym.values import fresh

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
        if (done := committed_in(rest)) is not None:
            raise SnapshotError(f"replay: step {done} had an effect outside, which doing it again would repeat")
        live = self.make()
        try:
            expected_stack = [type(layer).__name__ for layer in layers(env)]
            if (stack := [type(layer).__name__ for layer in layers(live)]) != expected_stack:
                raise SnapshotError(f"replay: a fresh instance is {stack}, the live one {expected_stack}")
            observation, info = live.reset(seed=start.seed, options=fresh(start.options))
            compare_reset(root, observation, info)
            do_again(live, rest, start)
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
