"""Which objects a Python walk can see into: values without parts, objects that are no state, known containers.

Shared by the proof (``audit``) and the object heap, so that both mean the same by it. Knows no environment.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import logging
import pathlib
import re
import struct
import types

import numpy as np

__all__ = ["ATOMS", "CONTAINERS", "STOPS", "is_python_class", "module_of", "name_of"]

ATOMS = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type(NotImplemented)),
    *(enum.Enum, np.generic, np.dtype, re.Pattern, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, fractions.Fraction, pathlib.PurePath),
)
STOPS = (
    *(type, types.ModuleType, logging.Logger, types.GetSetDescriptorType, property),
    *(staticmethod, classmethod, types.MemberDescriptorType, types.GenericAlias, types.MappingProxyType),
)
_WORD = struct.calcsize("P")
CONTAINERS: tuple[type, ...] = (
    *(object, list, tuple, dict, set, frozenset, bytearray, collections.deque, collections.OrderedDict),
    *(collections.defaultdict, types.SimpleNamespace, BaseException),
)


_HEAP_TYPE, _IMMUTABLE, _DICT_APART = 1 << 9, 1 << 8, 1 << 4


def is_python_class(cls: type) -> bool:
    """Whether the instances of a class hold, beyond those of its base, only what Python shows: a dict and slots.

    Told by size: what a C type keeps for itself makes its instances larger than their dict, slots and weak references
    account for. Where a class says that it comes from tells nothing: C types name Python modules as theirs.
    """
    if not cls.__flags__ & _HEAP_TYPE or cls.__base__ is None:
        return issubclass(cls, BaseException)
    more = cls.__basicsize__ - cls.__base__.__basicsize__
    if cls.__flags__ & _IMMUTABLE:
        return more == 0
    slots = sum(isinstance(field, types.MemberDescriptorType) for field in vars(cls).values())
    fields = cls.__dictoffset__ != cls.__base__.__dictoffset__ and not cls.__flags__ & _DICT_APART
    weak = cls.__weakrefoffset__ != cls.__base__.__weakrefoffset__ and cls.__weakrefoffset__ > 0
    return more == _WORD * (slots + fields + weak)


def module_of(cls: type) -> str:
    """The module of a class; "?" where it has none (some C extensions make such classes)."""
    return str(getattr(cls, "__module__", "?"))


def name_of(cls: type, *, joint: str = ".") -> str:
    """Module and qualified name of a class."""
    return f"{module_of(cls)}{joint}{cls.__qualname__}"
