"""What a model has already computed, by token ids: so that a prompt that goes back in time costs only what is new.

After a rollback the history is a prefix of what was sent before, and every role's request shares the history with the
others. ``PrefixTree`` keeps per-token results (keys and values) once for all requests that share them; ``PrefixStates``
keeps whole states at single positions, for model families whose state cannot be cut. Both are bounded and forget what
was used least recently. This module knows no model library: what it keeps is opaque, and it is told how to cut it and
how large it is. Prefixes are compared as token ids, never as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Generic, TypeVar

__all__ = ["PrefixStates", "PrefixTree"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Segment(Generic[T]):
    """A run of tokens after its parent's, with what was computed for them."""

    tokens: tuple[int, ...]
    payload: T
    size: int
    used: int
    children: dict[int, _Segment[T]] = field(default_factory=dict)


class PrefixTree(Generic[T]):
    """A radix tree over token ids whose edges carry payloads that can be cut.

    Args:
        cut: ``cut(payload, start, stop)``: the part of a payload for its tokens ``start`` to ``stop``.
        size: bytes of a payload.
        limit: bytes that may be kept; what was used least recently goes first, leaves before their parents.
    """

    def __init__(self, *, cut: Callable[[T, int, int], T], size: Callable[[T], int], limit: int) -> None:
        self._cut, self._size, self._limit = cut, size, limit
        self._roots: dict[int, _Segment[T]] = {}
        self._clock = 0
        self.bytes = 0

    @property
    def tokens(self) -> int:
        """How many tokens are kept."""
        return sum(len(segment.tokens) for _, segment in self._all(self._roots))

    def match(self, ids: Sequence[int]) -> tuple[list[T], int]:
        """The payloads along the longest kept prefix of ``ids``, in order, and its length in tokens."""
        self._clock += 1
        found: list[T] = []
        at = 0
        for segment, shared in self._walk(ids):
            segment.used = self._clock
            found.append(segment.payload if shared == len(segment.tokens) else self._cut(segment.payload, 0, shared))
            at += shared
        return found, at

    def insert(self, ids: Sequence[int], payload: T, *, start: int) -> None:
        """Keep ``payload``, which was computed for ``ids[start:]``; what is known of them already stays as it is.

        Where the tokens before ``start`` are no longer kept, nothing is: the payload could not be reached.
        """
        self._clock += 1
        level, at = self._roots, 0
        for segment, shared in self._walk(ids):
            if shared < len(segment.tokens):
                self._split(level, segment, shared)
                segment = level[ids[at]]
            segment.used = self._clock
            level, at = segment.children, at + shared
        if start <= at < len(ids):
            rest = self._cut(payload, at - start, len(ids) - start)
            fresh = _Segment(tuple(ids[at:]), rest, self._size(rest), self._clock)
            level[ids[at]] = fresh
            self.bytes += fresh.size
            self._evict()

    def clear(self) -> None:
        """Forget everything."""
        self._roots, self.bytes = {}, 0

    def _walk(self, ids: Sequence[int]) -> Iterator[tuple[_Segment[T], int]]:
        """Each segment on the way of ``ids`` and how many of its tokens they share; of the last one perhaps not all."""
        level, at = self._roots, 0
        while at < len(ids) and (segment := level.get(ids[at])) is not None:
            here = ids[at : at + len(segment.tokens)]
            if tuple(here) == segment.tokens:
                shared = len(segment.tokens)
            else:
                shared = sum(
                    1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(segment.tokens, here, strict=False))
                )
            yield segment, shared
            if shared < len(segment.tokens):
                return
            level, at = segment.children, at + shared

    def _split(self, level: dict[int, _Segment[T]], segment: _Segment[T], at: int) -> None:
        upper = _Segment(segment.tokens[:at], self._cut(segment.payload, 0, at), 0, segment.used)
        lower = _Segment(
            segment.tokens[at:],
            self._cut(segment.payload, at, len(segment.tokens)),
            0,
            segment.used,
            segment.children,
        )
        upper.size, lower.size = self._size(upper.payload), self._size(lower.payload)
        self.bytes += upper.size + lower.size - segment.size
        upper.children[lower.tokens[0]] = lower
        level[upper.tokens[0]] = upper

    def _evict(self) -> None:
        while self.bytes > self._limit:
            leaves = [(level, segment) for level, segment in self._all(self._roots) if not segment.children]
            level, oldest = min(leaves, key=lambda leaf: leaf[1].used)
            del level[oldest.tokens[0]]
            self.bytes -= oldest.size

    def _all(self, level: dict[int, _Segment[T]]) -> Iterator[tuple[dict[int, _Segment[T]], _Segment[T]]]:
        stack = [level]
        while stack:
            level = stack.pop()
            for segment in level.values():
                yield level, segment
                stack.append(segment.children)


class PrefixStates(Generic[T]):
    """Whole states, each good after exactly its tokens; ``limit`` bytes, the least recently used go first."""

    def __init__(self, *, size: Callable[[T], int], limit: int) -> None:
        self._size, self._limit = size, limit
        self._states: dict[tuple[int, ...], tuple[T, int]] = {}
        self.bytes = 0

    @property
    def tokens(self) -> int:
        """How many tokens the states stand for, those that they share counted once for each."""
        return sum(map(len, self._states))

    def match(self, ids: Sequence[int]) -> tuple[T | None, int]:
        """The state after the longest kept prefix of ``ids``, which must not be changed, and its length in tokens."""
        wanted = tuple(ids)
        best = max((key for key in self._states if wanted[: len(key)] == key), key=len, default=None)
        if best is None:
            return None, 0
        self._states[best] = kept = self._states.pop(best)
        return kept[0], len(best)

    def insert(self, ids: Sequence[int], state: T) -> None:
        """Keep the state after ``ids``."""
        key = tuple(ids)
        if key in self._states:
            return
        size = self._size(state)
        self._states[key] = (state, size)
        self.bytes += size
        while self.bytes > self._limit:
            _, gone = self._states.pop(next(iter(self._states)))
            self.bytes -= gone

    def clear(self) -> None:
        """Forget everything."""
        self._states, self.bytes = {}, 0
