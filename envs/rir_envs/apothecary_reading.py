"""The text of Apothecary read back into values: the inverse of the wording in ``apothecary_world``.

An observation becomes a place, things and an event; a branch becomes the list of its brews. What is no observation of
Apothecary reads as None and is skipped. Nothing here knows an environment, a memory or what is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rir_envs.apothecary_world import TREATMENTS, Recipe
from rir_gym.base import Step

__all__ = ["Brew", "Seen", "brews", "read_list", "read_recipe", "seen_in", "sights"]

_CACHED = 8192  # distinct observations; reading is pure, so this only saves time

_OBSERVATION = re.compile(
    r"(?P<message>[^\n]*)\nYou are in the (?P<room>\w+)\. You see (?P<things>[^\n]*)\.\nYou hold (?P<held>[^\n]*)\.\n"
    r"The pot [^\n]*\."
)
_EVENTS = (
    ("rumour", re.compile(r"A rumour on the wall says: (?P<what>.*)\.")),
    ("book", re.compile(r"The book says: (?P<what>.*)\.")),
    ("pour", re.compile(r"You pour the (?P<what>\w+) into the pot\.")),
    ("seal", re.compile(r"You (?P<what>heat|chill) the pot and seal it\.")),
    ("empty", re.compile(r"You empty the (?P<what>pot).*")),
    ("dark", re.compile(r"The (?P<what>shrine) stays dark\..*")),
    ("glow", re.compile(r"The (?P<what>shrine) glows\..*")),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One observation: where, what lay there, what was held, and what just happened (``event`` is "" for a walk)."""

    room: str
    things: tuple[str, ...]
    book: bool
    held: tuple[str, ...]
    event: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Brew:
    """One filling of the pot. Steps are restore points: "before action ``poured[i]``".

    Args:
        pot: what was poured, in order, and ``poured``: before which actions.
        sealed: the treatment or "", and ``sealed_at``: before which action.
        ended: "" while it is in the pot, else "empty", "dark" or "glow"; and ``ended_at``: before which action.
    """

    pot: tuple[str, ...] = ()
    poured: tuple[int, ...] = ()
    sealed: str = ""
    sealed_at: int | None = None
    ended: str = ""
    ended_at: int | None = None


def seen_in(observation: Any) -> Seen | None:
    """An observation of Apothecary as a value; None for anything else."""
    return _seen(observation) if isinstance(observation, str) else None


def brews(history: Sequence[Step]) -> list[Brew]:
    """Every filling of the pot on the branch, in order; the last one may still be in it."""
    done: list[Brew] = []
    pot: list[str] = []
    poured: list[int] = []
    sealed, sealed_at = "", None
    for i, seen in sights(history):
        if seen.event == "pour":
            pot.append(seen.what)
            poured.append(i - 1)
        elif seen.event == "seal":
            sealed, sealed_at = seen.what, i - 1
        elif seen.event in ("empty", "dark", "glow"):
            done.append(Brew(tuple(pot), tuple(poured), sealed, sealed_at, seen.event, i - 1))
            pot, poured, sealed, sealed_at = [], [], "", None
    return [*done, Brew(tuple(pot), tuple(poured), sealed, sealed_at)] if pot else done


def sights(history: Sequence[Step]) -> Iterator[tuple[int, Seen]]:
    """The readable observations of a branch, each with its step."""
    for i, step in enumerate(history):
        seen = seen_in(step.observation)
        if seen is not None:
            yield i, seen


@lru_cache(maxsize=_CACHED)
def _seen(observation: str) -> Seen | None:
    match = _OBSERVATION.fullmatch(observation)
    if match is None:
        return None
    things = read_list(match["things"])
    event, what = "", ""
    for name, pattern in _EVENTS:
        found = pattern.fullmatch(match["message"])
        if found:
            event, what = name, found["what"]
    here = tuple(thing for thing in things if thing != "the book")
    return Seen(match["room"], here, "the book" in things, read_list(match["held"]), event, what)


def read_recipe(text: str) -> Recipe | None:
    """A recipe as ``str(recipe)`` words it; None for anything else."""
    ingredients, _, treatment = text.rpartition(", then ")
    if not ingredients or treatment not in TREATMENTS:
        return None
    return Recipe(tuple(sorted(set(ingredients.split(", ")))), treatment)


def read_list(text: str) -> tuple[str, ...]:
    """The things of a comma-separated list; "nothing" is none."""
    return () if text in ("", "nothing") else tuple(text.split(", "))
