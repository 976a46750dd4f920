"""TextWorld's text read back into values: what one observation and the commands listed with it show.

An observation becomes a place, its exits and doors, what can be taken, what is held, and what just happened. The words
are those of TextWorld's own house grammar; where a text cannot be read, the listed commands still tell most of it.
Nothing here knows an environment, a memory, or what is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rir_gym.base import Step

__all__ = ["COOK", "CUT", "DIRECTIONS", "Direction", "Recipe", "Sight", "read_recipe", "sights"]

_CACHED = 8192  # distinct observations; reading is pure, so this only saves time
_LONGEST = 20_000  # characters of an observation; no room of TextWorld says as much

DIRECTIONS = {"north": "south", "south": "north", "east": "west", "west": "east"}
"""Each direction and the way back."""

COOK = {"fry": "fried", "roast": "roasted", "grill": "grilled"}
CUT = {"slice": "sliced", "dice": "diced", "chop": "chopped"}
"""The verbs of recipes and the state that each leaves a food in."""

_STATES = (*COOK.values(), *CUT.values(), "raw", "burned")
_HEADER = re.compile(r"^-= (.+?) =-$", re.MULTILINE)
_DOOR = re.compile(r"\b(?:an?|the) (?:open|closed|locked) ([\w' -]{1,60}?) leading (north|south|east|west)\b")
_DONE = re.compile(r"^\s*You (fried|roasted|grilled|burned|slice|dice|chop) the ([\w' -]+)[.!]", re.MULTILINE)
_BOOK = re.compile(r"Ingredients:\n(?P<ingredients>.*?)\n\s*\nDirections:\n(?P<directions>.*)", re.DOTALL)
_LOST, _WON = "*** You lost! ***", "*** The End ***"


@dataclass(frozen=True, slots=True)
class Direction:
    """One ingredient of a recipe with its cooking and its cutting verb; "" where it asks for none."""

    food: str
    cook: str = ""
    cut: str = ""


Recipe = tuple[Direction, ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """What one step shows.

    Args:
        action: the command that was said, "" at the start.
        room: the room that the text describes, "" where it describes none.
        doors: pairs of a direction and the door there, as far as the text names them.
        commands: the admissible commands.
        takes: pairs of a thing and what it lies in or on, "" for the floor.
        held: what is carried.
        states: pairs of a thing and its state, as words of the text ("fried", "sliced", "raw").
        recipe: what the cookbook said, None where it was not read here.
        ended: "" while the game goes on, else "lost" or "won".
    """

    action: str
    room: str
    doors: tuple[tuple[str, str], ...]
    commands: frozenset[str]
    takes: tuple[tuple[str, str], ...]
    held: frozenset[str]
    states: tuple[tuple[str, str], ...]
    recipe: Recipe | None
    ended: Literal["", "lost", "won"]

    def all(self, verb: str) -> tuple[str, ...]:
        """What ``verb`` can be said of now: the rest of every admissible command that begins with it."""
        return tuple(sorted(c[len(verb) + 1 :] for c in self.commands if c.startswith(f"{verb} ")))


def sights(history: Sequence[Step]) -> Iterator[tuple[int, Sight]]:
    """The readable observations of a branch, each with its step."""
    for i, step in enumerate(history):
        if isinstance(step.observation, str):
            commands = tuple(c for c in step.admissible or () if isinstance(c, str))
            yield i, _sight(step.action if isinstance(step.action, str) else "", step.observation[:_LONGEST], commands)


def read_recipe(text: str) -> Recipe | None:
    """The recipe in the cookbook's words; None where the text holds none.

    >>> read_recipe("Ingredients:\\negg\\n\\nDirections:\\nroast the egg\\n  prepare meal")
    (Direction(food='egg', cook='roast', cut=''),)
    """
    found = _BOOK.search(text)
    foods = [line.strip() for line in found["ingredients"].splitlines() if line.strip()] if found else []
    if not found or not foods:
        return None
    told: dict[tuple[str, bool], str] = {}
    for line in found["directions"].splitlines():
        verb, _, food = line.strip().partition(" the ")
        if verb in COOK or verb in CUT:
            told[food, verb in COOK] = verb
    return tuple(Direction(food, told.get((food, True), ""), told.get((food, False), "")) for food in foods)


@lru_cache(maxsize=_CACHED)
def _sight(action: str, text: str, listed: tuple[str, ...]) -> Sight:
    commands = frozenset(listed)
    takes = tuple(_taken(command[5:]) for command in sorted(commands) if command.startswith("take "))
    held = frozenset(command[5:] for command in commands if command.startswith("drop "))
    headers = _HEADER.findall(text)
    return Sight(
        action=action,
        room=headers[-1] if headers else "",
        doors=tuple((way, door) for door, way in _DOOR.findall(text)) if headers else (),
        commands=commands,
        takes=takes,
        held=held,
        states=tuple(_states(text, sorted({thing for thing, _ in takes} | held))),
        recipe=read_recipe(text) if action == "examine cookbook" else None,
        ended="lost" if _LOST in text else "won" if _WON in text else "",
    )


def _taken(rest: str) -> tuple[str, str]:
    thing, _, holder = rest.partition(" from ")
    return thing, holder


def _states(text: str, things: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, thing in _DONE.findall(text):
        yield thing, CUT.get(word, word)
    for thing in things:
        named = re.search(rf"\b(?:an?|some|the) ((?:(?:{'|'.join(_STATES)}) )+){re.escape(thing)}\b", text)
        for word in named[1].split() if named else ():
            yield thing, word
