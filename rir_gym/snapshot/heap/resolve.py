"""Which kind an object's type has: the table of known types, Python classes, registered adapters, and refusals.

An object of a C type that is not in the table is never passed over in silence: ``kind_of`` says why it stands in the
way. This module knows no versions.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import gc
import itertools
import operator
import pathlib
import random
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.arrays import ArrayKind
from rir_gym.snapshot.heap.instances import InstanceKind, dict_field
from rir_gym.snapshot.heap.kind import Kind
from rir_gym.snapshot.heap.kinds import (
    BothKind,
    CellKind,
    DequeKind,
    DictKind,
    FixedKind,
    ListKind,
    OrderedDictKind,
    SetKind,
)
from rir_gym.snapshot.heap.leaves import LeafKind
from rir_gym.snapshot.heap.states import BITS, STATES
from rir_gym.snapshot.native import registered
from rir_gym.snapshot.transparency import ATOMS, is_python_class, module_of, name_of

__all__ = ["GATED", "Found", "Opaque", "Walk", "is_outside", "kind_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """An object that is not written itself (immutable, or fixed once made) but may hold some that are."""

    children: Callable[[Any], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Opaque:
    """An object that nobody can say how to save, and why."""

    reason: str


Found = Kind | Walk | Opaque | None


def _endless(live: Any) -> Iterable[Any]:
    with suppress(TypeError):  # what does not end has no length
        raise SnapshotError(f"it ends, after {live.__length_hint__()} more; that cannot be put back")
    return gc.get_referents(live)


def _quiet(live: Any) -> Iterable[Any]:
    if live.__callback__ is not None:
        raise SnapshotError(f"a weak reference with a callback: {_AT_DEATH}")
    return ()


# --- the table --------------------------------------------------------------------------------------------------------

_KINDS: dict[type, Kind] = {
    list: ListKind(),
    dict: DictKind(),
    set: SetKind(),
    collections.deque: DequeKind(),
    collections.defaultdict: DictKind(),
    collections.OrderedDict: OrderedDictKind(),
    types.CellType: CellKind(),
    np.ndarray: ArrayKind(),
    **STATES,
}


def _function_parts(live: Any) -> Iterable[Any]:
    return (*(live.__closure__ or ()), *(live.__defaults__ or ()), live.__kwdefaults__, live.__dict__)


def _behind(live: Any) -> Iterable[Any]:
    """What a read-only view of a dict shows; nothing where that is the dict of a class."""
    held = gc.get_referents(live)
    return held if not any(type(each) is dict and "__module__" in each for each in held) else ()


_BY_REFERENTS: tuple[type, ...] = (
    *(types.MethodType, functools.partial, types.MethodWrapperType, types.BuiltinMethodType),
    *(type({}.keys()), type({}.values()), type({}.items()), operator.itemgetter, operator.attrgetter),
    *(operator.methodcaller, types.UnionType, types.GenericAlias),
)
_WALKS: dict[type, Walk] = {
    tuple: Walk(lambda live: live),
    frozenset: Walk(lambda live: live),
    types.FunctionType: Walk(_function_parts),
    memoryview: Walk(lambda live: (live.obj,)),
    np.random.Generator: Walk(lambda live: (live.bit_generator,)),
    itertools.repeat: Walk(_endless),
    weakref.ref: Walk(_quiet),
    types.MappingProxyType: Walk(_behind),
    **dict.fromkeys(_BY_REFERENTS, Walk(gc.get_referents)),
}
_NO_STATE: tuple[type, ...] = (
    *(*ATOMS, object, types.CodeType, np.ufunc, type(np.sum), EnvSpec, random.SystemRandom, re.Match),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType),
    *(types.ClassMethodDescriptorType, property, staticmethod, classmethod),
)
_VALUES: tuple[type, ...] = (
    *(enum.Enum, np.generic, np.dtype, re.Pattern, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, fractions.Fraction, pathlib.PurePath, type, types.ModuleType),
)
_OF_VALUES = frozenset([module_of(cls).partition(".")[0] for cls in _VALUES]) | {"zoneinfo"}
"""The packages that these come from: their own slots are parts of the value, filled when somebody asks for them."""
_AT_DEATH = "it acts when its object dies, which a checkpoint that holds the object prevents"
_OUTSIDE = {
    "threading.Thread": "a thread cannot be put back",
    "subprocess.Popen": "a process cannot be put back",
    "multiprocessing.process.BaseProcess": "a process cannot be put back",
    "concurrent.futures._base.Executor": "threads and processes cannot be put back",
    "asyncio.events.AbstractEventLoop": "an event loop cannot be put back",
    "weakref.finalize": _AT_DEATH,
    "_weakrefset.WeakSet": _AT_DEATH,
    "weakref.WeakValueDictionary": _AT_DEATH,
    "weakref.WeakKeyDictionary": _AT_DEATH,
    "numpy.void": "a record may look into the memory of an array",
}
_PICTURES = ("Surface", "Clock", "Font", "PixelArray")
_FIELDLESS = (*ATOMS, object, types.SimpleNamespace, BaseException, tuple, frozenset)


def kind_of(cls: type) -> Found:
    """How objects of a class are met; None for values without parts and for objects that are no state."""
    if (adapter := registered(cls)) is not None:
        return LeafKind(adapter)
    if cls.__dictoffset__ and dict_field(cls) is None and is_python_class(cls):
        return Opaque("its class shows something else in the place of the __dict__ of its instances")
    if (known := _KINDS.get(cls)) is not None:
        return known if dict_field(cls) is None else BothKind((known, InstanceKind(cls, ())))
    if (walk := _WALKS.get(cls)) is not None:
        return walk
    if (why := next((_OUTSIDE[name] for name in map(name_of, cls.__mro__) if name in _OUTSIDE), None)) is not None:
        return Opaque(why)
    if cls in _NO_STATE or getattr(cls, "snapshot_stop", False):
        return None
    if issubclass(cls, _VALUES):  # a class of one's own may give its instances more than the value: an enum's members
        own = [base for base in cls.__mro__ if module_of(base).partition(".")[0] not in _OF_VALUES]
        if (hiding := next(filter(_hidden, own), None)) is not None:
            return Opaque(f"{name_of(hiding)} hides a slot of its instances")
        slots = tuple([field for base in own for field in _members(base)])
        more = not issubclass(cls, type | types.ModuleType) and (slots or dict_field(cls) is not None)
        return InstanceKind(cls, slots) if more else None
    package = module_of(cls).partition(".")[0]
    if package in ("logging", "typing") or (package == "pygame" and cls.__name__ in _PICTURES):
        return None  # pictures are made again by the next render
    if issubclass(cls, weakref.ref):
        return Opaque(_AT_DEATH)
    if package.startswith("_cython") and cls.__name__ == "cython_function_or_method":
        return Walk(gc.get_referents)
    if issubclass(cls, np.random.BitGenerator):
        return BITS
    return _composed(cls)


def _composed(cls: type) -> Found:
    """The kind of a Python class, from its known bases and its own fields."""
    if issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields"):  # time.struct_time and its like
        return Walk(tuple.__iter__)
    kinds: list[Kind] = []
    covered: set[type] = {random.Random, *random.Random.__mro__} if issubclass(cls, random.SystemRandom) else set()
    for base in cls.__mro__:
        if base in covered or base in _FIELDLESS or issubclass(BaseException, base):
            continue
        if (kind := _KINDS.get(base)) is not None:
            kinds.append(kind)
            covered.update(base.__mro__)
        elif base in _WALKS:
            return Opaque(f"nobody can say what a subclass of {base.__qualname__} holds")
        elif not is_python_class(base):
            return Opaque(f"nobody can say what a {name_of(base)} holds")
        elif _hidden(base):
            return Opaque(f"{name_of(base)} hides a slot of its instances")
    value = next((base for base in (tuple, frozenset) if issubclass(cls, base)), None)
    slots = tuple([field for base in cls.__mro__ if base not in covered for field in _members(base)])
    if slots or dict_field(cls) is not None or kinds:
        kinds.append(InstanceKind(cls, slots))
    elif value is not None:
        return Walk(value.__iter__)
    if issubclass(cls, BaseException):
        kinds.append(FixedKind(lambda live: (live.args, live.__cause__, live.__context__)))
    elif value is not None:
        kinds.append(FixedKind(value.__iter__))
    return None if not kinds else kinds[0] if len(kinds) == 1 else BothKind(tuple(kinds))


GATED = (dict, gym.Wrapper)


def is_outside(thing: Any) -> bool:
    """Whether a dict is that of a module, or a wrapper stands outside of the one that keeps the heap."""
    if isinstance(thing, dict):
        name = dict.get(thing, "__name__")
        return type(name) is str and name in sys.modules and vars(sys.modules[name]) is thing
    while isinstance(thing, gym.Wrapper):
        if getattr(type(thing), "snapshot_stop", False):
            return True
        thing = thing.env
    return False


def _members(cls: type) -> list[Any]:
    """The descriptors of the slots that a Python class adds."""
    fields = [field for field in vars(cls).values() if isinstance(field, types.MemberDescriptorType)]
    return [field for field in fields if field.__objclass__ is cls] if is_python_class(cls) else []


def _hidden(cls: type) -> bool:
    """Whether a class has put something else in the place of a slot."""
    named = vars(cls).get("__slots__", ())
    own = [named] if isinstance(named, str) else [name for name in named if name not in ("__dict__", "__weakref__")]
    return len(own) > len(_members(cls))
