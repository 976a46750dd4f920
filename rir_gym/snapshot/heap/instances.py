"""Instances: their class, their ``__dict__`` and their slots, read and written past whatever their class says.

This module knows no versions.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, cast

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.kind import compare_first
from rir_gym.snapshot.heap.sequences import MISSING, new_items, pack, packed_size, same_items

__all__ = ["InstanceKind", "PartKind", "dict_field"]


class InstanceKind:
    """The class, the ``__dict__`` and the slots of an instance: (names, values, slot values, class, the dict itself).

    Its class may change, if it has no slots.
    """

    def __init__(self, cls: type, slots: tuple[Any, ...]) -> None:
        self.slots = slots
        self.cls = cls
        self.field = dict_field(cls)
        self.has_dict = self.field is not None
        self.grouped = not slots and self.has_dict  # an empty slot leaves no trace among the referents

    def held(self, live: Any) -> dict[Any, Any]:
        """The ``__dict__``, whatever its class shows under that name."""
        field = self.field if type(live) is self.cls else dict_field(type(live))
        return field.__get__(live)  # type: ignore[no-any-return]

    def without(self, names: frozenset[str]) -> PartKind:
        """The kind of an instance of which these fields are nobody's business."""
        return PartKind(self, names)

    def read(self, live: Any, last: Any) -> Any:
        cls = type(live)
        if last is not None and self.slots and cls is not last[3]:
            raise SnapshotError(f"an instance with slots has become a {cls.__qualname__}")
        if not self.has_dict:
            return (), (), self._slots(live), cls, None
        held = self.held(live)
        values = pack(list(dict.values(held)), last[1] if last is not None else None)
        names = tuple(dict.__iter__(held))
        names = last[0] if last is not None and names == last[0] else _names(names)
        return names, values, self._slots(live) if self.slots else (), cls, held

    def same(self, live: Any, content: Any) -> bool:
        names, values, slots, cls, then = content
        if type(live) is not cls:
            return False
        if self.has_dict:
            held = self.field.__get__(live) if cls is self.cls else self.held(live)
            if held is not then or not same_items(list(dict.values(held)), values):
                return False
            if tuple(dict.__iter__(held)) != names:
                return False
        return not self.slots or all(map(is_, self._slots(live), slots))

    def now(self, live: Any, last: Any) -> Any:
        names, values, _, cls, then = last
        if not self.grouped or cls is not self.cls or type(live) is not cls:
            return last if self.same(live, last) else self.read(live, last)
        held = self.field.__get__(live)
        now = list(dict.values(held))
        keys = tuple(dict.__iter__(held))
        if held is then and same_items(now, values) and keys == names:
            return last
        return names if keys == names else _names(keys), pack(now, values), (), cls, held

    def write(self, live: Any, content: Any) -> None:
        names, values, slots, cls, then = content
        if type(live) is not cls:
            object.__setattr__(live, "__class__", cls)
        if self.has_dict:
            if self.held(live) is not then:
                dict_field(cls).__set__(live, then)
            if tuple(dict.__iter__(then)) != names:
                dict.clear(then)
            dict.update(then, zip(names, values, strict=True))
        for slot, now, value in zip(self.slots, self._slots(live), slots, strict=True):
            if value is MISSING and now is not MISSING:
                slot.__delete__(live)
            elif value is not MISSING:
                slot.__set__(live, value)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        _, values, slots, _, _ = content
        fresh = new_items(values, last[1] if last is not None else None)
        if not slots:
            return fresh
        return itertools.chain(fresh, (value for value in slots if value is not MISSING))

    def size(self, content: Any, last: Any) -> int:
        return 80 + packed_size(content[1], last[1] if last is not None else None) + 8 * len(content[2])

    def _slots(self, live: Any) -> tuple[Any, ...]:
        return tuple([_slot(slot, live) for slot in self.slots])


def _dict_field(cls: type) -> Any:
    """The descriptor of the ``__dict__`` of a class's instances; None where they have none."""
    fields = (vars(base).get("__dict__") for base in cls.__mro__)
    kinds = (types.GetSetDescriptorType, types.MemberDescriptorType)
    return next((field for field in fields if isinstance(field, kinds)), None)


dict_field = cast("Callable[[type], Any]", functools.lru_cache(maxsize=4096)(_dict_field))


@functools.lru_cache(maxsize=4096)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for all instances of a class."""
    return names


def _slot(slot: Any, live: Any) -> Any:
    try:
        return slot.__get__(live)
    except AttributeError:
        return MISSING


class PartKind:
    """An instance without some of its fields, which stay as they are."""

    grouped = False

    def __init__(self, kind: InstanceKind, names: frozenset[str]) -> None:
        self.kind = kind
        self.left_out = names

    def read(self, live: Any, last: Any) -> Any:
        fields = {name: value for name, value in self.kind.held(live).items() if name not in self.left_out}
        return tuple(fields), tuple(fields.values()), type(live), self.kind.held(live)

    def same(self, live: Any, content: Any) -> bool:
        names, values, cls, held = self.read(live, None)
        same = names == content[0] and all(map(is_, values, content[1]))
        return same and cls is content[2] and held is content[3]

    now = compare_first

    def write(self, live: Any, content: Any) -> None:
        names, values, cls, then = content
        shared = {name: value for name, value in self.kind.held(live).items() if name in self.left_out}
        self.kind.write(live, ((*names, *shared), (*values, *shared.values()), (), cls, then))

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return content[1]  # type: ignore[no-any-return]

    def size(self, content: Any, last: Any) -> int:
        return 80 + sys.getsizeof(content[1])
