"""The operator R_{k,M+} as a value, the space it is chosen from, and restrictions of that choice with their order.

R_{k,M+}: (s_t, h_t, M) ↦ (s_{t−k}, h_{t−k}, M+), with k ∈ K_t and M+ ∈ 𝕄(M, τ). A mechanism restricts the choice of
(k, M+); ``a <= b`` says that b allows whatever a allows, in every space, and is decided exactly on the rules here.
Source: Yu et al., "Rollback the World, Keep the Reflection", arXiv 2609.18304; the rules as data are ours. This module
knows no environment, no role and no mechanism.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from rir_gym.errors import UsageError
from rir_gym.memory import Memory

__all__ = ["WHOLE", "Depths", "Memories", "Operator", "Restriction", "Space"]

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Operator:
    """R_{k,M+}: undo the last ``depth`` steps and go on with ``memory``.

    Two in a row are one: depths add, the later memory stays.

    >>> from rir_gym.memory import ReflectionMemory
    >>> Operator(2, ReflectionMemory("g"))(("C0", "C1", "C2", "C3"))[0]
    ('C0', 'C1')
    """

    depth: int
    memory: Memory

    def __call__(self, past: Sequence[C]) -> tuple[tuple[C, ...], Memory]:
        """The checkpoints C_0..C_t that are left, and M+.

        Raises:
            UsageError: a depth that is not in 0..t.
        """
        if not 0 <= self.depth < len(past):
            raise UsageError(f"depth={self.depth!r}: 0 to {len(past) - 1}")
        return tuple(past[: len(past) - self.depth]), self.memory


@dataclass(frozen=True, slots=True)
class Space:
    """What the choice is made from at a step: t, I_t as indices of the branch, and M.

    ``depths`` is K_t = {t − r : r ∈ I_t}.
    """

    t: int
    restorable: frozenset[int]
    memory: Memory

    @property
    def depths(self) -> frozenset[int]:
        """K_t."""
        return frozenset(self.t - r for r in self.restorable)


@dataclass(frozen=True, slots=True)
class Depths:
    """Which k a mechanism may choose. "start" is the deepest of K_t: k = t wherever step 0 can be restored.

    Args:
        kind: "none", "between" (``least`` ≤ k ≤ ``most``, both included; None is no bound) or "start".

    Raises:
        UsageError: an empty range, or bounds where the kind has none.
    """

    kind: Literal["none", "between", "start"] = "between"
    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        """Refuse a range that holds nothing."""
        bounded = self.kind == "between"
        if self.least < 0 or (self.most is not None and self.most < self.least):
            raise UsageError(f"least={self.least!r}, most={self.most!r}: 0 <= least <= most")
        if self.kind not in ("none", "between", "start") or (not bounded and (self.least, self.most) != (0, None)):
            raise UsageError(f"kind={self.kind!r}: 'between' with bounds, 'none' or 'start' without")

    @classmethod
    def none(cls) -> Depths:
        """No recovery at all."""
        return cls("none")

    @classmethod
    def zero(cls) -> Depths:
        """k = 0: the context is corrected and nothing is restored."""
        return cls("between", 0, 0)

    @classmethod
    def at_most(cls, most: int) -> Depths:
        """0 ≤ k ≤ most."""
        return cls("between", 0, most)

    @classmethod
    def start(cls) -> Depths:
        """k = t."""
        return cls("start")

    def allows(self, depth: int, depths: Collection[int]) -> bool:
        """Whether k = ``depth`` may be chosen where K_t = ``depths``."""
        if self.kind == "none" or depth not in depths:
            return False
        if self.kind == "start":
            return depth == max(depths)
        return self.least <= depth and (self.most is None or depth <= self.most)

    def __le__(self, other: Depths) -> bool:
        """Whether ``other`` allows whatever this allows, for every K_t."""
        if self.kind == "none" or self == other:
            return True
        if other.kind != "between":
            return False
        if self.kind == "start":
            return other.least == 0 and other.most is None
        within = other.most is None or (self.most is not None and self.most <= other.most)
        return other.least <= self.least and within

    def __str__(self) -> str:
        if self.kind != "between":
            return {"none": "no recovery", "start": "k = t (the start)"}[self.kind]
        if self.most is None:
            return "any k" if self.least == 0 else f"k >= {self.least}"
        return f"k = {self.least}" if self.least == self.most else f"{self.least} <= k <= {self.most}"


@dataclass(frozen=True, slots=True)
class Memories:
    """Which M+ a mechanism may choose: M itself always; "notes": also a memory of at most ``most`` notes; "any": all.

    A memory has notes where it has a tuple ``notes``. ``most`` None is no bound.

    Raises:
        UsageError: a bound below 1, or one where the kind has none.
    """

    kind: Literal["unchanged", "notes", "any"] = "any"
    most: int | None = None

    def __post_init__(self) -> None:
        """Refuse a bound that is none."""
        if self.kind not in ("unchanged", "notes", "any") or (self.kind != "notes" and self.most is not None):
            raise UsageError(f"kind={self.kind!r}, most={self.most!r}: 'unchanged', 'any', or 'notes' with a bound")
        if self.most is not None and self.most < 1:
            raise UsageError(f"most={self.most!r}: at least 1, or None")

    @classmethod
    def unchanged(cls) -> Memories:
        """M+ = M."""
        return cls("unchanged")

    @classmethod
    def notes(cls, most: int | None = None) -> Memories:
        """A list of at most so many notes."""
        return cls("notes", most)

    def allows(self, after: Memory, before: Memory) -> bool:
        """Whether M+ = ``after`` may be chosen where M = ``before``."""
        if self.kind == "any" or after == before:
            return True
        kept = getattr(after, "notes", None)
        return self.kind == "notes" and isinstance(kept, tuple) and (self.most is None or len(kept) <= self.most)

    def __le__(self, other: Memories) -> bool:
        """Whether ``other`` allows whatever this allows, for every M."""
        if self.kind == "unchanged" or other.kind == "any" or self == other:
            return True
        if self.kind != "notes" or other.kind != "notes":
            return False
        return other.most is None or (self.most is not None and self.most <= other.most)

    def __str__(self) -> str:
        if self.kind == "notes":
            return "M+ = notes" if self.most is None else f"M+ = at most {self.most} notes"
        return "M+ = M" if self.kind == "unchanged" else "any M+"


@dataclass(frozen=True, slots=True)
class Restriction:
    """The (k, M+) that a mechanism restricts itself to. The default is the whole operator, which is full RIR.

    ``nodes="tree"`` restores any kept node of the episode, also one that is no ancestor. Such a jump has no k, so it is
    outside the operator's class, and nothing of that kind is ever ``<=`` one that keeps to the branch.

    Raises:
        UsageError: ``nodes="tree"`` together with a rule on k, or an unknown ``nodes``.

    >>> ablation = Restriction(Depths.zero())
    >>> ablation <= Restriction(), Restriction() <= ablation, str(ablation)
    (True, False, 'k = 0; any M+')
    """

    depths: Depths = Depths()
    memories: Memories = Memories()
    nodes: Literal["branch", "tree"] = "branch"

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.nodes not in ("branch", "tree") or (self.nodes == "tree" and self.depths != Depths()):
            raise UsageError(f"nodes={self.nodes!r}, depths={self.depths}: 'branch', or 'tree' with any k")

    def allows(self, operator: Operator, space: Space) -> bool:
        """Whether this (k, M+) is in the declared part of the space."""
        within = self.depths.allows(operator.depth, space.depths)
        return within and self.memories.allows(operator.memory, space.memory)

    def __le__(self, other: Restriction) -> bool:
        """Whether ``other`` allows whatever this allows: then its best policy is at least as good."""
        nodes = self.nodes == "branch" or other.nodes == "tree"
        return nodes and self.depths <= other.depths and (self.depths.kind == "none" or self.memories <= other.memories)

    def __str__(self) -> str:
        return f"{self.depths}; {self.memories}{'; any kept node' if self.nodes == 'tree' else ''}"


WHOLE = Restriction()
"""The whole operator, unrestricted: full RIR."""
