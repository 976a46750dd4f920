"""Up to some thousand objects compared at once, in C, by the identities of all that they hold.

``gc.get_referents`` of the objects, with a separator after each, tells every change of them but three: the names of
string keys, a dict that holds as values what it held as keys, and the factory of a ``defaultdict`` that was one of its
values. These are compared besides. Where a block differs, its objects are looked at one by one.

A *calm* block is laid out so that it costs less to compare, and more to find what has changed in it: for objects that
have not changed for long, as tables of rules do not. Two sorts of its objects need no separator each. Lists of one
object: if none is empty and they hold as many objects as they are, each holds one. Dicts that hold two objects an
entry, their keys being no strings: if none has another length and together they hold as much as before, none holds
less, since none can hold more. This module knows kinds and contents, and no versions.
"""

from __future__ import annotations

import collections
import gc
import itertools
from operator import attrgetter, is_
from types import CellType
from typing import Any

import numpy as np

from rir_gym.snapshot.heap.instances import InstanceKind
from rir_gym.snapshot.heap.kind import Kind
from rir_gym.snapshot.heap.pointers import SEPARATOR, identities, is_identical
from rir_gym.snapshot.heap.sequences import Chunks

__all__ = ["Block", "Change", "Node"]

_FEW = 256
_END = np.uint64(id(SEPARATOR[0]))
_MARK = _END.tobytes()
_BEFORE = np.array([-1])
_PLAIN = (list, dict, collections.defaultdict, CellType)
_factory = attrgetter("default_factory")


class Node:
    """One mutable object, its kind, and the content that it is known to hold.

    ``stays``: it is never set aside, whoever reaches it.
    """

    __slots__ = ("content", "held", "keyed", "kind", "live", "place", "stays")

    def __init__(self, live: Any, kind: Kind, content: Any) -> None:
        self.live = live
        self.kind = kind
        self.content = content
        self.place = -1
        self.held: Any = None
        self.keyed = False
        self.stays = False

    def holder(self) -> tuple[Any, bool]:
        """The container that holds what the object holds, and whether string keys are left out of its referents."""
        held = self.kind.held(self.live) if isinstance(self.kind, InstanceKind) else self.live
        return held, isinstance(held, dict) and type(next(dict.__iter__(held), "")) is str

    @property
    def moved(self) -> bool:
        """Whether that container is another one, or its keys are of another sort, than when the block was laid out."""
        if type(self.live) is list:
            return False
        held, keyed = self.holder()
        return held is not self.held or (keyed is not self.keyed and len(held) > 0)

    @property
    def groupable(self) -> bool:
        """Whether the referents of the object, and string keys, tell every change of it."""
        plain = type(self.live) in _PLAIN or isinstance(self.kind, InstanceKind)
        return plain and self.kind.grouped and type(self.content) is not Chunks  # a long list is quicker alone


Change = tuple[Node, Any]
"""An object, and the content that it holds now, which is not the one that it is known to hold."""


