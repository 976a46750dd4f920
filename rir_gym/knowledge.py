"""What an environment may know exactly, and what of it a role may see. Knows no role, mechanism or environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["Oracle", "OracleView"]


@runtime_checkable
class Oracle(Protocol):
    """Exact knowledge that an environment may offer, on demand, through its ``oracle`` attribute; None is unknown."""

    def distance(self) -> float | None:
        """Fewest actions from here to success (at most these, where ``exact`` is not True); ``inf``: out of reach."""
        ...

    def best_action(self) -> str | None:
        """The first action of a shortest plan."""
        ...

    def plan(self) -> Sequence[str] | None:
        """A plan from the current state to success."""
        ...

    def recoverable(self, within: int) -> bool | None:
        """Whether success is reachable within so many actions."""
        ...

    def progress(self) -> float | None:
        """How much of the task is done, in [0, 1]."""
        ...


@dataclass(frozen=True, slots=True)
class OracleView:
    """Oracle knowledge for mechanisms that declare ``uses_oracle``; nobody else receives one.

    Args:
        success, failed, score: what the environment says of where it stands.
        distances: the oracle's distance at every step of the branch (None unknown, ``inf`` lost).
        least: what is *proven* of each: the fewest actions to success are at least so many. The distance itself where
            the oracle is exact there; else 0, or ``inf`` where success is out of reach. Empty: 0 or ``inf`` everywhere.
        source: the oracle of the live instance, to be asked about where the world stands.
    """

    success: bool
    failed: bool
    score: float
    distances: tuple[float | None, ...]
    least: tuple[float, ...] = ()
    source: Oracle | None = None

    def reaches(self, step: int, within: int) -> bool | None:
        """Whether success is reachable from a step of the branch within so many actions; None: neither is proven."""
        distance = self.distances[step]
        if distance is not None and distance <= within:
            return True
        least = self.least[step] if self.least else math.inf if distance == math.inf else 0
        return False if least > within else None
