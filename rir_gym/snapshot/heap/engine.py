"""The versioned object heap: every mutable object that an environment reaches, and a tree of the changes between saves.

A save looks for the objects whose content is no longer what it was, and keeps (object, old, new) for each of them. A
restore walks from the version where the world stands to the wanted one, over their common ancestor, and writes the
contents that differ back into the same objects. Contents hold strong references, so identity is a sound comparison.

Objects that the world no longer reaches, and only older versions do, are set aside: a save does not compare them. What
holds always: no content of an object that is compared leads to one that is set aside. So where a save meets one, the
world has linked it again, and where a restore leads to one, a change on the way there does; then it is looked at and
compared again.

``Table`` is the seam for a compiled twin: it holds the objects and says which have changed. Everything else here is
bookkeeping on contents. This module knows no environment: its root is any object.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.instances import InstanceKind
from rir_gym.snapshot.heap.reach import ATOMS
from rir_gym.snapshot.heap.resolve import GATED, Found, Opaque, Walk, is_outside, kind_of
from rir_gym.snapshot.heap.rewind import rewind
from rir_gym.snapshot.heap.route import route
from rir_gym.snapshot.heap.table import ASIDE, Change, Node, Table
from rir_gym.snapshot.heap.upkeep import retain_reached, unreached
from rir_gym.snapshot.heap.versions import NEW, Version, tree
from rir_gym.snapshot.transparency import name_of

__all__ = ["Engine", "Stranger", "Version"]

_SWEEP_FROM = 4096
_ASIDE_FROM = 512
_PROCESS_WIDE = (random._inst, np.random.mtrand._rand, np.random.mtrand._rand._bit_generator)
"""Generators that are everybody's: ``snapshot.streams`` puts the environment's view of them back."""


class Stranger(SnapshotError):
    """An object of a type that nobody can say how to save."""

    def __init__(self, live: Any, reason: str) -> None:
        super().__init__(f"heap: {name_of(type(live))}: {reason}")
        self.live = live


class Engine:
    """The heap under one root object. ``skip`` are objects, by id, that are neither saved nor looked into.

    ``apart`` are the fields that stay as they are, whatever they hold, by the id of their instance.
    Nothing here stands in a reference cycle, so that the world's objects die in the order in which they would without a
    heap: some C libraries do not survive another one.
    """

    def __init__(self, root: Any, skip: dict[int, Any], apart: dict[int, frozenset[str]] | None = None) -> None:
        self.root: object = root
        self.skip = {**skip, **{id(shared): shared for shared in _PROCESS_WIDE}}
        self.apart = apart or {}
        self.kinds: dict[type, Found] = {}
        self.forget()

    def forget(self) -> None:
        """All versions are gone, and with them all that is known: what was closed since must not be looked at again."""
        self.at: Version | None = None
        self.identity = object()
        self.table = Table()
        self.swept, self.looked = 0, 0

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
        table, before = self.table, self.at
        if before is None:
            self.discover([self.root], [])
            version = Version(self.identity, None, [])
            for node in table.nodes():
                node.stays = True
                version.base_bytes += node.kind.size(node.content, None)
            self.looked = table.compared
        else:
            delta, back = self.take_in(self.changed())
            version = Version(self.identity, before, delta)
            version.back = back
        self.move(version)
        most = self.looked + self.looked // 4 + _ASIDE_FROM
        if table.size > most and table.compared > most:
            self.set_aside()
        if table.size > 2 * self.swept + _SWEEP_FROM:
            self.sweep()
        return version

    def move(self, version: Version) -> None:
        """Stand at a version; the one left may have been dropped while the world stood there."""
        before, self.at = self.at, version
        if before is not None and not before.kept and before is not version:
            self.prune(before)

    def changed(self) -> list[Change]:
        """The objects that no longer hold their content, with what they hold now."""
        try:
            return self.table.changed()
        except SnapshotError:
            for node in self.table.watched():
                _ask(node.kind.now, node.live, node.content)  # which of them it was
            raise

    def take_in(self, changed: list[Change]) -> tuple[list[Any], Sequence[Node]]:
        """Meet the new objects that the changed ones hold; the changes, and who is back."""
        delta: list[Any] = []
        back: Sequence[Node] = ()
        fresh: list[Any] = []
        for node, content in changed:
            fresh += [thing for thing in node.kind.children(content, node.content) if type(thing) not in ATOMS]
        if fresh:
            back = self.discover(fresh, delta)
        for node, content in changed:
            delta += (node, node.content, content)
            node.content = content
        self.table.accept(changed)
        return delta, back

    def discover(self, live: Iterable[Any], delta: list[Any]) -> Sequence[Node]:
        """Meet every object that is reachable from these and not known yet, or set aside; those that were set aside."""
        found: list[Node] = []
        back: list[Node] = []
        read: list[tuple[Node, Any]] = []
        known, skip = self.table.known, self.skip
        met: dict[int, Any] = {}
        stack = list(live)
        while stack:
            thing = stack.pop()
            cls = type(thing)
            if cls in ATOMS or id(thing) in met or id(thing) in skip:
                continue
            node = known.get(id(thing))
            if node is not None:
                if node.place == ASIDE:
                    met[id(thing)] = thing
                    content = _ask(node.kind.now, thing, node.content)
                    if content is not node.content:
                        read.append((node, content))
                    back.append(node)
                    stack.extend(node.kind.children(content, None))
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
            node = Node(thing, kind, _ask(kind.read, thing, None))
            found.append(node)
            stack.extend(node.kind.children(node.content, None))
        for node, content in read:
            delta += (node, node.content, content)
            node.content = content
        for node in back:
            node.stays = True  # somebody holds it whom the heap does not see
        self.table.add(found + back)
        for node in found:
            delta += (node, NEW, node.content)
        return back

    # --- restore ------------------------------------------------------------------------------------------------------

    def restore(self, version: Version) -> None:
        """Make the world what it was; where an object cannot be written, all are put back as they were before.

        Raises:
            SnapshotError: the version is not kept here, or an object could not be written.
        """
        if version.owner is not self.identity or not version.kept or self.at is None:
            raise SnapshotError("heap: this checkpoint belongs to another world or was dropped")
        dirty = self.table.changed()
        way = route(self.table, self.kind, self.at, version, {node: node.content for node, _ in dirty})
        rewind(self.table, way, dirty)
        self.move(version)

    # --- lifetimes ----------------------------------------------------------------------------------------------------

    def drop(self, version: Version) -> None:
        """This version will not be restored again; its changes go into its children's."""
        if version.owner is self.identity and version.kept:
            version.kept = False
            self.prune(version)

    def prune(self, version: Version) -> None:
        """Take a dropped version out of the tree where it has at most one child (its parent may then follow)."""
        at: Version | None = version
        while at is not None and not at.kept and at is not self.at and len(children := at.children()) < 2:
            parent = at.leave()
            at = None if children else parent

    def size(self, version: Version) -> int:
        """Bytes that a version takes beyond the kept one before it (dropped ones that still join branches count in)."""
        total, at = 0, version
        while True:
            total += at.base_bytes + sum(24 + node.kind.size(new, old) for node, old, new in at.changes())
            if at.parent is None or at.parent.kept:
                return total
            at = at.parent

    def set_aside(self) -> None:
        """Compare no longer what the world does not reach where it stands: at a version that was just saved."""
        assert self.at is not None
        self.at.aside = unreached(self.root, self.kind, self.table)
        self.table.set_aside(self.at.aside)
        self.looked = self.table.compared

    def sweep(self) -> None:
        """Forget the objects that no version reaches any more."""
        retain_reached(self.root, self.kind, self.table, list(self.versions()))
        self.swept = self.table.size

    def versions(self) -> Iterator[Version]:
        """Every version that is still part of the tree."""
        return tree(self.at)


def _ask(read: Callable[[Any, Any], Any], live: Any, last: Any) -> Any:
    try:
        return read(live, last)
    except SnapshotError as error:
        raise Stranger(live, str(error)) from error
