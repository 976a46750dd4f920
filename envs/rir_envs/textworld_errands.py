"""What to do next in a TextWorld game, from what is known and believed: the nearest errand and its first command.

An errand is a command to be said in some room. Rooms are reached over known exits; where nothing useful is known,
the nearest exit that nobody went through, or container that nobody looked into, is explored. This module knows the
rules of the four kinds of games (cooking; something to be put on the stove; something to be found), common sense
about where things are kept, and no hidden state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rir_envs.textworld_knowledge import Knowledge, is_key
from rir_envs.textworld_reading import COOK, CUT, Recipe

__all__ = ["HEAT", "Beliefs", "Errand", "kind", "next_errand", "route", "sought"]

HEAT = {"fry": "stove", "roast": "oven", "grill": "BBQ"}
"""What each cooking verb needs."""

_LARDERS = ("fridge", "refrigerator", "drawer", "chest", "trunk")
_ODD_PLACE, _OVEN, _DEAD_END = 4, 9, 6  # how many calls further something likelier is tried first
_KITCHEN = "Kitchen"


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What is believed beyond what is known.

    Args:
        recipe: the recipe as it was understood, None where not read.
        turns: for each direction of the objective's route, by its number, the one that was understood instead.
        taken_for: whether a thing is taken for the one that is sought, though the objective does not name it.
        dead_end: whether an exit that nobody went through, by room and direction, is held to lead nowhere.
    """

    recipe: Recipe | None = None
    turns: tuple[str, ...] = ()
    taken_for: Callable[[str], bool] = lambda thing: False
    dead_end: Callable[[str, str], bool] = lambda room, way: False


@dataclass(frozen=True, slots=True)
class Errand:
    """Something to do: the command to say now, the room it is done in, and how many calls it takes to have done it."""

    command: str
    room: str
    calls: int


def kind(objective: str) -> str:
    """ "cook", "stove" or "find": which rules the objective calls for."""
    text = objective.casefold()
    return "cook" if "cookbook" in text else "stove" if "stove" in text or "grilled" in text else "find"


def route(objective: str) -> tuple[str, ...]:
    """The directions that the objective spells out, in order.

    >>> route("First stop, head west. With that over with, travel north.")
    ('west', 'north')
    """
    return tuple(re.findall(r"\b(north|south|east|west)\b", objective))


def sought(known: Knowledge, thing: str) -> bool:
    """Whether the objective names ``thing`` (and not only a thing with a longer name)."""
    text = known.objective.casefold()
    longer = [t for t in (*known.lies, *known.held) if thing in t and t != thing]
    for other in sorted(longer, key=len, reverse=True):
        text = text.replace(other.casefold(), "")
    return re.search(rf"\b{re.escape(thing.casefold())}\b", text) is not None


def next_errand(known: Knowledge, beliefs: Beliefs) -> Errand | None:
    """What to do next; None where nothing useful is left to do."""
    steps = _cooking(known, beliefs) if kind(known.objective) == "cook" else _finding(known, beliefs)
    for errands in steps:
        found = [errand for errand in errands if errand is not None]
        if found:
            return min(found, key=lambda errand: errand.calls)
    return None


# --- the kinds: groups of errands, the nearest of the first group that has any is next -------------------------------


def _cooking(known: Knowledge, beliefs: Beliefs) -> Iterator[list[Errand | None]]:
    recipe = beliefs.recipe
    if "meal" in known.held:
        yield [_at(known, known.room, "eat meal")]
    if "meal" in known.lies:
        yield [_take(known, "meal")]
    if recipe is None:
        if "cookbook" in known.held:
            yield [_at(known, known.room, "drop cookbook")]  # what is carried is not listed among what can be read
        elif "cookbook" in known.lies:
            yield [_at(known, known.lies["cookbook"][0], "examine cookbook", near="cookbook")]
        yield [*_exits(known, beliefs), *_containers(known, odd=_OVEN)]
        return
    todo: list[Errand | None] = []
    ready = True
    for one in recipe:
        words = known.states.get(one.food, frozenset())
        cut = bool(one.cut) and not words & {*CUT.values()}
        cook = bool(one.cook) and not words & {*COOK.values(), "burned"}
        ready = ready and one.food in known.held and not cut and not cook
        if one.food in known.lies:
            todo += [_take(known, one.food)]
        if cut and "knife" in known.lies:
            todo += [_take(known, "knife")]
        if cut and one.food in known.held and "knife" in known.held:
            todo += [_at(known, known.room, f"{one.cut} {one.food} with knife")]
        if cook and one.food in known.held:
            heat = HEAT[one.cook]
            rooms = [room for room, place in known.places.items() if heat in place.fixed]
            todo += [_at(known, room, f"cook {one.food} with {heat}") for room in rooms]
    yield todo
    if ready:
        yield [_at(known, room, "prepare meal") for room in known.places if room == _KITCHEN]
    yield [*_exits(known, beliefs), *_containers(known, odd=_ODD_PLACE)]


