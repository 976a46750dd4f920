"""The structure of a world: every Python value reachable from an environment, as a list of (path, what stands there).

Two fingerprints of one world are equal; the first difference names the path. Used to prove a mechanism (what was
saved must be back) and to say which object stands in its way. The walk stops at modules, classes, loggers, shared
attributes and opaque C objects; it goes into closures, class attributes and the mutable globals of the modules that
define the environment's own classes. This module knows no mechanism.
"""

from __future__ import annotations

import array
import collections
import functools
import hashlib
import random
import sys
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import PassiveEnvChecker

from rir_gym.snapshot.layers import layers, shared_objects
from rir_gym.snapshot.transparency import ATOMS, CONTAINERS, STOPS, is_python_class, module_of, name_of

__all__ = ["difference", "fingerprint", "generators", "opaque", "path_of"]

Item = tuple[str, str]

_GLOBAL_KINDS = (
    *(type(None), bool, int, float, str, list, dict, set, bytearray, collections.deque, np.ndarray),
    *(random.Random, np.random.Generator, np.random.RandomState),
)
_LIBRARIES = (
    "gymnasium",
    "numpy",
    "logging",
    "enum",
    "random",
    "collections",
    "builtins",
    "types",
    "functools",
    "typing",
    "abc",
)
_OPAQUE = "opaque "


def fingerprint(env: gym.Env[Any, Any], *, share: Sequence[str] = (), static: Sequence[str] = ()) -> list[Item]:
    """Every reachable value in a fixed order, as (path, value or type). Nothing is changed or called.

    ``share`` names attributes of a layer, ``static`` classes as ``module:Class``: the walk does not go into either.
    """
    return [(path, token) for path, token, _ in _walk(env, share, frozenset(static))]


def difference(before: list[Item], after: list[Item]) -> str | None:
    """The first difference in words, None where the two are equal."""
    for old, new in zip(before, after, strict=False):
        if old != new:
            return f"{old[0]} was {old[1][:80]}, is {new[1][:80]}" if old[0] == new[0] else f"{old[0]} became {new[0]}"
    if len(before) != len(after):
        longer = before if len(before) > len(after) else after
        return f"{longer[min(len(before), len(after))][0]} is there only once"
    return None


def opaque(env: gym.Env[Any, Any], *, share: Sequence[str] = ()) -> list[Item]:
    """The objects that a Python walk cannot see into, as (path, type name)."""
    return [(path, token[len(_OPAQUE) :]) for path, token, _ in _walk(env, share) if token.startswith(_OPAQUE)]


def path_of(env: gym.Env[Any, Any], target: Any, *, share: Sequence[str] = ()) -> str:
    """The path from the environment to an object, as far as the walk finds it."""
    return next((path for path, _, obj in _walk(env, share) if obj is target), "a place that the walk does not reach")


def generators(env: gym.Env[Any, Any], *, share: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """Every random generator object reachable from the environment, once each, in walk order."""
    kinds = (random.Random, np.random.Generator, np.random.RandomState)
    met = [(path, obj) for path, _, obj in _walk(env, share) if isinstance(obj, kinds)]
    met = [(path, obj) for path, obj in met if not isinstance(obj, random.SystemRandom)]
    return list({id(obj): (path, obj) for path, obj in reversed(met)}.values())[::-1]


def _walk(
    env: gym.Env[Any, Any], share: Sequence[str], static: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str, Any]]:
    """Depth first, without recursion, each object once (a second meeting yields a reference to the first)."""
    skip = set(shared_objects(env, share))
    seen: dict[int, tuple[str, Any]] = {}
    classes: dict[type, None] = {}
    views: dict[int, str] = {}
    stack: list[tuple[str, Any]] = [("env", env)]
    while True:
        if not stack:
            more = list(_class_state(classes, [type(layer) for layer in layers(env)]))
            classes.clear()
            stack.extend(reversed([item for item in more if id(item[1]) not in seen]))
            if not stack:
                return
        path, obj = stack.pop()
        if id(obj) in skip or isinstance(obj, STOPS):
            continue
        if static and name_of(type(obj), joint=":") in static:
            continue
        if isinstance(obj, ATOMS):
            yield path, f"{type(obj).__name__} {_atom(obj)}", obj
            continue
        if not isinstance(obj, tuple | frozenset):  # immutable: whether two places share one is no state
            if id(obj) in seen:
                yield path, f"same as {seen[id(obj)][0]}", obj
                continue
            seen[id(obj)] = (path, obj)
        token, children = _open(path, obj)
        yield path, token, obj
        if isinstance(obj, np.ndarray) and (first := views.setdefault(id(_owner(obj)), path)) != path:
            yield path, f"shares the memory of {first}", None
        classes.setdefault(type(obj))
        stack.extend(reversed(children))


