"""Where a prompt's beginning comes from: cut out of a tree, copied as a whole, or computed each time.

One store serves one tree of prompts. ``begin`` gives a cache for the beginnings of n prompts, the forward pass extends
it, ``keep`` takes from it what is new. Which store a model gets follows from its family (see ``network``). This module
knows no requests and no text.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rir_policies.hf.network import KeysValues, Network, cut, joined, size_of, sliced
from rir_policies.prefix import PrefixStates, PrefixTree

__all__ = ["Begun", "CopyStore", "NoStore", "SliceStore", "Store", "store_for"]


@dataclass(slots=True)
class Begun:
    """A cache with the beginnings of n prompts, padded on the left.

    Attributes:
        cache: of ``padded`` tokens; None where the model makes its own.
        lengths: per prompt, how many of its tokens are in the cache.
        known: per prompt, how many tokens of it the store held.
    """

    cache: Any
    lengths: list[int]
    known: list[int]

    @property
    def padded(self) -> int:
        """Tokens of the cache, the padding included."""
        return max(self.lengths)


class Store(Protocol):
    """What was computed for the prompts of one tree."""

    @property
    def bytes(self) -> int:
        """Bytes kept."""
        ...

    def begin(self, rows: Sequence[Sequence[int]]) -> Begun:
        """The longest beginnings known, of which at least the last token of each prompt is left out."""
        ...

    def stops(self, row: Sequence[int], marks: Sequence[int], start: int) -> list[int]:
        """Where the pass over ``row[start:]`` pauses for ``keep``, its end included; ``marks`` are worth a pause."""
        ...

    def keep(self, rows: Sequence[Sequence[int]], begun: Begun, cache: Any) -> None:
        """Take what is new of the prompts from a cache that has all of them (and perhaps more after them)."""
        ...


class SliceStore:
    """Keys and values in a tree: any two prompts share what they have in common, to the token."""

    def __init__(self, network: Network, limit: int) -> None:
        self._network = network
        self._tree: PrefixTree[KeysValues] = PrefixTree(cut=cut, size=size_of, limit=limit)

    @property
    def bytes(self) -> int:
        """Bytes kept."""
        return self._tree.bytes

    def begin(self, rows: Sequence[Sequence[int]]) -> Begun:
        """All prompts are given as many new tokens as the one that needs most, so that no gap is inside."""
        found = [self._tree.match(row[:-1]) for row in rows]
        fresh = max(len(row) - known for row, (_, known) in zip(rows, found, strict=True))
        lengths = [max(0, len(row) - fresh) for row in rows]
        cache = joined([pieces for pieces, _ in found], lengths)
        return Begun(cache, lengths, [known for _, known in found])

    def stops(self, row: Sequence[int], marks: Sequence[int], start: int) -> list[int]:
        """One pass: anything can be cut out of it later."""
        return [len(row)]

    def keep(self, rows: Sequence[Sequence[int]], begun: Begun, cache: Any) -> None:
        """The tokens beyond what was known."""
        width = begun.padded + max(len(row) - had for row, had in zip(rows, begun.lengths, strict=True))
        for number, (row, known) in enumerate(zip(rows, begun.known, strict=True)):
            if known < len(row):
                first = width - len(row)
                self._tree.insert(row, sliced(cache, number, first + known, width), start=known)


class CopyStore:
    """Whole caches at the ends of prompts and at the marks in them; one prompt at a time."""

    def __init__(self, network: Network, limit: int) -> None:
        self._network = network
        self._states: PrefixStates[Any] = PrefixStates(size=_bytes_of, limit=limit)

    @property
    def bytes(self) -> int:
        """Bytes kept."""
        return self._states.bytes

    def begin(self, rows: Sequence[Sequence[int]]) -> Begun:
        """A copy of the deepest state on the way of the one prompt."""
        (row,) = rows
        state, known = self._states.match(row[:-1])
        return Begun(copy.deepcopy(state), [known], [known])

    def stops(self, row: Sequence[int], marks: Sequence[int], start: int) -> list[int]:
        """The marks that are still ahead, and the end."""
        return [*sorted({mark for mark in marks if start < mark < len(row)}), len(row)]

    def keep(self, rows: Sequence[Sequence[int]], begun: Begun, cache: Any) -> None:
        """A copy of the state after the whole prompt."""
        (row,) = rows
        self._states.insert(row, copy.deepcopy(cache))


class NoStore:
    """Nothing is kept: every prompt is computed from its first token."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @property
    def bytes(self) -> int:
        """None."""
        return 0

    def begin(self, rows: Sequence[Sequence[int]]) -> Begun:
        """An empty cache."""
        return Begun(self._network.empty(), [0] * len(rows), [0] * len(rows))

    def stops(self, row: Sequence[int], marks: Sequence[int], start: int) -> list[int]:
        """One pass."""
        return [len(row)]

    def keep(self, rows: Sequence[Sequence[int]], begun: Begun, cache: Any) -> None:
        """Nothing."""


def store_for(network: Network, limit: int) -> Store:
    """The store that is exact for the model's family; none with a limit of 0 bytes."""
    if limit <= 0 or network.family == "none":
        return NoStore(network)
    return SliceStore(network, limit) if network.family == "sliced" else CopyStore(network, limit)


def _bytes_of(cache: Any) -> int:
    """Bytes of every tensor that a cache's layers hold."""
    total, stack, seen = 0, [layer.__dict__ for layer in cache.layers], set()
    while stack:
        thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if hasattr(thing, "nbytes"):
            total += int(thing.nbytes)
        elif isinstance(thing, dict):
            stack.extend(thing.values())
        elif isinstance(thing, list | tuple):
            stack.extend(thing)
    return total
