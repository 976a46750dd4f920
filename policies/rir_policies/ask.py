"""One batch of requests to a model, each recorded as a ``Call``. This module knows no role's wording."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Literal

from rir_gym.base import Call, Message, View
from rir_policies.model import Choice, Completion, Model, Prompt

__all__ = ["Kind", "Role", "choose", "draw_seed", "generate", "prompt"]

Role = Literal["act", "review", "coarse", "fine", "patch"]
Kind = Literal["first", "sub", "reask"]

_STOP = ("<observation",)


def draw_seed(view: View, salt: str) -> int:
    """A seed in [0, 2**31) that depends on the episode's seed, its agent calls so far and ``salt`` alone."""
    end = "end" if view.terminal else ""
    digest = hashlib.sha256(f"{view.seed}/{view.agent_calls}/{salt}/{end}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def prompt(
    view: View,
    messages: tuple[Message, ...],
    *,
    salt: str,
    max_new_tokens: int = 64,
    temperature: float = 0.0,
    pattern: str = "",
) -> Prompt:
    """A request of a role on a view. A reply ends where the model begins to write an observation itself."""
    return Prompt(messages, draw_seed(view, salt), max_new_tokens, temperature, _STOP, view.run, pattern)


def generate(model: Model, role: Role, kind: Kind, prompts: Sequence[Prompt]) -> list[tuple[Completion, Call]]:
    """One call of ``model.generate``; none where there are no prompts. ``Call.text`` is the reply.

    ``Call.seconds`` is the batch's time divided by its size.
    """
    if not prompts:
        return []
    start = time.perf_counter()
    replies = model.generate(prompts)
    seconds = (time.perf_counter() - start) / len(prompts)
    return [
        (
            reply,
            Call(
                role=role,
                kind=kind,
                messages=asked.messages,
                text=reply.text,
                prompt_tokens=reply.prompt_tokens,
                reused_tokens=reply.reused_tokens,
                generated_tokens=reply.generated_tokens,
                cut_tokens=reply.cut_tokens,
                seconds=seconds,
            ),
        )
        for asked, reply in zip(prompts, replies, strict=True)
    ]


def choose(
    model: Model, role: Role, kind: Kind, prompts: Sequence[Prompt], options: Sequence[tuple[str, ...]]
) -> list[tuple[Choice, Call]]:
    """One call of ``model.choose``; none where there are no prompts.

    ``Call.text`` is the chosen option; of a written choice it is what was written, which may be none of the options.
    """
    if not prompts:
        return []
    start = time.perf_counter()
    choices = model.choose(prompts, options)
    seconds = (time.perf_counter() - start) / len(prompts)
    return [
        (
            choice,
            Call(
                role=role,
                kind=kind,
                messages=asked.messages,
                text=_said(choice, row),
                options=row,
                scores=tuple(choice.scores) or None,
                prompt_tokens=choice.prompt_tokens,
                reused_tokens=choice.reused_tokens,
                generated_tokens=choice.generated_tokens,
                cut_tokens=choice.cut_tokens,
                seconds=seconds,
            ),
        )
        for asked, row, choice in zip(prompts, options, choices, strict=True)
    ]


def _said(choice: Choice, options: Sequence[str]) -> str:
    if choice.text is not None:
        return choice.text
    return "" if choice.index is None else options[choice.index]
