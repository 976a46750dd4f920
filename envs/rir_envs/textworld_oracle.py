"""What TextWorld's own quest planner knows about a running game, computed only when asked.

It follows the quests along the logical actions taken so far, 5 to 15 ms for each action since it was last asked; doing
so at every step would make steps up to three times slower. This module does not search: a plan is *a* winning
continuation, not the shortest, and the planner may lose track of a quest, which proves nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rir_envs.textworld_env import TextWorldEnv

__all__ = ["Plan", "TextWorldOracle", "followed"]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The winning continuation after ``actions`` (None: none known). ``progression`` is never changed."""

    actions: tuple[Any, ...]
    progression: Any
    commands: tuple[str, ...] | None


def followed(engine: Any, known: Plan | None) -> Plan:
    """The plan for where ``engine`` is now, going on from ``known`` where that lies on the way here."""
    tracker = engine._game_progression
    if known is not None and known.actions == tracker.actions:
        return known
    if known is not None and known.actions == tracker.actions[: len(known.actions)]:
        behind, progression = len(known.actions), _copied(known.progression)
    else:
        behind, progression = 0, type(tracker.progression)(tracker.progression.game, track_quests=True)
    for action in tracker.actions[behind:]:
        progression.update(action)
    winning = progression.winning_policy
    commands = None if winning is None else tuple(engine._inform7.gen_commands_from_actions(winning))
    return Plan(tracker.actions, progression, commands)


def _copied(progression: Any) -> Any:
    """A copy that shares what never changes; TextWorld's own builds every tree twice and takes ten times as long."""
    quests = []
    for quest in progression.quest_progressions:
        quest = copy.copy(quest)
        quest.win_events = [_event(event) for event in quest.win_events]
        quest.fail_events = [_event(event) for event in quest.fail_events]
        quests.append(quest)
    result = copy.copy(progression)
    result.state = progression.state.copy()
    result.quest_progressions = quests
    return result


def _event(event: Any) -> Any:
    result = copy.copy(event)
    if not event.done and not event._tree.empty:
        result._tree = event._tree.copy()
    return result


@dataclass(frozen=True, slots=True)
class TextWorldOracle:
    """The oracle of one environment. Every method raises ``UsageError`` before the first reset and after close."""

    env: TextWorldEnv

    def distance(self) -> float | None:
        """Length of the plan: an *upper bound* on the fewest actions; 0 when won, ``inf`` when lost, None unknown."""
        plan = self.plan()
        if plan is not None:
            return float(len(plan))
        return float("inf") if self._now()["lost"] else None

    def best_action(self) -> str | None:
        """The first action of the plan; None when the game is over or no plan is known."""
        plan = self.plan()
        return plan[0] if plan else None

    def plan(self) -> Sequence[str] | None:
        """A winning continuation, not necessarily the shortest; empty when won, None when lost or unknown."""
        now = self._now()
        if now["won"]:
            return ()
        return None if now["lost"] else self.env._continuation()

    def recoverable(self, within: int) -> bool | None:
        """True where the plan is no longer than ``within``, False where that is impossible for certain, None otherwise.

        It is impossible where the game is lost, and where it is not won and no action is left. A plan that is longer
        than ``within`` proves nothing, since it need not be the shortest.
        """
        now = self._now()
        if now["lost"] or (within < 1 and not now["won"]) or within < 0:
            return False
        plan = self.plan()
        return True if plan is not None and len(plan) <= within else None

    def progress(self) -> float | None:
        """Share of the game's points, in [0, 1]."""
        self._now()
        return self.env._score()

    def _now(self) -> Mapping[str, Any]:
        self.env._require_begun()
        return self.env._now