def _owner(view: Any) -> Any:
    while isinstance(view, np.ndarray) and view.base is not None:
        view = view.base
    return view


def _atom(obj: Any) -> str:
    if isinstance(obj, str | bytes) and len(obj) > 200:
        data = obj if isinstance(obj, bytes) else obj.encode("utf-8", "surrogatepass")
        return f"{len(obj)} long, {hashlib.sha256(data).hexdigest()}"
    return repr(obj)


def _open(path: str, obj: Any) -> tuple[str, list[tuple[str, Any]]]:
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
        return f"{kind} {obj.dtype} {obj.shape} {hashlib.sha256(np.ascontiguousarray(obj).tobytes()).hexdigest()}", []
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
        return f"{_OPAQUE}{module_of(type(obj))}.{kind}", children
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
    held: dict[str, Any] = dict(getattr(obj, "__dict__", None) or {})
    for cls in type(obj).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = (
                f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            )
            if mangled not in ("__dict__", "__weakref__") and hasattr(obj, mangled):
                held[mangled] = getattr(obj, mangled)
    if isinstance(obj, PassiveEnvChecker):  # whether it has checked its calls once is no state of a world
        held = {"env": obj.env}
    return [(f"{path}.{name}", value) for name, value in held.items() if name not in ("spec", "_cached_spec")]


def _transparent(obj: Any) -> bool:
    """Whether all that an object holds is Python's: its class and bases are Python classes or known containers."""
    return all(cls in CONTAINERS or is_python_class(cls) or issubclass(BaseException, cls) for cls in type(obj).__mro__)


def _spawned(path: str, obj: Any) -> list[tuple[str, Any]]:
    """How many children a generator's seed sequence has spawned (a deep copy forgets it in some numpy versions)."""
    sequence = getattr(getattr(obj, "bit_generator", None), "seed_seq", None)
    return (
        [(f"{path}.n_children_spawned", getattr(sequence, "n_children_spawned", None))] if sequence is not None else []
    )


def _class_state(classes: Mapping[type, None], stack: Sequence[type]) -> Iterator[tuple[str, Any]]:
    """Mutable class attributes of the classes met, and mutable globals of the modules of the stack's own classes."""
    for cls in {base: None for met in classes for base in met.__mro__}:
        if module_of(cls).partition(".")[0] not in _LIBRARIES:
            for name, value in sorted(vars(cls).items()):
                if not name.startswith("__") and isinstance(value, _GLOBAL_KINDS):
                    yield f"class {cls.__qualname__}.{name}", value
    for cls in stack if classes else ():
        if module_of(cls).partition(".")[0] not in _LIBRARIES:
            for name, value in sorted(vars(sys.modules.get(module_of(cls), types.ModuleType("none"))).items()):
                if not name.startswith("__") and isinstance(value, _GLOBAL_KINDS):
                    yield f"module {module_of(cls)}.{name}", value


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(repr({key: _plain(value) for key, value in state.items()}).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value.tobytes() if isinstance(value, np.ndarray) else value
