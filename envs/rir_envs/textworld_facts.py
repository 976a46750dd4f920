"""What a branch of TextWorld shows and no action can change, written as facts of a memory and read back from one.

Where exits lead, what is fixed where, where things lay when they were first seen, what the cookbook says, and which
command lost the game. Nothing here touches an environment or an oracle; what cannot be read back is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rir_envs.textworld_reading import COOK, CUT, DIRECTIONS, Direction, Recipe, Sight, sights
from rir_gym.base import View
from rir_gym.memory import Fact, Memory, ReflectionMemory

__all__ = ["Remembered", "direction", "fixtures", "observed_facts", "remembered"]

_EXITS, _LEADS, _HAS, _LAY, _INSIDE, _BOOK, _LOSES, _IDLE = (
    "the exits of the ",
    "going ",
    "fixed in the ",
    "at the start these lay in the ",
    "at the start these lay inside the ",
    "the cookbook says: ",
    "this command lost the game: ",
    "this command did not win the game: ",
)
_WORDS = frozenset((*COOK.values(), *CUT.values(), "raw", "burned"))


@dataclass(slots=True)
class Remembered:
    """The facts of a memory as values.

    Args:
        exits: for each room, the directions of its exits, each with the door there or "".
        leads: where an exit leads, by room and direction.
        fixed: for each room, what stands there and cannot be carried.
        lay: for each thing, the room and what it lay in or on ("" the floor) when it was first seen.
        inside: pairs of a room and a container there whose content is known.
        states: for each thing, the words for its state when it was first seen.
        recipe: what the cookbook says, None where not known.
        lethal: the commands that lost the game; ``idle``: those that might have won it and did not.
    """

    exits: dict[str, dict[str, str]] = field(default_factory=dict)
    leads: dict[tuple[str, str], str] = field(default_factory=dict)
    fixed: dict[str, frozenset[str]] = field(default_factory=dict)
    lay: dict[str, tuple[str, str]] = field(default_factory=dict)
    inside: set[tuple[str, str]] = field(default_factory=set)
    states: dict[str, frozenset[str]] = field(default_factory=dict)
    recipe: Recipe | None = None
    lethal: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)


def direction(action: str) -> str:
    """The direction of a command to walk, short forms included; "" for any other command.

    >>> [direction(text) for text in ("go east", "w", "go", "take east")]
    ['east', 'west', '', '']
    """
    word = action.removeprefix("go ").strip()
    return next((way for way in DIRECTIONS if word in (way, way[0])), "")


def fixtures(sight: Sight) -> frozenset[str]:
    """What can be looked at here and neither is carried nor can be, doors aside."""
    loose = {thing for thing, _ in sight.takes} | sight.held | {door for _, door in sight.doors}
    return frozenset(sight.all("examine")) - loose


def observed_facts(view: View) -> tuple[Fact, ...]:
    """ΔE: what the branch shows and no action can change, each fact with the step of the observation that shows it.

    A thing counts as lying where it was first seen, since nobody but the agent moves things. The command that ended a
    lost game is an elimination; so is putting something on the stove of a game that goes on.
    """
    return tuple(
        Fact("elimination" if text.startswith((_LOSES, _IDLE)) else "fact", text, step=i, invariant=True)
        for i, text in _told(view)
    )


def _told(view: View) -> Iterator[tuple[int, str]]:
    room, visited, told = "", set[str](), set[str]()
    seen, doors = set[str](), dict[str, str]()
    looked_into: set[tuple[str, str]] = set()
    for i, sight in sights(view.history):
        texts: list[str] = []
        if sight.room and room and (way := direction(sight.action)):
            texts += [f"{_LEADS}{way} from the {room} leads to the {sight.room}"]
            texts += [f"{_LEADS}{DIRECTIONS[way]} from the {sight.room} leads to the {room}"]
        room = sight.room or room
        doors = dict(sight.doors) if sight.room else doors
        new = {thing: holder for thing, holder in sight.takes if thing not in seen}
        into = {(room, what) for what in sight.all("close") if what not in doors.values()}
        if sight.room and sight.room not in visited and sight.commands:
            visited.add(room)
            ways = [way + (f" ({doors[way]})" if way in doors else "") for way in sorted({*sight.all("go"), *doors})]
            texts += [f"{_EXITS}{room} are: {', '.join(ways) or 'none'}"]
            texts += [f"{_HAS}{room}: {', '.join(sorted(fixtures(sight))) or 'nothing'}"]
            texts += [f"{_LAY}{room}: {_listed(new, sight) or 'nothing'}"]
        elif (room, what := sight.action.removeprefix("open ")) in into - looked_into:
            texts += [f"{_INSIDE}{what} of the {room}: {_listed(new, sight) or 'nothing'}"]
        looked_into |= into
        seen |= {thing for thing, _ in sight.takes} | sight.held
        if sight.recipe:
            told_of = [f"{one.food} ({' '.join((one.cut, one.cook)).strip() or 'as it is'})" for one in sight.recipe]
            texts += [_BOOK + ", ".join(told_of)]
        if sight.ended == "lost" and sight.action:
            texts += [_LOSES + sight.action]
        elif not sight.ended and sight.action.startswith("put ") and sight.action.endswith(" on stove"):
            texts += [_IDLE + sight.action]
        for text in texts:
            if text not in told:
                told.add(text)
                yield i, text


def _listed(things: dict[str, str], sight: Sight) -> str:
    words: dict[str, list[str]] = {}
    for thing, word in sight.states:
        words.setdefault(thing, []).append(word)
    named = [(" ".join((*words.get(thing, ()), thing)), holder) for thing, holder in sorted(things.items())]
    return ", ".join(name + (f" ({holder})" if holder else "") for name, holder in named)


def remembered(memory: Memory) -> Remembered:
    """The facts of a ReflectionMemory as values; another kind of memory tells nothing, nor does what is in doubt."""
    known = Remembered()
    for fact in memory.environment if isinstance(memory, ReflectionMemory) else ():
        if not fact.reverify:
            _read(fact.text, known)
    return known


def _read(text: str, known: Remembered) -> None:
    if text.startswith(_BOOK):
        known.recipe = tuple(_asked(food, verbs) for food, verbs in _items(text.removeprefix(_BOOK))) or known.recipe
    elif text.startswith(_LOSES):
        known.lethal.add(text.removeprefix(_LOSES))
    elif text.startswith(_IDLE):
        known.idle.add(text.removeprefix(_IDLE))
    elif text.startswith(_LEADS) and " leads to the " in text:
        exit_, _, there = text.removeprefix(_LEADS).partition(" leads to the ")
        way, _, here = exit_.partition(" from the ")
        known.leads[here, way] = there
    elif text.startswith(_EXITS):
        room, _, ways = text.removeprefix(_EXITS).partition(" are: ")
        known.exits[room] = {way: door for way, door in _items(ways) if way in DIRECTIONS}
    elif text.startswith(_HAS):
        room, _, things = text.removeprefix(_HAS).partition(": ")
        known.fixed[room] = frozenset(thing for thing, _ in _items(things))
    elif text.startswith(_INSIDE):
        container, _, things = text.removeprefix(_INSIDE).partition(": ")
        holder, _, room = container.partition(" of the ")
        known.inside.add((room, holder))
        _lay(room, things, known)
    elif text.startswith(_LAY):
        room, _, things = text.removeprefix(_LAY).partition(": ")
        _lay(room, things, known)


def _lay(room: str, things: str, known: Remembered) -> None:
    for name, holder in _items(things):
        words = name.split()
        count = next((n for n, word in enumerate(words) if word not in _WORDS), len(words))
        thing = " ".join(words[count:])
        if thing:
            known.lay.setdefault(thing, (room, holder))
            known.states.setdefault(thing, frozenset(words[:count]))


def _asked(food: str, verbs: str) -> Direction:
    words = verbs.split()
    return Direction(food, next((w for w in words if w in COOK), ""), next((w for w in words if w in CUT), ""))


def _items(text: str) -> Iterator[tuple[str, str]]:
    """The items of a list, each with what stands in brackets behind it; "nothing" and "none" are empty lists."""
    for item in text.split(", ") if text not in ("nothing", "none", "") else ():
        name, _, behind = item.partition(" (")
        yield name, behind.removesuffix(")")
