"""What is looked at now and then, so that neither time nor memory grows: whom the world, and the versions, still reach.

This module decides nothing: when it is time, and what follows, is the engine's business.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rir_gym.snapshot.heap.reach import walk_from
from rir_gym.snapshot.heap.resolve import Found
from rir_gym.snapshot.heap.table import Node, Table
from rir_gym.snapshot.heap.versions import NEW, Version

__all__ = ["retain_reached", "unreached"]


def unreached(root: Any, kind: Callable[[type], Found], table: Table) -> list[Node]:
    """The objects that are compared and that the world does not reach where it stands; all contents are up to date."""
    known = table.known
    reached: set[Node] = set()

    def held(thing: Any) -> Iterable[Any] | None:
        node = known.get(id(thing))
        if node is not None:
            reached.add(node)
            return node.kind.children(node.content, None)
        return (thing(),) if type(thing) is weakref.ref else None  # the world may come back to it by that

    walk_from([root], kind, held)
    return [node for node in table.watched() if not node.stays and node not in reached]


def retain_reached(root: Any, kind: Callable[[type], Found], table: Table, versions: Sequence[Version]) -> None:
    """Forget the objects that none of the versions reaches any more, nor the world."""
    contents: dict[Node, list[Any]] = {node: [node.content] for node in table.nodes()}
    for version in versions:
        for node, old, new in version.changes():
            contents.setdefault(node, []).extend([each for each in (old, new) if each is not NEW])
    known: dict[int, list[Node]] = {}  # an object that was met on two branches has two nodes
    for node in contents:
        known.setdefault(id(node.live), []).append(node)
    reached: set[Node] = set()

    def held(thing: Any) -> Iterable[Any] | None:
        nodes = known.get(id(thing))
        if nodes is None:
            return None
        reached.update(nodes)
        return [each for n in nodes for content in contents[n] for each in n.kind.children(content, None)]

    walk_from([root], kind, held)
    table.retain(reached)
    for version in versions:
        version.delta = [part for change in version.changes() if change[0] in reached for part in change]
        version.aside = [node for node in version.aside if node in reached]
        version.back = [node for node in version.back if node in reached]
