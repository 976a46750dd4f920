"""What a kind is: how one type of mutable object is read, compared and written, in place and shallowly.

A kind turns an object into a *content*, an immutable value that holds what the object holds by reference, and writes
such a content back into the same object. This module knows no type and no versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

__all__ = ["Kind", "compare_first"]


class Kind(Protocol):
    """How one type of object is read, compared and written."""

    grouped: bool
    """True where ``gc.get_referents`` of the object (and of its ``__dict__``), with string keys, tells every change."""

    def read(self, live: Any, last: Any) -> Any:
        """The content now; ``last`` is the content before, whose unchanged chunks are shared."""
        ...

    def same(self, live: Any, content: Any) -> bool:
        """Whether the object holds exactly this content, by identity."""
        ...

    def now(self, live: Any, last: Any) -> Any:
        """``last`` itself where the object holds exactly that, else the content now, as ``read``."""
        ...

    def write(self, live: Any, content: Any) -> None:
        """Make the object hold this content."""
        ...

    def children(self, content: Any, last: Any) -> Iterable[Any]:
        """What the content holds, at least where ``last`` did not; None is no content before."""
        ...

    def size(self, content: Any, last: Any) -> int:
        """Bytes that this content takes beyond what it shares with ``last``."""
        ...


def compare_first(self: Kind, live: Any, last: Any) -> Any:
    """The ``now`` of kinds that compare more cheaply than they read."""
    return last if self.same(live, last) else self.read(live, last)
