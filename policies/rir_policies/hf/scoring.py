"""Choosing: every option scored as the reply to its prompt.

Where the family allows it, what is new of the prompt and all options stand in one row, the options as a trie behind a
mask: one forward pass, nothing copied per option. Else the options are rows of a batch that continue copies of the
prompt's cache; else each is computed with its prompt. All three give the same numbers up to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from rir_policies.hf.decoding import prefill
from rir_policies.hf.network import Network
from rir_policies.hf.stores import Begun, Store
from rir_policies.packing import OptionTrie, option_tries

__all__ = ["score"]

_NODES = 512
_ROWS = 32
_ROW_TOKENS = 8_192


def score(
    network: Network,
    store: Store,
    prompts: Sequence[Sequence[int]],
    tails: Sequence[Sequence[Sequence[int]]],
    *,
    marks: Sequence[Sequence[int]],
) -> tuple[list[list[float]], list[int]]:
    """Per prompt and option the summed natural log-probability of the option's tokens; per prompt the tokens reused.

    Args:
        network: the model.
        store: gives the beginnings of the prompts, and keeps them.
        prompts: token ids, n rows.
        tails: per prompt the token ids of each option, at least one each.
        marks: per prompt, where a state is worth keeping.
    """
    if not network.packs:
        found = [_apart(network, store, *each) for each in zip(prompts, tails, marks, strict=True)]
        return [totals for totals, _ in found], [reused for _, reused in found]
    begun = store.begin(prompts)
    tries = [option_tries(options, limit=_NODES) for options in tails]
    totals = [[0.0] * len(options) for options in tails]
    cache: Any = begun.cache
    first = _packed(network, prompts, begun, [each[0] for each in tries], cache)
    store.keep(prompts, begun, first.cache)
    for number, each in enumerate(tries):
        first.add(number, each[0], tails[number], totals[number])
        for trie in each[1:]:
            again = store.begin([prompts[number]])
            more = _packed(network, [prompts[number]], again, [trie], again.cache)
            more.add(0, trie, tails[number], totals[number])
    return totals, begun.lengths


class _Pass:
    """What one packed forward pass said: per row, [1 + nodes, vocabulary] from the prompt's end on."""

    def __init__(self, log_probs: torch.Tensor, cache: Any) -> None:
        self.log_probs, self.cache = log_probs, cache

    def add(self, row: int, trie: OptionTrie, tails: Sequence[Sequence[int]], totals: list[float]) -> None:
        """Write the sums of the trie's options into ``totals``."""
        places = [place + 1 for path in trie.paths for place in path]
        tokens = [token for member in trie.members for token in tails[member]]
        found = self.log_probs[row, places, tokens].tolist()
        at = 0
        for member, path in zip(trie.members, trie.paths, strict=True):
            totals[member] = sum(found[at : at + len(path)])
            at += len(path)


def _packed(
    network: Network, prompts: Sequence[Sequence[int]], begun: Begun, tries: Sequence[OptionTrie], cache: Any
) -> _Pass:
    """One row a prompt: [padding | beginning, cached | what is new of the prompt | nodes, padded on the right]."""
    device = network.device
    fresh = max(len(ids) - had for ids, had in zip(prompts, begun.lengths, strict=True))
    nodes = max(len(trie.tokens) for trie in tries)
    width = begun.padded + fresh
    ids = torch.zeros((len(prompts), fresh + nodes), dtype=torch.long)
    positions = torch.full((len(prompts), width + nodes), -1, dtype=torch.long)
    seen = torch.zeros((len(prompts), fresh + nodes, width + nodes), dtype=torch.bool)
    for i, (row, trie) in enumerate(zip(prompts, tries, strict=True)):
        new = list(row[-fresh:])
        ids[i, fresh - len(new) : fresh] = torch.tensor(new)
        positions[i, width - len(row) : width] = torch.arange(len(row))
        if trie.tokens:
            ids[i, fresh : fresh + len(trie.tokens)] = torch.tensor(trie.tokens)
            positions[i, width : width + len(trie.tokens)] = torch.tensor(trie.depths) + len(row)
        seen[i, :fresh, :width] = torch.ones(fresh, width, dtype=torch.bool).tril(begun.padded)
        seen[i, fresh:, :width] = True
        for node, line in enumerate(trie.ancestors()):
            seen[i, fresh + node, torch.tensor(line) + width] = True
        seen[i, :, :] &= positions[i].unsqueeze(0) >= 0
    every = torch.arange(fresh + nodes)
    seen[:, every, every + begun.padded] = True  # a place of padding attends to itself: no row of the mask is empty
    log_probs, cache = network.forward(
        ids.to(device),
        mask=seen.unsqueeze(1).to(device) if nodes or len(prompts) > 1 else None,
        positions=positions[:, begun.padded :].clamp(min=0).to(device),
        places=positions.clamp(min=0).to(device),
        cache=cache,
        keep=1 + nodes,
    )
    return _Pass(log_probs, cache)


# --- families that cannot be packed ---------------------------------------------------------------------------------


def _apart(
    network: Network, store: Store, head: Sequence[int], tails: Sequence[Sequence[int]], marks: Sequence[int]
) -> tuple[list[float], int]:
    log_probs, cache, begun = prefill(network, store, [head], marks=[marks])
    first = log_probs[0, -1]
    totals = [float(first[tail[0]]) for tail in tails]
    longer = [i for i, tail in enumerate(tails) if len(tail) > 1]
    rows = max(1, min(_ROWS, _ROW_TOKENS // len(head)))
    for start in range(0, len(longer), rows):
        group = longer[start : start + rows]
        for i, rest in zip(group, _continued(network, head, cache, [tails[i] for i in group]), strict=True):
            totals[i] += rest
    return totals, begun.lengths[0]


def _continued(network: Network, head: Sequence[int], cache: Any, tails: Sequence[Sequence[int]]) -> list[float]:
    """Per tail the summed log-probability of its tokens from the second on, after ``head``."""
    if network.family == "copied":  # a state that knows no rows of a batch: one tail after another
        return [_summed(network, [tail], start=len(head), cache=copy.deepcopy(cache))[0] for tail in tails]
    if network.family == "none":
        return _summed(network, tails, again=head)
    forked = copy.deepcopy(cache)
    forked.batch_repeat_interleave(len(tails))
    return _summed(network, tails, start=len(head), cache=forked)


def _summed(
    network: Network, tails: Sequence[Sequence[int]], *, start: int = 0, cache: Any = None, again: Sequence[int] = ()
) -> list[float]:
    """The sums after a cache of ``start`` tokens, or with the prompt's tokens computed ``again`` for each tail."""
    width = max(map(len, tails)) - 1
    # Padding on the right comes after every token that counts, where a causal model cannot see it.
    padded = [[*again, *tail[:-1], *[0] * (width - len(tail) + 1)] for tail in tails]
    ids = torch.tensor(padded, device=network.device)
    positions = torch.arange(start, start + ids.shape[1], device=network.device).expand(len(tails), -1)
    log_probs, _ = network.forward(ids, positions=positions, cache=cache, keep=width)
    targets = torch.tensor([[*tail[1:], *[0] * (width - len(tail) + 1)] for tail in tails], device=network.device)
    found = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1).tolist()
    return [sum(row[: len(tail) - 1]) for row, tail in zip(found, tails, strict=True)]
