"""The process-global generators ``random`` and ``numpy.random``, where an environment draws from them.

Until the first rollback such an environment shares them with everybody, exactly as without a wrapper. A rollback puts
back the *environment's* stream only: from then on it runs on a private one, swapped in for each call and out again, so
that nobody else's draws are ever rewound. What the stream was at each node is known from the draws seen so far.
This module knows nodes, and nothing of mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from rir_gym.base import Node
from rir_gym.snapshot.process_rng import ProcessRng, read, same, seeded, write

__all__ = ["GlobalStreams", "untouched"]

T = TypeVar("T")


@contextmanager
def untouched() -> Iterator[None]:
    """Whatever runs inside leaves the global generators as they were."""
    outside = read()
    try:
        yield
    finally:
        if not same(outside, read()):
            write(outside)


class GlobalStreams:
    """What one environment's view of the global generators was at each node of the current episode."""

    def __init__(self) -> None:
        self.used = False
        self._private: ProcessRng | None = None
        self._at: dict[int, ProcessRng] = {}
        self._drawn_from: set[int] = set()
        self._drawn: ProcessRng | None = None

    def begin(self, reset: Callable[[], T]) -> T:
        """Run a reset; a new episode starts on the shared generators."""
        self._private, self._at, self._drawn_from, self._drawn = None, {}, set(), None
        before = read()
        result = reset()
        self.used |= not same(before, read())
        return result

    def step(self, source: Node, call: Callable[[], T]) -> T:
        """Run one step from ``source`` on the environment's stream; note it where the step drew."""
        outside = read()
        start = outside
        if self._private is not None:
            start = self._private
            write(start)
        self._drawn = None
        try:
            return call()
        finally:
            after = read()
            if not same(start, after):
                self.used = True
                self._drawn = after
                self._note(source, start)
            if self._private is not None:
                self._private = after
                write(outside)

    def arrived(self, node: Node) -> None:
        """The node that the last step led to: where it did not draw, its stream stands where its parent's does."""
        assert node.parent is not None
        if (drawn := self._drawn or self._at.get(node.parent.id)) is not None:
            self._at[node.id] = drawn

    def drop(self, node: int) -> None:
        """A node, not the root, that will not be restored again; others may still be."""
        self._at.pop(node, None)

    def rewind(self, node: Node) -> None:
        """Make the environment's stream what it was at ``node``; nobody else's is touched."""
        at: Node | None = node
        while at is not None and at.id not in self._at:
            at = at.parent
        if at is not None:
            self._private = self._at[at.id]

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Give the environment a new private stream, where it uses the global generators at all."""
        if self.used:
            self._private = seeded(seed)

    def _note(self, source: Node, start: ProcessRng) -> None:
        """The first draw at or after a node begins where its stream stands: others may have drawn since it arrived."""
        node: Node | None = source
        while node is not None and node.id not in self._drawn_from:
            self._at[node.id] = start
            self._drawn_from.add(node.id)
            node = node.parent
