"""How each type of mutable object is read, compared and written, in place and shallowly.

A kind turns an object into a *content*, an immutable value that holds what the object holds by reference, and writes
such a content back into the same object. Contents of long sequences share the chunks that did not change. What an
object of unknown C type holds nobody can say: ``kind_of`` refuses it. This module knows no versions.
"""

from __future__ import annotations

import collections
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from operator import is_, is_not
from typing import Any, Protocol

import numpy as np

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.pointers import identities
from rir_gym.snapshot.heap.tables import SetImage, image_of, put_back, same_image

__all__ = [
    "BothKind",
    "CellKind",
    "DequeKind",
    "DictKind",
    "FixedKind",
    "InstanceKind",
    "Kind",
    "ListKind",
    "OrderedDictKind",
    "PartKind",
    "SetKind",
    "StateKind",
    "dict_field",
    "is_same",
    "nested_size",
]

_CHUNK = 128
_LONG = 4 * _CHUNK
_NONE = itertools.repeat(((), b""))
_MISSING: Any = type("Missing", (), {"__slots__": (), "__repr__": lambda _: "<missing>"})()


class Kind(Protocol):
    """How one type of object is read, compared and written."""

    grouped: bool
    """True where ``gc.get_referents`` of the object (and of its ``__dict__``), with string keys, tells every change."""

    def read(self, live: Any, last: Any) -> Any:
        """The content now; ``last`` is the content before, whose unchanged chunks are shared."""
        ...

    def same(self, live: Any, content: Any) -> bool:
        """Whether the object holds exactly this content, by identity."""
        ...

    def write(self, live: Any, content: Any) -> None:
        """Make the object hold this content."""
        ...

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        """What the content holds, at least where ``last`` did not; None is no content before."""
        ...

    def size(self, content: Any, last: Any) -> int:
        """Bytes that this content takes beyond what it shares with ``last``."""
        ...


# --- sequences of references ------------------------------------------------------------------------------------------


class Chunks:
    """A long sequence in chunks of 128, each shared with the sequence before where it did not change.

    ``identities`` has the addresses of each chunk's objects, which the chunk keeps alive.
    """

    __slots__ = ("chunks", "count", "identities")

    def __init__(self, chunks: list[tuple[Any, ...]], identities: list[bytes], count: int) -> None:
        self.chunks = tuple(chunks)
        self.identities = tuple(identities)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.chunks)


Packed = tuple[Any, ...] | Chunks


def pack(items: list[Any], last: Any) -> Packed:
    """An immutable copy of a list; long ones share chunks with ``last``."""
    if list.__len__(items) <= _LONG:
        return tuple(list.__iter__(items))
    marks = _marks(items)
    known = zip(last.chunks, last.identities, strict=True) if type(last) is Chunks else ()
    chunks: list[tuple[Any, ...]] = []
    for number, (mark, (chunk, before)) in enumerate(zip(marks, itertools.chain(known, _NONE), strict=False)):
        fresh = mark != before
        chunks.append(tuple(list.__getitem__(items, slice(number * _CHUNK, (number + 1) * _CHUNK))) if fresh else chunk)
        if not fresh:
            marks[number] = before
    return Chunks(chunks, marks, list.__len__(items))


def same_items(items: list[Any], content: Packed) -> bool:
    """Whether a list holds exactly these objects."""
    if list.__len__(items) != len(content):
        return False
    if type(content) is Chunks:
        return _marks(items) == list(content.identities)
    return all(map(is_, list.__iter__(items), content))


def _marks(items: list[Any]) -> list[bytes]:
    """The identities of a list's items, a chunk at a time."""
    whole = identities(items)
    return [whole[start : start + 8 * _CHUNK] for start in range(0, len(whole), 8 * _CHUNK)]


