"""The objects of a heap, and which of them no longer hold what they held: the one loop that runs over all of them.

Lists, dicts, instances and cells stand in blocks that are compared at once; everything else is compared one by one.
Objects that are set aside are known and not compared. A compiled twin of the heap replaces this module and ``blocks``.
It knows kinds and contents, and no versions; which objects are set aside is the engine's business. (The memory of the
world's own lists and dicts is never read here, quicker though that would be: what a wrong guess of its layout does
cannot be caught. See docs/log.md.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rir_gym.snapshot.heap.blocks import Block, Change, Node

__all__ = ["ASIDE", "Change", "Node", "Table"]

ALONE, ASIDE = -1, -2
_BLOCK, _FEW = 2048, 256
_CALM = 8192
_PATIENCE, _MORE = 32, 8  # so many times unchanged before a block is made calm; and longer once it was in vain
_HOT = 16  # so many of the first objects that change are compared alone from then on, and leave large blocks whole


class Table:
    """Every object that a heap knows, by identity. ``node.place`` is the number of its block, ALONE or ASIDE."""

    def __init__(self) -> None:
        self.known: dict[int, Node] = {}
        self.blocks: dict[int, Block] = {}
        self.alone: list[Node] = []
        self.hot = 0
        self.next = 0
        self.looks = 0

    @property
    def size(self) -> int:
        """How many objects are known."""
        return len(self.known)

    @property
    def compared(self) -> int:
        """How many of them are not set aside."""
        return len(self.alone) + sum([len(block.nodes) for block in self.blocks.values()])

    def nodes(self) -> Iterable[Node]:
        """All of them."""
        return self.known.values()

    def watched(self) -> Iterator[Node]:
        """Those that are not set aside."""
        return itertools.chain(self.alone, *[block.nodes for block in self.blocks.values()])

    def watches(self, node: Node) -> bool:
        """Whether an object is known, and compared."""
        return node.place != ASIDE and self.known.get(id(node.live)) is node

    def add(self, nodes: Iterable[Node]) -> None:
        """Know these too, or compare again what was set aside."""
        groups: list[Node] = []
        for node in nodes:
            self.known[id(node.live)] = node
            node.place = ALONE
            (groups if node.groupable else self.alone).append(node)
        last = next(reversed(self.blocks), None)
        if groups and last is not None and len(self.blocks[last].nodes) < _FEW:
            groups = self.blocks.pop(last).nodes + groups
        self._group(groups, _PATIENCE)

    def add_aside(self, nodes: Iterable[Node]) -> None:
        """Know these too, without comparing them."""
        for node in nodes:
            self.known[id(node.live)] = node
            node.place = ASIDE

    def changed(self) -> list[Change]:
        """Every object that no longer holds its content, but those that are set aside, with what it holds now."""
        found: list[Change] = []
        for block in self.blocks.values():
            found += block.changed()
        for node in self.alone:
            if (content := node.kind.now(node.live, node.content)) is not node.content:
                found.append((node, content))
        self.looks += 1
        if self.looks % _PATIENCE == 0:
            self._calm_down()
        return found

    def accept(self, changed: list[Change]) -> None:
        """The contents of these objects are what ``changed`` has just seen."""
        grouped = [node for node, _ in changed if node.place >= 0]
        if not grouped:
            return
        leaving: list[Node] = []
        for number, members in self._by_block(grouped).items():
            block = self.blocks[number]
            room = _HOT - self.hot if len(block.nodes) > _FEW else 0
            out = [node for number, node in enumerate(members) if number < room or not node.groupable]
            if out:
                self.hot += min(room, len(members))
                leaving += out
            elif block.calm:
                self._disturb(number)
            else:
                block.accept(members)
        if leaving:
            self._take_out(leaving)
            self.alone += leaving

    def settle(self, nodes: list[Node]) -> None:
        """The contents of these objects are what was written into them."""
        for number, members in self._by_block(nodes).items():
            if self.blocks[number].calm:
                self._disturb(number)
            else:
                self.blocks[number].settle(members)

    def set_aside(self, nodes: Sequence[Node]) -> None:
        """Compare these no longer."""
        self._take_out(nodes)
        for node in nodes:
            node.place, node.held = ASIDE, None

    def discard(self, nodes: Iterable[Node]) -> None:
        """Know these no longer."""
        gone = [node for node in nodes if self.known.get(id(node.live)) is node]
        for node in gone:
            del self.known[id(node.live)]
        self._take_out(gone)

    def retain(self, nodes: set[Node]) -> None:
        """Know no other objects than these."""
        kept = [node for node in self.known.values() if node in nodes]
        self.known, self.blocks, self.alone, self.hot = {}, {}, [], 0
        self.add_aside([node for node in kept if node.place == ASIDE])
        self.add([node for node in kept if node.place != ASIDE])

    def _group(self, nodes: list[Node], patience: int, *, calm: bool = False) -> None:
        """In new blocks; what they hold now are their contents."""
        size = _CALM if calm else _BLOCK
        for start in range(0, len(nodes), size):
            block = self.blocks[self.next] = Block(nodes[start : start + size], patience, calm=calm)
            for node in block.nodes:
                node.place = self.next
            self.next += 1

    def _calm_down(self) -> None:
        """Where a large block has not changed for long, and not now, put all such blocks together into calm ones."""
        still = {n: block for n, block in self.blocks.items() if block.quiet >= block.patience}
        if any(len(block.nodes) > _FEW and not block.calm for block in still.values()):
            joined = [number for number, block in still.items() if len(block.nodes) <= _CALM // 2]
            patience = max([still[number].patience for number in joined])
            self._group([node for number in joined for node in self.blocks.pop(number).nodes], patience, calm=True)

    def _disturb(self, number: int) -> None:
        """Something in a calm block has changed: it is an ordinary one again, and longer than before."""
        block = self.blocks.pop(number)
        self._group(block.nodes, _MORE * block.patience)

    def _take_out(self, nodes: Sequence[Node]) -> None:
        """Out of the blocks and of those alone; what a block that shrank keeps may go into another."""
        touched, left = self._by_block(nodes), list[Node]()
        if any(node.place == ALONE for node in nodes):
            out = set(nodes)
            self.hot = max(0, self.hot - sum([node.place == ALONE and node.groupable for node in nodes]))
            self.alone = [node for node in self.alone if node not in out]
        for node in nodes:
            node.place = ALONE
        for number in touched:
            block = self.blocks[number]
            block.nodes = [node for node in block.nodes if node.place == number]
            if len(block.nodes) < _FEW:
                left += self.blocks.pop(number).nodes
            else:
                block.lay_out()
        self.add(left)

    def _by_block(self, nodes: Iterable[Node]) -> dict[int, list[Node]]:
        touched: dict[int, list[Node]] = {}
        for node in nodes:
            if node.place >= 0:
                touched.setdefault(node.place, []).append(node)
        return touched
