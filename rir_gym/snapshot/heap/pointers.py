"""Which objects many containers hold, as one ``bytes`` value: the quick way to see that nothing has changed.

``gc.get_referents`` walks any number of containers in C. The identities of what it returns are read from the list's own
memory where a self-test shows it to be laid out as CPython's is, and through an object array everywhere else. That list
is the heap's own and nobody else's; no object of a world is read as memory here. This module knows no kinds and no
versions.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from typing import Any

import numpy as np

__all__ = ["SEPARATOR", "identities", "is_identical", "referents"]

SEPARATOR: list[object] = [object()]
"""Put between two containers: what it holds is in no world, so no object can move from one to the next unseen."""

_ITEMS = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)


def _memcmp() -> Any:
    """The C library's comparison of memory, called with the interpreter's lock held; None where it is not found."""
    try:
        function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        compare = function(("memcmp", ctypes.pythonapi))
        return compare if compare(b"ab", b"ab", 2) == 0 and compare(b"ab", b"ac", 2) != 0 else None
    except (AttributeError, OSError):  # a C library of another kind
        return None


_compare = _memcmp()


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


def is_identical(objects: list[Any], known: bytes) -> bool:
    """Whether these are the addresses of the objects of a list: ``identities(objects) == known`` without the copy."""
    if len(known) != 8 * list.__len__(objects):
        return False
    if not _readable() or _compare is None:
        return identities(objects) == known
    return not _compare(ctypes.c_void_p.from_address(id(objects) + _ITEMS).value, known, len(known))


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
