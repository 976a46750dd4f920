"""Scoring an option on a server: the mean log-probability of its tokens where the reply would begin.

Two ways, for servers differ. ``ChatScores``: the option stands as the assistant's unfinished turn and the server gives
the log-probabilities of the prompt (vLLM's ``prompt_logprobs``). ``EchoScores``: we encode the prompt ourselves and the
server echoes it with log-probabilities (completions of vLLM and SGLang). Each tries itself out once (``check``) and
says clearly where a server cannot do it. This module knows no role and no thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rir_gym.base import Message
from rir_gym.errors import ModelError
from rir_policies.encoding import Encoded
from rir_policies.wire import Refused, Wire

__all__ = ["ChatScores", "EchoScores", "Score", "Scorer", "chat_messages"]

_LEAST = -9_999.0
_PROBE = "The lamp is on the table."
_CANNOT = (400, 404, 405, 415, 422)


@dataclass(frozen=True, slots=True)
class Score:
    """Mean natural log-probability of an option's tokens; tokens of the prompt before it, and those cut from it."""

    mean: float
    prompt_tokens: int
    cut_tokens: int = 0


class Scorer(Protocol):
    """Scores one option after one prompt, by requests of its own."""

    def check(self) -> None:
        """Try it out.

        Raises:
            ModelError: the server cannot do it.
        """
        ...

    def score(self, messages: Sequence[Message], option: str) -> Score:
        """The score of ``option`` as the reply to ``messages``."""
        ...


def chat_messages(messages: Sequence[Message], plain: Callable[[str], str]) -> list[dict[str, str]]:
    """Messages as JSON, their texts made harmless by ``plain``."""
    return [{"role": message.role, "content": plain(message.content)} for message in messages]


@dataclass(frozen=True)
class ChatScores:
    """By ``prompt_logprobs`` of the chat endpoint."""

    wire: Wire
    plain: Callable[[str], str]

    def check(self) -> None:
        """See ``Scorer``."""
        try:
            tokens = self._tokens([Message("user", "a"), Message("assistant", _PROBE)], open_reply=True)
        except Refused as error:
            if error.status not in _CANNOT:
                raise
            raise _cannot(self.wire, str(error)) from error
        if _tail(tokens, _PROBE) is None:
            raise _cannot(self.wire, "its prompt_logprobs do not end with the unfinished reply")

    def score(self, messages: Sequence[Message], option: str) -> Score:
        """See ``Scorer``."""
        text = self.plain(option)
        *before, last = messages
        told = [*before, Message("assistant", last.content + text)] if last.role == "assistant" else None
        tokens = self._tokens(told or [*messages, Message("assistant", text)], open_reply=True)
        tail = _tail(tokens, text)
        if tail is None:  # its tokens are not readable one by one: what comes after the prompt's tokens
            head = self._tokens(messages, open_reply=last.role == "assistant")
            same = next((i for i, (a, b) in enumerate(zip(head, tokens, strict=False)) if a[0] != b[0]), len(head))
            tail = tokens[min(same, len(tokens) - 1) :]
        return Score(_mean(self.wire, [value for _, value, _ in tail]), 1 + len(tokens) - len(tail))

    def _tokens(self, messages: Sequence[Message], *, open_reply: bool) -> list[tuple[str, float, str]]:
        """(id, log-probability, text) of every token of the prompt but the first."""
        reply = self.wire.post(
            "/chat/completions",
            {
                "model": self.wire.name,
                "messages": chat_messages(messages, self.plain),
                "max_tokens": 1,
                "temperature": 0.0,
                "prompt_logprobs": 1,
                "add_generation_prompt": not open_reply,
                "continue_final_message": open_reply,
            },
        )
        found = reply.get("prompt_logprobs")
        if not isinstance(found, list) or not any(found):
            raise _cannot(self.wire, "it gives no prompt_logprobs")
        try:
            return [_own(entries) for entries in found if entries]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _cannot(self.wire, "its prompt_logprobs have another form") from error


@dataclass(frozen=True)
class EchoScores:
    """By ``echo`` and ``logprobs`` of the completions endpoint, with prompts that we encode."""

    wire: Wire
    encode: Callable[[str], list[int]]
    fit: Callable[[Sequence[Message], int], Encoded]

    def check(self) -> None:
        """See ``Scorer``; also that the server reads our token ids as the same text."""
        ids = self.encode(_PROBE)
        try:
            logprobs = self._logprobs(ids)
        except Refused as error:
            if error.status not in _CANNOT:
                raise
            raise _cannot(self.wire, str(error)) from error
        read = "".join(str(token) for token in logprobs.get("tokens", [])[: len(ids)])
        if not _same(read.replace("▁", " ").replace("Ġ", " "), _PROBE):
            raise ModelError(
                f"model={self.wire.name!r}: {self.wire.url} reads {read[:80]!r} where we wrote {_PROBE!r}; give the "
                "tokenizer of the model that is served"
            )

    def score(self, messages: Sequence[Message], option: str) -> Score:
        """See ``Scorer``."""
        tail = self.encode(option)
        head = self.fit(messages, len(tail) + 1)
        values = self._logprobs([*head.ids, *tail])["token_logprobs"][len(head.ids) : len(head.ids) + len(tail)]
        return Score(_mean(self.wire, values), len(head.ids), head.cut_tokens)

    def _logprobs(self, ids: list[int]) -> Mapping[str, Any]:
        reply = self.wire.post(
            "/completions",
            {
                "model": self.wire.name,
                "prompt": ids,
                "max_tokens": 1,
                "temperature": 0.0,
                "echo": True,
                "logprobs": 1,
            },
        )
        try:
            found = reply["choices"][0]["logprobs"]
            values = found["token_logprobs"]
        except (KeyError, TypeError, IndexError) as error:
            raise _cannot(self.wire, "its completions give no log-probabilities") from error
        if not isinstance(values, list) or len(values) < len(ids):
            raise _cannot(
                self.wire, f"its completions give {len(values or ())} log-probabilities for {len(ids)} tokens"
            )
        return dict(found)


def _own(entries: Mapping[str, Any]) -> tuple[str, float, str]:
    """Of the prompt's token and the likeliest one the former: it is alone, or ranks lower."""
    index, entry = max(entries.items(), key=lambda item: item[1].get("rank") or 0)
    return index, float(entry["logprob"]), str(entry.get("decoded_token") or "")


def _tail(tokens: Sequence[tuple[str, float, str]], text: str) -> Sequence[tuple[str, float, str]] | None:
    """The last tokens whose texts together are ``text``, or that without spaces around it; None where none are."""
    joined, trimmed = "", None
    for start in range(len(tokens) - 1, -1, -1):
        joined = tokens[start][2] + joined
        if joined == text:
            return tokens[start:]
        if trimmed is None and joined == text.strip():
            trimmed = tokens[start:]
        if len(joined) > len(text):
            break
    return trimmed


def _mean(wire: Wire, values: Sequence[Any]) -> float:
    if not values or not all(isinstance(value, (int, float)) and not math.isnan(value) for value in values):
        raise ModelError(f"model={wire.name!r}: {wire.url} gives log-probabilities that are not numbers")
    return sum(max(float(value), _LEAST) for value in values) / len(values)


def _same(a: str, b: str) -> bool:
    return "".join(a.split()) == "".join(b.split())


def _cannot(wire: Wire, reason: str) -> ModelError:
    return ModelError(
        f"model={wire.name!r}: {wire.url} cannot score options ({reason}); serve the model with vLLM, or with SGLang "
        "and tokenizer=..., load it locally, or have choices written and read: choose='text' (URL?choose=text#NAME)"
    )
