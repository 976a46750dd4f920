"""What is known of a TextWorldExpress game: its own way to win, which was played, as long as it is followed.

That way looks around and reads as a player would: it is no shortest one, and off it nothing is known. This module knows
no Java.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["GoldOracle", "Standing"]

Standing = Literal["playing", "won", "lost"]


@dataclass(frozen=True, slots=True)
class GoldOracle:
    """Answers about the live game (``rir_gym.base.Oracle``); None is unknown.

    Args:
        now: gives how the game stands, what was said, and a way to win from the beginning, where one is known.
    """

    now: Callable[[], tuple[Standing, tuple[str, ...], tuple[str, ...] | None]]

    def plan(self) -> list[str] | None:
        """The rest of the way; [] after success, None off the way."""
        standing, said, gold = self.now()
        if standing != "playing":
            return [] if standing == "won" else None
        return list(gold[len(said) :]) if gold is not None and gold[: len(said)] == said else None

    def distance(self) -> float | None:
        """At most so many commands to success; ``inf`` when the game is lost."""
        plan = self.plan()
        return math.inf if self.now()[0] == "lost" else None if plan is None else float(len(plan))

    def best_action(self) -> str | None:
        """The next command of the way."""
        plan = self.plan()
        return plan[0] if plan else None

    def recoverable(self, within: int) -> bool | None:
        """True where the rest of the way is no longer; False when the game is lost or no command is left; else None."""
        standing, plan = self.now()[0], self.plan()
        if standing != "playing":
            return standing == "won"
        if within <= 0:
            return False
        return True if plan is not None and len(plan) <= within else None

    def progress(self) -> float | None:
        """1 after success, else None: the score is in ``info``."""
        return 1.0 if self.now()[0] == "won" else None
