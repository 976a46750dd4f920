"""Objects whose state is one plain value that can be read and set: generators, buffers, streams, locks.

This module knows no versions.
"""

from __future__ import annotations

import _thread
import array
import ctypes
import io
import random
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.process_rng import read_random, write_random

__all__ = ["BITS", "STATES", "StateKind", "is_same", "nested_size"]


class StateKind:
    """An object whose whole state is one plain value that can be read and set, and that holds no other objects.

    ``get`` gives numbers, strings and bytes, and nests of them, that are equal only where the state is.
    """

    grouped = False

    def __init__(self, get: Callable[[Any], Any], put: Callable[[Any, Any], None]) -> None:
        self.get = get
        self.put = put

    def read(self, live: Any, last: Any) -> Any:
        return self.get(live)

    def same(self, live: Any, content: Any) -> bool:
        try:
            return bool(self.get(live) == content)
        except SnapshotError:  # ``read`` says why
            return False

    def now(self, live: Any, last: Any) -> Any:
        state = self.get(live)
        return last if state == last else state

    def write(self, live: Any, content: Any) -> None:
        self.put(live, content)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return ()

    def size(self, content: Any, last: Any) -> int:
        return nested_size(content)


def is_same(a: Any, b: Any) -> bool:
    """Whether two nests of plain values are the same to the bit and the type; of anything else, whether it is one."""
    if a is b or type(a) is not type(b):
        return a is b
    if isinstance(a, float | complex):
        return repr(a) == repr(b)
    if type(a) in (int, str, bytes):
        return bool(a == b)
    if type(a) is dict:
        return list(a) == list(b) and all(map(is_same, a, b)) and all(map(is_same, a.values(), b.values()))
    if type(a) in (tuple, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    if type(a) is np.ndarray and not a.dtype.hasobject:
        return bool(a.dtype == b.dtype) and a.shape == b.shape and a.tobytes() == b.tobytes()
    return False


def nested_size(value: Any) -> int:
    """Bytes of a nest of plain values and arrays."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + 112
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(nested_size(item) for item in value.values())
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(nested_size(item) for item in value)
    return sys.getsizeof(value)


def _draws(live: Any) -> tuple[Any, ...]:
    return read_random(live) if type(live) is random.Random else random.Random.getstate(live)


def _set_draws(live: Any, content: tuple[Any, ...]) -> None:
    if type(live) is random.Random:
        write_random(live, content)
    else:
        random.Random.setstate(live, content)


def _flat(state: Any) -> Any:
    """A state dict of numpy as nested tuples of plain values that can be compared."""
    if isinstance(state, dict):
        return tuple([(name, _flat(value)) for name, value in state.items()])
    return ("", state.dtype.str, state.tobytes()) if isinstance(state, np.ndarray) else state


def _unflat(content: Any) -> Any:
    if type(content) is not tuple:
        return content
    if content[0] == "":
        return np.frombuffer(content[2], content[1])
    return {name: _unflat(value) for name, value in content}


_OF_NUMBERS = (np.random.PCG64, np.random.PCG64DXSM)  # their state dict holds no arrays: it can be compared as it is


def _bits(live: Any) -> tuple[Any, Any]:
    state = live.state if type(live) in _OF_NUMBERS else _flat(live.state)
    return state, getattr(getattr(live, "seed_seq", None), "n_children_spawned", None)


def _set_bits(live: Any, content: tuple[Any, Any]) -> None:
    state, spawned = content
    if spawned is not None:
        _set_count(live.seed_seq, spawned)
    live.state = _unflat(state)


def _set_count(live: Any, spawned: int) -> None:
    """Make a seed sequence forget children, in place: it is a function of what it was made from."""
    if live.n_children_spawned != spawned:
        if type(live) is not np.random.SeedSequence:
            raise SnapshotError(f"a {type(live).__name__} that has spawned cannot be put back")
        made_from = {"spawn_key": live.spawn_key, "pool_size": live.pool_size, "n_children_spawned": spawned}
        live.__init__(live.entropy, **made_from)  # type: ignore[misc]


def _open_lock(live: Any) -> None:
    if getattr(live, "_is_owned", bool)() or not live.acquire(blocking=False):
        raise SnapshotError(f"a {type(live).__name__} is held; only an open one can be passed over")
    live.release()


def _streams(base: Any) -> StateKind:
    def get(live: Any) -> tuple[Any, ...] | None:
        return None if live.closed else tuple(base.__getstate__(live)[:-1])  # the last is its __dict__

    def put(live: Any, content: tuple[Any, ...] | None) -> None:
        if content is None:
            base.close(live)
        else:
            if live.closed:
                base.__init__(live, content[0])
            base.__setstate__(live, (*content, None))

    return StateKind(get, put)


def _set_bytearray(live: Any, content: bytes) -> None:
    bytearray.__setitem__(live, slice(None), content)


def _set_array(live: Any, content: bytes) -> None:
    if len(live) * live.itemsize == len(content):  # somebody may look into its memory
        ctypes.memmove(live.buffer_info()[0], content, len(content))
    else:
        del live[:]
        live.frombytes(content)


BITS = StateKind(_bits, _set_bits)
"""Any ``np.random.BitGenerator``."""

STATES: dict[type, StateKind] = {
    random.Random: StateKind(_draws, _set_draws),
    np.random.RandomState: StateKind(
        lambda live: _flat(live.get_state(legacy=False)), lambda live, then: live.set_state(_unflat(then))
    ),
    np.random.SeedSequence: StateKind(lambda live: live.n_children_spawned, _set_count),
    bytearray: StateKind(lambda live: bytes(memoryview(live)), _set_bytearray),
    array.array: StateKind(lambda live: live.tobytes(), _set_array),
    io.StringIO: _streams(io.StringIO),
    io.BytesIO: _streams(io.BytesIO),
    _thread.LockType: StateKind(_open_lock, lambda live, _: None),
    _thread.RLock: StateKind(_open_lock, lambda live, _: None),
}
"""By type; a subclass has fields besides."""
