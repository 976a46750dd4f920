"""Any value of an environment as strict JSON, and back: nothing is pickled, evaluated or lost in silence.

What JSON has is itself: None, bool, str, finite float, int of 64 bits, list, and a dict whose keys are strings that do
not begin with "$". Every other value is one object with one key that does:

    {"$float": "nan" | "inf" | "-inf"}              a float that JSON lacks
    {"$int": "0x..."}                               an int beyond 64 bits
    {"$str": [part, ...]}                           the joined parts; only where a high surrogate meets a low one
    {"$bytes": base64}                              bytes, bytearray (comes back as bytes)
    {"$dict": [[key, value], ...]}                  a dict with other keys (a tuple as key comes back as a tuple)
    {"$array": {"dtype", "shape", "data"}}          a numpy array of bool, int, float or text; data flat, in C order
    {"$repr": text}                                 anything else, as text without addresses (comes back as ``Opaque``)

What changes its type: a tuple becomes a list; a set a list, sorted by its JSON; a numpy scalar the plain number; an
array of another dtype a list. Below ``MAX_DEPTH`` nested containers (a cycle, too) the text of the rest stands. This
module knows no record and no file.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from rir_gym.errors import RecordError

__all__ = ["MAX_DEPTH", "Opaque", "decode", "encode"]

MAX_DEPTH = 64
_LONGEST_REPR = 2000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SURROGATE_PAIR = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that was kept only as ``text``, its ``repr``."""

    text: str


def encode(value: Any) -> Any:
    """The value in strict JSON terms, as the module says. The same value gives the same JSON in every process.

    >>> encode({"reward": float("inf"), 3: (1, b"x")})
    {'$dict': [['reward', {'$float': 'inf'}], [3, [1, {'$bytes': 'eA=='}]]]}
    """
    return _encode(value, 0)


def decode(value: Any) -> Any:
    """The value that ``encode`` wrote, but for the types that it says it changes.

    Raises:
        RecordError: an unknown or malformed "$" object.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not any(key.startswith("$") for key in value):
        return {key: decode(item) for key, item in value.items()}
    [(name, body), *more] = value.items()
    if more or name not in _READERS:
        raise RecordError(f"value with keys {list(value)!r}: a '$' object has one key of {', '.join(_READERS)}")
    try:
        return _READERS[name](body)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise RecordError(f"{name}: malformed ({error})") from error


# --- writing --------------------------------------------------------------------------------------------------------


def _encode(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, int):
        number = int.__int__(value)
        return number if -(2**63) <= number < 2**63 else {"$int": hex(number)}
    if isinstance(value, float):
        real = float.__float__(value)
        return real if math.isfinite(real) else {"$float": str(real)}
    if isinstance(value, bytes | bytearray):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, np.generic) and _numeric(value.dtype):
        return _encode(value.item(), depth)
    if depth < MAX_DEPTH:
        if isinstance(value, Mapping):
            return _mapping(value, depth + 1)
        if isinstance(value, list | tuple):
            return [_encode(item, depth + 1) for item in value]
        if isinstance(value, AbstractSet):
            return sorted((_encode(item, depth + 1) for item in value), key=json.dumps)
        if isinstance(value, np.ndarray):
            return _array(value, depth + 1)
    return {"$repr": _text(value.text if isinstance(value, Opaque) else _repr(value))}


def _text(text: str) -> Any:
    # JSON joins the escapes of two lone surrogates that stand side by side into one character.
    if text.isascii() or _SURROGATE_PAIR.search(text) is None:
        return text
    return {"$str": _SURROGATE_PAIR.split(text)}


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    if all(isinstance(key, str) and not key.startswith("$") and isinstance(_text(key), str) for key in value):
        return {str.__str__(key): _encode(item, depth) for key, item in value.items()}
    return {"$dict": [[_encode(key, depth), _encode(item, depth)] for key, item in value.items()]}


def _array(value: np.ndarray[Any, Any], depth: int) -> Any:
    if not _numeric(value.dtype) and value.dtype.kind != "U":
        return _encode(value.tolist(), depth)
    data = [_encode(item, depth) for item in np.asarray(value).reshape(-1).tolist()]
    return {"$array": {"dtype": value.dtype.str, "shape": list(value.shape), "data": data}}


def _numeric(dtype: np.dtype[Any]) -> bool:
    """Whether Python's own bool, int and float hold every value of the dtype."""
    return dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize <= 8)


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # foreign code
        text = f"<{type(value).__module__}.{type(value).__qualname__}>"
    text = _ADDRESS.sub("", text)
    return text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 1] + "…"


# --- reading --------------------------------------------------------------------------------------------------------


def _read_float(body: Any) -> float:
    if body not in ("nan", "inf", "-inf"):
        raise ValueError(f"{body!r}: nan, inf or -inf")
    return float(body)


def _read_dict(body: Any) -> dict[Any, Any]:
    return {_hashable(decode(key)): decode(item) for key, item in body}


def _hashable(key: Any) -> Any:
    return tuple(_hashable(item) for item in key) if isinstance(key, list) else key


def _read_array(body: Any) -> np.ndarray[Any, Any]:
    dtype = np.dtype(str(body["dtype"]))
    if not _numeric(dtype) and dtype.kind != "U":
        raise ValueError(f"dtype={body['dtype']!r}: bool, int, float or text")
    shape = tuple(body["shape"])
    if math.prod(shape) != len(body["data"]) or any(size < 0 for size in shape):
        raise ValueError(f"shape={shape!r}: does not hold {len(body['data'])} values")
    return np.array(decode(body["data"]), dtype=dtype).reshape(shape)


_READERS: dict[str, Callable[[Any], Any]] = {
    "$float": _read_float,
    "$int": lambda body: int(body, 16),
    "$str": lambda body: "".join(body),
    "$bytes": lambda body: base64.b64decode(body, validate=True),
    "$dict": _read_dict,
    "$array": _read_array,
    "$repr": lambda body: Opaque(str(decode(body))),
}
