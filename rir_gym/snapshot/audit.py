"""The structure of a world: every Python value reachable from an environment, as a list of (path, what stands there).

Two fingerprints of one world are equal; the first difference names the path. Used to prove a mechanism (what was
saved must be back) and to say which object stands in its way. The walk stops at modules, classes, loggers, shared
attributes and opaque C objects; it goes into closures, class attributes and the mutable globals of the modules that
define the environment's own classes. This module knows no mechanism.
"""

from __future__ import annotations

import collections
import gc
import random
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.snapshot.layers import layers, shared_objects
from rir_gym.snapshot.named import Code
from rir_gym.snapshot.outside import settings
from rir_gym.snapshot.parts import OPAQUE, atom, fields_of_atom, look_into
from rir_gym.snapshot.transparency import ATOMS, STOPS, module_of, name_of

__all__ = ["classes", "difference", "finalizers", "fingerprint", "generators", "opaque", "path_of"]

Item = tuple[str, str]

_GLOBAL_KINDS = (
    *(type(None), bool, int, float, str, list, dict, set, bytearray, collections.deque, np.ndarray),
    *(random.Random, np.random.Generator, np.random.RandomState),
)
_NOT_HELD = (*STOPS, types.FunctionType, types.CodeType)
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


def fingerprint(env: gym.Env[Any, Any], *, share: Sequence[str] = (), static: Sequence[str] = ()) -> list[Item]:
    """Every reachable value in a fixed order, as (path, value or type). Nothing is changed or called.

    What the code of the environment names counts as reachable (``named``), and the settings of the process too.
    ``share`` names attributes of a layer, ``static`` classes as ``module:Class``: the walk does not go into either.
    """
    code = Code([type(layer) for layer in layers(env)])
    walked = [(path, token) for path, token, _ in _walk(env, share, frozenset(static), code)]
    return walked + [(name, f"{type(value).__name__} {atom(value)}") for name, value in settings()]


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
    met = [(path, token) for path, token, _ in _walk(env, share) if token.startswith(OPAQUE)]
    return [(path, token[len(OPAQUE) :].partition(" ")[0]) for path, token in met]


def classes(env: gym.Env[Any, Any], *, share: Sequence[str] = ()) -> list[str]:
    """The names of the classes of all objects that an environment holds, told quickly and without paths."""
    met, found = set(shared_objects(env, share)), set[type]()
    stack: list[Any] = [env]
    while stack:
        thing = stack.pop()
        cls = type(thing)
        if cls in ATOMS or id(thing) in met or issubclass(cls, _NOT_HELD) or issubclass(cls, np.generic):
            continue
        met.add(id(thing))
        found.add(cls)
        stack.extend(gc.get_referents(thing))
    return sorted(map(name_of, found))


def path_of(env: gym.Env[Any, Any], target: Any, *, share: Sequence[str] = ()) -> str:
    """The path from the environment to an object, as far as the walk finds it."""
    for path, _, obj in _walk(env, share):
        if obj is target:
            return path
        if isinstance(obj, np.ndarray | memoryview):
            held = _owner(obj)
            if held is target or (isinstance(held, memoryview) and held.obj is target):
                return f"{path}.base"
    return "a place that the walk does not reach"


def finalizers(env: gym.Env[Any, Any], *, share: Sequence[str] = ()) -> dict[int, Item]:
    """The objects with a ``__del__`` of their own, by id: (path, type name). They act when they, or copies, die."""
    return {id(obj): (path, type(obj).__qualname__) for path, _, obj in _walk(env, share) if _acts_at_death(type(obj))}


def _acts_at_death(cls: type) -> bool:
    return isinstance(getattr(cls, "__del__", None), types.FunctionType) and module_of(cls).partition(".")[0] != "io"


def generators(env: gym.Env[Any, Any], *, share: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """Every random generator object reachable from the environment, once each, in walk order."""
    kinds = (random.Random, np.random.Generator, np.random.RandomState)
    met = [(path, obj) for path, _, obj in _walk(env, share) if isinstance(obj, kinds)]
    met = [(path, obj) for path, obj in met if not isinstance(obj, random.SystemRandom)]
    return list({id(obj): (path, obj) for path, obj in reversed(met)}.values())[::-1]


def _walk(
    env: gym.Env[Any, Any], share: Sequence[str], static: frozenset[str] = frozenset(), code: Code | None = None
) -> Iterator[tuple[str, str, Any]]:
    """Depth first, without recursion, each object once (a second meeting yields a reference to the first)."""
    skip = set(shared_objects(env, share))
    seen: dict[int, tuple[str, Any]] = {}
    classes: dict[type, None] = {}
    modules: list[types.ModuleType] = []
    views: dict[int, str] = {}
    stack: list[tuple[str, Any]] = [("env", env)]
    while True:
        if not stack:
            more = dict(_class_state(classes, [type(layer) for layer in layers(env)]))
            if code is not None:
                more = {**dict(code.reached([*classes, *modules])), **more}
            classes.clear()
            modules.clear()
            stack.extend(reversed([item for item in more.items() if id(item[1]) not in seen]))
            if not stack:
                return
        path, obj = stack.pop()
        cls = type(obj)  # what ``__class__`` says may be another's
        if issubclass(cls, type) and code is not None:
            classes.setdefault(obj)
        if issubclass(cls, types.ModuleType) and code is not None:
            modules.append(obj)
        if id(obj) in skip or issubclass(cls, STOPS):
            continue
        if static and name_of(cls, joint=":") in static:
            continue
        if issubclass(cls, ATOMS):
            yield path, f"{cls.__name__} {atom(obj)}", obj
            stack.extend(reversed(fields_of_atom(path, obj)) if cls not in ATOMS else ())
            continue
        if not isinstance(obj, tuple | frozenset):  # immutable: whether two places share one is no state
            if id(obj) in seen:
                yield path, f"same as {seen[id(obj)][0]}", obj
                continue
            seen[id(obj)] = (path, obj)
        token, children = look_into(path, obj)
        yield path, token, obj
        if isinstance(obj, np.ndarray) and (first := views.setdefault(id(_owner(obj)), path)) != path:
            yield path, f"shares the memory of {first}", None
        classes.setdefault(type(obj))
        stack.extend(reversed(children))


def _owner(view: Any) -> Any:
    while isinstance(view, np.ndarray) and view.base is not None:
        view = view.base
    return view


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
