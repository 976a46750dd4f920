"""A conversation that is longer than the context: whole steps of its middle go first.

Kept as long as anything is: what comes first (instructions, objective, memory, the first observation) and the last
message (the last observation, memory in the tail, the role's instructions with the restore points' numbers). Steps go
in blocks, oldest first, so that the prompts of neighbouring steps still begin alike. Nothing is put in their place, and
step numbers stand in the observations themselves: they never shift. This module knows no tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rir_gym.base import Message
from rir_policies.encoding import Encoded

__all__ = ["fitted", "without_steps"]

_BLOCK = 8


def fitted(encode: Callable[[Sequence[Message]], Encoded], messages: Sequence[Message], limit: int) -> Encoded | None:
    """The messages in at most ``limit`` tokens; None where no cut can do it.

    Steps are left out first; where that is not enough, the longest texts that are left lose their middle
    (``Encoded.fit``). ``cut_tokens`` counts all that is missing.
    """
    whole = encode(messages)
    if len(whole.ids) <= limit:
        return whole
    steps = len(_steps(messages))
    counts = [*range(_BLOCK, steps, _BLOCK), steps] if steps else []
    shortest = whole
    for count in counts:
        shortest = encode(without_steps(messages, count))
        if len(shortest.ids) <= limit:
            break
    cut = shortest.fit(limit)
    return None if cut is None else replace(cut, cut_tokens=len(whole.ids) - len(cut.ids))


def without_steps(messages: Sequence[Message], count: int) -> list[Message]:
    """The messages without their first ``count`` steps (an action and the observation that it brought).

    >>> talk = [Message(role, text) for role, text in (("user", "o0"), ("assistant", "a0"), ("user", "o1"))]
    >>> talk += [Message("assistant", "a1"), Message("user", "o2")]
    >>> [message.content for message in without_steps(talk, 1)]
    ['o0', 'a1', 'o2']
    """
    gone = {at for start in _steps(messages)[:count] for at in (start, start + 1)}
    return [message for at, message in enumerate(messages) if at not in gone]


def _steps(messages: Sequence[Message]) -> list[int]:
    """Where each step begins that may go: not the last message, nor what comes before the first action."""
    first = next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))
    starts = []
    at = first
    while at + 2 < len(messages) and messages[at].role == "assistant" and messages[at + 1].role == "user":
        starts.append(at)
        at += 2
    return starts
