"""A reviewer and a localizer for the workspace that go by evidence on the branch alone: no oracle, no model.

Evidence is a believed world from which what the task asks for, as far as it is known now, is out of reach or further
away than it was at an earlier step of the branch. While too little is known to tell what is asked for, it is a document
that was deleted or overwritten. Neither role reads ``View.oracle`` or an environment, or keeps a state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rir_envs.workspace_goal import Goal
from rir_envs.workspace_knowledge import Belief, Knowledge, belief, knowledge, observed_facts
from rir_envs.workspace_plan import way
from rir_envs.workspace_reading import Believed
from rir_envs.workspace_world import ACCEPTED, REJECTED
from rir_gym.base import Restore, RestorePoint, Verdict, VerdictKind, View

__all__ = ["Mistake", "evidence_localizer", "evidence_reviewer", "mistake"]

_CALM, _ALERT = 0.5, 1.0  # urgency of a CONTINUE before anything was changed, and from then on


@dataclass(frozen=True, slots=True)
class Mistake:
    """What the evidence blames.

    Args:
        point: where to resume.
        step: the restore point before the action that went wrong.
        cause: the diagnosis, as history.
    """

    point: RestorePoint
    step: int
    cause: str


def evidence_reviewer(views: Sequence[View]) -> list[Verdict]:
    """n reviews that are due to n verdicts (role When without its schedule): CONTINUE or ROLLBACK.

    ROLLBACK where resuming at a restore point leaves fewer calls to go than going on does. ``learned`` is
    ``observed_facts``. The urgency of a CONTINUE is 1 once anything was changed, 0.5 before.
    """
    return [_review(view) for view in views]


def evidence_localizer(views: Sequence[View], verdicts: Sequence[Verdict]) -> list[Restore]:
    """n views to n restore points (role Where): the latest from which the fewest commands are to go.

    The interval reaches from there to now. Without evidence nothing is to be undone and the current point (k = 0) is
    chosen.
    """
    return [_localize(view) for view, _ in zip(views, verdicts, strict=True)]


def mistake(view: View) -> Mistake | None:
    """The mistake whose undoing leaves the fewest calls to go; None where undoing none pays."""
    known = knowledge(view)
    if known.now.verdict == ACCEPTED or len(known.worlds) != len(view.history):
        return None
    points = sorted((point for point in view.restorable if point.t < view.t), key=lambda point: point.t)
    if not points:
        return None
    ahead = _calls_to_go(known)
    best = min(reversed(points), key=lambda point: ahead[point.t])
    # Rolling back drops the proposed action: going on has one call's progress more for the same agent calls.
    if not ahead[best.t] < ahead[-1] - (0 if view.terminal else 1):
        return None
    step = next(i for i in range(best.t, view.t) if ahead[i + 1] > ahead[i])
    action = view.history[step + 1].action
    lost = "put what is asked for out of reach" if ahead[-1] == math.inf else "led away from what is asked for"
    return Mistake(best, step, f"`{action}` at step {step} {lost}")


def _review(view: View) -> Verdict:
    learned = observed_facts(view)
    blamed = mistake(view)
    if blamed is not None:
        return Verdict(VerdictKind.ROLLBACK, urgency=1.0, diagnosis=blamed.cause, learned=learned)
    worlds = knowledge(view).worlds
    urgency = _CALM if worlds[-1].files == worlds[0].files else _ALERT
    return Verdict(VerdictKind.CONTINUE, urgency=urgency, learned=learned)


def _localize(view: View) -> Restore:
    blamed = mistake(view)
    if blamed is None:
        here = max(view.restorable, key=lambda point: point.t, default=None)
        return Restore(here, "no evidence of a mistake", stages=("coarse", "fine"))
    interval = (blamed.point.t, max(point.t for point in view.restorable))
    return Restore(blamed.point, f"the last state before: {blamed.cause}", None, interval, stages=("coarse", "fine"))


def _calls_to_go(known: Knowledge) -> list[float]:
    """Believed commands to success after each step, with all that is known now; ``inf`` where out of reach."""
    asked = belief(known, lambda path: False)
    if isinstance(asked, Belief):
        return [_commands(asked.goal, world) for world in known.worlds]
    return [math.inf if _lost(known, world) else 0 for world in known.worlds]


def _commands(goal: Goal, world: Believed) -> float:
    if world.verdict:
        return 0 if world.verdict == ACCEPTED else math.inf
    found = way(goal, world.files, world.sent)
    return math.inf if found is None else len(found.commands)


def _lost(known: Knowledge, world: Believed) -> bool:
    """Whether something that lay there at the start is nowhere any more, or the episode ended badly."""
    held = {content.origin for content in world.files.values()}
    return world.verdict == REJECTED or any(path not in held for path in known.worlds[0].files)