def _finding(known: Knowledge, beliefs: Beliefs) -> Iterator[list[Errand | None]]:
    stove = kind(known.objective) == "stove"
    stoves = [room for room, place in known.places.items() if "stove" in place.fixed]
    named = {thing for thing in (*known.lies, *known.held) if sought(known, thing)}
    mistaken = {thing for thing in (*known.lies, *known.held) if thing not in named and beliefs.taken_for(thing)}
    wanted = named | mistaken | {thing for thing in known.lies if stove and is_key(thing)}
    food = {thing for thing in known.held & (named | mistaken) if not is_key(thing)} if stove else set()
    cook = [_at(known, room, f"put {thing} on stove") for room in stoves for thing in sorted(food)]
    yield [errand for errand in cook if errand and errand.command not in known.idle]
    yield [_take(known, thing) for thing in sorted(wanted) if thing in known.lies and known.lies[thing][1] != "stove"]
    yield _containers(known, odd=None)
    turn = _turn(known, beliefs)
    yield [_through(known, *turn)] if turn else []
    yield [*_exits(known, beliefs), *_containers(known, odd=_ODD_PLACE)]
    yield [_take(known, thing) for thing in sorted(known.lies) if known.lies[thing][1] != "stove"]


def _turn(known: Knowledge, beliefs: Beliefs) -> tuple[str, str] | None:
    """The first exit on the objective's route that nobody went through; a misread one until it is seen to be wrong."""
    room = known.start
    for number, way in enumerate(route(known.objective)):
        exits = known.places[room].exits if room in known.places else {}
        believed = beliefs.turns[number] if number < len(beliefs.turns) else way
        for turn in (believed, way):
            if turn in exits and (room, turn) not in known.leads:
                return room, turn
        if (room, way) not in known.leads:
            return None
        room = known.leads[room, way]
    return None


# --- single errands -------------------------------------------------------------------------------------------------


def _at(known: Knowledge, room: str, command: str, *, near: str = "") -> Errand | None:
    """Say ``command`` in ``room``; where ``near`` lies in something shut, open that first."""
    walk = known.walks.get(room)
    if walk is None:
        return None
    steps, first = walk
    if first:
        through = _pass(known, first)
        return Errand(through, room, steps + 1) if through else None
    holder = known.lies[near][1] if near in known.lies else ""
    if command in known.commands:
        return Errand(command, room, 1)
    opening = _open(known, holder) if holder else ""
    return Errand(opening, room, 2) if opening else None


def _take(known: Knowledge, thing: str) -> Errand | None:
    room, holder = known.lies[thing]
    return _at(known, room, f"take {thing} from {holder}" if holder else f"take {thing}", near=thing)


def _through(known: Knowledge, room: str, way: str) -> Errand | None:
    """Go through an exit that nobody went through."""
    walk = known.walks.get(room)
    if walk is None or known.blocked(room, way):
        return None
    steps, first = walk
    command = _pass(known, first or way)
    shut = f"go {way}" not in known.places[room].commands and known.places[room].exits.get(way, "") != ""
    return Errand(command, room, steps + 1 + shut) if command else None


def _exits(known: Knowledge, beliefs: Beliefs) -> list[Errand | None]:
    unknown = [
        (room, way) for room in known.places for way in known.places[room].exits if (room, way) not in known.leads
    ]
    found = [(_through(known, *exit_), beliefs.dead_end(*exit_)) for exit_ in sorted(unknown)]
    return [replace(errand, calls=errand.calls + _DEAD_END) if late else errand for errand, late in found if errand]


def _containers(known: Knowledge, *, odd: int | None) -> list[Errand | None]:
    """Look into containers that are shut: an unlikely one costs ``odd`` more; None is only those that are named."""
    found: list[Errand | None] = []
    text = known.objective.casefold()
    for room, place in sorted(known.places.items()):
        doors = {door for door in place.exits.values() if door}
        for what in sorted(place.fixed - doors):
            opens = any(c == f"open {what}" or c.startswith(f"unlock {what} with ") for c in place.commands)
            if not opens or (room, what) in known.inside or not (walk := known.walks.get(room)):
                continue
            named = re.search(rf"\b{re.escape(what.casefold())}\b", text) is not None
            if not named and odd is None:
                continue
            extra = 0 if named or any(word in what for word in _LARDERS) else _OVEN if what == "oven" else odd or 0
            command = _pass(known, walk[1]) if walk[1] else _open(known, what)
            found.append(Errand(command, room, walk[0] + 1 + extra) if command else None)
    return found


def _pass(known: Knowledge, way: str) -> str:
    """The command that brings one nearer to the other side of an exit of this room; "" where none does."""
    if f"go {way}" in known.commands:
        return f"go {way}"
    return _open(known, known.places[known.room].exits.get(way, ""))


def _open(known: Knowledge, what: str) -> str:
    """The command to open a door or container, or to unlock it."""
    for command in sorted(known.commands):
        if what and (command == f"open {what}" or command.startswith(f"unlock {what} with ")):
            return command
    return ""
