"""What an environment's oracle said at each node of an episode: asked once when the node is made, for nobody else.

Only mechanisms with ``uses_oracle`` have one. An exact localizer needs the distance at every earlier step of a branch;
asking when the step is made spares it restoring the world to look. This module knows no mechanism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rir_gym.base import Node, Oracle, OracleView

__all__ = ["OracleLog"]


@dataclass(frozen=True, slots=True)
class OracleLog:
    """The distances so far, by node id."""

    env: gym.Wrapper[Any, Any, Any, Any]
    distances: dict[int, float | None] = field(default_factory=dict)

    @property
    def source(self) -> Oracle | None:
        """The oracle of the instance that is live now (a restore may have put another one there), if it has one."""
        oracle: Oracle | None = self.env.get_wrapper_attr("oracle") if self.env.has_wrapper_attr("oracle") else None
        return oracle

    def ask(self, node: Node) -> None:
        """Note the distance at the node where the environment stands now."""
        oracle = self.source
        self.distances[node.id] = oracle.distance() if oracle is not None else None

    def view(self, branch: Sequence[Node]) -> OracleView:
        """What a role may see at the end of a branch."""
        now = branch[-1].step.oracle or {}
        return OracleView(
            success=bool(now.get("success", False)),
            failed=bool(now.get("failed", False)),
            score=float(now.get("score", 0.0)),
            distances=tuple([self.distances[node.id] for node in branch]),
            source=self.source,
        )
