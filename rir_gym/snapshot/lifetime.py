"""How long checkpoints are kept: pure functions from those that are kept to those that are to go.

The root's checkpoint and the newest one never go. Nothing here knows a world, a mechanism or a token.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from rir_gym.arguments import check_limit
from rir_gym.errors import UsageError

__all__ = ["KEEP_ALL", "Kept", "Lifetime", "thinned"]

_ROOT = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """What a policy knows of one checkpoint.

    Args:
        node: the id of its node; 0 is the root.
        t: the restore point of its node.
        size: bytes that it holds.
        age: how far back it is: in steps of the current branch where it lies on it, else in real steps since it was
            reached.
    """

    node: int
    t: int
    size: int
    age: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """What the wrapper was asked to keep: all, the last so many, so many bytes, or both limits at once.

    Args:
        last: so many checkpoints besides the root's, the latest ones in the order in which the world left their nodes
            (leaving a node again after a rollback counts anew); None is no limit.
        max_bytes: once the sizes exceed it, ``thinned`` says what goes; None is no limit.
    """

    last: int | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, keep: object, keep_bytes: object) -> Lifetime:
        """From the arguments of the wrapper.

        Raises:
            UsageError: ``keep`` is neither "all" nor an int of at least 1; ``keep_bytes`` neither None nor such an int.
        """
        if keep != "all" and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise UsageError(f"keep={keep!r}: 'all', or an int of at least 1")
        check_limit("keep_bytes", keep_bytes, 1)
        return cls(keep if isinstance(keep, int) else None, keep_bytes if isinstance(keep_bytes, int) else None)

    def surplus(self, kept: Collection[int]) -> list[int]:
        """What goes because of ``last``: the ids that come first in ``kept``, which is in the order of leaving."""
        if self.last is None or (excess := len(kept) - (_ROOT in kept) - self.last) <= 0:
            return []
        return list(islice((node for node in kept if node != _ROOT), excess))


KEEP_ALL = Lifetime()


def thinned(kept: Sequence[Kept], max_bytes: int) -> list[int]:
    """What goes so that the sizes sum to at most three quarters of ``max_bytes``: the past is thinned geometrically.

    A checkpoint is worth keeping until its age exceeds c times the largest power of two that divides its t, so that
    every checkpoint of the last c steps stays, every second up to an age of 2c, every fourth up to 4c, and so on; c is
    as large as the bytes allow. What goes at one c goes at every smaller one, and growing older never brings one back:
    the rule can be applied again and again as time goes on. The last quarter is left free so that it need not be
    applied at every step. The root and the newest, ``kept[-1]``, stay even where they alone exceed the bytes.

    Args:
        kept: at least the newest, in the order of leaving.
    """
    total, goal = sum(one.size for one in kept), max_bytes * 3 // 4
    gone: list[int] = []
    for one in sorted(kept[:-1], key=_dispensable, reverse=True):
        if total <= goal:
            break
        if one.node != _ROOT:
            gone.append(one.node)
            total -= one.size
    return gone


def _dispensable(one: Kept) -> tuple[float, int]:
    """The c below which it goes (the restore point 0 never does), and among equals the older one first."""
    return (one.age / (one.t & -one.t) if one.t else 0.0, one.age)
