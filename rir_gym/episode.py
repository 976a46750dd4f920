"""What a run leaves behind: the whole tree, what every role said, the ledger, the memory. Knows no file format."""

from __future__ import annotations

from dataclasses import dataclass

from rir_gym.base import Decision, Node, Patch, Restore, Verdict
from rir_gym.ledger import Budget, Ledger
from rir_gym.memory import Memory

__all__ = ["Episode", "Event"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing a role decided, in order: where on the tree it happened, the value, and what became of it.

    ``outcome``: for the agent "executed", "dropped", "submitted", "declined" or "unparsed"; for a review one of
    ``Review.outcome``; for a localization or a patch "" (the review it belongs to precedes it).
    """

    node: int
    t: int
    value: Decision | Verdict | Restore | Patch
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished run: the whole tree, what every role said, the ledger and the memory at the end.

    Args:
        nodes: every node in the order of real steps, abandoned branches included; ``nodes[i].id == i``.
        last: the node where the run stopped; its branch is the surviving one.
        stopped: why it ended: "terminated", "truncated", "agent_calls" (budget spent), "final" (unstepped response),
            "quit" (a person's own end).
        final_response: the text of an unstepped final response, else None.
    """

    seed: int
    objective: str
    mechanism: str
    budget: Budget
    nodes: tuple[Node, ...]
    last: Node
    events: tuple[Event, ...]
    ledger: Ledger
    memory: Memory
    stopped: str
    final_response: str | None = None

    @property
    def success(self) -> bool:
        """The environment's own success flag where the run stopped (False where it has none)."""
        return bool((self.last.step.oracle or {}).get("success", False))

    @property
    def score(self) -> float:
        """The environment's own score in [0, 1] where the run stopped (0 where it has none)."""
        return float((self.last.step.oracle or {}).get("score", 0.0))
