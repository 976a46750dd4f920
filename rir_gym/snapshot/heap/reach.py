"""What can be reached from an object, through the contents that a heap knows and through objects that are not written.

Unlike the walk of a save it refuses nothing and reads nothing anew. This module knows no versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rir_gym.snapshot.heap.resolve import Found, Walk

__all__ = ["ATOMS", "walk_from"]

ATOMS = frozenset({int, str, float, bool, type(None), bytes})
"""What holds nothing and is never written."""


def walk_from(live: Iterable[Any], kind: Callable[[type], Found], held: Callable[[Any], Iterable[Any] | None]) -> None:
    """Meet every object that can be reached, once.

    ``held`` is called with each: it gives what the object holds, or None where that is to be seen from its type.
    """
    met: dict[int, Any] = {}
    stack = list(live)
    while stack:
        thing = stack.pop()
        cls = type(thing)
        if cls in ATOMS or id(thing) in met:
            continue
        met[id(thing)] = thing
        inside = held(thing)
        if inside is None and isinstance(found := kind(cls), Walk):
            inside = found.children(thing)
        if inside is not None:
            stack.extend(inside)
