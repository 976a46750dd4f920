"""What is said to an ALFWorld game, and how its replies and its state are told: pure functions on text and values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rir_envs.alfworld_home import Fact, Home, Standing

__all__ = ["meant", "opening", "summary", "task"]

_BANNER = "-= Welcome to TextWorld, ALFRED! =-"
_TASK = re.compile(r"Your task is to: (.*)", re.DOTALL)
_WORDS = {"isclean": "clean", "ishot": "hot", "iscool": "cool", "issliced": "sliced", "istoggled": "on"}
_SPARE = 100


def meant(action: str, commands: Sequence[str]) -> str | None:
    """The admissible command that ``action`` spells, whatever its case and spacing; None for anything else.

    >>> meant("  Go to FRIDGE 1\\n", ["go to fridge 1", "look"]), meant("go", ["go to fridge 1", "look"])
    ('go to fridge 1', None)
    """
    if len(action) > max(map(len, commands), default=0) + _SPARE:
        return None
    words = _plain(action)
    return next((command for command in commands if _plain(command) == words), None)


def opening(feedback: str) -> str:
    """The first reply without TextWorld's banner."""
    return feedback.replace(_BANNER, "").strip()


def task(opening: str) -> str:
    """The objective that the first reply ends with, or "".

    >>> task("You see a fridge 1.\\n\\nYour task is to: put a mug in fridge.")
    'put a mug in fridge.'
    """
    found = _TASK.search(opening)
    return found[1].strip() if found else ""


def summary(home: Home, now: Standing, done: Iterable[Fact], names: Mapping[str, str]) -> str:
    """Where the agent stands, what it holds, and which facts of the goal it has made."""
    here = " and ".join(names[receptacle] for receptacle in home.at.get(now.location, ()))
    states = [_WORDS[name] for name, *what in sorted(now.facts) if what == [now.held] and name in _WORDS]
    hand = f"carrying {' '.join([*states, names[now.held]])}" if now.held else "carrying nothing"
    told = ", ".join(_told(fact, names) for fact in done if fact[0] not in ("atlocation", "holds"))
    parts = (f"at {here}" if here else "in the middle of the room", hand, f"done: {told}" if told else "")
    return "; ".join(part for part in parts if part)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _told(fact: Fact, names: Mapping[str, str]) -> str:
    name, *words = fact
    thing = names[words[0]]
    return f"{thing} in {names[words[1]]}" if name == "inreceptacle" else f"{thing} is {_WORDS[name]}"
