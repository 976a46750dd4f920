"""Budgets, and the counts that are never rewound.

A rollback puts the world back, never these numbers. The ledger counts role *invocations*; what a role asked a model
besides its first request (re-asks, sub-requests) is counted apart. This module knows no environment and no model.

auxiliary = reviews + coarse + fine + patches (the ledger rule of docs/design.md). For full RIR without abandoned
rollbacks that is reviews + 3 (rollbacks + corrections).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from rir_gym.errors import UsageError

__all__ = ["Budget", "Ledger"]


@dataclass(frozen=True, slots=True)
class Budget:
    """B_agent and B_rb: how many base-agent calls and executed rollbacks one episode may use.

    Raises:
        UsageError: a budget below 1 or not an int.
    """

    agent_calls: int
    rollbacks: int = 3

    def __post_init__(self) -> None:
        for name, value in (("agent_calls", self.agent_calls), ("rollbacks", self.rollbacks)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name}={value!r}: a budget is an int of at least 1")


@dataclass(slots=True)
class Ledger:
    """What one episode has used so far. Every field only grows; change it with ``add``."""

    agent_calls: int = 0
    steps: int = 0
    requests: int = 0
    reviews: int = 0
    coarse: int = 0
    fine: int = 0
    patches: int = 0
    rollbacks: int = 0
    corrections: int = 0
    abandoned: int = 0
    reasks: int = 0
    subrequests: int = 0
    unreadable_actions: int = 0
    unreadable_verdicts: int = 0
    unreadable_intervals: int = 0
    unreadable_restores: int = 0
    unreadable_patches: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    cut_tokens: int = 0

    def add(self, name: str, amount: int = 1) -> None:
        """Count ``amount`` more of ``name``.

        Raises:
            UsageError: an unknown count or a negative amount.
        """
        if amount < 0 or name not in _COUNTS:
            raise UsageError(f"{name}={amount!r}: a count of the ledger grows; counts are {', '.join(_COUNTS)}")
        setattr(self, name, getattr(self, name) + amount)

    @property
    def auxiliary(self) -> int:
        """Invocations of the recovery roles: reviews + coarse + fine + patches."""
        return self.reviews + self.coarse + self.fine + self.patches

    @property
    def unreadable(self) -> int:
        """Replies that could not be read, of every role."""
        return sum(getattr(self, name) for name in _COUNTS if name.startswith("unreadable_"))

    def to_json(self) -> dict[str, int]:
        """All counts by name, and the two sums."""
        return {**asdict(self), "auxiliary": self.auxiliary, "unreadable": self.unreadable}


_COUNTS = tuple(field.name for field in fields(Ledger))
