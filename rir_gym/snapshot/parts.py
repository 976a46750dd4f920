"""What one Python object holds: what stands there, as text that can be compared, and its parts with their paths.

Nothing is changed, and nothing is called but what C types show of themselves. This module knows no walk.
"""

from __future__ import annotations

import array
import collections
import enum
import functools
import gc
import hashlib
import random
import types
import weakref
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import PassiveEnvChecker

from rir_gym.snapshot.shown import shown
from rir_gym.snapshot.transparency import ATOMS, CONTAINERS, is_python_class, module_of

__all__ = ["OPAQUE", "atom", "fields_of_atom", "look_into"]

OPAQUE = "opaque "
"""How the text of an object begins that Python cannot look into."""

_PLAIN = (bool, int, float, complex, str, bytes)


def atom(obj: Any) -> str:
    """A value without parts, as text; long ones by their digest."""
    if isinstance(obj, str | bytes) and len(obj) > 200:
        data = obj if isinstance(obj, bytes) else obj.encode("utf-8", "surrogatepass")
        return f"{len(obj)} long, {hashlib.sha256(data).hexdigest()}"
    plain = None if isinstance(obj, enum.Enum) else next((base for base in _PLAIN if isinstance(obj, base)), None)
    return repr(obj) if plain is None else plain.__repr__(obj)


def fields_of_atom(path: str, obj: Any) -> list[tuple[str, Any]]:
    """What a value of a subclass (of ``int``, of ``str``, a member of an enum) carries besides."""
    if isinstance(obj, enum.Enum):
        return [(f"{path}.{name}", value) for name, value in vars(obj).items() if not name.startswith("_")]
    return _attributes(path, obj) if is_python_class(type(obj)) else []


def look_into(path: str, obj: Any) -> tuple[str, list[tuple[str, Any]]]:
    """What stands at an object, and what it holds."""
    kind = type(obj).__name__
    if isinstance(obj, random.SystemRandom):  # it has no state
        return kind, []
    if isinstance(obj, random.Random):
        return f"{kind} {hash(obj.getstate())}", []
    if isinstance(obj, np.random.Generator | np.random.RandomState):
        bits = obj.bit_generator.state if isinstance(obj, np.random.Generator) else obj.get_state(legacy=False)
        return f"{kind} {_digest(bits)}", _spawned(path, obj)
    if isinstance(obj, np.ndarray):
        if obj.dtype.hasobject:
            return f"{kind} {obj.shape}", [(f"{path}[{i}]", x) for i, x in enumerate(obj.ravel().tolist())]
        token = f"{kind} {obj.dtype} {obj.shape} {hashlib.sha256(np.ascontiguousarray(obj).tobytes()).hexdigest()}"
        return token, _attributes(path, obj) if type(obj) is not np.ndarray else []
    if isinstance(obj, weakref.ref):
        return (f"{kind} dead", []) if obj() is None else (f"{kind} alive", [(f"{path}.<target>", obj())])
    if isinstance(obj, types.BuiltinFunctionType):  # a method of a C object holds it: ``random.Random().random``
        owner = obj.__self__
        return f"builtin {obj.__qualname__}", [] if owner is None else [(f"{path}.__self__", owner)]
    if isinstance(obj, functools.partial):
        return "partial", [(f"{path}.{name}", getattr(obj, name)) for name in ("func", "args", "keywords")]
    if isinstance(obj, array.array):
        return f"{kind} {obj.typecode} {hashlib.sha256(obj.tobytes()).hexdigest()}", []
    if isinstance(obj, types.FunctionType):
        cells = [(f"{path}.<{n}>", c) for n, c in zip(obj.__code__.co_freevars, obj.__closure__ or (), strict=True)]
        return f"function {obj.__module__}.{obj.__qualname__}", cells
    if isinstance(obj, types.MethodType):
        return f"method {obj.__func__.__qualname__}", [(f"{path}.__self__", obj.__self__)]
    if isinstance(obj, types.CellType):
        try:
            return "cell", [(path, obj.cell_contents)]
        except ValueError:
            return "empty cell", []
    children = _contents(path, obj) + _attributes(path, obj)
    if not _transparent(obj):
        return f"{OPAQUE}{module_of(type(obj))}.{kind} {shown(obj)}", children
    size = f" {len(obj)}" if isinstance(obj, list | tuple | dict | set | frozenset | collections.deque) else ""
    body = f" {bytes(obj)!r}" if isinstance(obj, bytearray) else ""
    return f"{kind}{size}{body}", children


