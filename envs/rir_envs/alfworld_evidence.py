"""A reviewer and a localizer for ALFWorld that go by evidence on the branch alone: no oracle, no model.

Little in ALFWorld cannot be undone, so what there is to win are actions: those of the step limit, which rewind with the
world, and agent calls. Evidence is that everything needed has been found, and that from an earlier step, with what is
known now, the goal is near enough: within the steps that the limit leaves where it is not from here, or clearly
nearer (for which the last rollback is not spent). Neither role reads ``View.oracle`` or an environment, or keeps a
state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rir_envs.alfworld_errands import next_errand
from rir_envs.alfworld_knowledge import Knowledge, knowledge, observed_facts
from rir_gym.base import Restore, RestorePoint, Verdict, VerdictKind, View
from rir_gym.memory import Fact, ReflectionMemory

__all__ = ["LIMIT", "Mistake", "evidence_localizer", "evidence_reviewer", "mistake"]

LIMIT = 50
"""ALFWorld's step limit, which these roles take to be in force."""

_WORTH = 2  # calls that a step back must save besides its own price
_CALM, _ALERT = 0.5, 1.0  # urgency of a CONTINUE while something has still to be found, and after that


@dataclass(frozen=True, slots=True)
class Mistake:
    """The steps that the evidence wants undone: all since restore point ``step``, because of ``cause``."""

    step: int
    cause: str


def evidence_reviewer(views: Sequence[View]) -> list[Verdict]:
    """n reviews that are due to n verdicts (role When without its schedule): CONTINUE or ROLLBACK.

    ``learned`` is ``observed_facts``. The urgency of a CONTINUE is 1 once everything needed has been found, 0.5 before.
    """
    return [_review(view) for view in views]


def evidence_localizer(views: Sequence[View], verdicts: Sequence[Verdict]) -> list[Restore]:
    """n views to n restore points (role Where): the one that the evidence points to, or the latest before it.

    Without evidence nothing is to be undone and the current point (k = 0) is chosen; with nothing to restore at or
    before that step it is None.
    """
    return [_localize(view) for view, _ in zip(views, verdicts, strict=True)]


def mistake(view: View) -> Mistake | None:
    """The steps to undo; None where undoing none pays."""
    learned = observed_facts(view)
    here = _calls(view, view.t, learned)
    if here is None and not view.terminal:
        return None  # something is still to be found, and looking goes on from here
    ahead = {point.t: _calls(view, point.t, learned) for point in view.restorable if point.t < view.t}
    fits = [
        t for t, calls in ahead.items() if calls is not None and t + calls <= LIMIT and calls < view.agent_calls_left
    ]
    if not fits:
        return None
    if view.terminal or here is None or view.t + here > LIMIT:
        step = max(fits)
        return Mistake(step, f"the goal is not within the {LIMIT} steps any more, from step {step} it was")
    if view.rollbacks_left < 2:
        return None  # the last one is kept for the limit
    step = min(fits, key=lambda t: (ahead[t], -t))
    saved = here - 1 - (ahead[step] or 0)
    if saved < _WORTH:
        return None
    return Mistake(step, f"what was done since step {step} led away from the goal")


def _calls(view: View, t: int, learned: Sequence[Fact]) -> int | None:
    """Calls from step t of the branch to the goal with all that is known now; None where not everything is found."""
    known = _informed(replace(view, history=view.history[: t + 1]), learned)
    if known.task is None:
        return None
    errand = next_errand(known, known.task, late=lambda receptacle: (False, 0.0))
    return errand.calls if errand else None


def _informed(view: View, learned: Sequence[Fact]) -> Knowledge:
    """What is known once ``learned`` is in the memory, whatever kind of memory it is."""
    old = view.memory.environment if isinstance(view.memory, ReflectionMemory) else ()
    return knowledge(replace(view, memory=ReflectionMemory(view.objective, old).learn(learned)))


def _review(view: View) -> Verdict:
    learned = observed_facts(view)
    blamed = mistake(view)
    if blamed is not None:
        return Verdict(VerdictKind.ROLLBACK, urgency=1.0, diagnosis=blamed.cause, learned=learned)
    urgency = _CALM if _calls(view, view.t, learned) is None else _ALERT
    return Verdict(VerdictKind.CONTINUE, urgency=urgency, learned=learned)


def _localize(view: View) -> Restore:
    blamed = mistake(view)
    points = sorted(view.restorable, key=lambda point: point.t)
    if blamed is None:
        return Restore(points[-1] if points else None, "no evidence of a mistake", stages=("coarse", "fine"))
    point = _latest(points, blamed.step)
    interval = (point.t, points[-1].t) if point else None
    return Restore(point, f"the last state before: {blamed.cause}", None, interval, stages=("coarse", "fine"))


def _latest(points: Sequence[RestorePoint], step: int) -> RestorePoint | None:
    return next((point for point in reversed(points) if point.t <= step), None)
