"""The model protocol: n prompts -> n completions; n prompts with options -> n scored choices.

A batch is one call, and each request carries its own seed, so what a request gets does not depend on its neighbours.
``FunctionModel`` is the transport for tests: a model made of two functions. This module knows no model library, no
tokenizer, and nothing of what the prompts are about.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from rir_gym.base import Message
from rir_gym.errors import UsageError

__all__ = ["Choice", "Completion", "FunctionModel", "Model", "Prompt", "check_options", "cut_at_stop", "pick"]

_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request.

    Args:
        messages: the chat so far, at least one. A last message of the assistant is continued, not answered.
        seed: fixes the sample of this request, whatever its neighbours in the batch.
        max_new_tokens: bound on the generated tokens, at least 1. ``choose`` ignores it.
        temperature: 0 is greedy.
        stop: strings that end the reply; the text is cut before the first of them.
        episode: prompts with the same number belong to one run of one episode, 0 to none; a backend that keeps what it
            computed may keep it apart for each.
        pattern: a regular expression that the whole reply has to match, "" for any text; written in what Python's and
            Rust's dialects share. A backend that cannot see to it refuses. ``choose`` ignores it.

    Raises:
        UsageError: a field outside of these bounds.
    """

    messages: tuple[Message, ...]
    seed: int = 0
    max_new_tokens: int = 64
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    episode: int = 0
    pattern: str = ""

    def __post_init__(self) -> None:
        """Refuse what no model can serve."""
        if not self.messages:
            raise UsageError("messages=(): a prompt needs at least one message")
        for message in self.messages:
            if message.role not in _ROLES:
                raise UsageError(f"role={message.role!r}: one of {', '.join(_ROLES)}")
        if self.max_new_tokens < 1:
            raise UsageError(f"max_new_tokens={self.max_new_tokens!r}: at least 1")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"temperature={self.temperature!r}: a finite number, 0 (greedy) or more")
        if isinstance(self.stop, str) or "" in self.stop:
            raise UsageError(f"stop={self.stop!r}: a tuple of non-empty strings")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise UsageError(f"pattern={self.pattern!r}: a regular expression ({error})") from error


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply.

    Args:
        text: the reply without control tokens, cut before the stop string.
        token_ids: every generated token; the end token is among them where ``stop_reason`` is "end".
        log_probs: natural log-probability of each of them under the model's own distribution (temperature 1).
        stop_reason: "stop" a stop string, "length" max_new_tokens reached, "end" the model ended its turn.
        prompt_tokens: tokens of the prompt as it was served, after any cut.
        reused_tokens: of these, how many came from a cache.
        generated_tokens: length of ``token_ids``.
        cut_tokens: prompt tokens that the context limit left out of the middle; 0 usually.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    stop_reason: Literal["stop", "length", "end"] = "end"
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    cut_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One option chosen out of several.

    Args:
        index: of the chosen option; None where a backend that writes its choice wrote none of them (``text``).
        scores: one per option: the mean natural log-probability of its tokens after the prompt (length-normalised);
            empty where the choice was written.
        prompt_tokens, reused_tokens, cut_tokens: as in ``Completion``; the prompt is counted once.
        generated_tokens: of a written choice.
        text: what was written; None where the options were scored.
    """

    index: int | None
    scores: tuple[float, ...] = ()
    prompt_tokens: int = 0
    reused_tokens: int = 0
    cut_tokens: int = 0
    generated_tokens: int = 0
    text: str | None = None


@runtime_checkable
class Model(Protocol):
    """Anything that serves prompts. Both methods return one result per prompt, in order."""

    @property
    def name(self) -> str:
        """As it stands in records and tables."""
        ...

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """Free text."""
        ...

    def choose(self, prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> Sequence[Choice]:
        """One of ``options[i]`` as the reply to ``prompts[i]``: see ``pick`` for how, ``check_options`` for errors."""
        ...


def check_options(prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> None:
    """Refuse options that cannot be chosen from.

    Raises:
        UsageError: not one list of options per prompt, an empty list, an empty option, or the same option twice.
    """
    if len(prompts) != len(options):
        raise UsageError(f"options={len(options)!r} lists: one per prompt, which are {len(prompts)}")
    for row in options:
        if isinstance(row, str) or not row or "" in row:
            raise UsageError(f"options={row!r}: at least one option, each a non-empty string")
        if len(set(row)) != len(row):
            twice = next(option for option in row if list(row).count(option) > 1)
            raise UsageError(f"options contain {twice!r} more than once: each may stand there once")


def pick(scores: Sequence[float], temperature: float, seed: int) -> int:
    """Temperature 0: the highest score, the lowest index among equals. Else a draw from softmax(scores / temperature).

    The draw comes from a generator of its own, made from ``seed``.

    >>> pick([-1.0, -0.5, -0.5], 0.0, seed=3)
    1
    """
    best = max(scores)
    if temperature == 0:
        return list(scores).index(best)
    weights = [math.exp((score - best) / temperature) for score in scores]
    return random.Random(seed).choices(range(len(weights)), weights)[0]


def cut_at_stop(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """``text`` before the first stop string in it, and whether there was one.

    >>> cut_at_stop("go north\\nObservation: a hall", ["Observation:", "\\n"])
    ('go north', True)
    """
    found = [at for at in (text.find(string) for string in stop) if at >= 0]
    return (text[: min(found)], True) if found else (text, False)


def _silent(prompt: Prompt) -> str:
    return ""


def _first(prompt: Prompt, options: Sequence[str]) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A model made of two functions, for tests and scripted runs: request in, reply out.

    Words stand for tokens in its counts. The chosen option scores 0, every other one -1.

    Args:
        replies: the text of a completion; stop strings are applied to it.
        choices: the index of the chosen option.
    """

    replies: Callable[[Prompt], str] = _silent
    choices: Callable[[Prompt, Sequence[str]], int] = _first
    name: str = "function"

    def generate(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """What ``replies`` says to each prompt."""
        return [self._complete(prompt) for prompt in prompts]

    def choose(self, prompts: Sequence[Prompt], options: Sequence[Sequence[str]]) -> Sequence[Choice]:
        """What ``choices`` picks for each prompt.

        Raises:
            UsageError: see ``check_options``; or an index that is not one of the options'.
        """
        check_options(prompts, options)
        return [self._choose(prompt, row) for prompt, row in zip(prompts, options, strict=True)]

    def _complete(self, prompt: Prompt) -> Completion:
        text, stopped = cut_at_stop(self.replies(prompt), prompt.stop)
        return Completion(
            text=text,
            stop_reason="stop" if stopped else "end",
            prompt_tokens=_words(prompt),
            generated_tokens=len(text.split()),
        )

    def _choose(self, prompt: Prompt, options: Sequence[str]) -> Choice:
        index = self.choices(prompt, options)
        if not 0 <= index < len(options):
            raise UsageError(f"index={index!r}: 0 to {len(options) - 1}")
        scores = tuple(0.0 if i == index else -1.0 for i in range(len(options)))
        return Choice(index, scores, prompt_tokens=_words(prompt))


def _words(prompt: Prompt) -> int:
    return sum(len(message.content.split()) for message in prompt.messages)
