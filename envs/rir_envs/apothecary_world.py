"""The rules of Apothecary as values and pure functions: drawing a world, what an action does, what the agent reads.

A potion needs the true ingredients in the pot and the true treatment as its seal. The hall carries a rumoured recipe
that may be wrong in one element; a book in one of the store rooms has the true one. Pouring uses an ingredient up,
sealing is final, and nothing tells right from wrong until the potion is offered at the shrine. This module knows
nothing of Gymnasium's interface, of plans or of agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

__all__ = [
    "HALL",
    "INGREDIENTS",
    "LAB",
    "SHRINE",
    "STORES",
    "TREATMENTS",
    "Recipe",
    "State",
    "World",
    "admissible",
    "advance",
    "description",
    "draw",
    "first_message",
    "objective",
    "observation",
    "things_in",
]

HALL, LAB, SHRINE = "hall", "lab", "shrine"
STORES = (
    "attic", "cellar", "garden", "kitchen", "tower", "barn", "chapel", "crypt", "larder", "stable", "vault", "yard",
)  # fmt: skip
INGREDIENTS = (
    "ash", "bone", "honey", "moss", "root", "salt", "amber", "clove", "fern", "iron", "lily", "mint", "pearl", "resin",
    "sage", "thorn",
)  # fmt: skip
TREATMENTS = ("chill", "heat")

_WRONG_INGREDIENT = 0.75  # share of the wrong rumours that name a wrong ingredient; the others name the wrong treatment


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a potion is made of: ingredients in alphabetical order, each once, and the treatment that seals it."""

    ingredients: tuple[str, ...]
    treatment: str

    def __str__(self) -> str:
        return f"{', '.join(self.ingredients)}, then {self.treatment}"


@dataclass(frozen=True, slots=True)
class World:
    """What no action can change."""

    recipe: Recipe
    rumour: Recipe
    book: str
    rooms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """What actions change.

    Args:
        room: where the agent is.
        held: what it carries, sorted, with repetitions.
        floor: the store rooms and what lies in each, sorted, with repetitions.
        pot: what was poured since the pot was last empty, in that order.
        sealed: the treatment that sealed the pot, "" while it is open.
        read: whether the book was read.
        won: whether the shrine has glowed.
    """

    room: str
    held: tuple[str, ...]
    floor: tuple[tuple[str, tuple[str, ...]], ...]
    pot: tuple[str, ...] = ()
    sealed: str = ""
    read: bool = False
    won: bool = False


def objective(recipe_size: int) -> str:
    """The task g in words, with the rules that a newcomer needs."""
    things = "1 ingredient" if recipe_size == 1 else f"{recipe_size} different ingredients"
    return (
        f"Brew the true potion and offer it at the shrine. Its recipe is {things}, poured into the pot in any order, "
        "and then heat or chill, which seals the pot. The rumour on the wall of the hall may be wrong in one point; "
        "the book in one of the store rooms tells the truth. Pour, heat, chill and empty work in the lab only. What is "
        "poured is used up. Only the shrine tells whether the potion is right: it glows, or it stays dark and the "
        "potion is gone."
    )


def draw(
    rng: np.random.Generator, *, rumour_wrong: float, spare: float, stores: int, ingredients: int, recipe_size: int
) -> tuple[World, State]:
    """A world and its first state. The number of draws does not depend on the two probabilities.

    Every ingredient lies once in a random store room, and a second time in another draw with probability ``spare``.
    With as many ingredients as the recipe needs a wrong rumour can only be wrong in the treatment.
    """
    names, rooms = INGREDIENTS[:ingredients], STORES[:stores]
    order = [names[i] for i in rng.permutation(ingredients)]
    treatment, dropped, book = (int(rng.integers(n)) for n in (2, recipe_size, stores))
    wrong, kind = rng.random(2).tolist()
    spares = rng.random(ingredients).tolist()
    places = rng.integers(stores, size=(ingredients, 2)).tolist()

    used, unused = order[:recipe_size], order[recipe_size:]
    recipe = Recipe(tuple(sorted(used)), TREATMENTS[treatment])
    rumour = recipe
    if wrong < rumour_wrong:
        if unused and kind < _WRONG_INGREDIENT:
            rumour = replace(recipe, ingredients=tuple(sorted([*used[:dropped], *used[dropped + 1 :], unused[0]])))
        else:
            rumour = replace(recipe, treatment=TREATMENTS[1 - treatment])
    floor: dict[str, list[str]] = {room: [] for room in rooms}
    for name, (first, second), drawn in zip(names, places, spares, strict=True):
        floor[rooms[first]].append(name)
        if drawn < spare:
            floor[rooms[second]].append(name)
    world = World(recipe, rumour, rooms[book], (HALL, LAB, SHRINE, *rooms))
    return world, State(HALL, (), tuple((room, tuple(sorted(things))) for room, things in floor.items()))


