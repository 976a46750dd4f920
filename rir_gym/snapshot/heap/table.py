"""The objects of a heap, and which of them no longer hold what they held: the one loop that runs over all of them.

Lists, dicts, instances and cells stand in blocks of up to 1024, compared in C by the identities of all that they hold;
a block that differs is looked at object by object. Everything else is compared one by one. A compiled twin of the heap
replaces this module. It knows kinds and contents, and no versions. (The memory of the world's own lists and dicts is
never read here, quicker though that would be: what a wrong guess of its layout does cannot be caught. See docs/log.md.)
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable
from types import CellType
from typing import Any

import numpy as np

from rir_gym.snapshot.heap.instances import InstanceKind
from rir_gym.snapshot.heap.kinds import Kind
from rir_gym.snapshot.heap.pointers import SEPARATOR, referents
from rir_gym.snapshot.heap.sequences import Chunks

__all__ = ["Node", "Table"]

_BLOCK, _FEW = 1024, 256
_HOT = 16  # so many of the first objects that change are compared alone from then on, and leave large blocks whole
_END = np.uint64(id(SEPARATOR[0]))
_MARK = _END.tobytes()
_BEFORE = np.array([-1])
_PLAIN = (list, dict, collections.defaultdict, CellType)


class Node:
    """One mutable object, its kind, and the content that it is known to hold."""

    __slots__ = ("block", "content", "held", "keyed", "kind", "live")

    def __init__(self, live: Any, kind: Kind, content: Any) -> None:
        self.live = live
        self.kind = kind
        self.content = content
        self.block = -1
        self.held: Any = None
        self.keyed = False

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


class Block:
    """Up to 1024 objects that are compared at once."""

    __slots__ = ("containers", "ends", "identities", "keyed", "keys", "lengths", "nodes", "others", "same_keys", "seen")

    def __init__(self, nodes: list[Node], number: int) -> None:
        self.nodes = nodes
        for node in nodes:
            node.block = number
        self.lay_out()

    def lay_out(self) -> None:
        """Take anew which containers the objects are made of, and what they hold."""
        containers: list[Any] = []
        keyed: list[Any] = []
        others: list[Any] = []  # the referents are {a: b} or {"x": b, "y": a}: the length tells which
        for node in self.nodes:
            node.held, node.keyed = node.holder()
            containers += (node.live, SEPARATOR) if node.held is node.live else (node.live, node.held, SEPARATOR)
            if node.keyed:
                keyed.append(node.held)
            elif isinstance(node.held, dict):
                others.append(node.held)
        self.containers, self.keyed, self.others = tuple(containers), tuple(keyed), tuple(others)
        self.look_again()

    def look_again(self) -> None:
        """Take what the objects hold now as known."""
        self.identities = self.seen = referents(self.containers)
        self.ends: Any = None
        self.keys, self.same_keys = list(itertools.chain.from_iterable(self.keyed)), True
        self.lengths = list(map(len, self.others))

    def settle(self, nodes: list[Node]) -> None:
        """The contents of these of its objects are what they hold now."""
        if any(node.moved for node in nodes):
            self.lay_out()
        else:
            self.look_again()

    def accept(self, nodes: list[Node]) -> None:
        """The contents of these of its objects are what ``changed`` has just seen."""
        if any(node.moved for node in nodes) or not self.same_keys:
            self.lay_out()
        else:
            self.identities, self.ends = self.seen, None

    def changed(self) -> list[Node]:
        """The objects that hold something else than they held."""
        self.seen = referents(self.containers)
        self.same_keys = self._same_keys()
        if self.seen == self.identities and self.same_keys:
            return []
        suspects = self._differing() if self.same_keys else self.nodes
        return [node for node in suspects if not node.kind.same(node.live, node.content)]

    def _same_keys(self) -> bool:
        try:
            keys = list(itertools.chain.from_iterable(self.keyed))
            return keys == self.keys and list(map(len, self.others)) == self.lengths
        except Exception:  # a key among the strings that cannot be compared
            return False

    def _differing(self) -> list[Node]:
        """The objects of which the identities differ, wherever they stand now."""
        if len(self.nodes) <= _FEW:
            pieces, now_pieces = self.identities.split(_MARK), self.seen.split(_MARK)
            if len(pieces) != len(self.nodes) + 1 or len(now_pieces) != len(
                pieces
            ):  # addresses that look like the mark
                return self.nodes
            return [node for node, was, now in zip(self.nodes, pieces, now_pieces, strict=False) if was != now]
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


def _ends(identities: Any) -> Any:
    """Where each object ends, after a -1."""
    return np.concatenate([_BEFORE, np.flatnonzero(identities == _END)])


class Table:
    """Every object that a heap knows, by identity."""

    def __init__(self) -> None:
        self.known: dict[int, Node] = {}
        self.blocks: list[Block] = []
        self.alone: list[Node] = []
        self.hot = 0

    @property
    def size(self) -> int:
        """How many objects are known."""
        return len(self.known)

    def nodes(self) -> Iterable[Node]:
        """All of them."""
        return self.known.values()

    def add(self, nodes: list[Node]) -> None:
        """Know these too."""
        for node in nodes:
            self.known[id(node.live)] = node
        self.alone += [node for node in nodes if not node.groupable]
        groups = [node for node in nodes if node.groupable]
        if groups and self.blocks and len(self.blocks[-1].nodes) < _FEW:
            groups = self.blocks.pop().nodes + groups
        for start in range(0, len(groups), _BLOCK):
            self.blocks.append(Block(groups[start : start + _BLOCK], len(self.blocks)))

    def changed(self) -> list[Node]:
        """Every object that no longer holds its content."""
        found = [node for block in self.blocks for node in block.changed()]
        return found + [node for node in self.alone if not node.kind.same(node.live, node.content)]

    def accept(self, nodes: list[Node]) -> None:
        """The contents of these objects are what ``changed`` has just seen."""
        for block, members in self._by_block(nodes):
            room = _HOT - self.hot if len(block.nodes) > _FEW else 0
            out = [node for number, node in enumerate(members) if number < room or not node.groupable]
            if out:
                self.hot += min(room, len(members))
                self._take_out(block, out)
            else:
                block.accept(members)

    def settle(self, nodes: list[Node]) -> None:
        """The contents of these objects are what was written into them."""
        for block, members in self._by_block(nodes):
            block.settle(members)

    def discard(self, nodes: Iterable[Node]) -> None:
        """Know these no longer."""
        gone = {node for node in nodes if self.known.get(id(node.live)) is node}
        for node in gone:
            del self.known[id(node.live)]
        for block, members in self._by_block(list(gone)):
            self._take_out(block, members)
        if gone:
            self.alone = [node for node in self.alone if node not in gone]

    def retain(self, nodes: set[Node]) -> None:
        """Know no other objects than these."""
        kept = [node for node in self.known.values() if node in nodes]
        for node in kept:
            node.block = -1
        self.known, self.blocks, self.alone, self.hot = {}, [], [], 0
        self.add(kept)

    def _take_out(self, block: Block, nodes: list[Node]) -> None:
        for node in nodes:
            node.block = -1
        self.alone += nodes
        block.nodes = [node for node in block.nodes if node.block >= 0]
        block.lay_out()

    def _by_block(self, nodes: list[Node]) -> Iterable[tuple[Block, list[Node]]]:
        touched: dict[int, list[Node]] = {}
        for node in nodes:
            if node.block >= 0:
                touched.setdefault(node.block, []).append(node)
        return [(self.blocks[number], members) for number, members in touched.items()]
