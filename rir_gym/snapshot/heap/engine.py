"""The versioned object heap: every mutable object that an environment reaches, and a tree of the changes between saves.

A save looks for the objects whose content is no longer what it was, and keeps (object, old, new) for each of them. A
restore walks from the version where the world stands to the wanted one, over their common ancestor, and writes the
contents that differ back into the same objects. Contents hold strong references, so identity is a sound comparison.

``Table`` is the seam for a compiled twin: it holds the objects and says which have changed. Everything else here is
bookkeeping on contents. This module knows no environment: its root is any object.
"""

from __future__ import annotations

import itertools
import random
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.instances import InstanceKind
from rir_gym.snapshot.heap.kinds import BothKind, DictKind, Kind, SetKind
from rir_gym.snapshot.heap.resolve import GATED, Found, Opaque, Walk, is_outside, kind_of
from rir_gym.snapshot.heap.table import Node, Table
from rir_gym.snapshot.transparency import name_of

__all__ = ["Engine", "Stranger", "Version"]

_ATOMS = frozenset({int, str, float, bool, type(None), bytes})
_LATE = (DictKind, SetKind, BothKind)  # their keys may be hashed by fields that are written first
_NEW: Any = None
_SWEEP_FROM = 4096
_PROCESS_WIDE = (random._inst, np.random.mtrand._rand, np.random.mtrand._rand._bit_generator)
"""Generators that are everybody's: ``snapshot.streams`` puts the environment's view of them back."""


class Stranger(SnapshotError):
    """An object of a type that nobody can say how to save."""

    def __init__(self, live: Any, reason: str) -> None:
        super().__init__(f"heap: {name_of(type(live))}: {reason}")
        self.live = live


