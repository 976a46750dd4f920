"""Objects are made to hold what they held at another version: all of them, or none.

What they held there is the business of ``route``. This module knows no tree of versions.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.heap.kinds import BothKind, DictKind, SetKind
from rir_gym.snapshot.heap.route import Route
from rir_gym.snapshot.heap.table import ASIDE, Change, Node, Table

__all__ = ["rewind"]

_LATE = (DictKind, SetKind, BothKind)  # their keys may be hashed by fields that are written first


def rewind(table: Table, way: Route, dirty: list[Change]) -> None:
    """Go a way; ``dirty`` are the objects that have changed since the version that it leaves, as they are.

    Raises:
        SnapshotError: an object could not be written. All are as they were before.
    """
    want = way.want
    drifted = [node for node in way.gone if node.place == ASIDE and not _holds(node, want.get(node, node.content))]
    for node in drifted:
        want.setdefault(node, node.content)
    before = dict(dirty)
    for node in (*way.back, *drifted):
        before[node] = node.kind.read(node.live, node.content)
    written = [node for node, content in want.items() if node in before or content is not node.content]
    if way.aside or table.size > table.compared:
        written = [node for node in written if _is_sure(node, table, way, before)]
    written.sort(key=lambda node: (node not in way.gone, isinstance(node.kind, _LATE)))
    _write(written, way, before)
    for node, content in want.items():
        node.content = content
    table.discard(way.gone)
    table.settle(written)
    table.add_aside([node for node in way.born if node not in way.back])
    table.set_aside([node for node in way.aside if node not in way.back and table.watches(node)])
    table.add([node for node in way.back if not table.watches(node)])


def _is_sure(node: Node, table: Table, way: Route, before: dict[Node, Any]) -> bool:
    """Whether what the way says of an object may be written: it was compared there."""
    if node in way.aside and node not in way.gone and node not in way.back:
        return False
    return node in before or table.watches(node)


def _write(nodes: list[Node], way: Route, before: dict[Node, Any]) -> None:
    done: list[Node] = []
    try:
        for node in nodes:
            done.append(node)
            if node not in way.back or not _holds(node, way.want[node]):
                node.kind.write(node.live, way.want[node])
    except Exception as error:
        for node in done:
            with suppress(Exception):  # what cannot be written at all was not changed; the others go back
                node.kind.write(node.live, before.get(node, node.content))
        raise SnapshotError(f"heap: a {type(done[-1].live).__name__} could not be written: {error}") from error


def _holds(node: Node, content: Any) -> bool:
    return node.kind.same(node.live, content)
