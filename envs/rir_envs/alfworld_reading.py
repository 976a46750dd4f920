"""The text of ALFWorld read back into values: what a reply shows, and what an objective asks for.

What cannot be read is None. A thing or receptacle is a name such as "mug 2", its kind is the word before the number.
Nothing here knows an environment, a memory or a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rir_gym.base import Step

__all__ = ["Sight", "Task", "kind_of", "read_list", "read_task", "sights"]

_CACHED = 8192  # distinct replies; reading is pure, so this only saves time

_ALL = re.compile(r"Looking quickly around you, you see (?P<what>[^\n]*)\.")
_ARRIVED = re.compile(r"You arrive at (?P<where>[^.\n]*)\.")
_CLOSED = re.compile(r"The (?P<where>[^.\n]*) is closed\.|You close the (?P<shut>[^.\n]*)\.")
_INSIDE = re.compile(
    r"(?:On the (?P<on>[^,.\n]*), you see|The (?P<open>[^.\n]*) is open\. In it, you see) (?P<what>[^\n]*)\."
)
_CARRIED = re.compile(r"You are (?:carrying: (?P<what>[^\n]*)|(?P<none>not carrying anything))\.")
_DONE = (
    ("take", re.compile(r"You pick up the (?P<a>[^\n]*) from the (?P<b>[^\n]*)\.")),
    ("move", re.compile(r"You move the (?P<a>[^\n]*) to the (?P<b>[^\n]*)\.")),
    ("isclean", re.compile(r"You clean the (?P<a>[^\n]*) using the (?P<b>[^\n]*)\.")),
    ("ishot", re.compile(r"You heat the (?P<a>[^\n]*) using the (?P<b>[^\n]*)\.")),
    ("iscool", re.compile(r"You cool the (?P<a>[^\n]*) using the (?P<b>[^\n]*)\.")),
    ("issliced", re.compile(r"You sliced the (?P<a>[^\n]*) with the (?P<b>[^\n]*)\.")),
    ("istoggled", re.compile(r"You turn (?:on|off) the (?P<a>[^\n]*)(?P<b>)\.")),
)
_LIGHT = re.compile(r"(?:look at|examine the|examine) (?:sliced )?(?P<thing>\w+) (?:under|with) the (?P<lamp>\w+)")
_PUT = re.compile(r"(?P<thing>\w+) (?:and put (?:it |them )?(?:in|on)|in|on) (?P<to>\w+)")
_STATES = {"clean": "isclean", "hot": "ishot", "heat": "ishot", "cool": "iscool", "cold": "iscool"}


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked: ``count`` things of a kind in a kind of receptacle, in some states; or one looked at in light.

    ``to`` is "" and ``lamp`` the kind of lamp where something is to be looked at.
    """

    thing: str
    to: str = ""
    lamp: str = ""
    count: int = 1
    states: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sight:
    """What one reply shows; "" and None where it shows no such thing.

    Args:
        all: the receptacles of the home (the first reply).
        at: where the agent has just arrived.
        where, things: a receptacle and all that lies in it; ``things`` is None for one that is closed.
        opens: whether that receptacle is one that opens.
        carried: what the hand holds, "" for nothing, None where the reply does not say.
        done, what, with_what: what has just been done: take, move, or a state that ``what`` got.
    """

    all: tuple[str, ...] = ()
    at: str = ""
    where: str = ""
    things: tuple[str, ...] | None = None
    opens: bool = False
    carried: str | None = None
    done: str = ""
    what: str = ""
    with_what: str = ""


def kind_of(name: str) -> str:
    """The kind of a thing or receptacle: "mug" of "mug 2"."""
    return name.rpartition(" ")[0] or name


def read_list(text: str) -> tuple[str, ...]:
    """The names in "a mug 1, a cup 2, and an apple 1"; "nothing" is none."""
    parts = re.split(r", and |, | and ", text.strip())
    names = [re.sub(r"^(?:a|an|the) ", "", part.strip()) for part in parts]
    return tuple(name for name in names if name and name != "nothing")


def read_task(objective: str) -> Task | None:
    """An objective in the words of ALFRED's goal library; None for any other, as people write them.

    >>> read_task("clean some mug and put it in cabinet.")
    Task(thing='mug', to='cabinet', lamp='', count=1, states=frozenset({'isclean'}))
    """
    text = " ".join(objective.casefold().split()).rstrip(". ")
    sliced = frozenset({"issliced"}) if re.search(r"\bslice", text) else frozenset()
    if found := _LIGHT.fullmatch(text):
        return Task(found["thing"], lamp=found["lamp"], states=sliced)
    found = _PUT.search(text)
    if found is None or found.end() != len(text) or not re.match(r"(put|find|clean|heat|cool|slice)\b", text):
        return None
    before = text[: found.start()].split()
    states = frozenset(_STATES[word] for word in before if word in _STATES)
    return Task(found["thing"], found["to"], count=2 if "two" in before else 1, states=states | sliced)


def sights(history: Sequence[Step]) -> Iterator[tuple[int, Sight]]:
    """What the replies of a branch show, each with its step."""
    for i, step in enumerate(history):
        yield i, _sight(step.observation) if isinstance(step.observation, str) else Sight()


@lru_cache(maxsize=_CACHED)
def _sight(observation: Any) -> Sight:
    everything, arrived = _ALL.search(observation), _ARRIVED.match(observation)
    inside, closed, carried = _INSIDE.search(observation), _CLOSED.search(observation), _CARRIED.match(observation)
    where, things, opens = "", None, False
    if inside:
        where, things, opens = inside["on"] or inside["open"], read_list(inside["what"]), bool(inside["open"])
    elif closed:
        where, opens = closed["where"] or closed["shut"], True
    done = next(((name, found) for name, pattern in _DONE if (found := pattern.fullmatch(observation))), None)
    return Sight(
        all=read_list(everything["what"]) if everything else (),
        at=arrived["where"] if arrived else "",
        where=where,
        things=things,
        opens=opens,
        carried=None if carried is None else (read_list(carried["what"])[0] if carried["what"] else ""),
        done=done[0] if done else "",
        what=done[1]["a"] if done else "",
        with_what=done[1]["b"] if done else "",
    )
