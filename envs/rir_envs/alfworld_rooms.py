"""Homes of several rooms in ALFWorld's style: receptacles and things, drawn from the package's own floor plans.

A room is one of ALFRED's 120 floor plans as the ``alfworld`` wheel describes them: receptacles with their places, and
the types of things found there. What may lie where, what opens, and what can be heated, cooled, cleaned or sliced is
the package's ``alfworld.gen.constants``. Ours are: several rooms joined into one home (the domain has no rooms, so
each floor plan is shifted aside), at most a few receptacles of one type a room, one place a receptacle (the grammar
names everything at a place in one command), and fixtures whose places the wheel does not hold (stove burners, coffee
machines, towel holders ...). Floor lamps are left out: they stand on the floor, where the domain cannot use them.

This module knows nothing of tasks, plans or files of a game.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = [
    "FLOOR_PLANS",
    "LAMP",
    "Home",
    "Receptacle",
    "Room",
    "Rules",
    "Split",
    "Thing",
    "kinds_in",
    "put",
    "rooms_of",
    "rules",
]

Room = Literal["Kitchen", "LivingRoom", "Bedroom", "Bathroom"]
"""The kinds of rooms that the floor plans have."""

Split = Literal["train", "test"]

LAMP = "DeskLamp"
FLOOR_PLANS: Mapping[str, range] = {"train": range(7, 31), "test": range(1, 7)}
"""ALFRED's own split of each kind of room; living rooms add 200, bedrooms 300, bathrooms 400."""

_FIRST: Mapping[Room, int] = {"Kitchen": 0, "LivingRoom": 200, "Bedroom": 300, "Bathroom": 400}
_MOST = {"Cabinet": 3, "Drawer": 3}  # of one type in a room; of others 2
_FIXTURES = {
    "StoveBurner": 2,
    "CoffeeMachine": 1,
    "Toaster": 1,
    "GarbageCan": 1,
    "LaundryHamper": 1,
    "Toilet": 1,
    "ToiletPaperHanger": 1,
    "HandTowelHolder": 1,
    "TowelHolder": 1,
}
_LAMP_STANDS = ("Desk", "SideTable", "Dresser", "CoffeeTable", "Shelf")
_METRES_PER_UNIT = 0.25
_ASIDE_M = 20.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What the package says: ``holds`` maps a receptacle type to the thing types that may lie in it."""

    holds: Mapping[str, frozenset[str]]
    able: Mapping[str, frozenset[str]]
    openable: frozenset[str]
    vessels: frozenset[str]
    layouts: Path

    def fits(self, thing: str, receptacle: str) -> bool:
        """May a thing of this type lie in a receptacle of that type?"""
        return thing in self.holds.get(receptacle, frozenset())


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A receptacle: an id as in the package's data, its type, the place one stands at, and its room (0, 1, ...)."""

    id: str
    type: str
    location: str
    room: int
    openable: bool


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing: an id as in the package's data, its type, and the receptacle it lies in (None: in the agent's hand)."""

    id: str
    type: str
    where: Receptacle | None


@dataclass(slots=True)
class Home:
    """A home that is being furnished: ``put`` adds things."""

    plans: tuple[str, ...]
    start: str
    receptacles: tuple[Receptacle, ...]
    found: tuple[tuple[str, ...], ...]
    things: list[Thing] = field(default_factory=list)

    def types(self) -> list[str]:
        """The receptacle types there are, sorted."""
        return sorted({receptacle.type for receptacle in self.receptacles})


def rules() -> Rules:
    """The package's own rules. Imports ``alfworld``, which makes the folder ``ALFWORLD_DATA`` (or one in the home)."""
    constants: Any = importlib.import_module("alfworld.gen.constants")
    fixed = set(constants.VAL_RECEPTACLE_OBJECTS) - set(constants.MOVABLE_RECEPTACLES)
    holds = {r: frozenset(constants.VAL_RECEPTACLE_OBJECTS[r] & set(constants.OBJECTS)) for r in sorted(fixed)}
    sliced = {name.removesuffix("Sliced") for name in constants.OBJ_PARENTS if name.endswith("Sliced")}
    able = {name: frozenset(kinds) for name, kinds in constants.VAL_ACTION_OBJECTS.items()}
    able["Sliceable"] &= sliced
    return Rules(
        holds,
        able,
        frozenset(constants.OPENABLE_CLASS_SET) & fixed,
        frozenset(constants.MOVABLE_RECEPTACLES),
        Path(constants.__file__).parent / "layouts",
    )


