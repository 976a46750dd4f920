"""The kinds of Python's own containers: lists, dicts, sets, deques, closure cells, and what is made of several of them.

Contents of long sequences share the chunks that did not change. This module knows no versions.
"""

from __future__ import annotations

import collections
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.kind import Kind, compare_first
from rir_gym.snapshot.heap.sequences import new_items, pack, packed_size, same_items
from rir_gym.snapshot.heap.tables import SetImage, image_of, put_back, same_image

__all__ = [
    "BothKind",
    "CellKind",
    "DequeKind",
    "DictKind",
    "FixedKind",
    "ListKind",
    "OrderedDictKind",
    "SetKind",
]


# --- containers -------------------------------------------------------------------------------------------------------


class ListKind:
    """``list`` and its subclasses."""

    grouped = True

    def read(self, live: Any, last: Any) -> Any:
        return pack(live, last)

    def same(self, live: Any, content: Any) -> bool:
        return same_items(live, content)

    now = compare_first

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

    now = compare_first

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

    now = compare_first

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

    now = compare_first

    def write(self, live: Any, content: SetImage) -> None:
        put_back(live, content)

    def children(self, content: SetImage, last: SetImage | None) -> Iterable[Any]:
        return content.fresh(last)

    def size(self, content: SetImage, last: Any) -> int:
        return content.size(last)


# --- of several parts -------------------------------------------------------------------------------------------------


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

    now = compare_first

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

    now = compare_first

    def write(self, live: Any, content: Any) -> None:
        if not self.same(live, content):
            raise SnapshotError(f"the fixed parts of a {type(live).__name__} have changed")

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return content  # type: ignore[no-any-return]

    def size(self, content: Any, last: Any) -> int:
        return sys.getsizeof(content)


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
        return len(now) == len(content) and all(a is b for a, b in zip(now, content, strict=True))

    now = compare_first

    def write(self, live: Any, content: Any) -> None:
        if content:
            live.cell_contents = content[0]
        elif self.read(live, None):
            del live.cell_contents

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        return content  # type: ignore[no-any-return]

    def size(self, content: Any, last: Any) -> int:
        return 48
