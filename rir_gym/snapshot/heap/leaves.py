"""Objects that a registered adapter saves and restores, as leaves inside the heap. Knows no versions."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from rir_gym.snapshot.heap.states import is_same, nested_size
from rir_gym.snapshot.native import Adapter

__all__ = ["LeafKind"]


class _Saved:
    """A saved state; where its adapter has a ``close``, that is called when no version holds the state any more."""

    __slots__ = ("__weakref__", "state")

    def __init__(self, state: Any, adapter: Adapter) -> None:
        self.state = state
        if adapter.close is not None:
            weakref.finalize(self, adapter.close, state).atexit = False


class LeafKind:
    """The state that an adapter gives stands for all that the object holds; the heap does not look into it."""

    grouped = False

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    def read(self, live: Any, last: Any) -> _Saved:
        """The state now."""
        return _Saved(self.adapter.save(live), self.adapter)

    def same(self, live: Any, content: _Saved) -> bool:
        """Whether the state now equals that one."""
        return is_same(self.read(live, None).state, content.state)

    def now(self, live: Any, last: _Saved) -> _Saved:
        """The state now; one that equals the last is thrown away."""
        saved = self.read(live, None)
        return last if is_same(saved.state, last.state) else saved

    def write(self, live: Any, content: _Saved) -> None:
        """Put the state back."""
        self.adapter.restore(live, content.state)

    def children(self, content: _Saved, last: Any) -> Iterable[Any]:
        """None that the heap meets."""
        return ()

    def size(self, content: _Saved, last: Any) -> int:
        """Bytes of the state, as far as plain values tell."""
        return nested_size(content.state)
