"""What somebody who sees only a view of a TextWorld game can know: its branch, read as text, and its memory's facts.

The branch tells the current state; the memory tells of rooms and containers that this branch has not come to yet, as
they were at the start. Nothing here touches an environment or an oracle, or knows what is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rir_envs.textworld_facts import Remembered, direction, fixtures, observed_facts, remembered
from rir_envs.textworld_reading import COOK, CUT, DIRECTIONS, Recipe, Sight, sights
from rir_gym.base import View
from rir_gym.memory import ReflectionMemory

__all__ = ["Knowledge", "Place", "is_key", "knowledge", "observed_facts"]


@dataclass(frozen=True, slots=True)
class Place:
    """One room.

    Args:
        exits: its exits, each with the door there or "".
        fixed: what stands there and cannot be carried.
        commands: the admissible commands at the last visit on this branch; empty where there was none.
        keys: how many keys were held at the last visit.
    """

    exits: Mapping[str, str]
    fixed: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    keys: int = 0


@dataclass(frozen=True)
class Knowledge:
    """What branch and memory together tell.

    Args:
        objective: what is to be done.
        room: where the agent is, and ``start`` where the branch began; "" where unread.
        places: every known room.
        leads: where an exit leads, by room and direction.
        lies: for each thing that is not carried, the room and what it lies in or on ("" the floor).
        inside: pairs of a room and a container there whose content is known.
        held: what is carried.
        states: for each thing, the words that are known of its state.
        recipe: what the cookbook says, None where not known; ``recalled``: whether the memory says it.
        lethal, idle: commands that lost a game, and that might have won one and did not.
        failed_action: the action that the memory blames for the last failure, None where it tells of no failure.
        ended: "" while the game goes on, else "lost" or "won".
    """

    objective: str
    room: str
    start: str
    places: Mapping[str, Place]
    leads: Mapping[tuple[str, str], str]
    lies: Mapping[str, tuple[str, str]]
    inside: frozenset[tuple[str, str]]
    held: frozenset[str]
    states: Mapping[str, frozenset[str]]
    recipe: Recipe | None
    recalled: bool
    lethal: frozenset[str]
    idle: frozenset[str]
    failed_action: str | None
    ended: str

    @property
    def commands(self) -> frozenset[str]:
        """What can be said here."""
        return self.places[self.room].commands if self.room in self.places else frozenset()

    @property
    def keys(self) -> int:
        """How many keys are carried."""
        return sum(is_key(thing) for thing in self.held)

    def blocked(self, room: str, way: str) -> bool:
        """Whether an exit was seen shut, with nothing that opens it at hand then or since."""
        place = self.places.get(room)
        if place is None or not place.commands or f"go {way}" in place.commands:
            return False
        door = place.exits.get(way, "")
        tried = any(c == f"open {door}" or c.startswith(f"unlock {door} with ") for c in place.commands)
        return not tried and self.keys <= place.keys

    @cached_property
    def walks(self) -> dict[str, tuple[int, str]]:
        """For every room within reach: how many exits away it is, and the first direction ("" for this room)."""
        found = {self.room: (0, "")}
        queue = deque([self.room])
        while queue:
            room = queue.popleft()
            steps, first = found[room]
            for way in DIRECTIONS:
                there = self.leads.get((room, way))
                if there is not None and there not in found and not self.blocked(room, way):
                    found[there] = (steps + 1, first or way)
                    queue.append(there)
        return found


def is_key(thing: str) -> bool:
    """Whether a thing goes by the name of a key, as far as the house grammar's words for keys go."""
    return thing.endswith(("key", "keycard"))


def knowledge(view: View) -> Knowledge:
    """What ``view.history`` and ``view.memory`` tell. Only a ReflectionMemory is read; another kind tells nothing."""
    old = remembered(view.memory)
    now = _Fold(old)
    for _, sight in sights(view.history):
        now.add(sight)
    failure = view.memory.failure if isinstance(view.memory, ReflectionMemory) else None
    return Knowledge(
        objective=view.objective,
        room=now.room,
        start=now.start,
        places=now.places,
        leads=now.leads,
        lies=now.lies,
        inside=frozenset(now.inside),
        held=now.held,
        states=now.states,
        recipe=now.recipe,
        recalled=old.recipe is not None,
        lethal=frozenset(now.lethal),
        idle=frozenset(now.idle),
        failed_action=failure.action if failure else None,
        ended=now.ended,
    )


class _Fold:
    """The knowledge as it grows along a branch, beginning with what the memory tells."""

    def __init__(self, old: Remembered) -> None:
        rooms = {*old.exits, *old.fixed, *(room for room, _ in old.leads)}
        self.room = self.start = self.ended = ""
        self.held: frozenset[str] = frozenset()
        self.places = {room: Place(old.exits.get(room, {}), old.fixed.get(room, frozenset())) for room in rooms}
        self.leads, self.lies, self.states = dict(old.leads), dict(old.lay), dict(old.states)
        self.inside, self.lethal, self.idle = set(old.inside), set(old.lethal), set(old.idle)
        self.recipe = old.recipe

    def add(self, sight: Sight) -> None:
        before = self.room
        self.room = sight.room or self.room
        self.start = self.start or self.room
        way = direction(sight.action)
        if way and sight.room and before:
            self.leads[before, way] = self.room
            self.leads[self.room, DIRECTIONS[way]] = before
        self.recipe = sight.recipe or self.recipe
        for thing, word in sight.states:
            self.states[thing] = _changed(self.states.get(thing, frozenset()), word)
        self.ended = sight.ended
        if sight.ended == "lost":
            self.lethal.add(sight.action)
        elif not sight.ended and sight.action.startswith("put ") and sight.action.endswith(" on stove"):
            self.idle.add(sight.action)
        if sight.commands and self.room:
            self.look(sight)

    def look(self, sight: Sight) -> None:
        """Everything that can be taken here is listed, except what lies in a container that is shut."""
        self.held = sight.held
        old = self.places.get(self.room, Place({}))
        exits = {**old.exits, **dict(sight.doors), **{w: "" for w in sight.all("go") if w in DIRECTIONS}}
        exits |= {way: door for way, door in (*old.exits.items(), *sight.doors) if door}
        keys = sum(is_key(thing) for thing in sight.held)
        doors = {door for door in exits.values() if door}
        self.places[self.room] = Place(exits, fixtures(sight) - doors, sight.commands, keys)
        for thing, (room, holder) in list(self.lies.items()):
            if thing in self.held or (room == self.room and not (holder and self.shut(holder, sight))):
                del self.lies[thing]
        self.lies |= {thing: (self.room, holder) for thing, holder in sight.takes}
        self.inside |= {(self.room, what) for what in sight.all("close") if what not in doors}

    @staticmethod
    def shut(holder: str, sight: Sight) -> bool:
        return f"close {holder}" not in sight.commands and (
            f"open {holder}" in sight.commands or any(c.startswith(f"unlock {holder} ") for c in sight.commands)
        )


def _changed(words: frozenset[str], word: str) -> frozenset[str]:
    """A food has one cutting and one cooking; a burned one keeps no other."""
    if word in CUT.values():
        return (words - set(CUT.values())) | {word}
    return (words - {*COOK.values(), "raw", "burned"}) | {word}
