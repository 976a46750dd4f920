"""Which objects many containers hold, as one ``bytes`` value: the quick way to see that nothing has changed.

``gc.get_referents`` walks any number of containers in C. The identities of what it returns are read from the list's own
memory where a self-test shows it to be laid out as CPython's is, and through an object array everywhere else. This
module knows no kinds and no versions.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from typing import Any

import numpy as np

__all__ = ["SEPARATOR", "identities", "referents"]

SEPARATOR: list[object] = [object()]
"""Put between two containers: what it holds is in no world, so no object can move from one to the next unseen."""

_ITEMS = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)


def referents(containers: tuple[Any, ...]) -> bytes:
    """The identities of all that the containers hold, in a fixed order, 8 bytes each."""
    return identities(gc.get_referents(*containers))


def identities(objects: list[Any]) -> bytes:
    """The addresses of the objects of a list."""
    if _readable():
        return ctypes.string_at(
            ctypes.c_void_p.from_address(id(objects) + _ITEMS).value or 0, 8 * list.__len__(objects)
        )
    return _copied(objects)


def _copied(objects: list[Any]) -> bytes:
    array = np.empty(list.__len__(objects), dtype=object)
    for place, each in enumerate(list.__iter__(objects)):
        array[place] = each
    return array.tobytes()


@functools.cache
def _readable() -> bool:
    """Whether a list keeps its items' addresses where CPython on 64 bits does."""
    try:
        if (
            sys.implementation.name != "cpython"
            or ctypes.sizeof(ctypes.c_void_p) != 8
            or list.__basicsize__ < _ITEMS + 16
        ):
            return False
        for objects in ([None], [object() for _ in range(5)], [1, "a", None] * 40):
            address = ctypes.c_void_p.from_address(id(objects) + _ITEMS).value
            size = ctypes.c_ssize_t.from_address(id(objects) + object.__basicsize__).value
            if not address or size != len(objects):
                return False
            if ctypes.string_at(address, 8 * size) != b"".join(id(x).to_bytes(8, "little") for x in objects):
                return False
    except Exception:  # another implementation of Python
        return False
    return True