class Block:
    """Objects that are compared at once. ``quiet``: how many times in a row nothing of it had changed.

    ``patience``: how many times are needed before it may be made calm.
    """

    __slots__ = (
        *("calm", "containers", "defaults", "ends", "factories", "identities", "keyed", "keys", "lengths", "nodes"),
        *("others", "patience", "quiet", "same_keys", "seen", "singles"),
    )

    def __init__(self, nodes: list[Node], patience: int, *, calm: bool = False) -> None:
        self.nodes = nodes
        self.patience, self.calm, self.quiet = patience, calm, 0
        self.lay_out()

    def lay_out(self) -> None:
        """Take anew which containers the objects are made of, and what they hold."""
        containers: list[Any] = []
        keyed: list[Any] = []
        others: list[Any] = []  # the referents are those of {a: b} or {"x": b, "y": a}: the length tells which
        singles: list[Any] = []
        entries: list[Any] = []
        for node in self.nodes:
            node.held, node.keyed = node.holder()
            if node.keyed:
                keyed.append(node.held)
            elif isinstance(node.held, dict):
                others.append(node.held)
            if self.calm and type(node.live) is list and len(node.live) == 1:
                singles.append(node.live)
            elif self.calm and type(node.live) is dict and not node.keyed and _holds_its_keys(node.live):
                entries.append(node.live)
            else:
                containers += (node.live, SEPARATOR) if node.held is node.live else (node.live, node.held, SEPARATOR)
        if self.calm:
            containers += (*entries, SEPARATOR, *singles, SEPARATOR)
        self.containers, self.keyed, self.others = tuple(containers), tuple(keyed), tuple(others)
        self.singles = tuple(singles)
        dicts = (node.held for node in self.nodes)
        self.defaults = tuple([held for held in dicts if isinstance(held, collections.defaultdict)])
        self.look_again()

    def look_again(self) -> None:
        """Take what the objects hold now as known."""
        self.identities = self.seen = identities(gc.get_referents(*self.containers))
        self.ends: Any = None
        self.keys, self.same_keys = list(itertools.chain.from_iterable(self.keyed)), True
        self.lengths = list(map(len, self.others))
        self.factories = list(map(_factory, self.defaults))

    def settle(self, nodes: list[Node]) -> None:
        """The contents of these of its objects are what they hold now."""
        if any(node.moved for node in nodes):
            self.lay_out()
        else:
            self.look_again()

    def accept(self, nodes: list[Node]) -> None:
        """The contents of these of its objects are what ``changed`` has just seen."""
        if not self.same_keys or any(node.moved for node in nodes):
            self.lay_out()
        else:
            self.identities, self.ends = self.seen, None

    def changed(self) -> list[Change]:
        """The objects that hold something else than they held, with what they hold now."""
        held = gc.get_referents(*self.containers)
        same = is_identical(held, self.identities)
        self.same_keys = self._same_keys()
        if same and self.same_keys:
            self.quiet += 1
            return []
        self.quiet = 0
        self.seen = identities(held)
        suspects = self._differing() if self.same_keys else self.nodes
        now = [(node, node.kind.now(node.live, node.content)) for node in suspects]
        return [change for change in now if change[1] is not change[0].content]

    def _same_keys(self) -> bool:
        try:
            return (
                all(self.singles)
                and list(map(len, self.others)) == self.lengths
                and list(itertools.chain.from_iterable(self.keyed)) == self.keys
                and (not self.defaults or all(map(is_, map(_factory, self.defaults), self.factories)))
            )
        except Exception:  # a key among the strings that cannot be compared
            return False

    def _differing(self) -> list[Node]:
        """The objects of which the identities differ, wherever they stand now; perhaps others, too."""
        if self.calm:
            return self.nodes
        if len(self.nodes) <= _FEW:
            was, now = self.identities.split(_MARK), self.seen.split(_MARK)
            if len(was) != len(self.nodes) + 1 or len(now) != len(was):  # addresses that look like the mark
                return self.nodes
            return [node for node, old, new in zip(self.nodes, was, now, strict=False) if old != new]
        old, new = np.frombuffer(self.identities, np.uint64), np.frombuffer(self.seen, np.uint64)
        if self.ends is None:
            self.ends = _ends(old)
        ends, after = self.ends, _ends(new)
        if np.array_equal(ends, after):  # not only the same length in all: one object may hold what another lost
            numbers = set((np.searchsorted(ends, np.flatnonzero(old != new)) - 1).tolist())
        else:
            if len(after) != len(ends):
                return self.nodes
            lengths, now = ends[1:] - ends[:-1], after[1:] - after[:-1]
            equal = lengths == now
            differ = old[equal.repeat(lengths)] != new[equal.repeat(now)]
            numbers = set(equal.nonzero()[0].repeat(lengths[equal])[differ].tolist())
            numbers.update((~equal).nonzero()[0].tolist())
        return [self.nodes[number] for number in sorted(numbers)]


def _holds_its_keys(live: dict[Any, Any]) -> bool:
    """Whether the referents of a dict are its keys and its values; more than these they cannot become."""
    return len(gc.get_referents(live)) == 2 * len(live) > 0


def _ends(identities: Any) -> Any:
    """Where each object ends, after a -1."""
    return np.concatenate([_BEFORE, np.flatnonzero(identities == _END)])