def rooms_of(rooms: Sequence[Room], split: Split, rules: Rules, rng: random.Random) -> Home:
    """An unfurnished home of these rooms, each drawn from the floor plans of ``split``; desk lamps stand already."""
    numbers = [_FIRST[room] + rng.choice(FLOOR_PLANS[split]) for room in rooms]
    taken: set[str] = set()
    receptacles: list[Receptacle] = []
    found: list[tuple[str, ...]] = []
    lamps: list[Thing] = []
    for index, number in enumerate(numbers):
        plan = rules.layouts / f"FloorPlan{number}"
        there = set(json.loads(Path(f"{plan}-objects.json").read_text("utf-8")))
        places = json.loads(Path(f"{plan}-openable.json").read_text("utf-8"))
        standing = _receptacles(index, places, there, rules, taken, rng)
        receptacles += standing
        found.append(tuple(sorted(kind for kind in there if any(rules.fits(kind, r.type) for r in standing))))
        stands = [r for wanted in _LAMP_STANDS for r in standing if r.type == wanted]
        if LAMP in there and stands:
            lamps.append(Thing(_beside(LAMP, stands[0], rng), LAMP, stands[0]))
    start = _free("loc", (0, 0, 0, 30), taken)
    return Home(tuple(f"FloorPlan{number}" for number in numbers), start, tuple(receptacles), tuple(found), lamps)


def _receptacles(
    index: int,
    places: Mapping[str, Sequence[float]],
    there: Iterable[str],
    rules: Rules,
    taken: set[str],
    rng: random.Random,
) -> list[Receptacle]:
    by_type: dict[str, list[tuple[str, tuple[int, int, int, int]]]] = {}
    for name, (x, z, turn, tilt) in sorted(places.items()):
        kind, *point = name.split("|")
        shifted = "|".join((kind, f"{float(point[0]) + index * _ASIDE_M:+06.2f}", *point[1:]))
        kind = point[3] if len(point) > 3 else kind
        stand = (x + index * _ASIDE_M) / _METRES_PER_UNIT, z / _METRES_PER_UNIT, turn / 90, tilt
        by_type.setdefault(kind, []).append((shifted, tuple(map(int, stand))))  # type: ignore[arg-type]
    for kind, many in _FIXTURES.items():
        if kind in there and kind not in by_type:
            by_type[kind] = [_fixture(index, kind, nth, rng) for nth in range(many)]
    standing = []
    for kind in sorted(by_type):
        if kind in rules.holds:
            chosen = sorted(rng.sample(by_type[kind], min(len(by_type[kind]), _MOST.get(kind, 2))))
            standing += [
                Receptacle(_mangled(name), kind, _free("loc", place, taken), index, kind in rules.openable)
                for name, place in chosen
            ]
    return standing


def _fixture(index: int, kind: str, nth: int, rng: random.Random) -> tuple[str, tuple[int, int, int, int]]:
    x, z, turn = rng.randint(-12, 12), rng.randint(-12, 12), rng.randrange(4)
    name = f"{kind}|{x * _METRES_PER_UNIT + index * _ASIDE_M:+06.2f}|+00.9{nth}|{z * _METRES_PER_UNIT + 0.05:+06.2f}"
    return name, (int(x + index * _ASIDE_M / _METRES_PER_UNIT), z, turn, 30)


def _free(prefix: str, place: tuple[int, int, int, int], taken: set[str]) -> str:
    """The location's name; a place that is taken moves aside by one grid unit until it is free."""
    x, z, turn, tilt = place
    while (name := _mangled(f"{prefix}|{x}|{z}|{turn}|{tilt}")) in taken:
        x += 1
    taken.add(name)
    return name


def _beside(kind: str, receptacle: Receptacle | None, rng: random.Random) -> str:
    x = (receptacle.room if receptacle else 0) * _ASIDE_M + rng.uniform(-4, 4)
    return _mangled(f"{kind}|{x:+06.2f}|{rng.uniform(0.1, 1.5):+06.2f}|{rng.uniform(-4, 4):+06.2f}")


def _mangled(name: str) -> str:
    for plain, word in (("-", "_minus_"), ("|", "_bar_"), ("+", "_plus_"), (".", "_dot_")):
        name = name.replace(plain, word)
    return name


def kinds_in(home: Home) -> list[str]:
    """The types of things found in any of the rooms, sorted."""
    return sorted({kind for kinds in home.found for kind in kinds})


def put(home: Home, kind: str, where: Receptacle | None, rng: random.Random) -> Thing:
    """Add one thing of this type there (None: into the agent's hand)."""
    names = {thing.id for thing in home.things}
    while (name := _beside(kind, where, rng)) in names:
        pass
    thing = Thing(name, kind, where)
    home.things.append(thing)
    return thing
