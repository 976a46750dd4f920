"""Shortest plans in an Apothecary world that is fully known: values in, values out.

The environment's oracle applies it to the true world; the policies beside the environment apply it to what an agent
believes. It knows neither which of the two it is given nor where the recipe came from.

Every command costs one call and every room is one walk away from every other, so a shortest plan is: take what is
missing (visiting as few store rooms as cover it), pour, seal, offer. ``distance`` counts that; the tests compare it
with search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from rir_envs.apothecary_world import LAB, SHRINE, Recipe, State, things_in

__all__ = ["distance", "fits", "lost", "missing", "needed", "plan", "progress"]


def fits(recipe: Recipe, state: State) -> bool:
    """Whether what is in the pot can still become the potion of ``recipe`` (an empty pot can)."""
    pot = state.pot
    if state.sealed and (state.sealed != recipe.treatment or len(pot) != len(recipe.ingredients)):
        return False
    return all(thing in recipe.ingredients for thing in pot) and len(set(pot)) == len(pot)


def needed(recipe: Recipe, state: State) -> list[str]:
    """The ingredients still to be poured, into this pot or into an emptied one."""
    return [x for x in recipe.ingredients if x not in state.pot] if fits(recipe, state) else list(recipe.ingredients)


def missing(recipe: Recipe, state: State) -> list[str]:
    """The ingredients still to be taken."""
    return [x for x in needed(recipe, state) if x not in state.held]


def lost(recipe: Recipe, state: State) -> bool:
    """True where no sequence of commands leads to success any more."""
    if state.won:
        return False
    return any(all(x not in things for _, things in state.floor) for x in missing(recipe, state))


def distance(recipe: Recipe, state: State) -> float:
    """Fewest commands to success; 0 after it, ``inf`` where it is out of reach."""
    if state.won:
        return 0
    good = fits(recipe, state)
    need = needed(recipe, state)
    take = [x for x in need if x not in state.held]
    stores = _stores(take, state)
    if stores is None:
        return math.inf
    sealed = good and bool(state.sealed)
    work = len(take) + len(need) + (not sealed) + (not good) + 1
    to_lab = not sealed and (state.room != LAB or bool(take))
    to_shrine = not (sealed and state.room == SHRINE)
    return work + len(stores) + to_lab + to_shrine


def plan(recipe: Recipe, state: State) -> list[str] | None:
    """A shortest sequence of commands to success: empty after it, None where it is out of reach."""
    if state.won:
        return []
    good = fits(recipe, state)
    need = needed(recipe, state)
    take = [x for x in need if x not in state.held]
    stores = _stores(take, state)
    if stores is None:
        return None
    commands: list[str] = []
    room = state.room
    if not good and room == LAB:
        commands.append("empty")
        good = True
    for store in (room, *stores):
        if store != room:
            commands.append(f"go {store}")
            room = store
        found = [x for x in take if x in things_in(state, store)]
        commands += [f"take {x}" for x in found]
        take = [x for x in take if x not in found]
    if not (good and state.sealed and not need):
        commands += [] if room == LAB else [f"go {LAB}"]
        commands += [] if good else ["empty"]
        commands += [f"pour {x}" for x in need]
        commands.append(recipe.treatment)
        room = LAB
    commands += [] if room == SHRINE else [f"go {SHRINE}"]
    return [*commands, "offer"]


def progress(recipe: Recipe, state: State) -> float:
    """Share of the milestones that stand: each ingredient taken and each poured, the seal, the offering.

    It never falls along a shortest plan; spoiling the pot takes back what was in it. 1 exactly at success.
    """
    if state.won:
        return 1.0
    poured = len(state.pot) if fits(recipe, state) else 0
    taken = sum(x in state.held for x in needed(recipe, state)) + poured
    return (taken + poured + (poured > 0 and state.sealed != "")) / (2 * len(recipe.ingredients) + 2)


def _stores(take: Sequence[str], state: State) -> tuple[str, ...] | None:
    """The fewest other store rooms that hold what of ``take`` does not lie here, in the order of the floor plan."""
    here = things_in(state, state.room)
    only: set[str] = set()
    choices: list[list[str]] = []
    for thing in take:
        if thing in here:
            continue
        places = [name for name, things in state.floor if thing in things]
        if not places:
            return None
        if len(places) == 1:
            only.add(places[0])
        else:
            choices.append(places)
    choices = [places for places in choices if only.isdisjoint(places)]
    if choices:
        only |= min((set(chosen) for chosen in product(*choices)), key=len)
    return tuple(name for name, _ in state.floor if name in only)
