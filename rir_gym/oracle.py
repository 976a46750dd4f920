"""What an environment's oracle said at each node of an episode: asked once when the node is made, for nobody else.

Only mechanisms with ``uses_oracle`` have one. An exact localizer needs the distance at every earlier step of a branch;
asking when the step is made spares it restoring the world to look. A distance of an oracle that is not ``exact`` is an
upper bound and proves nothing lost. This module knows no mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rir_gym.base import Node, Oracle, OracleView
from rir_gym.errors import UsageError

__all__ = ["OracleLog"]


@dataclass(frozen=True, slots=True)
class OracleLog:
    """The distances so far, and what is proven of them, by node id."""

    env: gym.Wrapper[Any, Any, Any, Any]
    distances: dict[int, float | None] = field(default_factory=dict)
    least: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, env: gym.Wrapper[Any, Any, Any, Any], mechanism: str) -> OracleLog:
        """The log of an environment that has just been reset.

        Raises:
            UsageError: it has neither an ``oracle`` nor an ``info["oracle"]``.
        """
        log = cls(env)
        if log.source is None and env.get_wrapper_attr("node").step.oracle is None:
            raise UsageError(f"mechanism={mechanism!r}: declares uses_oracle=True, but {env} has no oracle")
        return log

    @property
    def source(self) -> Oracle | None:
        """The oracle of the instance that is live now (a restore may have put another one there), if it has one."""
        oracle: Oracle | None = self.env.get_wrapper_attr("oracle") if self.env.has_wrapper_attr("oracle") else None
        return oracle

    def ask(self, node: Node, calls_left: int) -> None:
        """Note the distance at the node where the environment stands now, and what it proves.

        Where the distance proves nothing, ``recoverable(calls_left)`` may: fewer calls are left ever after.
        """
        oracle = self.source
        distance = oracle.distance() if oracle is not None else None
        proven = distance is not None and (distance in (0, math.inf) or getattr(oracle, "exact", False) is True)
        least = float(distance) if proven and distance is not None else 0.0
        if oracle is not None and not proven and (distance is None or distance > calls_left):
            least = calls_left + 1.0 if oracle.recoverable(calls_left) is False else 0.0
        self.distances[node.id], self.least[node.id] = distance, least

    def view(self, branch: Sequence[Node]) -> OracleView:
        """What a role may see at the end of a branch."""
        now = branch[-1].step.oracle or {}
        return OracleView(
            success=bool(now.get("success", False)),
            failed=bool(now.get("failed", False)),
            score=float(now.get("score", 0.0)),
            distances=tuple([self.distances[node.id] for node in branch]),
            least=tuple([self.least[node.id] for node in branch]),
            source=self.source,
        )