class Version:
    """One saved state: what changed since its parent, as (object, old content, new content) in one flat list."""

    __slots__ = ("__weakref__", "base_bytes", "children", "delta", "depth", "kept", "owner", "parent")

    def __init__(self, engine: Engine, parent: Version | None, delta: list[Any]) -> None:
        self.owner: object = engine.identity
        self.parent = parent
        self.delta = delta
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.children: weakref.WeakSet[Version] = weakref.WeakSet()
        self.kept = True
        self.base_bytes = 0
        if parent is not None:
            parent.children.add(self)

    def changes(self) -> Iterator[tuple[Node, Any, Any]]:
        """(object, old, new) of each change."""
        parts = iter(self.delta)
        return zip(parts, parts, parts, strict=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Version:
        return _lost()

    def __reduce__(self) -> tuple[Any, ...]:
        return _lost, ()


def _lost() -> Version:
    """A copy of a version belongs to no heap: restoring it is refused."""
    version = object.__new__(Version)
    version.owner, version.parent, version.delta, version.depth = None, None, [], 0
    version.children, version.kept, version.base_bytes = weakref.WeakSet(), False, 0
    return version


class Engine:
    """The heap under one root object. ``skip`` are objects, by id, that are neither saved nor looked into.

    ``apart`` are the fields that stay as they are, whatever they hold, by the id of their instance.
    Nothing here stands in a reference cycle, so that the world's objects die in the order in which they would without a
    heap: some C libraries do not survive another one.
    """

    def __init__(self, root: Any, skip: dict[int, Any], apart: dict[int, frozenset[str]] | None = None) -> None:
        self.root: object = root
        self.identity = object()
        self.skip = {**skip, **{id(shared): shared for shared in _PROCESS_WIDE}}
        self.table = Table()
        self.apart = apart or {}
        self.kinds: dict[type, Found] = {}
        self.at: Version | None = None
        self.swept = 0

    def kind(self, cls: type) -> Found:
        """How objects of a class are met."""
        if cls not in self.kinds:
            self.kinds[cls] = kind_of(cls)
        return self.kinds[cls]

    # --- save ---------------------------------------------------------------------------------------------------------

    def save(self) -> Version:
        """The state now, as a child of the version where the world stands.

        Raises:
            Stranger: an object that nobody can say how to save. Nothing was kept.
            SnapshotError: an object that cannot be saved as it is now.
        """
        before = self.at
        if before is None:
            self.discover([self.root], [])
            version = Version(self, None, [])
            version.base_bytes = sum(node.kind.size(node.content, None) for node in self.table.nodes())
        else:
            version = Version(self, before, self.take_in(self.table.changed()))
        self.move(version)
        if self.table.size > 2 * self.swept + _SWEEP_FROM:
            self.sweep()
        return version

    def move(self, version: Version) -> None:
        """Stand at a version; the one left may have been dropped while the world stood there."""
        before, self.at = self.at, version
        if before is not None and before is not version:
            self.prune(before)

    def take_in(self, changed: list[Node]) -> list[Any]:
        """Read the objects that have changed, meet the new ones they hold; the flat list of changes."""
        delta: list[Any] = []
        fresh: list[Any] = []
        read: list[tuple[Node, Any]] = []
        for node in changed:
            content = _read(node.live, node.kind, node.content)
            read.append((node, content))
            fresh.extend(node.kind.children(content, node.content))
        self.discover(fresh, delta)
        for node, content in read:
            delta += (node, node.content, content)
            node.content = content
        self.table.accept(changed)
        return delta

    def discover(self, live: Iterable[Any], delta: list[Any]) -> None:
        """Meet every object that is reachable from these and not known yet."""
        found: list[Node] = []
        known, skip = self.table.known, self.skip
        met: dict[int, Any] = {}
        stack = list(live)
        while stack:
            thing = stack.pop()
            cls = type(thing)
            if cls in _ATOMS or id(thing) in known or id(thing) in met or id(thing) in skip:
                continue
            kind = self.kind(cls)
            if kind is None or (issubclass(cls, GATED) and is_outside(thing)):
                continue
            met[id(thing)] = thing
            if isinstance(kind, Opaque):
                raise Stranger(thing, kind.reason)
            if isinstance(kind, Walk):
                try:
                    stack.extend(kind.children(thing))
                except SnapshotError as error:
                    raise Stranger(thing, str(error)) from error
                continue
            if id(thing) in self.apart and isinstance(kind, InstanceKind):
                kind = kind.without(self.apart[id(thing)])
            node = Node(thing, kind, _read(thing, kind, None))
            found.append(node)
            stack.extend(node.kind.children(node.content, None))
        self.table.add(found)
        for node in found:
            delta += (node, _NEW, node.content)

    # --- restore ------------------------------------------------------------------------------------------------------

    def restore(self, version: Version) -> None:
        """Make the world what it was; where an object cannot be written, all are put back as they were before.

        Raises:
            SnapshotError: the version is not kept here, or an object could not be written.
        """
        if version.owner is not self.identity or not version.kept or self.at is None:
            raise SnapshotError("heap: this checkpoint belongs to another world or was dropped")
        dirty = self.table.changed()
        want = {node: node.content for node in dirty}
        gone, born = self.path(version, want)
        before = {node: node.kind.read(node.live, node.content) for node in (*dirty, *born)}
        written = [node for node in want if node in before or want[node] is not node.content]
        written.sort(key=lambda node: (node not in gone, isinstance(node.kind, _LATE)))
        self.write(written, want, before)
        self.table.discard(gone)
        self.table.settle([node for node in written if node not in gone and node not in born])
        self.table.add(list(born))
        self.move(version)

    def path(self, version: Version, want: dict[Node, Any]) -> tuple[dict[Node, None], dict[Node, None]]:
        """What the objects hold at a version, into ``want``; which are not known there, and which only there.

        One that is not known there is given what it held when it was met: it may be reached again by another way.
        """
        assert self.at is not None
        here, there, down = self.at, version, []
        gone: dict[Node, None] = {}
        born: dict[Node, None] = {}
        while here is not there:
            if here.depth >= there.depth:
                for node, old, _ in here.changes():
                    if old is not _NEW:
                        want[node] = old
                    else:
                        gone[node] = None
                assert here.parent is not None
                here = here.parent
            else:
                down.append(there)
                assert there.parent is not None
                there = there.parent
        for step in reversed(down):
            for node, old, new in step.changes():
                want[node] = new
                if old is _NEW:
                    born[node] = None
        return gone, born

    def write(self, nodes: list[Node], want: dict[Node, Any], before: dict[Node, Any]) -> None:
        """Write contents into objects, all or none."""
        done: list[Node] = []
        try:
            for node in nodes:
                done.append(node)
                node.kind.write(node.live, want[node])
        except Exception as error:
            for node in done:
                with suppress(Exception):  # what cannot be written at all was not changed; the others go back
                    node.kind.write(node.live, before.get(node, node.content))
            raise SnapshotError(f"heap: a {type(done[-1].live).__name__} could not be written: {error}") from error
        for node in nodes:
            node.content = want[node]

    # --- lifetimes ----------------------------------------------------------------------------------------------------

    def drop(self, version: Version) -> None:
        """This version will not be restored again; its changes go into its children's."""
        if version.owner is self.identity and version.kept:
            version.kept = False
            self.prune(version)

    def prune(self, version: Version) -> None:
        """Take a dropped version out of the tree where it has at most one child (its parent may then follow)."""
        parent = version.parent
        if version.kept or version is self.at or len(version.children) > 1:
            return
        if not version.children:
            if parent is not None:
                parent.children.discard(version)
                version.parent, version.delta = None, []
                self.prune(parent)
            return
        (child,) = version.children
        child.parent = parent
        child.delta = _composed(version, child) if parent is not None else []
        if parent is not None:
            parent.children.discard(version)
            parent.children.add(child)
        else:
            child.base_bytes = version.base_bytes
        version.parent, version.children, version.delta = None, weakref.WeakSet(), []

    def forget(self) -> None:
        """All versions are gone, and with them all that is known: what was closed since must not be looked at again."""
        self.at, self.identity, self.table, self.swept = None, object(), Table(), 0

    def size(self, version: Version) -> int:
        """Bytes that a version takes beyond the kept one before it (dropped ones that still join branches count in)."""
        total, at = 0, version
        while True:
            total += at.base_bytes + sum(24 + node.kind.size(new, old) for node, old, new in at.changes())
            if at.parent is None or at.parent.kept:
                return total
            at = at.parent

    def sweep(self) -> None:
        """Forget the objects that no version reaches any more."""
        contents: dict[Node, list[Any]] = {node: [node.content] for node in self.table.nodes()}
        versions = list(self.versions())
        for version in versions:
            for node, old, new in version.changes():
                contents.setdefault(node, []).extend([each for each in (old, new) if each is not _NEW])
        known: dict[int, list[Node]] = {}  # an object that was met on two branches has two nodes
        for node in contents:
            known.setdefault(id(node.live), []).append(node)
        reached: set[Node] = set()
        met: set[int] = set()
        stack: list[Any] = [self.root]
        while stack:
            thing = stack.pop()
            if type(thing) in _ATOMS or id(thing) in met:
                continue
            met.add(id(thing))
            for node in known.get(id(thing), ()):
                reached.add(node)
                for content in contents[node]:
                    stack.extend(node.kind.children(content, None))
            if id(thing) not in known and isinstance(walk := self.kind(type(thing)), Walk):
                stack.extend(walk.children(thing))
        self.table.retain(reached)
        for version in versions:
            version.delta = [part for change in version.changes() if change[0] in reached for part in change]
        self.swept = self.table.size

    def versions(self) -> Iterator[Version]:
        """Every version that is still part of the tree."""
        root = self.at
        while root is not None and root.parent is not None:
            root = root.parent
        stack = [root] if root is not None else []
        while stack:
            version = stack.pop()
            yield version
            stack.extend(version.children)


def _read(live: Any, kind: Kind, last: Any) -> Any:
    try:
        return kind.read(live, last)
    except SnapshotError as error:
        raise Stranger(live, str(error)) from error


def _composed(first: Version, second: Version) -> list[Any]:
    """The changes of two versions in a row as those of one."""
    old: dict[Node, Any] = {}
    new: dict[Node, Any] = {}
    for node, before, after in itertools.chain(first.changes(), second.changes()):
        old.setdefault(node, before)
        new[node] = after
    return [part for node in old for part in (node, old[node], new[node])]
