"""What little some objects of C types show of their state without being changed by it, as text.

A proof compares it before and after a restore; an object that shows nothing remains unseen. Knows no walk.
"""

from __future__ import annotations

import contextvars
import ctypes
import decimal
import hashlib
import itertools
import mmap
from typing import Any

from rir_gym.snapshot.transparency import module_of, name_of

__all__ = ["shown"]

_C_DATA = (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData)


def shown(obj: Any) -> str:
    """Empty where the type is none of those that are known."""
    if isinstance(obj, itertools.count | decimal.Context):  # their ``repr`` is all that they are
        return type(obj).__repr__(obj)
    if isinstance(obj, _C_DATA):
        return _digest(ctypes.string_at(ctypes.addressof(obj), ctypes.sizeof(obj)))
    if isinstance(obj, mmap.mmap) and not obj.closed:
        return _digest(obj[:])
    if isinstance(obj, memoryview):
        try:
            return _digest(obj.tobytes())
        except ValueError:
            return "released"
    if isinstance(obj, contextvars.ContextVar):
        return repr(obj.get(None))[:200]
    if name_of(type(obj)) == "sqlite3.Connection":
        return f"{obj.total_changes} changes" if _open(obj) else "closed"
    hint = getattr(type(obj), "__length_hint__", None)
    if hint is not None and module_of(type(obj)) == "builtins":  # an iterator says how much is left
        return f"{hint(obj)} left"
    return ""


def _open(connection: Any) -> bool:
    try:
        return bool(connection.total_changes >= 0)
    except Exception:  # of another thread, or closed
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
