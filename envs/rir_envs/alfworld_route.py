"""A plan for each of the six kinds of household tasks, made by construction.

``route`` tries every sensible choice of things, tools and receptacles and keeps the shortest walk, so a home for which
it gives a walk can be solved. It knows ALFWorld's actions and what each costs in steps, and nothing of PDDL, planners
or wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import permutations, product

from rir_envs.alfworld_rooms import LAMP, Home, Receptacle, Rules, Thing

__all__ = ["KNIVES", "TOOLS", "Goal", "Step", "route"]

KNIVES = ("Knife", "ButterKnife")
"""The thing types that ALFWorld's domain slices with."""

TOOLS = {
    "pick_clean_then_place_in_recep": ("clean", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("heat", "Microwave"),
    "pick_cool_then_place_in_recep": ("cool", "Fridge"),
}
"""For the task types that treat the thing first: the verb, and the receptacle type it is done with."""

Step = tuple[str, str, str]
"""Verb, then the ids of the thing and of the receptacle (or, for slicing, of the knife); "" where there is none."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked: ``destination`` is "" for looking at a thing in light."""

    task_type: str
    target: str
    destination: str
    sliced: bool


@dataclass(slots=True)
class _Walk:
    at: str = ""
    opened: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)

    def go(self, receptacle: Receptacle) -> None:
        if self.at != receptacle.id:
            self.steps.append(("go", "", receptacle.id))
            self.at = receptacle.id

    def reach(self, receptacle: Receptacle) -> None:
        self.go(receptacle)
        if receptacle.openable and receptacle.id not in self.opened:
            self.steps.append(("open", "", receptacle.id))
            self.opened.add(receptacle.id)

    def take(self, thing: Thing, receptacle: Receptacle) -> None:
        self.reach(receptacle)
        self.steps.append(("take", thing.id, receptacle.id))

    def move(self, thing: Thing, receptacle: Receptacle) -> None:
        self.reach(receptacle)
        self.steps.append(("move", thing.id, receptacle.id))

    def use(self, verb: str, thing: Thing, receptacle: Receptacle) -> None:
        self.go(receptacle)
        self.steps.append((verb, thing.id, receptacle.id))

    def slice(self, thing: Thing, receptacle: Receptacle, knife: Thing) -> None:
        self.go(receptacle)
        self.steps.append(("slice", thing.id, knife.id))


def route(goal: Goal, home: Home, rules: Rules) -> list[Step] | None:
    """The shortest of the constructed walks, or None where the home lacks something that every walk needs."""
    walks = (_looking if goal.task_type == "look_at_obj_in_light" else _placing)(goal, home, rules)
    return min((walk.steps for walk in walks), key=len, default=None)


def _looking(goal: Goal, home: Home, rules: Rules) -> Iterator[_Walk]:
    held = next((thing for thing in home.things if thing.where is None), None)
    for target, lamp in product(_of(home, goal.target), _of(home, LAMP)):
        drops = _few(home, rules, held.type, (target[1], lamp[1])) if held else [None]
        for drop in drops:
            walk = _Walk()
            if held is not None and drop is not None:
                walk.move(held, drop)
            walk.take(*target)
            walk.use("use", *lamp)
            yield walk


def _placing(goal: Goal, home: Home, rules: Rules) -> Iterator[_Walk]:
    verb, tool_type = TOOLS.get(goal.task_type, ("", ""))
    tools = [r for r in home.receptacles if r.type == tool_type] if verb else [None]
    knives = [pair for kind in KNIVES for pair in _of(home, kind)] if goal.sliced else [None]
    count = 2 if goal.task_type == "pick_two_obj_and_place" else 1
    for targets, tool, knife in product(permutations(_of(home, goal.target), count), tools, knives):
        near = [place for _, place in targets] + ([tool] if tool else []) + ([knife[1]] if knife else [])
        for destination in _few(home, rules, goal.target, near, of_type=goal.destination):
            if knife is None:
                yield _served(_Walk(), verb, targets, tool, destination)
                continue
            after = _served(_Walk(), verb, targets, tool, destination)
            after.take(*knife)
            for target, _ in targets:
                after.slice(target, destination, knife[0])
            yield after
            for drop in _few(home, rules, knife[0].type, (*near, destination)):
                before = _Walk()
                before.take(*knife)
                for target, place in targets:
                    before.slice(target, place, knife[0])
                before.move(knife[0], drop)
                yield _served(before, verb, targets[::-1], tool, destination)


def _served(
    walk: _Walk,
    verb: str,
    targets: tuple[tuple[Thing, Receptacle], ...],
    tool: Receptacle | None,
    destination: Receptacle,
) -> _Walk:
    for target, place in targets:
        walk.take(target, place)
        if tool is not None:
            walk.use(verb, target, tool)
        walk.move(target, destination)
    return walk


def _of(home: Home, kind: str) -> list[tuple[Thing, Receptacle]]:
    return [(thing, thing.where) for thing in home.things if thing.type == kind and thing.where is not None]


def _few(home: Home, rules: Rules, kind: str, near: Iterable[Receptacle], *, of_type: str = "") -> list[Receptacle]:
    """Receptacles for such a thing that can differ in cost: those on the way, one that opens and one that does not."""
    fit = [r for r in home.receptacles if rules.fits(kind, r.type) and of_type in ("", r.type)]
    ways = [r for r in fit if r in tuple(near)]
    away = [r for r in fit if r not in ways]
    return ways + [r for r in away if r.openable][:1] + [r for r in away if not r.openable][:1]
