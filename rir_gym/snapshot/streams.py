"""The process-global generators ``random`` and ``numpy.random``, where an environment draws from them.

Until the first rollback such an environment shares them with everybody, exactly as without a wrapper. A rollback puts
back the *environment's* stream only: from then on it runs on a private one, swapped in for each call and out again, so
that nobody else's draws are ever rewound. What the stream was at each node is known from the draws seen so far.
This module knows nodes, and nothing of mechanisms.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from rir_gym.base import Node

__all__ = ["GlobalStreams"]

T = TypeVar("T")
State = tuple[Any, Any]


class GlobalStreams:
    """What one environment's view of the global generators was at each node of the current episode."""

    def __init__(self) -> None:
        self.used = False
        self._private: State | None = None
        self._at: dict[int, State] = {}
        self._drawn: State | None = None

    def begin(self, reset: Callable[[], T]) -> T:
        """Run a reset; a new episode starts on the shared generators."""
        self._private, self._at, self._drawn = None, {}, None
        before = _states()
        result = reset()
        self.used |= not _same(before, _states())
        return result

    def step(self, source: Node, call: Callable[[], T]) -> T:
        """Run one step from ``source`` on the environment's stream; note it where the step drew."""
        outside = _states()
        start = outside
        if self._private is not None:
            start = self._private
            _set(start)
        self._drawn = None
        try:
            return call()
        finally:
            after = _states()
            if not _same(start, after):
                self.used = True
                self._drawn = after
                self._fill(source, start)
            if self._private is not None:
                self._private = after
                _set(outside)

    def arrived(self, node: Node) -> None:
        """The node that the last step led to."""
        if self._drawn is not None:
            self._at[node.id] = _packed(self._drawn)

    def rewind(self, node: Node) -> None:
        """Make the environment's stream what it was at ``node``; nobody else's is touched."""
        at: Node | None = node
        while at is not None and at.id not in self._at:
            at = at.parent
        if at is not None:
            self._private = _unpacked(self._at[at.id])

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Give the environment a new private stream, where it uses the global generators at all."""
        if self.used:
            python, legacy = seed.generate_state(2)
            self._private = (
                random.Random(int(python)).getstate(),
                np.random.RandomState(int(legacy)).get_state(legacy=False),
            )

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Whatever runs inside leaves the global generators as they were."""
        outside = _states()
        try:
            yield
        finally:
            _set(outside)

    def _fill(self, source: Node, start: State) -> None:
        packed = _packed(start)
        node: Node | None = source
        while node is not None and node.id not in self._at:
            self._at[node.id] = packed
            node = node.parent


def _states() -> State:
    return random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002


def _set(state: State) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])  # noqa: NPY002


def _same(a: State, b: State) -> bool:
    if a[0] != b[0]:
        return False
    x, y = a[1], b[1]
    return bool(
        x["state"]["pos"] == y["state"]["pos"]
        and x["has_gauss"] == y["has_gauss"]
        and x["gauss"] == y["gauss"]
        and np.array_equal(x["state"]["key"], y["state"]["key"])
    )


def _packed(state: State) -> State:
    """625 Python ints take 20 kB; as an array they take 2.5."""
    version, numbers, gauss = state[0]
    return (version, array("L", numbers), gauss), state[1]


def _unpacked(state: State) -> State:
    version, numbers, gauss = state[0]
    return (version, tuple(numbers), gauss), state[1]