def new_items(content: Packed, last: Any) -> Iterable[Any]:
    """What a packed sequence holds, without what stands in the same place of the one before."""
    if type(content) is not Chunks:
        before = last if type(last) is tuple else ()
        return itertools.compress(content, map(is_not, content, itertools.chain(before, itertools.repeat(_MISSING))))
    known = {id(chunk) for chunk in last.chunks} if type(last) is Chunks else set()
    return itertools.chain.from_iterable([chunk for chunk in content.chunks if id(chunk) not in known])


def packed_size(content: Packed, last: Any) -> int:
    """Bytes of a packed sequence beyond what it shares with the one before."""
    if content is last:
        return 0
    if type(content) is not Chunks:
        return sys.getsizeof(content)
    shared = {id(chunk) for chunk in last.chunks} if type(last) is Chunks else set()
    own = sum(sys.getsizeof(chunk) for chunk in content.chunks if id(chunk) not in shared)
    return 48 + sys.getsizeof(content.chunks) + own


class ListKind:
    """``list`` and its subclasses."""

    grouped = True

    def read(self, live: Any, last: Any) -> Any:
        return pack(live, last)

    def same(self, live: Any, content: Any) -> bool:
        return same_items(live, content)

    def write(self, live: Any, content: Any) -> None:
        list.__setitem__(live, slice(None), content)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return new_items(content, last)

    def size(self, content: Any, last: Any) -> int:
        return packed_size(content, last)


class DequeKind:
    """``collections.deque``; its ``maxlen`` is fixed."""

    grouped = False

    def read(self, live: Any, last: Any) -> Any:
        return pack(list(collections.deque.__iter__(live)), last)

    def same(self, live: Any, content: Any) -> bool:
        return same_items(list(collections.deque.__iter__(live)), content)

    def write(self, live: Any, content: Any) -> None:
        collections.deque.clear(live)
        collections.deque.extend(live, content)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return new_items(content, last)

    def size(self, content: Any, last: Any) -> int:
        return packed_size(content, last)


class DictKind:
    """``dict`` and its subclasses (``OrderedDict`` apart): (keys, values) in order, and a ``default_factory``."""

    grouped = True

    def read(self, live: Any, last: Any) -> Any:
        keys, values = list(dict.__iter__(live)), list(dict.values(live))
        if last is not None and same_items(keys, last[0]):
            return last[0], pack(values, last[1]), getattr(live, "default_factory", None)
        before = last if last is not None else (None, None)
        return pack(keys, before[0]), pack(values, before[1]), getattr(live, "default_factory", None)

    def same(self, live: Any, content: Any) -> bool:
        return (
            same_items(list(dict.values(live)), content[1])
            and same_items(list(dict.__iter__(live)), content[0])
            and getattr(live, "default_factory", None) is content[2]
        )

    def write(self, live: Any, content: Any) -> None:
        keys, values, factory = content
        if not same_items(list(dict.__iter__(live)), keys):
            dict.clear(live)
        dict.update(live, zip(keys, values, strict=True))
        if factory is not getattr(live, "default_factory", None):
            live.default_factory = factory

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        before = last if last is not None else ((), ())
        return itertools.chain(new_items(content[0], before[0]), new_items(content[1], before[1]), (content[2],))

    def size(self, content: Any, last: Any) -> int:
        before = last if last is not None else (None, None)
        return 64 + packed_size(content[0], before[0]) + packed_size(content[1], before[1])


class OrderedDictKind(DictKind):
    """``OrderedDict`` keeps an order of its own, beside the dict's."""

    grouped = False

    def read(self, live: Any, last: Any) -> Any:
        before = last if last is not None else (None, None)
        items = list(collections.OrderedDict.items(live))
        return pack([key for key, _ in items], before[0]), pack([value for _, value in items], before[1]), None

    def same(self, live: Any, content: Any) -> bool:
        items = list(collections.OrderedDict.items(live))
        return same_items([k for k, _ in items], content[0]) and same_items([v for _, v in items], content[1])

    def write(self, live: Any, content: Any) -> None:
        collections.OrderedDict.clear(live)
        for key, value in zip(content[0], content[1], strict=True):
            collections.OrderedDict.__setitem__(live, key, value)