def _contents(path: str, obj: Any) -> list[tuple[str, Any]]:
    if isinstance(obj, dict):
        pairs = list(obj.items())
        keys = [(f"{path}.key{i}", key) for i, (key, _) in enumerate(pairs)]
        return keys + [(f"{path}[{_key(key)}]", value) for key, value in pairs]
    if isinstance(obj, BaseException):
        return [(f"{path}.args", obj.args)]
    if isinstance(obj, list | tuple | collections.deque):
        return [(f"{path}[{i}]", value) for i, value in enumerate(obj)]
    if isinstance(obj, set | frozenset):  # its order can decide what a world does next; by address it means nothing
        plain = all(isinstance(member, ATOMS) for member in obj)
        members = list(obj) if plain else sorted(obj, key=lambda x: (type(x).__name__, _key(x)))
        return [(f"{path}{{{i}}}", value) for i, value in enumerate(members)]
    return []


def _key(key: Any) -> str:
    plain = isinstance(key, ATOMS) or (isinstance(key, tuple) and all(isinstance(part, ATOMS) for part in key))
    return repr(key)[:60] if plain else type(key).__name__


def _attributes(path: str, obj: Any) -> list[tuple[str, Any]]:
    held = _dict_of(obj)
    for cls in type(obj).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = (
                f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            )
            if mangled not in ("__dict__", "__weakref__") and hasattr(obj, mangled):
                held[mangled] = getattr(obj, mangled)
    if (spec := held.get("spec")) is not None and isinstance(obj, gym.Env):
        held["spec.kwargs"] = atom(repr(getattr(spec, "kwargs", None)))
    if isinstance(obj, PassiveEnvChecker):  # whether it has checked its calls once is no state of a world
        held = {"env": obj.env}
    return [(f"{path}.{name}", value) for name, value in held.items() if name not in ("spec", "_cached_spec")]


def _dict_of(obj: Any) -> dict[str, Any]:
    """The ``__dict__`` itself, whatever the class shows under that name or answers when it is asked."""
    field = next((vars(cls)["__dict__"] for cls in type(obj).__mro__ if "__dict__" in vars(cls)), None)
    if isinstance(field, types.GetSetDescriptorType | types.MemberDescriptorType):
        return dict(field.__get__(obj) or {})
    if field is None:  # a C object may answer all the same (``threading.local``)
        held = None if is_python_class(type(obj)) else getattr(obj, "__dict__", None)
        return dict(held) if type(held) is dict else {}
    return {f"<{i}>": part for i, part in enumerate(gc.get_referents(obj)) if not isinstance(part, type)}


def _transparent(obj: Any) -> bool:
    """Whether all that an object holds is Python's: its class and bases are Python classes or known containers."""
    return all(cls in CONTAINERS or is_python_class(cls) or issubclass(BaseException, cls) for cls in type(obj).__mro__)


def _spawned(path: str, obj: Any) -> list[tuple[str, Any]]:
    """How many children a generator's seed sequence has spawned (a deep copy forgets it in some numpy versions)."""
    sequence = getattr(getattr(obj, "bit_generator", None), "seed_seq", None)
    return (
        [(f"{path}.n_children_spawned", getattr(sequence, "n_children_spawned", None))] if sequence is not None else []
    )


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(repr({key: _plain(value) for key, value in state.items()}).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value.tobytes() if isinstance(value, np.ndarray) else value
