"""What was asked of a model and what it answered: part of every decision, for the ledger and the record.

This module knows no role's wording, no model and no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Call", "Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``role`` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model, as it was sent and answered.

    ``kind`` is "first" for the request that makes up the role's invocation, "sub" for a further one that the role
    needs by design, "reask" for one that repeats an unreadable reply. ``options`` is None for free text. ``cut_tokens``
    is how many tokens of the prompt the model's context had no room for.
    """

    role: Literal["act", "review", "coarse", "fine", "patch"]
    messages: tuple[Message, ...]
    text: str
    kind: Literal["first", "sub", "reask"] = "first"
    options: tuple[str, ...] | None = None
    scores: tuple[float, ...] | None = None
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    cut_tokens: int = 0
    seconds: float = 0.0
