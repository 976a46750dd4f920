"""The state of the process-global generators ``random`` and ``numpy.random`` as one small comparable value.

Reading both through their own functions takes some 60 µs, too much for twice a step. In CPython their state is a plain
block in memory; it is read from there (1 µs) where a self-test, made on generators of its own, shows that block to be
what the functions say, and through the functions everywhere else. Writing always goes through the functions.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
from array import array
from typing import Any, NamedTuple

import numpy as np

from rir_gym.values import same_value

__all__ = ["ProcessRng", "read", "read_random", "same", "seeded", "write", "write_random"]

_WORDS = 624
_BLOCK = 4 * _WORDS + 4
_HEAD = object.__basicsize__


class ProcessRng(NamedTuple):
    """``python``: index, 624 words, and gauss_next. ``numpy``: 624 words, index, has_gauss, gauss; else its state."""

    python: tuple[bytes, float | None]
    numpy: tuple[bytes, int, float] | dict[str, Any]


def read() -> ProcessRng:
    """Both states now."""
    return ProcessRng(read_random(random._inst), _read_numpy())


def same(a: ProcessRng, b: ProcessRng) -> bool:
    """Whether nothing was drawn, seeded or set between two readings."""
    if a.python != b.python:
        return False
    return a.numpy == b.numpy if type(a.numpy) is tuple else same_value(a.numpy, b.numpy)


def seeded(seed: np.random.SeedSequence) -> ProcessRng:
    """A state that follows from ``seed``."""
    keys = [np.random.MT19937(child).state["state"]["key"] for child in seed.spawn(2)]
    python, legacy = (np.asarray(key, dtype=np.uint32).tobytes() for key in keys)
    index = struct.pack("=i", _WORDS)
    return ProcessRng((index + python, None), (legacy + index, 0, 0.0))


def write(state: ProcessRng) -> None:
    """Make both generators what they were."""
    write_random(random._inst, state.python)
    np.random.set_state(_as_dict(state.numpy))  # noqa: NPY002


def read_random(instance: random.Random) -> tuple[bytes, float | None]:
    """The state of one ``random.Random``: index and 624 words, and the spare normal draw."""
    if type(instance) is random.Random and _python_readable():
        return ctypes.string_at(id(instance) + _HEAD, _BLOCK), instance.gauss_next  # type: ignore[attr-defined]
    _, (*words, index), gauss_next = instance.getstate()
    return struct.pack("=i", index) + array("I", words).tobytes(), gauss_next


def write_random(instance: random.Random, state: tuple[bytes, float | None]) -> None:
    """Make one ``random.Random`` what it was."""
    block, gauss_next = state
    index, *words = struct.unpack(f"=i{_WORDS}I", block)
    instance.setstate((3, (*words, index), gauss_next))


def _read_numpy() -> tuple[bytes, int, float] | dict[str, Any]:
    instance: Any = np.random.mtrand._rand
    offset = _gauss_offset()
    if offset and type(instance) is np.random.RandomState and type(instance._bit_generator) is np.random.MT19937:
        return _peek_numpy(instance, offset)
    return _from_dict(np.random.get_state(legacy=False))  # noqa: NPY002


def _peek_numpy(instance: Any, offset: int) -> tuple[bytes, int, float]:
    has_gauss, gauss = struct.unpack("=i4xd", ctypes.string_at(id(instance) + offset - 8, 16))
    return ctypes.string_at(instance._bit_generator.ctypes.state_address, _BLOCK), has_gauss, gauss


def _from_dict(state: Any) -> tuple[bytes, int, float] | dict[str, Any]:
    if state["bit_generator"] != "MT19937":
        return dict(state)
    inner = state["state"]
    return inner["key"].tobytes() + struct.pack("=i", inner["pos"]), state["has_gauss"], state["gauss"]


def _as_dict(state: tuple[bytes, int, float] | dict[str, Any]) -> dict[str, Any]:
    if isinstance(state, dict):
        return state
    block, has_gauss, gauss = state
    key = np.frombuffer(block, dtype=np.uint32, count=_WORDS)
    inner = {"key": key, "pos": struct.unpack_from("=i", block, 4 * _WORDS)[0]}
    return {"bit_generator": "MT19937", "state": inner, "has_gauss": has_gauss, "gauss": gauss}


@functools.cache
def _python_readable() -> bool:
    """Whether the memory of a ``random.Random`` is its index and its words, before and after draws."""
    try:
        own = random.Random(20260917)
        for draws in (0, 1, _WORDS, 7):
            for _ in range(draws):
                own.random()
            _, (*words, index), _ = own.getstate()
            if ctypes.string_at(id(own) + _HEAD, _BLOCK) != struct.pack("=i", index) + array("I", words).tobytes():
                return False
    except Exception:  # another implementation of Python
        return False
    return random.Random.__basicsize__ >= _HEAD + _BLOCK


@functools.cache
def _gauss_offset() -> int:
    """Where a ``RandomState`` keeps its spare normal draw; 0 where its memory is not what its state says."""
    try:
        own = np.random.RandomState(20260917)
        own.standard_normal()
        size, spare = type(own).__basicsize__, struct.pack("=d", own.get_state(legacy=False)["gauss"])
        offset = ctypes.string_at(id(own), size).find(spare, _HEAD)
        for draws in (0, 1, 1, _WORDS + 1, 3):
            own.standard_normal(draws)
            if offset < 0 or _peek_numpy(own, offset) != _from_dict(own.get_state(legacy=False)):
                return 0
    except Exception:  # another implementation of Python, or another layout of numpy
        return 0
    return offset
