"""numpy arrays as contents: small ones whole, large ones in blocks of 4 KiB that versions share where they are equal.

An array that owns its memory is compared as memory; a view holds no state of its own (its owner is met through it);
an array of objects holds references. This module knows no versions.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
import numpy.typing as npt

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.kind import compare_first

__all__ = ["ArrayKind"]

_BLOCK = 4096
_WHOLE = 16 * _BLOCK
_GROUP = 64
_Words = npt.NDArray[np.uint64]


class Shadow:
    """One copy of a large array's memory, which all its versions share. It equals the content that ``of`` names."""

    __slots__ = ("memory", "of")

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self.memory = memory
        self.of: object = None


class Blocks:
    """The memory of a large array: groups of 64 blocks, each shared with the version before where it did not change."""

    __slots__ = ("groups", "name", "shadow")

    def __init__(self, groups: tuple[tuple[bytes, ...], ...], shadow: Shadow) -> None:
        self.groups = groups
        self.shadow = shadow
        self.name = shadow.of = object()

    def blocks(self) -> Iterator[bytes]:
        """Every block in order."""
        return itertools.chain.from_iterable(self.groups)

    @property
    def current(self) -> npt.NDArray[np.uint8]:
        """This content as one piece of memory: the shadow, made equal where it is not."""
        if self.shadow.of is not self.name:
            self.shadow.of = None
            for number, block in enumerate(self.blocks()):
                self.shadow.memory[number * _BLOCK : number * _BLOCK + len(block)] = np.frombuffer(block, np.uint8)
            self.shadow.of = self.name
        return self.shadow.memory


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """An array that looks into the memory of another object, which is met through it."""

    base: Any


class ArrayKind:
    """``numpy.ndarray``: (shape, memory or what it refers to, type of its items, whether it can be written)."""

    grouped = False

    def read(self, live: Any, last: Any) -> Any:
        """The memory is ``bytes``, ``Blocks``, a tuple of objects, or a ``View``.

        Raises:
            SnapshotError: an array of records that hold objects.
        """
        return live.shape, self._held(live, last[1] if last is not None else None), live.dtype, live.flags.writeable

    def _held(self, live: Any, last: Any) -> Any:
        if live.base is not None:
            return View(live.base)
        if live.dtype.hasobject:
            if live.dtype != object:
                raise SnapshotError(f"an array of {live.dtype} holds objects that nobody can see")
            return tuple(live.flat)
        memory = _memory(live)
        if memory is None:
            return live.tobytes()
        if memory.nbytes < _WHOLE:
            return memory.tobytes()
        if type(last) is not Blocks or last.shadow.memory.nbytes != memory.nbytes:
            return _all_blocks(memory)
        return _changed_blocks(memory, last)

    def same(self, live: Any, content: Any) -> bool:
        """Whether shape, memory and flag are what they were."""
        shape, held, dtype, writeable = content
        flags = live.flags
        if live.shape != shape or live.dtype is not dtype or flags.writeable is not writeable:
            return False
        if type(held) is View:
            return live.base is held.base
        if type(held) is tuple:
            return all(map(is_, live.flat, held))
        if type(held) is bytes and type(live) is np.ndarray and flags.c_contiguous:
            return live.tobytes() == held
        memory = _memory(live)
        if type(held) is Blocks:
            return memory is not None and _equal(memory, held.current)
        return bool((live if memory is None else memory).tobytes() == held)

    now = compare_first

    def write(self, live: Any, content: Any) -> None:
        """Put shape and memory back.

        Raises:
            SnapshotError: the array cannot be written.
        """
        shape, held, dtype, writeable = content
        if live.dtype != dtype:
            raise SnapshotError(f"an array that was of {dtype} is of {live.dtype}")
        if live.shape != shape:
            _reshape(live, shape)
        if type(held) is not View:
            if not live.flags.writeable:
                live.flags.writeable = True
            self._fill(np.ndarray.view(live, np.ndarray), held)
        if live.flags.writeable is not writeable:
            live.flags.writeable = writeable

    def _fill(self, live: Any, held: Any) -> None:
        memory = _memory(live) if type(held) is not tuple else None
        if type(held) is tuple:
            objects = np.empty(len(held), dtype=object)
            for index, value in enumerate(held):
                objects[index] = value
            live[...] = objects.reshape(live.shape)
        elif type(held) is Blocks and memory is not None:
            _write_blocks(memory, held)
        elif memory is not None:
            memory[:] = np.frombuffer(held, np.uint8)
        else:
            live[...] = np.frombuffer(held, live.dtype).reshape(live.shape)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        """The objects of an array of objects; what holds the memory of a view."""
        held = content[1]
        return held if type(held) is tuple else (held.base,) if type(held) is View else ()

    def size(self, content: Any, last: Any) -> int:
        """Bytes of the blocks that are not shared with the version before."""
        held = content[1]
        if type(held) is View:
            return 64
        if type(held) is not Blocks:
            return sys.getsizeof(held)
        shared = {id(b) for b in last[1].blocks()} if last is not None and type(last[1]) is Blocks else set()
        fresh = sum(_BLOCK + 33 for block in held.blocks() if id(block) not in shared)
        return fresh + sys.getsizeof(held.groups)


