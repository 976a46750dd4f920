"""What any observation, action or info may hold: copying it and comparing it. Knows nothing of the rest."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

__all__ = ["fresh", "same_value"]

_PLAIN = (str, int, float, bool, type(None), bytes, complex, np.generic)


def fresh(value: Any) -> Any:
    """A copy that shares nothing mutable with ``value``; cheap for the usual nest of plain values."""
    if isinstance(value, _PLAIN):
        return value
    kind = type(value)
    if kind is dict:
        return {key: fresh(item) for key, item in value.items()}
    if kind is list:
        return [fresh(item) for item in value]
    if kind is tuple:
        return tuple([fresh(item) for item in value])
    return value.copy() if kind is np.ndarray and not value.dtype.hasobject else copy.deepcopy(value)


def same_value(a: Any, b: Any) -> bool:
    """Equality of observations: arrays by content and NaN equal to NaN, containers element by element."""
    if type(a) is str:
        return type(b) is str and a == b
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) or (a != a and b != b)
