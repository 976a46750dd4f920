"""What to do next in ALFWorld, given what is known and believed: act on a plan, or look where nobody has looked yet.

``next_errand`` is pure. It plans with ``alfworld_plan`` in the household as it is known, which may lack things and be
wrong about what fits where, and never touches an environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rir_envs.alfworld_knowledge import Knowledge, believed
from rir_envs.alfworld_plan import Act, shortest
from rir_envs.alfworld_reading import Task

__all__ = ["Errand", "next_errand"]

_SAYS = {
    "go": "go to {1}",
    "open": "open {1}",
    "take": "take {0} from {1}",
    "move": "move {0} to {1}",
    "clean": "clean {0} with {1}",
    "heat": "heat {0} with {1}",
    "cool": "cool {0} with {1}",
    "use": "use {0}",
    "slice": "slice {0} with {1}",
}


@dataclass(frozen=True, slots=True)
class Errand:
    """A command, and how many commands reach the goal from here: None where something has still to be found."""

    command: str
    calls: int | None


def next_errand(known: Knowledge, task: Task, *, late: Callable[[str], tuple[bool, float]]) -> Errand | None:
    """The next command; None where all was looked into and nothing can be done.

    Args:
        known: what is known.
        task: what is believed to be asked.
        late: the order in which receptacles are looked into: whether last, and a number.
    """
    plan = shortest(*believed(known, task))
    if isinstance(plan, tuple) and plan:
        return Errand(_said(plan[0]), len(plan))
    unseen = [receptacle for receptacle in known.receptacles if receptacle not in known.inside]
    if not unseen:
        return None
    if known.at in unseen:
        return Errand(f"open {known.at}", None)
    return Errand(f"go to {min(unseen, key=lambda receptacle: (*late(receptacle), receptacle))}", None)


def _said(act: Act) -> str:
    verb, thing, other = act
    return _SAYS[verb].format(thing, other)
