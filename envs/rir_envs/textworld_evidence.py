"""A reviewer and a localizer for TextWorld that go by evidence on the branch alone: no oracle, no model.

Evidence is the game's own word that it is lost, for which the last command is to blame (every loss of these games
follows at once), or a walk that led away from where there is something to do, when resuming earlier is nearer to it.
Neither role reads ``View.oracle`` or an environment, or keeps a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rir_envs.textworld_errands import Beliefs, next_errand
from rir_envs.textworld_knowledge import Knowledge, knowledge, observed_facts
from rir_envs.textworld_reading import sights
from rir_gym.base import Restore, RestorePoint, Verdict, VerdictKind, View
from rir_gym.memory import ReflectionMemory

__all__ = ["Mistake", "evidence_localizer", "evidence_reviewer", "mistake"]

_CALM, _ALERT = 0.5, 1.0  # urgency of a CONTINUE before something that matters is carried, and from then on
_WORTH = 2  # calls that a walk must have wasted to be undone: going back and the dropped proposal cost one
_IDLE_VERBS = ("go ", "look", "examine ", "inventory")


@dataclass(frozen=True, slots=True)
class Mistake:
    """What the evidence blames.

    Args:
        since: the restore point before the reading or the walk that led to it.
        step: the restore point before the action that went wrong.
        shown: the step of the observation that shows it.
        cause: the diagnosis, as history.
    """

    since: int
    step: int
    shown: int
    cause: str


def evidence_reviewer(views: Sequence[View]) -> list[Verdict]:
    """n reviews that are due to n verdicts (role When without its schedule): CONTINUE or ROLLBACK.

    ROLLBACK where the game is lost, or where undoing a walk saves calls and a rollback is left for a later loss.
    ``learned`` is ``observed_facts``. The urgency of a CONTINUE is 1 once anything is carried, 0.5 before.
    """
    return [_review(view) for view in views]


def evidence_localizer(views: Sequence[View], verdicts: Sequence[Verdict]) -> list[Restore]:
    """n views to n restore points (role Where): the latest that can be restored before the blamed action.

    Without evidence nothing is to be undone and the current point (k = 0) is chosen; with nothing to restore before the
    blamed action it is None.
    """
    return [_localize(view) for view, _ in zip(views, verdicts, strict=True)]


def mistake(view: View) -> Mistake | None:
    """The action to blame; None where the game is not lost and no walk is worth undoing."""
    last = view.history[-1]
    seen = list(sights(view.history))
    if seen and seen[-1][0] == view.t and seen[-1][1].ended:
        if seen[-1][1].ended == "won":
            return None
        read = next((i - 1 for i, sight in seen if sight.recipe), view.t - 1)
        cause = f"{last.action!s} at step {view.t - 1} lost the game"
        return Mistake(read, view.t - 1, view.t, cause)
    return _walk(view) if view.rollbacks_left > 1 else None


def _walk(view: View) -> Mistake | None:
    """The latest point of the walk so far from which the next errand is nearest, where that saves calls enough."""
    known = _informed(view)
    here = next_errand(known, Beliefs(known.recipe))
    rooms = _rooms(view)
    if here is None or len(rooms) < 2:
        return None
    ahead = {room: _calls(known, room) for room in {*rooms.values()}}
    step = min(rooms, key=lambda i: (ahead[rooms[i]], -i))
    if ahead[rooms[view.t]] - 1 - ahead[rooms[step]] < _WORTH:
        return None
    cause = f"the walk from the {rooms[step]} at step {step} led away from where there was something to do"
    return Mistake(step, step, view.t, cause)


def _rooms(view: View) -> dict[int, str]:
    """The rooms of the steps that end the branch and changed nothing but the place, by step."""
    where: dict[int, str] = {}
    room = ""
    for i, sight in sights(view.history):
        room = sight.room or room
        if not str(view.history[i].action).startswith(_IDLE_VERBS):
            where.clear()
        where[i] = room
    return where


def _calls(known: Knowledge, room: str) -> float:
    errand = next_errand(replace(known, room=room), Beliefs(known.recipe))
    return errand.calls if errand else float("inf")


def _informed(view: View) -> Knowledge:
    """What is known once ΔE is in the memory, whatever kind of memory it is."""
    old = view.memory.environment if isinstance(view.memory, ReflectionMemory) else ()
    return knowledge(replace(view, memory=ReflectionMemory(view.objective, old).learn(observed_facts(view))))


def _review(view: View) -> Verdict:
    learned = observed_facts(view)
    blamed = mistake(view)
    if blamed is not None:
        return Verdict(VerdictKind.ROLLBACK, urgency=1.0, diagnosis=blamed.cause, learned=learned)
    carries = any(sight.held for _, sight in list(sights(view.history))[-1:])
    return Verdict(VerdictKind.CONTINUE, urgency=_ALERT if carries else _CALM, learned=learned)


def _localize(view: View) -> Restore:
    blamed = mistake(view)
    points = sorted(view.restorable, key=lambda point: point.t)
    if blamed is None:
        here = points[-1] if points else None
        return Restore(here, "no evidence of a mistake", stages=("coarse", "fine"))
    point = _latest(points, blamed.step)
    low, high = _latest(points, blamed.since), _latest(points, blamed.shown)
    interval = (low.t, high.t) if low and high else None
    return Restore(point, f"the last state before: {blamed.cause}", None, interval, stages=("coarse", "fine"))


def _latest(points: Sequence[RestorePoint], step: int) -> RestorePoint | None:
    return next((point for point in reversed(points) if point.t <= step), None)
