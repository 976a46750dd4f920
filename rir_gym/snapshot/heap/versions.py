"""The tree of saved states: what changed since the parent of each, and how a dropped one leaves the tree.

A version holds its parent, and its parent knows it only weakly: versions that nobody holds are gone. This module knows
no objects, only that a change is (object, old content, new content).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from rir_gym.snapshot.heap.table import Node

__all__ = ["NEW", "Version", "tree"]

NEW: Any = None
"""The old content of an object that its version was the first to meet."""


class Version:
    """One saved state: what changed since its parent, as (object, old content, new content) in one flat list.

    ``owner`` is the mark of the heap that it belongs to; None is none. ``aside`` are the objects that are not compared
    from here on, ``back`` those that are again.
    """

    __slots__ = ("__weakref__", "aside", "back", "base_bytes", "branches", "delta", "depth", "kept", "owner", "parent")

    def __init__(self, owner: object, parent: Version | None, delta: list[Any]) -> None:
        self.owner = owner
        self.parent = parent
        self.delta = delta
        self.depth: int = 0
        self.aside: Sequence[Node] = ()
        self.back: Sequence[Node] = ()
        self.branches: list[weakref.ref[Version]] = []
        self.kept = owner is not None
        self.base_bytes = 0
        if parent is not None:
            self.depth = parent.depth + 1
            parent.branches.append(weakref.ref(self))

    def children(self) -> list[Version]:
        """Those that are left of the versions saved from here."""
        living = [child for branch in self.branches if (child := branch()) is not None]
        if len(living) < len(self.branches):
            self.branches = [weakref.ref(child) for child in living]
        return living

    def leave(self) -> Version | None:
        """Out of the tree, a leaf or a link between two; what is changed here goes into the child. The parent."""
        parent, children = self.parent, self.children()
        if parent is not None:
            parent.branches = [branch for branch in parent.branches if branch() is not self]
        for child in children:  # at most one
            child.parent = parent
            if parent is not None:
                child.delta = _composed(self, child)
                aside = _union(_without(self.aside, child.back), child.aside)
                child.back = _union(self.back, _without(child.back, self.aside))
                child.aside = aside
                parent.branches.append(weakref.ref(child))
            else:
                child.delta, child.aside, child.back, child.base_bytes = [], (), (), self.base_bytes
        self.parent, self.branches, self.delta = None, [], []
        return parent

    def changes(self) -> Iterator[tuple[Node, Any, Any]]:
        """(object, old, new) of each change."""
        parts = iter(self.delta)
        return zip(parts, parts, parts, strict=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Version:
        return _lost()

    def __reduce__(self) -> tuple[Any, ...]:
        return _lost, ()


def tree(at: Version | None) -> Iterator[Version]:
    """Every version of the tree in which one stands."""
    while at is not None and at.parent is not None:
        at = at.parent
    stack = [at] if at is not None else []
    while stack:
        version = stack.pop()
        yield version
        stack.extend(version.children())


def _lost() -> Version:
    """A copy of a version belongs to no heap: restoring it is refused."""
    return Version(None, None, [])


def _without(some: Sequence[Node], others: Sequence[Node]) -> Sequence[Node]:
    left_out = set(others)
    return [node for node in some if node not in left_out]


def _union(some: Sequence[Node], others: Sequence[Node]) -> Sequence[Node]:
    return tuple({**dict.fromkeys(some), **dict.fromkeys(others)})


def _composed(first: Version, second: Version) -> list[Any]:
    """The changes of two versions in a row as those of one."""
    old: dict[Node, Any] = {}
    new: dict[Node, Any] = {}
    for node, before, after in itertools.chain(first.changes(), second.changes()):
        old.setdefault(node, before)
        new[node] = after
    return [part for node in old for part in (node, old[node], new[node])]
