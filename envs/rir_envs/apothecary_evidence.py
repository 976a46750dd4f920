"""A reviewer and a localizer for Apothecary that go by evidence on the branch alone: no oracle, no model.

Evidence is a potion that the shrine refused, or a pot that contradicts the recipe now known (from the branch or the
memory), be it still full or poured away since. What it costs to go on and what it would cost to resume earlier is
estimated with the same knowledge, which takes rooms nobody has entered to hold what nobody has seen. Neither role reads
``View.oracle`` or an environment, or keeps a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rir_envs.apothecary_knowledge import Knowledge, knowledge, observed_facts
from rir_envs.apothecary_plan import distance
from rir_envs.apothecary_reading import Brew, brews
from rir_envs.apothecary_world import Recipe
from rir_gym.base import Restore, RestorePoint, Verdict, VerdictKind, View
from rir_gym.memory import Fact, ReflectionMemory

__all__ = ["Mistake", "evidence_localizer", "evidence_reviewer", "mistake"]

_CALM, _ALERT = 0.5, 1.0  # urgency of a CONTINUE before anything was gathered to brew with, and from then on


@dataclass(frozen=True, slots=True)
class Mistake:
    """What the evidence blames.

    Args:
        since: the restore point before the brew was begun.
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

    ROLLBACK where evidence blames an action and resuming before it leaves fewer calls to go than going on does; a dark
    offer with the recipe still unknown always counts. ``learned`` is ``observed_facts``. The urgency of a CONTINUE is 1
    once the agent holds or has poured as much as a potion takes, 0.5 before.
    """
    return [_review(view) for view in views]


def evidence_localizer(views: Sequence[View], verdicts: Sequence[Verdict]) -> list[Restore]:
    """n views to n restore points (role Where): the latest that can be restored before the blamed action.

    The interval reaches from before the brew to the observation that shows the mistake. Without evidence nothing is to
    be undone and the current point (k = 0) is chosen; with nothing to restore before the blamed action it is None.
    """
    return [_localize(view) for view, _ in zip(views, verdicts, strict=True)]


def mistake(view: View) -> Mistake | None:
    """The mistake whose undoing leaves the fewest calls to go, the latest of equals; None where undoing none pays."""
    facts = observed_facts(view)
    now = knowledge(view)
    found = _mistakes(view, now.recipe)
    if not found or now.state.won:
        return None
    if now.recipe is None:
        return found[0]
    informed = _informed(view, facts)
    unseen = _unseen(informed, now.recipe)
    ahead = [(_calls(informed, found_one.step, now.recipe, unseen), found_one) for found_one in found]
    fewest, best = min(ahead, key=lambda pair: (pair[0], -pair[1].step))
    # Rolling back drops the proposed action: going on has one call's progress more for the same agent calls.
    return best if fewest < _calls(informed, view.t, now.recipe, unseen) - 1 else None


def _review(view: View) -> Verdict:
    learned = observed_facts(view)
    blamed = mistake(view)
    if blamed is not None:
        return Verdict(VerdictKind.ROLLBACK, urgency=1.0, diagnosis=blamed.cause, learned=learned)
    return Verdict(VerdictKind.CONTINUE, urgency=_urgency(knowledge(view)), learned=learned)


def _urgency(now: Knowledge) -> float:
    size = len(now.rumour.ingredients) if now.rumour else 1
    return _ALERT if len(now.state.held) + len(now.state.pot) >= size else _CALM


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


def _mistakes(view: View, recipe: Recipe | None) -> list[Mistake]:
    found = [_judged(brew, recipe, view.t) for brew in brews(view.history)]
    return [one for one in found if one is not None]


def _judged(brew: Brew, recipe: Recipe | None, t: int) -> Mistake | None:
    since = brew.poured[0]
    shown = t if brew.ended_at is None else brew.ended_at + 1
    what = f"{', '.join(brew.pot)}" + (f", then {brew.sealed}" if brew.sealed else "")
    if recipe is None:
        return Mistake(since, since, shown, f"the shrine stayed dark for {what}") if brew.ended == "dark" else None
    if brew.ended and not any(thing in recipe.ingredients for thing in brew.pot):
        return None  # nothing that is needed was used up
    for i, (thing, step) in enumerate(zip(brew.pot, brew.poured, strict=True)):
        if thing not in recipe.ingredients or thing in brew.pot[:i]:
            return Mistake(since, step, shown, f"poured {thing} at step {step}, but the recipe is {recipe}")
    if brew.sealed_at is not None and (brew.sealed != recipe.treatment or len(brew.pot) != len(recipe.ingredients)):
        cause = f"sealed {what} at step {brew.sealed_at}, but the recipe is {recipe}"
        return Mistake(since, brew.sealed_at, shown, cause)
    if brew.ended_at is not None and brew.ended != "glow":
        return Mistake(
            since, brew.ended_at, shown, f"gave {what} away at step {brew.ended_at} before it was the potion"
        )
    return None


def _informed(view: View, facts: Sequence[Fact]) -> View:
    """The view with ΔE in its memory, whatever kind of memory it has."""
    known = view.memory.environment if isinstance(view.memory, ReflectionMemory) else ()
    return replace(view, memory=ReflectionMemory(view.objective, known).learn(facts))


def _unseen(informed: View, recipe: Recipe) -> tuple[str, ...]:
    start = knowledge(replace(informed, history=informed.history[:1])).state
    return tuple(x for x in recipe.ingredients if not any(x in things for _, things in start.floor))


def _calls(informed: View, t: int, recipe: Recipe, unseen: tuple[str, ...]) -> float:
    """Calls to go from step t of the branch with all that is known now; the unseen lies in one room not yet entered."""
    state = knowledge(replace(informed, history=informed.history[: t + 1])).state
    return distance(recipe, replace(state, floor=(*state.floor, ("elsewhere", unseen))))
