"""What somebody who sees only a view of Apothecary can know: its branch, read as text, and the facts in its memory.

Facts are written so that they can be read back: what one branch showed is known on the next. Nothing here touches an
environment or an oracle; whatever cannot be read is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from rir_envs.apothecary_reading import Brew, brews, read_list, read_recipe, sights
from rir_envs.apothecary_world import HALL, LAB, SHRINE, Recipe, State
from rir_gym.base import View
from rir_gym.memory import Fact, Memory, ReflectionMemory

__all__ = ["Knowledge", "knowledge", "observed_facts"]

_BOOK_SAYS, _BOOK_IN, _LAY, _REFUTED = (
    "the book says: ",
    "the book is in the ",
    "at the start these lay in the ",
    "the rumoured recipe is wrong: ",
)

_OTHER_ROOMS = frozenset((HALL, LAB, SHRINE))


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What branch and memory together tell.

    Args:
        state: the current state as far as it is known; its floor has the rooms in ``explored`` only.
        stores: all store rooms, in alphabetical order.
        explored: the store rooms whose content is known.
        rumour, recipe: the recipe on the wall and the one in the book, None where not known.
        book: the room of the book, None where not known.
        dark: whether the shrine stayed dark on this branch.
        refuted: whether the rumour is known to be wrong.
        failed_action: the action that the memory blames for the last failure, None where it tells of no failure.
    """

    state: State
    stores: tuple[str, ...]
    explored: frozenset[str]
    rumour: Recipe | None
    recipe: Recipe | None
    book: str | None
    dark: bool
    refuted: bool
    failed_action: str | None


def knowledge(view: View) -> Knowledge:
    """What ``view.history`` and ``view.memory`` tell. Only a ReflectionMemory is read; another kind tells nothing."""
    floor, recipe, book, refuted = _remembered(view.memory)
    rumour: Recipe | None = None
    room = HALL
    held: tuple[str, ...] = ()
    pot: tuple[str, ...] = ()
    sealed, read, dark, won = "", False, False, False
    for _, seen in sights(view.history):
        room, held = seen.room, seen.held
        if room not in _OTHER_ROOMS:
            floor[room] = seen.things
        if seen.book:
            book = room
        if not seen.event:
            continue
        if seen.event == "pour":
            pot = (*pot, seen.what)
        elif seen.event == "seal":
            sealed = seen.what
        elif seen.event == "rumour":
            rumour = read_recipe(seen.what)
        elif seen.event == "book":
            recipe, read = read_recipe(seen.what) or recipe, True
        else:
            pot, sealed = (), ""
            dark, won = dark or seen.event == "dark", seen.event == "glow"
    if recipe and rumour and recipe != rumour:
        refuted = True
    elif dark and rumour and not refuted:
        refuted = any(_refutes(brew, rumour) for brew in brews(view.history))
    reachable = {command[3:] for command in view.admissible or () if command.startswith("go ")}
    failure = view.memory.failure if isinstance(view.memory, ReflectionMemory) else None
    return Knowledge(
        state=State(room, held, tuple(sorted(floor.items())), pot, sealed, read, won),
        stores=tuple(sorted((reachable | {room} | floor.keys()) - _OTHER_ROOMS)),
        explored=frozenset(floor),
        rumour=rumour,
        recipe=recipe,
        book=book,
        dark=dark,
        refuted=refuted,
        failed_action=failure.action if failure else None,
    )


def observed_facts(view: View) -> tuple[Fact, ...]:
    """ΔE: what the branch shows and no action can change, each fact with the step of the observation that shows it.

    Where things lay at the start (a room's first visit shows it, since only the agent takes things), where the book is
    and what it says, and the elimination of the rumour by the book or by a dark offer of exactly the rumoured brew.
    """
    facts: list[Fact] = []
    rumour: Recipe | None = None
    visited: set[str] = set()
    told = refuted = False
    offers = {brew.ended_at: brew for brew in brews(view.history) if brew.ended == "dark"}
    for i, seen in sights(view.history):
        if seen.room not in visited and seen.room not in _OTHER_ROOMS:
            facts.append(_fact(f"{_LAY}{seen.room}: {', '.join(seen.things) or 'nothing'}", i))
            if seen.book:
                facts.append(_fact(f"{_BOOK_IN}{seen.room}", i))
        visited.add(seen.room)
        if seen.event == "rumour":
            rumour = read_recipe(seen.what)
        wrong = seen.event == "dark" and rumour is not None and _refutes(offers[i - 1], rumour)
        if seen.event == "book" and not told:
            told = True
            facts.append(_fact(f"{_BOOK_SAYS}{seen.what}", i))
            wrong = rumour is not None and read_recipe(seen.what) != rumour
        if wrong and not refuted:
            refuted = True
            facts.append(Fact("elimination", f"{_REFUTED}{rumour}", step=i, invariant=True))
    return tuple(facts)


def _fact(text: str, step: int) -> Fact:
    return Fact("fact", text, step=step, invariant=True)


def _refutes(brew: Brew, rumour: Recipe) -> bool:
    """Whether the shrine refused exactly the rumoured potion."""
    return brew.ended == "dark" and tuple(sorted(brew.pot)) == rumour.ingredients and brew.sealed == rumour.treatment


def _remembered(memory: Memory) -> tuple[dict[str, tuple[str, ...]], Recipe | None, str | None, bool]:
    """Contents of rooms at the start, the book's recipe, its room, and whether the rumour is refuted."""
    stocks: dict[str, tuple[str, ...]] = {}
    recipe: Recipe | None = None
    book: str | None = None
    refuted = False
    for fact in memory.environment if isinstance(memory, ReflectionMemory) else ():
        text = fact.text
        if fact.reverify:
            continue
        if text.startswith(_LAY):
            room, _, things = text.removeprefix(_LAY).partition(": ")
            stocks[room] = read_list(things)
        elif text.startswith(_BOOK_IN):
            book = text.removeprefix(_BOOK_IN)
        elif text.startswith(_BOOK_SAYS):
            recipe = read_recipe(text.removeprefix(_BOOK_SAYS))
        elif text.startswith(_REFUTED):
            refuted = True
    return stocks, recipe, book, refuted
