"""The values that flow through the loop, and the four roles as function types.

Everything is a frozen dataclass; n is the number of episodes in a batch everywhere. A role maps n views to n
decisions and keeps no state, so a batch is one model call. This module knows no environment, model or mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from rir_gym.calls import Call, Message
from rir_gym.history import Checkpoint, Node, RestorePoint, Step
from rir_gym.knowledge import Oracle, OracleView
from rir_gym.memory import Fact, Memory, ReflectionMemory
from rir_gym.operator import WHOLE, Restriction

__all__ = [
    "Act",
    "Call",
    "Checkpoint",
    "Decision",
    "DecisionKind",
    "Mechanism",
    "MemoryPosition",
    "Message",
    "Node",
    "Oracle",
    "OracleView",
    "Patch",
    "Restore",
    "RestorePoint",
    "Restriction",
    "Review",
    "Signals",
    "Step",
    "Verdict",
    "VerdictKind",
    "View",
    "What",
    "When",
    "Where",
]

MemoryPosition = Literal["system", "tail"]


@dataclass(frozen=True, slots=True)
class Signals:
    """ξ: cheap, computed signals on the current branch. See ``rir_gym.signals``."""

    repeated_actions: int = 0
    no_effect_steps: tuple[int, ...] = ()
    cycle_length: int = 0


@dataclass(frozen=True, slots=True)
class Review:
    """How the last review ended: the schedule (t_rev, L) follows from it, so that roles keep no state.

    ``step`` is t_rev. ``urgency`` is the ρ that set L, or None where L is L_0 (before any review, after a rollback).
    ``requested`` says that the agent had asked for it.
    """

    step: int
    urgency: float | None
    outcome: Literal["continue", "rollback", "correction", "refused", "abandoned", "unparsed"]
    requested: bool = False
    diagnosis: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """All that a role may know about one episode at one moment.

    Args:
        seed: the episode's seed; with ``agent_calls`` it fixes every draw a role makes.
        run: a serial number of this run in this process; it fixes nothing and is not recorded.
        objective: g.
        history: h_t, steps 0..t of the current branch.
        memory: M.
        proposed: the agent's decision under review; None when the agent itself is asked.
        last_review: None before the first review of the episode.
        terminal: True where the environment has ended and this is the review of that end.
        restorable: I_t, the restore points that can be restored now, the current one (k = 0) included.
        agent_calls, agent_calls_left, rollbacks_left: the budgets N_agent, B_agent − N_agent, B_rb − N_rb.
        can_submit: True where the environment has a final response.
        oracle: None unless the mechanism declares ``uses_oracle``.
        node: id of the node where the world stands.
    """

    seed: int
    objective: str
    history: tuple[Step, ...]
    memory: Memory
    proposed: Decision | None = None
    last_review: Review | None = None
    terminal: bool = False
    signals: Signals = Signals()
    restorable: tuple[RestorePoint, ...] = ()
    agent_calls: int = 0
    agent_calls_left: int = 0
    rollbacks_left: int = 0
    can_submit: bool = False
    memory_position: MemoryPosition = "system"
    oracle: OracleView | None = None
    run: int = 0
    node: int = 0

    @property
    def t(self) -> int:
        """Index of the current step on the branch: the number of actions taken on it."""
        return len(self.history) - 1

    @property
    def observation(self) -> Any:
        """o_t."""
        return self.history[-1].observation

    @property
    def admissible(self) -> Sequence[str] | None:
        """The admissible commands now; None where the environment does not list them."""
        return self.history[-1].admissible


class DecisionKind(Enum):
    """What the agent answered."""

    ACTION = "action"
    REQUEST = "request"
    FINAL = "final"
    UNPARSED = "unparsed"


@dataclass(frozen=True, slots=True)
class Decision:
    """The agent's a_t: a task action, a request for review, a final response, or UNPARSED.

    Args:
        action: the task action (any type), or the text of the final response; None otherwise.
        thought: what the agent said before it.
        target: the restore point that a request asked for, where it named one.
        agent_calls: how many actions were sampled, drafted or refined for it; each counts against B_agent. 0: it was
            among those that an earlier decision of the episode had sampled.
        sampled: the different actions that were sampled for it, where there were several.
    """

    kind: DecisionKind
    action: Any = None
    thought: str = ""
    target: int | None = None
    calls: tuple[Call, ...] = ()
    agent_calls: int = 1
    sampled: tuple[Any, ...] = ()

    @classmethod
    def act(cls, action: Any, *, thought: str = "", calls: tuple[Call, ...] = ()) -> Decision:
        """A task action."""
        return cls(DecisionKind.ACTION, action, thought, calls=calls)


class VerdictKind(Enum):
    """What a review found; NOT_DUE is no review at all and is not counted."""

    NOT_DUE = "not due"
    CONTINUE = "continue"
    ROLLBACK = "rollback"
    UNPARSED = "unparsed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reviewer's verdict, urgency ρ in [0, 1], diagnosis f and new knowledge ΔE."""

    kind: VerdictKind
    urgency: float = 0.5
    diagnosis: str = ""
    learned: tuple[Fact, ...] = ()
    calls: tuple[Call, ...] = ()

    @classmethod
    def not_due(cls) -> Verdict:
        """No review now."""
        return cls(VerdictKind.NOT_DUE)


@dataclass(frozen=True, slots=True)
class Restore:
    """Where to resume: one of ``view.restorable``, or None where the reply could not be read.

    ``stages`` are the localization roles that were invoked and are counted. ``interval`` is the coarse causal interval
    [l, u] in steps; ``interval_unread`` says that it could not be read and all of I_t was taken.
    """

    point: RestorePoint | None
    justification: str = ""
    confidence: float | None = None
    interval: tuple[int, int] | None = None
    interval_unread: bool = False
    stages: tuple[Literal["coarse", "fine"], ...] = ()
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Patch:
    """M+ and the calls that made it. ``invoked`` counts as one patch; ``unread``: the reflection could not be read."""

    memory: Memory
    invoked: bool = True
    unread: bool = False
    calls: tuple[Call, ...] = ()


Act = Callable[[Sequence[View]], Sequence[Decision]]
When = Callable[[Sequence[View]], Sequence[Verdict]]
Where = Callable[[Sequence[View], Sequence[Verdict]], Sequence[Restore]]
What = Callable[[Sequence[View], Sequence[Verdict], Sequence[Restore]], Sequence[Patch]]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A way to recover: four roles on the one loop, and what it declares about itself.

    Args:
        name: as it stands in tables and records.
        restriction: the (k, M+) it restricts itself to; the loop fails a run that leaves it.
        uses_oracle: True lets its roles see ``View.oracle``; every table shows it.
        max_rollbacks: its own cap on executed rollbacks, from its card; None has none beside B_rb.
        review_terminal: review once when the environment has ended (ours; off is Algorithm 1 as printed).
        memory_position: where prompts put M: in the system prompt (the paper) or after h_t (keeps the KV cache).
        memory: makes M_0 from the objective.
        settings: plain JSON values for the record.
    """

    name: str
    act: Act
    when: When
    where: Where
    what: What
    restriction: Restriction = WHOLE
    uses_oracle: bool = False
    max_rollbacks: int | None = None
    review_terminal: bool = True
    memory_position: MemoryPosition = "system"
    memory: Callable[[str], Memory] = ReflectionMemory
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nodes(self) -> Literal["branch", "tree"]:
        """ "branch" restores ancestors only (the operator's class); "tree" any kept node."""
        return self.restriction.nodes
