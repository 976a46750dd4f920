"""The six ALFWorld task types in a home of several rooms: which rooms, which things, and where they lie.

``draw`` furnishes a home and chooses a task in it. Targets fit ALFWorld's constants (only what the package calls
heatable is to be heated, only what fits a receptacle is to be put there), and ALFRED's goal library gives the goal and
its words. Ours are the proportions, and three means of making paths longer, since with full knowledge this domain's
tasks take few steps: most targets start in closed receptacles; a share of the games ask for a *sliced* thing (so does
ALFRED, with the package's goal library; ALFWorld's text games do not), for which a knife must be found and put away;
and in games of looking in light the agent's hand is full at the start.

This module knows nothing of PDDL problems, planners or files.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping, Sequence
from typing import Any

from rir_envs.alfworld_rooms import LAMP, Home, Receptacle, Room, Rules, Split, kinds_in, put, rooms_of
from rir_envs.alfworld_route import KNIVES, TOOLS, Goal

__all__ = ["TASK_TYPES", "asks_for_a_slice", "draw", "goal_pddl", "objective"]

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""ALFWorld's six, in its order."""

_ROOMS: tuple[Room, ...] = ("Kitchen", "LivingRoom", "Bedroom", "Bathroom")
_NEEDED: Mapping[str, tuple[Room, ...]] = {
    "pick_and_place_simple": _ROOMS,
    "look_at_obj_in_light": ("LivingRoom", "Bedroom"),
    "pick_clean_then_place_in_recep": ("Kitchen", "Bathroom"),
    "pick_heat_then_place_in_recep": ("Kitchen",),
    "pick_cool_then_place_in_recep": ("Kitchen",),
    "pick_two_obj_and_place": _ROOMS,
}
_ABLE = {"clean": "Cleanable", "heat": "Heatable", "cool": "Coolable"}
_SLICED_SHARE = 0.4
_CLOSED_SHARE = 0.6
_OTHERS_A_ROOM = (4, 7)


def asks_for_a_slice(task_type: str, rng: random.Random) -> bool:
    """Whether the game is one of the share that ask for a sliced thing. (None looks at a slice in light.)"""
    return task_type != "look_at_obj_in_light" and rng.random() < _SLICED_SHARE


def draw(task_type: str, sliced: bool, split: Split, rules: Rules, rng: random.Random) -> tuple[Goal, Home] | None:
    """A furnished home of two or three rooms and a task in it, or None where this draw cannot have one."""
    first: Room = "Kitchen" if sliced else rng.choice(_NEEDED[task_type])
    others = rng.sample([room for room in _ROOMS if room != first], rng.choice((1, 2)))
    home = rooms_of([first, *others], split, rules, rng)
    goal = _goal(task_type, sliced, home, rules, rng)
    return (goal, home) if goal is not None and _furnished(goal, home, rules, rng) else None


def _goal(task_type: str, sliced: bool, home: Home, rules: Rules, rng: random.Random) -> Goal | None:
    """The target is of a kind found in the home; the destination is a kind of receptacle that is not its tool."""
    looking = task_type == "look_at_obj_in_light"
    if looking and not any(thing.type == LAMP for thing in home.things):
        return None
    verb, tool = TOOLS.get(task_type, ("", ""))
    if tool and tool not in home.types():  # a bathroom without a basin
        return None
    kinds = [
        kind
        for kind in kinds_in(home)
        if (not verb or kind in rules.able[_ABLE[verb]]) and (not sliced or kind in rules.able["Sliceable"])
    ]
    if looking:  # what the rooms with lamps hold: one does not look at an egg under a desk lamp
        lamp_rooms = {thing.where.room for thing in home.things if thing.type == LAMP and thing.where}
        kinds = [kind for kind in kinds if any(kind in home.found[room] for room in lamp_rooms)]
    if not kinds:
        return None
    target = rng.choice(kinds)
    if looking:
        return Goal(task_type, target, "", False)
    ends = [t for t in home.types() if rules.fits(target, t) and t != tool]
    if _short(task_type, sliced):
        ends = [t for t in ends if t in rules.openable]
    return Goal(task_type, target, rng.choice(ends), sliced) if ends else None


def _short(task_type: str, sliced: bool) -> bool:
    """Is this the shortest kind of task? Then all of it happens in receptacles that must be opened."""
    return task_type == "pick_and_place_simple" and not sliced


def _furnished(goal: Goal, home: Home, rules: Rules, rng: random.Random) -> bool:
    """Put targets, tools and distractors; False where there is no place for the targets."""
    two = goal.task_type == "pick_two_obj_and_place"
    done_there = two or goal.task_type == "pick_and_place_simple"
    places = [
        place
        for place in home.receptacles
        if rules.fits(goal.target, place.type) and not (done_there and place.type == goal.destination)
    ]
    if _short(goal.task_type, goal.sliced):
        places = [place for place in places if place.openable]
    if not places:
        return False
    for _ in range(rng.choice((2, 2, 3) if two else (1, 2, 2, 3))):
        put(home, goal.target, _place(places, rng), rng)
    if goal.sliced:
        kind = rng.choice(KNIVES)
        put(home, kind, _place([r for r in home.receptacles if rules.fits(kind, r.type)], rng), rng)
    for room, kinds in enumerate(home.found):
        here = [r for r in home.receptacles if r.room == room]
        kinds = tuple(kind for kind in kinds if kind != goal.target)
        for kind in rng.sample(kinds, min(len(kinds), rng.randint(*_OTHERS_A_ROOM))):
            for _ in range(rng.choice((1, 1, 2))):
                put(home, kind, rng.choice([r for r in here if rules.fits(kind, r.type)]), rng)
    if goal.task_type == "look_at_obj_in_light":
        put(home, rng.choice([kind for kind in kinds_in(home) if kind != goal.target]), None, rng)
    return True


def _place(places: Sequence[Receptacle], rng: random.Random) -> Receptacle:
    closed = [place for place in places if place.openable]
    return rng.choice(closed if closed and rng.random() < _CLOSED_SHARE else list(places))


def goal_pddl(goal: Goal) -> str:
    """The goal in PDDL, from the package's goal library; it closes the problem."""
    text = str(_library(goal)["pddl"]).format(obj=goal.target, recep=goal.destination, toggle=LAMP)
    return text.replace("#", "-")


def objective(goal: Goal, rng: random.Random) -> str:
    """The objective in words, by one of the package's own templates."""
    template = str(rng.choice(_library(goal)["templates"]))
    return template.format(obj=goal.target.lower(), recep=goal.destination.lower(), toggle=LAMP.lower())


def _library(goal: Goal) -> Any:
    library: Any = importlib.import_module("alfworld.gen.goal_library")
    return library.gdict[goal.task_type + ("_slice" if goal.sliced else "")]
