"""What an environment may know exactly, and what of it a role may see. Knows no role, mechanism or environment."""

from __future__ import annotations

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

    ``distances[i]`` is the oracle's distance at step i of the branch (None unknown, ``inf`` lost).
    """

    success: bool
    failed: bool
    score: float
    distances: tuple[float | None, ...]
    source: Oracle | None = None
