"""Sequences of references as immutable contents: short ones whole, long ones in chunks that versions share.

Compared by identity, never by equality. This module knows no kinds and no versions.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from operator import is_, is_not
from typing import Any

from rir_gym.snapshot.heap.pointers import identities

__all__ = ["MISSING", "Chunks", "Packed", "new_items", "pack", "packed_size", "same_items"]

_CHUNK = 128
_LONG = 4 * _CHUNK
_NONE = itertools.repeat(((), b""))
MISSING: Any = type("Missing", (), {"__slots__": (), "__repr__": lambda _: "<missing>"})()
"""In the place of what is not there."""


class Chunks:
    """A long sequence in chunks of 128, each shared with the sequence before where it did not change.

    ``identities`` has the addresses of each chunk's objects, which the chunk keeps alive.
    """

    __slots__ = ("chunks", "count", "identities")

    def __init__(self, chunks: list[tuple[Any, ...]], identities: list[bytes], count: int) -> None:
        self.chunks = tuple(chunks)
        self.identities = tuple(identities)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.chunks)


Packed = tuple[Any, ...] | Chunks


def pack(items: list[Any], last: Any) -> Packed:
    """An immutable copy of a list; long ones share chunks with ``last``."""
    if list.__len__(items) <= _LONG:
        return tuple(list.__iter__(items))
    marks = _marks(items)
    known = zip(last.chunks, last.identities, strict=True) if type(last) is Chunks else ()
    chunks: list[tuple[Any, ...]] = []
    for number, (mark, (chunk, before)) in enumerate(zip(marks, itertools.chain(known, _NONE), strict=False)):
        fresh = mark != before
        chunks.append(tuple(list.__getitem__(items, slice(number * _CHUNK, (number + 1) * _CHUNK))) if fresh else chunk)
        if not fresh:
            marks[number] = before
    return Chunks(chunks, marks, list.__len__(items))


def same_items(items: list[Any], content: Packed) -> bool:
    """Whether a list holds exactly these objects."""
    if list.__len__(items) != len(content):
        return False
    if type(content) is Chunks:
        return _marks(items) == list(content.identities)
    return all(map(is_, list.__iter__(items), content))


def _marks(items: list[Any]) -> list[bytes]:
    """The identities of a list's items, a chunk at a time."""
    whole = identities(items)
    return [whole[start : start + 8 * _CHUNK] for start in range(0, len(whole), 8 * _CHUNK)]


def new_items(content: Packed, last: Any) -> Iterable[Any]:
    """What a packed sequence holds, without what stands in the same place of the one before."""
    if type(content) is not Chunks:
        before = last if type(last) is tuple else ()
        return itertools.compress(content, map(is_not, content, itertools.chain(before, itertools.repeat(MISSING))))
    known = {id(chunk) for chunk in last.chunks} if type(last) is Chunks else set()
    return itertools.chain.from_iterable([chunk for chunk in content.chunks if id(chunk) not in known])


def packed_size(content: Packed, last: Any) -> int:
    """Bytes of a packed sequence beyond what it shares with the one before."""
    if content is last:
        return 0
    if type(content) is not Chunks:
        return sys.getsizeof(content)
    shared = {id(chunk) for chunk in last.chunks} if type(last) is Chunks else set()
    own = sum(sys.getsizeof(chunk) for chunk in content.chunks if id(chunk) not in shared)
    return 48 + sys.getsizeof(content.chunks) + own
