"""What a task of the workspace asks for, as a value, and how much of it stands.

A content is known by where it came from: a file that lay there at the start, perhaps with lines or rows added, or a
typed text. So the same goal can be compared with true files and with believed ones. This module knows no bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Content", "Goal", "Message", "added", "done", "missing", "requirements", "satisfied", "typed"]


@dataclass(frozen=True, slots=True)
class Content:
    """``origin``: the path where it lay at the start, "" for a typed text. ``more``: what was added, in order."""

    origin: str
    more: tuple[str, ...] = ()

    @property
    def ledger(self) -> bool:
        """Whether what is added are rows, which have no order."""
        return self.origin.endswith(".sqlite")


Message = tuple[str, Content]
"""A recipient and what they were sent."""


@dataclass(frozen=True, slots=True)
class Goal:
    """All that must hold when the answer is submitted.

    Args:
        places: by path, the content that must be there.
        absent: paths where there must be no file.
        messages: what must have been sent, each once, and nothing else.
        answer: the right answer.
    """

    answer: str
    places: Mapping[str, Content] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    messages: frozenset[Message] = frozenset()


def typed(text: str) -> Content:
    """A text that a command can write."""
    return Content("", (text,))


def added(content: Content, more: str) -> Content:
    """The content with a line or a row more; a typed text becomes a longer one."""
    if not content.origin:
        return typed(content.more[0] + more + "\n")
    return Content(content.origin, (*content.more, more))


def missing(wanted: Content, have: Content) -> tuple[str, ...] | None:
    """What must be added to ``have`` to make it ``wanted``; None where nothing can."""
    if have.origin != wanted.origin or (not wanted.origin and have != wanted):
        return None
    if wanted.ledger:
        if Counter(have.more) - Counter(wanted.more):
            return None
        return tuple(sorted((Counter(wanted.more) - Counter(have.more)).elements(), key=wanted.more.index))
    if wanted.more[: len(have.more)] != have.more:
        return None
    return wanted.more[len(have.more) :]


def requirements(goal: Goal) -> int:
    """How many requirements there are, the answer left out: each place, each line or row that is to be added, ..."""
    return sum(1 + _growth(wanted) for wanted in goal.places.values()) + len(goal.absent) + len(goal.messages)


def satisfied(goal: Goal, files: Mapping[str, Content], sent: tuple[Message, ...]) -> int:
    """How many of them stand."""
    stand = 0
    for path, wanted in goal.places.items():
        left = missing(wanted, files[path]) if path in files else None
        stand += 0 if left is None else 1 + _growth(wanted) - len(left)
    gone = sum(path not in files for path in goal.absent)
    return stand + gone + sum(sent.count(message) == 1 for message in goal.messages)


def done(goal: Goal, files: Mapping[str, Content], sent: tuple[Message, ...]) -> bool:
    """Whether nothing is left to do but to submit the answer."""
    return satisfied(goal, files, sent) == requirements(goal) and len(sent) == len(goal.messages)


def _growth(wanted: Content) -> int:
    return len(wanted.more) if wanted.origin else 0