class SetKind:
    """``set`` and its subclasses, to the bit."""

    grouped = False

    def read(self, live: Any, last: Any) -> SetImage:
        return image_of(live, last)

    def same(self, live: Any, content: SetImage) -> bool:
        return same_image(live, content)

    def write(self, live: Any, content: SetImage) -> None:
        put_back(live, content)

    def children(self, content: SetImage, last: SetImage | None) -> Iterable[Any]:
        return content.fresh(last)

    def size(self, content: SetImage, last: Any) -> int:
        return content.size(last)


# --- instances --------------------------------------------------------------------------------------------------------


class InstanceKind:
    """The class, the ``__dict__`` and the slots of an instance: (names, values, slot values, class, the dict itself).

    Its class may change, if it has no slots.
    """

    def __init__(self, cls: type, slots: tuple[Any, ...]) -> None:
        self.slots = slots
        self.has_dict = dict_field(cls) is not None
        self.grouped = not slots and self.has_dict  # an empty slot leaves no trace among the referents

    def held(self, live: Any) -> dict[Any, Any]:
        """The ``__dict__``, whatever its class shows under that name."""
        return dict_field(type(live)).__get__(live)  # type: ignore[no-any-return]

    def without(self, names: frozenset[str]) -> Kind:
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
        return last[0] if last is not None and names == last[0] else _names(names), values, self._slots(live), cls, held

    def same(self, live: Any, content: Any) -> bool:
        names, values, slots, cls, then = content
        if type(live) is not cls:
            return False
        if self.has_dict:
            held = self.held(live)
            if held is not then or not same_items(list(dict.values(held)), values):
                return False
            if tuple(dict.__iter__(held)) != names:
                return False
        return not self.slots or all(map(is_, self._slots(live), slots))

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
            if value is _MISSING and now is not _MISSING:
                slot.__delete__(live)
            elif value is not _MISSING:
                slot.__set__(live, value)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        _, values, slots, _, _ = content
        fresh = new_items(values, last[1] if last is not None else None)
        return itertools.chain(fresh, (value for value in slots if value is not _MISSING))

    def size(self, content: Any, last: Any) -> int:
        return 80 + packed_size(content[1], last[1] if last is not None else None) + 8 * len(content[2])

    def _slots(self, live: Any) -> tuple[Any, ...]:
        return tuple([_slot(slot, live) for slot in self.slots])


@functools.lru_cache(maxsize=4096)
def dict_field(cls: Any) -> Any:
    """The descriptor of the ``__dict__`` of a class's instances; None where they have none."""
    fields = (vars(base).get("__dict__") for base in cls.__mro__)
    kinds = (types.GetSetDescriptorType, types.MemberDescriptorType)
    return next((field for field in fields if isinstance(field, kinds)), None)


