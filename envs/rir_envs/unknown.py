"""The oracle of an environment of which nothing is known beyond its outcome. Knows no environment."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["UnknownOracle"]


@dataclass(frozen=True, slots=True)
class UnknownOracle:
    """An oracle (``rir_gym.base.Oracle``) whose every answer is None: unknown."""

    def distance(self) -> float | None:
        """None."""
        return None

    def best_action(self) -> str | None:
        """None."""
        return None

    def plan(self) -> list[str] | None:
        """None."""
        return None

    def recoverable(self, within: int) -> bool | None:
        """None."""
        return None

    def progress(self) -> float | None:
        """None."""
        return None
