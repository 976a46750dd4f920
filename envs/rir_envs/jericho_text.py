"""What may be said to a z-machine game, and what its replies say: pure functions on strings."""

from __future__ import annotations

import re

from rir_envs.textworld_text import reply

__all__ = ["REFUSED", "sayable", "told"]

REFUSED = "That is no command that can be said here."

_LONGEST_COMMAND = 190  # jericho's input buffer has 198 bytes
_PLAIN = re.compile(r"[ -\[\]-~]*")  # printable ASCII without the backslash
_PROMPT = re.compile(r"\s*>\s*(?:-= [^\n]* =-\s*-?\d+/\d+\s*)?\Z")
# Commands to the interpreter: they write or read files, end it, or change a word of a command that was said before.
_OUTSIDE = ("save", "restore", "script", "unscript", "noscript", "transcript", "recording", "replay", "quit", "q",
            "restart", "undo", "oops", "o")  # fmt: skip


def sayable(action: str, *, version: int) -> str | None:
    r"""The command to tell the interpreter; None for what is no move of the game.

    A backslash is a command to the interpreter's terminal (``\help`` never returns). A z-machine of ``version`` 1 to 3
    tells words apart by their first six letters, later ones by nine.

    >>> sayable("  Open   the mailbox ", version=3)
    'Open the mailbox'
    >>> [sayable(text, version=5) for text in ("save", "look. then QUIT", "say \\help", "n" * 200, "né")]
    [None, None, None, None, None]
    """
    if len(action) > _LONGEST_COMMAND:
        return None
    command = " ".join(action.split())
    if not _PLAIN.fullmatch(command):
        return None
    letters = 6 if version <= 3 else 9
    outside = {word[:letters] for word in _OUTSIDE}
    for clause in _clauses(command.casefold()):
        first = clause.split()[0]
        if first[:letters] in outside or first.startswith(("$", "#", "tw-")):
            return None
    return command


def told(feedback: str) -> str:
    """A reply without its prompt, status line (which counts turns), offer to restart, and padding."""
    return reply(_PROMPT.sub("", feedback))


def _clauses(command: str) -> list[str]:
    """The parts of a command that a parser may take for commands of their own.

    >>> _clauses("take lamp, sword. look then save")
    ['take lamp', 'sword', 'look', 'save']
    """
    marked = re.sub(r"[^a-z0-9$#' -]+|\bthen\b|\band\b", ".", command)
    return [part.strip() for part in marked.split(".") if part.strip()]
