"""What may be said to a TextWorld game, and what its replies say: pure functions on strings."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["carried", "opening", "place", "reply", "sayable"]

_LONGEST_COMMAND = 190
_SHORT_FORMS = frozenset({"get", "x", "l", "i", "n", "e", "s", "w", "north", "east", "south", "west"})
_PLAIN = re.compile(r"[a-z0-9' -]+")
_SEVERAL = frozenset({"then", "and", "all", "both", "each", "every", "everything"})
_STATUS_LINE = re.compile(r"\s*>?\s*-= [^\n]* =-\s*-?\d+/\d+\s*\Z")
_OFFER = re.compile(r"\s*Would you like to RESTART.*\Z", re.DOTALL)
_PLACE = re.compile(r"-= (.*?) =-")


def sayable(action: str, *, admissible: Collection[str], verbs: Collection[str]) -> str | None:
    """The command to tell the interpreter; None for what is no move of the game.

    The interpreter's own commands write files, end the game or move the world behind TextWorld's back, and control
    characters crash it: nothing passes that is neither admissible nor one plain sentence with a verb of the game. Nor
    do several moves in one ("take all"): a plan counts moves.

    >>> sayable(" Open  the FRIDGE ", admissible=["open fridge"], verbs=["open"])
    'open the fridge'
    >>> [sayable(text, admissible=[], verbs=["take"]) for text in ("save", "take egg. quit", "take all", "")]
    [None, None, None, None]
    """
    if len(action) > _LONGEST_COMMAND:
        return None
    command = " ".join(action.split()).casefold()
    for known in admissible:
        if command == known.casefold():
            return known
    words = command.split()
    if not words or not _PLAIN.fullmatch(command) or not _SEVERAL.isdisjoint(words):
        return None
    return command if words[0] in _SHORT_FORMS or words[0] in verbs else None


def reply(feedback: str) -> str:
    """A reply without its status line (which counts turns), its offer to restart, and padding."""
    text = _OFFER.sub("", _STATUS_LINE.sub("", feedback))
    lines = [line.strip() if line.strip().startswith("***") else line.rstrip() for line in text.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def opening(feedback: str) -> str:
    """The first reply without the banner, which is drawn with dollar signs; objective and room stay."""
    lines = feedback.splitlines(keepends=True)
    banner = [number for number, line in enumerate(lines) if "$$" in line]
    return reply("".join(lines[banner[-1] + 1 :] if banner else lines))


def place(description: str) -> str:
    """The name of the room that ``description`` describes, or "".

    >>> place("-= Living Room =-\\nA cozy place.")
    'Living Room'
    """
    found = _PLACE.search(description)
    return found[1] if found else ""


def carried(inventory: str) -> str:
    """The reply to "inventory" as part of a sentence.

    >>> carried("You are carrying: an old key.")
    'carrying an old key'
    """
    return inventory.strip().removeprefix("You are ").replace("carrying: ", "carrying ", 1).rstrip(".")