@functools.lru_cache(maxsize=4096)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for all instances of a class."""
    return names


def _slot(slot: Any, live: Any) -> Any:
    try:
        return slot.__get__(live)
    except AttributeError:
        return _MISSING


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

    def write(self, live: Any, content: Any) -> None:
        names, values, cls, then = content
        shared = {name: value for name, value in self.kind.held(live).items() if name in self.left_out}
        self.kind.write(live, ((*names, *shared), (*values, *shared.values()), (), cls, then))

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return content[1]  # type: ignore[no-any-return]

    def size(self, content: Any, last: Any) -> int:
        return 80 + sys.getsizeof(content[1])


class BothKind:
    """An instance that is a container too (a subclass of ``list``, ``dict``, ``set`` … with fields of its own)."""

    grouped = False

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self.kinds = kinds

    def read(self, live: Any, last: Any) -> Any:
        before = last if last is not None else (None,) * len(self.kinds)
        return tuple([kind.read(live, old) for kind, old in zip(self.kinds, before, strict=True)])

    def same(self, live: Any, content: Any) -> bool:
        return all(kind.same(live, part) for kind, part in zip(self.kinds, content, strict=True))

    def write(self, live: Any, content: Any) -> None:
        for kind, part in zip(self.kinds, content, strict=True):
            kind.write(live, part)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        before = last if last is not None else (None,) * len(self.kinds)
        parts = zip(self.kinds, content, before, strict=True)
        return itertools.chain.from_iterable([kind.children(part, old) for kind, part, old in parts])

    def size(self, content: Any, last: Any) -> int:
        before = last if last is not None else (None,) * len(self.kinds)
        return sum(k.size(part, old) for k, part, old in zip(self.kinds, content, before, strict=True))


class FixedKind:
    """The parts of an instance that are fixed once it is made: the items of a tuple, the arguments of an exception."""

    grouped = False

    def __init__(self, parts: Callable[[Any], Iterable[Any]]) -> None:
        self.parts = parts

    def read(self, live: Any, last: Any) -> Any:
        return tuple(self.parts(live))

    def same(self, live: Any, content: Any) -> bool:
        return same_items(list(self.parts(live)), content)

    def write(self, live: Any, content: Any) -> None:
        if not self.same(live, content):
            raise SnapshotError(f"the fixed parts of a {type(live).__name__} have changed")

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return content  # type: ignore[no-any-return]

    def size(self, content: Any, last: Any) -> int:
        return sys.getsizeof(content)


# --- what holds one value ---------------------------------------------------------------------------------------------


class StateKind:
    """An object whose whole state is one plain value that can be read and set, and that holds no other objects.

    ``get`` gives numbers, strings and bytes, and tuples of them, that are equal only where the state is.
    """

    grouped = False

    def __init__(self, get: Callable[[Any], Any], put: Callable[[Any, Any], None]) -> None:
        self.get = get
        self.put = put

    def read(self, live: Any, last: Any) -> Any:
        return self.get(live)

    def same(self, live: Any, content: Any) -> bool:
        try:
            return bool(self.get(live) == content)
        except SnapshotError:  # ``read`` says why
            return False

    def write(self, live: Any, content: Any) -> None:
        self.put(live, content)

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return ()

    def size(self, content: Any, last: Any) -> int:
        return nested_size(content)


class CellKind:
    """The variable of a closure."""

    grouped = True

    def read(self, live: Any, last: Any) -> Any:
        try:
            return (live.cell_contents,)
        except ValueError:
            return ()

    def same(self, live: Any, content: Any) -> bool:
        now = self.read(live, None)
        return len(now) == len(content) and all(map(is_, now, content))

    def write(self, live: Any, content: Any) -> None:
        if content:
            live.cell_contents = content[0]
        elif self.read(live, None):
            del live.cell_contents

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return content  # type: ignore[no-any-return]

    def size(self, content: Any, last: Any) -> int:
        return 48


def is_same(a: Any, b: Any) -> bool:
    """Whether two nests of plain values are the same to the bit and the type; of anything else, whether it is one."""
    if a is b or type(a) is not type(b):
        return a is b
    if isinstance(a, float | complex):
        return repr(a) == repr(b)
    if type(a) in (int, str, bytes):
        return bool(a == b)
    if type(a) is dict:
        return list(a) == list(b) and all(map(is_same, a, b)) and all(map(is_same, a.values(), b.values()))
    if type(a) in (tuple, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    if type(a) is np.ndarray and not a.dtype.hasobject:
        return bool(a.dtype == b.dtype) and a.shape == b.shape and a.tobytes() == b.tobytes()
    return False


def nested_size(value: Any) -> int:
    """Bytes of a nest of plain values and arrays."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + 112
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(nested_size(item) for item in value.values())
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(nested_size(item) for item in value)
    return sys.getsizeof(value)