def things_in(state: State, room: str) -> tuple[str, ...]:
    """The ingredients that lie in ``room``."""
    for name, things in state.floor:
        if name == room:
            return things
    return ()


def admissible(world: World, state: State) -> list[str]:
    """The commands that do something now, sorted; none once the shrine has glowed."""
    if state.won:
        return []
    commands = [f"go {room}" for room in world.rooms if room != state.room]
    commands += [f"take {thing}" for thing in set(things_in(state, state.room))]
    if state.room == world.book:
        commands.append("read")
    elif state.room == LAB:
        if not state.sealed and len(state.pot) < len(world.recipe.ingredients):
            commands += [f"pour {thing}" for thing in set(state.held)]
        if state.pot:
            commands += ["empty"] if state.sealed else ["empty", *TREATMENTS]
    elif state.room == SHRINE and state.pot:
        commands.append("offer")
    commands.sort()
    return commands


def advance(world: World, state: State, action: str) -> tuple[State, str]:
    """The state after ``action`` and what the agent is told. Whatever is not admissible changes nothing."""
    verb, _, thing = action.partition(" ")
    room, pot = state.room, state.pot
    if verb == "go" and thing != room and thing in world.rooms:
        return replace(state, room=thing), f"You walk to the {thing}."
    if verb == "take" and thing in things_in(state, room):
        floor = tuple((name, _without(lie, thing)) if name == room else (name, lie) for name, lie in state.floor)
        return replace(state, held=tuple(sorted((*state.held, thing))), floor=floor), f"You take the {thing}."
    if action == "read" and room == world.book:
        return replace(state, read=True), f"The book says: {world.recipe}."
    if room == LAB:
        if verb == "pour" and thing in state.held and not state.sealed and len(pot) < len(world.recipe.ingredients):
            poured = replace(state, held=_without(state.held, thing), pot=(*pot, thing))
            return poured, f"You pour the {thing} into the pot."
        if action in TREATMENTS and pot and not state.sealed:
            return replace(state, sealed=action), f"You {action} the pot and seal it."
        if action == "empty" and pot:
            return replace(state, pot=(), sealed=""), "You empty the pot; what it held is gone."
    if action == "offer" and room == SHRINE and pot:
        if state.sealed == world.recipe.treatment and tuple(sorted(pot)) == world.recipe.ingredients:
            return replace(state, pot=(), sealed="", won=True), "The shrine glows. The potion is right."
        return replace(state, pot=(), sealed=""), "The shrine stays dark. The potion is gone."
    return state, "Nothing happens."


def first_message(world: World) -> str:
    """What the hall tells at the start."""
    return f"A rumour on the wall says: {world.rumour}."


def observation(world: World, state: State, message: str) -> str:
    """Four lines: the message, the room and what lies in it, what is held, and how full the pot is (not how right)."""
    seen = [*things_in(state, state.room), "the book"] if state.room == world.book else things_in(state, state.room)
    return (
        f"{message}\nYou are in the {state.room}. You see {_listed(seen)}.\nYou hold {_listed(state.held)}.\n"
        f"The pot {_pot(state)}."
    )


def description(state: State) -> str:
    """σ: place, inventory and the sub-goals done, as the agent could know them; nothing of what is right."""
    pot = f"pot with {', '.join(state.pot)} ({state.sealed or 'open'})" if state.pot else "pot empty"
    done = "; book read" if state.read else ""
    offered = "; the shrine has glowed" if state.won else ""
    return f"in the {state.room}; holding {_listed(state.held)}; {pot}{done}{offered}"


def _without(things: tuple[str, ...], thing: str) -> tuple[str, ...]:
    i = things.index(thing)
    return things[:i] + things[i + 1 :]


def _listed(things: Sequence[str]) -> str:
    return ", ".join(things) or "nothing"


def _pot(state: State) -> str:
    if not state.pot:
        return "is empty"
    count = "1 thing" if len(state.pot) == 1 else f"{len(state.pot)} things"
    return f"holds {count} and is {'sealed' if state.sealed else 'open'}"
