"""What BabyAI's own bot says of a mission: a plan, believed only where playing it on a copy succeeds.

The bot explores as an agent would, so its plans are no shortest ones: a distance is an upper bound, and a bot that
fails proves nothing. This module knows MiniGrid's environments and bot, and nothing of Gymnasium's interface to text.
"""

from __future__ import annotations

import copy
import importlib
import io
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, Literal

from rir_envs.babyai_text import ACTIONS

__all__ = ["BabyAIOracle", "Standing"]

Standing = Literal["playing", "won", "lost"]
_NAMES = {name: said for said, name in ACTIONS.items()}


@dataclass(frozen=True, slots=True)
class BabyAIOracle:
    """Answers about the live mission (``rir_gym.base.Oracle``); None where the bot does not reach its end.

    Args:
        now: gives the MiniGrid environment and how its episode stands.
    """

    now: Callable[[], tuple[Any, Standing]]

    def plan(self) -> list[str] | None:
        """Actions that were played on a copy and succeeded; [] after success, None where the bot knows none."""
        grid_env, standing = self.now()
        if standing != "playing":
            return [] if standing == "won" else None
        return _played(grid_env)

    def distance(self) -> float | None:
        """At most so many actions to success (the bot's, not the fewest); ``inf`` after any other end."""
        _, standing = self.now()
        plan = self.plan()
        return math.inf if standing == "lost" else None if plan is None else float(len(plan))

    def best_action(self) -> str | None:
        """The first action of the plan."""
        plan = self.plan()
        return plan[0] if plan else None

    def recoverable(self, within: int) -> bool | None:
        """True where the plan is no longer; False after any end but success, or with no action left; else None."""
        _, standing = self.now()
        if standing != "playing":
            return standing == "won"
        if within <= 0:
            return False
        plan = self.plan()
        return True if plan is not None and len(plan) <= within else None

    def progress(self) -> float | None:
        """1 after success; None before: BabyAI counts no parts."""
        return 1.0 if self.now()[1] == "won" else None


def _played(grid_env: Any) -> list[str] | None:
    """What the bot does from here, where that wins within the limit of steps."""
    if not hasattr(grid_env, "instrs"):  # a level of MiniGrid, which no bot knows
        return None
    copied, done = copy.deepcopy(grid_env), []
    bot_of = importlib.import_module("minigrid.utils.baby_ai_bot").BabyAIBot
    with redirect_stdout(io.StringIO()):
        try:
            bot = bot_of(copied)
            while True:
                action = bot.replan()
                _, reward, terminated, truncated, _ = copied.step(action)
                done.append(_NAMES[copied.actions(action).name])
                if terminated or truncated:
                    return done if terminated and reward > 0 else None
                if action == copied.actions.done:
                    return None
        except Exception:  # the bot gives up by any of them: assertions, index errors, its own
            return None
