"""What all families of tasks are made of: documents, what a task is before it is made, and how one is understood.

A family draws files and words (``Draft``), and derives the goal from what the tools *answer* about the files at the
start. The environment derives it from true answers, an agent that knows the rules from those it has seen. So what a
task asks for is written down once, and nothing is asked for that cannot be found out. This module knows no family.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rir_envs.workspace_goal import Goal

__all__ = [
    "CHANGES",
    "NOTHING",
    "SUBJECTS",
    "Draft",
    "Family",
    "Look",
    "cents",
    "document",
    "lines",
    "money",
    "named",
    "notes",
    "pick",
    "rows",
    "subjects",
    "table",
]

SUBJECTS = 'search "Subject:"'
"""The command that shows the subjects of all documents."""

CHANGES = 0.6
"""How often a note changes what it could change (some families take a part of it)."""

NOTHING = "Nothing else to report."
"""The last line of every note."""


class Look(Protocol):
    """Whoever wants to know what a task asks for."""

    @property
    def objective(self) -> str:
        """g."""
        ...

    def ask(self, command: str) -> str:
        """What the command answered about the files as they lay at the start."""
        ...

    def heeds(self, path: str) -> bool:
        """Whether notes there are read before acting; True for whoever is not mistaken."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """A task before it is made. ``words``: the objective without the rules that all families share."""

    words: str
    files: Mapping[str, bytes]
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of tasks.

    Args:
        name: as it is chosen by.
        opening: how its objectives begin, which tells it from the others.
        sizes: how large a task is, by level.
        draw: from a generator and a size.
        derive: the goal.
    """

    name: str
    opening: str
    sizes: tuple[int, int, int]
    draw: Callable[[random.Random, int], Draft]
    derive: Callable[[Look], Goal]


_FILLER = (
    "Received by post.", "Seen and checked.", "Two pages.", "See the folder of last year.", "Typed by hand.",
    "No further remarks.", "The reverse is blank.", "A copy went to the office.", "Signed in ink.",
)  # fmt: skip


def document(rng: random.Random, subject: str, *more: str) -> bytes:
    """A stamped document: no command can type its first line."""
    stamp = b"\xff" + bytes(rng.randrange(0x80, 0xFF) for _ in range(14)) + b"\n"
    body = [f"Subject: {subject}", *more] if subject else [*more]
    body += [rng.choice(_FILLER)] if subject else []
    return stamp + "".join(f"{line}\n" for line in body).encode()


def table(header: str, body: Sequence[str]) -> bytes:
    """A text file of lines."""
    return "".join(f"{line}\n" for line in (header, *body)).encode()


def pick(rng: random.Random, names: Sequence[str], count: int) -> list[str]:
    """So many different names."""
    return rng.sample(list(names), count)


def subjects(look: Look) -> dict[str, list[str]]:
    """By path, the words of the subject of each stamped document."""
    found = {}
    for line in look.ask(SUBJECTS).splitlines()[1:]:
        path, _, text = line.partition(": ")
        found[path] = text.removeprefix("Subject: ").split()
    return found


def lines(look: Look, path: str) -> list[str]:
    """The lines of a text file, without the title that the tool adds."""
    return look.ask(f"read {path}").splitlines()[1:]


def rows(look: Look, path: str) -> list[list[str]]:
    """The rows of a CSV file, without its header."""
    return [line.split(",") for line in lines(look, path)[1:]]


def notes(look: Look, path: str) -> list[str]:
    """The lines of a file that overrules others; none for whoever does not heed it."""
    return lines(look, path) if look.heeds(path) else []


def named(pattern: str, look: Look) -> str:
    """The word that a pattern finds in the objective.

    Raises:
        ValueError: it finds none.
    """
    found = re.search(pattern, look.objective)
    if found is None:
        raise ValueError(f"no {pattern!r} in the objective")
    return found[1]


def cents(text: str) -> int:
    """An amount such as 12.50, in hundredths."""
    whole, _, rest = text.partition(".")
    return int(whole) * 100 + int(rest)


def money(amount: int) -> str:
    """Hundredths as an amount."""
    return f"{amount // 100}.{amount % 100:02}"