def _reshape(live: Any, shape: tuple[int, ...]) -> None:
    if live.size != math.prod(shape):
        raise SnapshotError("an array that was resized cannot be put back")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # in place is the point
        live.shape = shape


def _memory(live: Any) -> npt.NDArray[np.uint8] | None:
    """The memory of an array as bytes, without a copy; None where it is not one piece."""
    plain = live if type(live) is np.ndarray else np.ndarray.view(live, np.ndarray)
    if not plain.flags.c_contiguous:
        order = sorted(range(plain.ndim), key=lambda axis: -plain.strides[axis])
        plain = plain.transpose(order)
        if not plain.flags.c_contiguous:
            return None
    return plain.reshape(-1).view(np.uint8)


def _words(memory: npt.NDArray[np.uint8]) -> _Words:
    return memory[: memory.nbytes - memory.nbytes % 8].view(np.uint64)


def _equal(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> bool:
    tail = a.nbytes - a.nbytes % 8
    return bool(np.array_equal(_words(a), _words(b)) and np.array_equal(a[tail:], b[tail:]))


def _all_blocks(memory: npt.NDArray[np.uint8]) -> Blocks:
    shadow = memory.copy()
    blocks = [shadow[start : start + _BLOCK].tobytes() for start in range(0, shadow.nbytes, _BLOCK)]
    return Blocks(tuple([tuple(blocks[i : i + _GROUP]) for i in range(0, len(blocks), _GROUP)]), Shadow(shadow))


def _changed_blocks(memory: npt.NDArray[np.uint8], last: Blocks) -> Blocks:
    """A new version: the blocks that differ from the one before; the shadow follows."""
    before = last.current
    last.shadow.of = None
    tail = memory.nbytes - memory.nbytes % 8
    words = np.flatnonzero(_words(memory) != _words(before))
    changed = set(np.unique(words // (_BLOCK // 8)).tolist())
    if not np.array_equal(memory[tail:], before[tail:]):
        changed.add(tail // _BLOCK)
    groups = list(last.groups)
    for number in changed:
        part = slice(number * _BLOCK, (number + 1) * _BLOCK)
        before[part] = memory[part]
        group = list(groups[number // _GROUP])
        group[number % _GROUP] = memory[part].tobytes()
        groups[number // _GROUP] = tuple(group)
    return Blocks(tuple(groups), last.shadow)


def _write_blocks(memory: npt.NDArray[np.uint8], held: Blocks) -> None:
    """Write the blocks that differ; the shadow follows where it stood at another version."""
    held.shadow.of = None
    for number, block in enumerate(held.blocks()):
        part = slice(number * _BLOCK, number * _BLOCK + len(block))
        if memory[part].tobytes() != block:
            memory[part] = np.frombuffer(block, np.uint8)
        if held.shadow.memory[part].tobytes() != block:
            held.shadow.memory[part] = np.frombuffer(block, np.uint8)
    held.shadow.of = held.name
