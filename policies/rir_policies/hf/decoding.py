"""Generating: a loop of our own, so that each request has its own generator, stop strings and log-probabilities.

Nothing in a generation config can change what is decoded. This module knows token ids and texts; where a prompt's
beginning comes from is the store's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from rir_policies.encoding import Encoded
from rir_policies.grammar import Matcher
from rir_policies.hf.network import Network
from rir_policies.hf.stores import Begun, Store
from rir_policies.model import Completion, Prompt, cut_at_stop

__all__ = ["Ending", "Row", "decode", "prefill"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ends, for one tokenizer: ids, strings, and how ids are read as text."""

    ids: frozenset[int]
    stop: tuple[str, ...]
    read: Callable[[Sequence[int]], str]


@dataclass(slots=True)
class Row:
    """A completion in the making."""

    prompt: Prompt
    encoded: Encoded
    generator: torch.Generator
    matcher: Matcher | None = None
    reused: int = 0
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    text: str = ""
    stop_reason: Literal["stop", "length", "end"] | None = None

    @classmethod
    def of(cls, prompt: Prompt, encoded: Encoded, matcher: Matcher | None = None) -> Row:
        """A row without a token yet, with a generator of its own; ``matcher`` holds it to the prompt's pattern."""
        generator = torch.Generator()
        generator.manual_seed(prompt.seed % 2**63)
        return cls(prompt, encoded, generator, matcher)

    def take(self, log_probs: torch.Tensor, ending: Ending) -> int:
        """The next token, given [vocabulary] log-probabilities on the CPU; a finished row is carried along."""
        if self.stop_reason:
            return 0
        open_ = log_probs
        if self.matcher is not None:
            open_ = log_probs.masked_fill(~torch.from_numpy(self.matcher.allowed()), -torch.inf)
        if self.prompt.temperature == 0:
            token = int(open_.argmax())
        else:
            weights = torch.softmax(open_ / self.prompt.temperature, dim=-1)
            token = int(torch.multinomial(weights, 1, generator=self.generator))
        if self.matcher is not None:
            self.matcher.take(token)
        self.token_ids.append(token)
        self.log_probs.append(float(log_probs[token]))
        if token in ending.ids:
            self.stop_reason = "end"
            return token
        self.text, stopped = cut_at_stop(ending.read(self.token_ids), self.prompt.stop)
        self.text, closed = cut_at_stop(self.text, ending.stop)
        if stopped or closed:
            self.stop_reason = "end" if closed else "stop"
        elif len(self.token_ids) == self.prompt.max_new_tokens:
            self.stop_reason = "length"
            self.text = _without_half_stop(self.text, (*self.prompt.stop, *ending.stop))
        return token

    def completion(self) -> Completion:
        """The finished reply."""
        assert self.stop_reason
        return Completion(
            text=self.text,
            token_ids=tuple(self.token_ids),
            log_probs=tuple(self.log_probs),
            stop_reason=self.stop_reason,
            prompt_tokens=len(self.encoded.ids),
            reused_tokens=self.reused,
            generated_tokens=len(self.token_ids),
            cut_tokens=self.encoded.cut_tokens,
        )


def decode(network: Network, store: Store, rows: Sequence[Row], ending: Ending) -> None:
    """Fill the rows, all at once, each until its own end."""
    prompts = [row.encoded.ids for row in rows]
    log_probs, cache, begun = prefill(network, store, prompts, marks=[row.encoded.marks for row in rows])
    for row, known in zip(rows, begun.lengths, strict=True):
        row.reused = known
    width = begun.padded + max(len(ids) - had for ids, had in zip(prompts, begun.lengths, strict=True))
    mask = padding([len(ids) for ids in prompts], width, network.device) if len(rows) > 1 else None
    at = torch.tensor([[len(ids)] for ids in prompts], device=network.device)
    while True:
        now = log_probs[:, -1].cpu()
        tokens = [row.take(scores, ending) for row, scores in zip(rows, now, strict=True)]
        if all(row.stop_reason for row in rows):
            return
        ids = torch.tensor(tokens, device=network.device).unsqueeze(1)
        if mask is not None:
            mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
        log_probs, cache = network.forward(ids, mask=mask, positions=at, cache=cache)
        at = at + 1


def prefill(
    network: Network, store: Store, prompts: Sequence[Sequence[int]], *, marks: Sequence[Sequence[int]]
) -> tuple[torch.Tensor, Any, Begun]:
    """Log-probabilities [n, 1, vocabulary] after each prompt, the cache with all of them, and how it began."""
    begun = store.begin(prompts)
    cache = begun.cache
    if len(prompts) == 1:
        (row,) = prompts
        start, log_probs = begun.padded, None
        for stop in store.stops(row, marks[0], start):
            ids = torch.tensor([row[start:stop]], device=network.device)
            positions = torch.arange(start, stop, device=network.device).unsqueeze(0)
            log_probs, cache = network.forward(ids, positions=positions, cache=cache)
            store.keep([row[:stop]], begun, cache)
            start = stop
        assert log_probs is not None
        return log_probs, cache, begun
    fresh = max(len(ids) - had for ids, had in zip(prompts, begun.lengths, strict=True))
    width = begun.padded + fresh
    mask = padding([len(ids) for ids in prompts], width, network.device)
    ids = torch.tensor([[0] * (fresh - len(row)) + list(row[-fresh:]) for row in prompts], device=network.device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -fresh:]
    log_probs, cache = network.forward(ids, mask=mask, positions=positions, cache=cache)
    store.keep(prompts, begun, cache)
    return log_probs, cache, begun


def padding(lengths: Sequence[int], width: int, device: torch.device) -> torch.Tensor:
    """[n, width], 1 for the last ``lengths[i]`` places. The filler is masked out, so any id will do for it."""
    places = torch.arange(width, device=device).unsqueeze(0)
    return (places >= width - torch.tensor(lengths, device=device).unsqueeze(1)).long()


def _without_half_stop(text: str, stop: Sequence[str]) -> str:
    """A text that ran out of tokens while it was writing a stop string, without that beginning of it."""
    halves = (string[:n] for string in stop for n in range(len(string) - 1, 0, -1))
    longest = max((half for half in halves if text.endswith(half)), key=len, default="")
    return text[: len(text) - len(longest)]
