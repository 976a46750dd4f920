"""Sets put back bit by bit: members, iteration order, and what the next ``pop`` and ``add`` will do.

A set's order follows from its table: its size, the slots that were left free by removals, and where the last ``pop``
stopped. None of that can be reached through a set's methods, so the table is read and written as memory, where a
self-test on sets of its own shows it to be laid out as CPython's is. Elsewhere members alone are put back, and only
where that gives the same order. This module knows no versions.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
import random
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np

from rir_gym.errors import SnapshotError

__all__ = ["SetImage", "image_of", "put_back", "same_image"]

_HEAD = object.__basicsize__
_FIELDS = struct.Struct("nnnP")  # fill, used, mask, table
_FINGER = _HEAD + _FIELDS.size + 8  # after the hash
_ENTRY = 16
_PIECE = 128 * _ENTRY
_SMALLEST = 8


@dataclass(frozen=True, slots=True, eq=False)
class SetImage:
    """A set's memory in pieces of 128 slots, each with the members that its addresses mean, and its numbers.

    Pieces that did not change are shared with the image before. Where memory cannot be read, one piece has the members.
    """

    pieces: tuple[tuple[bytes, tuple[Any, ...]], ...]
    used: int
    fill: int = 0
    mask: int = 0
    finger: int = 0

    @property
    def members(self) -> Iterator[Any]:
        """In iteration order."""
        return itertools.chain.from_iterable([members for _, members in self.pieces])

    def fresh(self, last: SetImage | None) -> Iterator[Any]:
        """The members of the pieces that the image before does not share."""
        shared = {id(piece) for piece in last.pieces} if last is not None else set()
        return itertools.chain.from_iterable([piece[1] for piece in self.pieces if id(piece) not in shared])

    def size(self, last: SetImage | None) -> int:
        """Bytes beyond what is shared with the image before."""
        shared = {id(piece) for piece in last.pieces} if last is not None else set()
        own = [piece for piece in self.pieces if id(piece) not in shared]
        return 96 + 8 * len(self.pieces) + sum(90 + len(raw) + 8 * len(members) for raw, members in own)


def image_of(live: Any, last: SetImage | None) -> SetImage:
    """The set as it is; ``last`` is the image before."""
    if not _readable():
        return SetImage(((b"", tuple(set.__iter__(live))),), set.__len__(live))
    fill, used, mask, raw = _memory(live)
    old = last.pieces if last is not None and last.mask == mask else ()
    pieces: list[tuple[bytes, tuple[Any, ...]]] = []
    members = set.__iter__(live)
    for number, part in enumerate(raw):
        held = tuple(members if len(raw) == 1 else itertools.islice(members, _count(part)))
        pieces.append(old[number] if number < len(old) and old[number][0] == part else (part, held))
    return SetImage(tuple(pieces), used, fill, mask, _finger(live))


def same_image(live: Any, image: SetImage) -> bool:
    """Whether the set is what it was, to the bit where its memory can be read."""
    if set.__len__(live) != image.used:
        return False
    if not _readable():
        return all(map(is_, set.__iter__(live), image.members))
    fill, _, mask, raw = _memory(live)
    if fill != image.fill or mask != image.mask or _finger(live) != image.finger:
        return False
    return all(part == piece for part, (piece, _) in zip(raw, image.pieces, strict=True))


def put_back(live: Any, image: SetImage) -> None:
    """Make the set what it was.

    Raises:
        SnapshotError: its order cannot be put back in this Python. The members are back.
    """
    if not _readable():
        set.clear(live)
        set.update(live, image.members)
        if not same_image(live, image):
            raise SnapshotError("a set's iteration order cannot be put back in this implementation of Python")
        return
    if image_of(live, image).mask != image.mask:
        set.clear(live)
        _grow(live, image.mask + 1)
    now = image_of(live, image)
    _, _, _, table = _FIELDS.unpack(ctypes.string_at(id(live) + _HEAD, _FIELDS.size))
    fields = _FIELDS.pack(image.fill, image.used, image.mask, table) + b"\xff" * 8 + struct.pack("n", image.finger)
    writes = [(id(live) + _HEAD, fields, len(fields))]
    differing = [pair for pair in enumerate(zip(image.pieces, now.pieces, strict=True)) if pair[1][0] is not pair[1][1]]
    for number, ((raw, members), _) in differing:
        writes.append((table + number * _PIECE, raw, len(raw)))
        for member in members:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(member))
    collections.deque(itertools.starmap(ctypes.memmove, writes), maxlen=0)  # in one go: no signal comes in between
    for _, (_, (_, members)) in differing:  # ``now`` holds them, so none of them dies here
        for member in members:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(member))


def _memory(live: Any) -> tuple[int, int, int, list[bytes]]:
    """Fill, used, mask and the table in pieces."""
    fill, used, mask, table = _FIELDS.unpack(ctypes.string_at(id(live) + _HEAD, _FIELDS.size))
    raw = ctypes.string_at(table, (mask + 1) * _ENTRY)
    return fill, used, mask, [raw[start : start + _PIECE] for start in range(0, len(raw), _PIECE)]


def _count(part: bytes) -> int:
    """How many members are in a piece of a table: slots that are neither free nor left over from a removal."""
    slots = np.frombuffer(part, np.int64).reshape(-1, 2)
    return int(np.count_nonzero((slots[:, 0] != 0) & (slots[:, 1] != -1)))


def _finger(live: Any) -> int:
    return ctypes.c_ssize_t.from_address(id(live) + _FINGER).value


def _grow(live: Any, slots: int) -> None:
    """Give an empty set a table of so many slots, with some numbers in it."""
    if slots > _SMALLEST:
        set.update(live, frozenset(range(max(slots // 4, 5))))
    _, _, mask, _ = _FIELDS.unpack(ctypes.string_at(id(live) + _HEAD, _FIELDS.size))
    if mask + 1 != slots:
        set.clear(live)
        raise SnapshotError(f"a set's table of {slots} slots cannot be made in this version of Python")


@functools.cache
def _readable() -> bool:
    """Whether a set's memory is what its behaviour says, before and after removals, pops and growth."""
    try:
        if (
            sys.implementation.name != "cpython"
            or ctypes.sizeof(ctypes.c_void_p) != 8
            or set.__basicsize__ < _FINGER + 8 + _SMALLEST * _ENTRY
        ):
            return False
        rng = random.Random(20260917)
        live: set[Any] = set()
        for _ in range(300):
            number = rng.randrange(1 << 20) * 8
            live.add((number,)) if rng.random() < 0.7 else live and live.pop()
            fill, used, mask, table = _FIELDS.unpack(ctypes.string_at(id(live) + _HEAD, _FIELDS.size))
            if used != len(live) or not used <= fill <= mask or (mask & (mask + 1)):
                return False
            raw = ctypes.string_at(table, (mask + 1) * _ENTRY)
            entries = [struct.unpack_from("Pn", raw, i * _ENTRY) for i in range(mask + 1)]
            held = [address for address, hash_ in entries if address and hash_ != -1]
            if held != [id(member) for member in live] or _finger(live) < 0:
                return False
    except Exception:  # another implementation of Python
        return False
    return True
