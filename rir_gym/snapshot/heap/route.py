"""The way from one saved state to another: what the objects hold there, and which of them must be looked at.

What an object holds at a version is certain only where it was compared when that version was saved. One that was set
aside there may share its memory with another that went on changing (the ``__dict__`` of an instance, the seed sequence
of a generator): it must not be written. So a version says which objects were set aside at it, and which came back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rir_gym.snapshot.heap.reach import walk_from
from rir_gym.snapshot.heap.resolve import Found
from rir_gym.snapshot.heap.table import ASIDE, Node, Table
from rir_gym.snapshot.heap.versions import NEW, Version

__all__ = ["Route", "route"]


@dataclass(slots=True)
class Route:
    """What changes on the way to a version.

    ``want``: what objects hold there, of those that changed. ``gone``: known here, not there; ``want`` has what it held
    when it was met, since it may be met again by another way. ``born``: known there, not here. ``aside``: not compared
    there. ``back``: set aside or not known here, and reached there.
    """

    want: dict[Node, Any]
    gone: dict[Node, None] = field(default_factory=dict)
    born: dict[Node, None] = field(default_factory=dict)
    aside: dict[Node, None] = field(default_factory=dict)
    back: dict[Node, None] = field(default_factory=dict)


def route(table: Table, kind: Callable[[type], Found], here: Version, there: Version, want: dict[Node, Any]) -> Route:
    """The way from one version to another of the same tree; ``want`` has what is to be put back in any case."""
    way, down = Route(want), list[Version]()
    while here is not there:
        if here.depth >= there.depth:
            for node, old, _ in here.changes():
                if old is not NEW:
                    want[node] = old
                else:
                    way.gone[node] = None
            way.aside |= dict.fromkeys(here.back)
            assert here.parent is not None
            here = here.parent
        else:
            down.append(there)
            assert there.parent is not None
            there = there.parent
    for step in reversed(down):
        for node, old, new in step.changes():
            want[node] = new
            if old is NEW:
                way.born[node] = None
        for node in step.back:
            way.aside.pop(node, None)
        way.aside |= dict.fromkeys(step.aside)
    if way.aside or table.size > table.compared:
        _lead(table, kind, way)
    else:
        way.back = way.born
    return way


def _lead(table: Table, kind: Callable[[type], Found], way: Route) -> None:
    """Find the objects that come back.

    A way to such an object leaves those that are compared at one whose content is another there than here.
    """
    known, want = table.known, way.want
    there = {id(node.live): node for node in way.born}
    # what is known both here and there, by two nodes, may stand in the same place there as here
    starts = [node.live for node in way.born if id(node.live) in known and node not in way.aside]
    for node, content in want.items():
        if content is not node.content and node not in way.gone and node not in way.aside and table.watches(node):
            # an object that was set aside on the way may stand in the same place there as here, too
            starts.extend(node.kind.children(content, None if way.aside else node.content))

    def held(thing: Any) -> Iterable[Any] | None:
        node = there.get(id(thing)) or known.get(id(thing))
        if node is None:
            return None
        if node in way.gone or not (node.place == ASIDE or node in way.born or node in way.aside):
            return ()
        way.back[node] = None
        return node.kind.children(want.setdefault(node, node.content), None)

    walk_from(starts, kind, held)
