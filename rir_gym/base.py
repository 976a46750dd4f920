"""The values that flow through the loop, and the four roles as function types.

Everything is a frozen dataclass; n is the number of episodes in a batch everywhere. A role maps n views to n
decisions and keeps no state, so a batch is one model call. This module knows no environment, model or mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from rir_gym.knowledge import Oracle, OracleView
from rir_gym.memory import Fact, Memory, ReflectionMemory

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
class Step:
    """What one real step returned: the action a_{i-1} that was taken and the observation o_i that came back.

    The first step of a history holds o_0 and the action None. ``info`` is without its ``oracle`` entry, which stands
    apart in ``oracle`` and is None wherever a role may not see it.
    """

    action: Any
    observation: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
    oracle: Mapping[str, Any] | None = None

    @property
    def over(self) -> bool:
        """True where the environment said that the episode has ended."""
        return self.terminated or self.truncated

    @property
    def admissible(self) -> Sequence[str] | None:
        """The admissible commands after this step; None where the environment does not list them."""
        return self.info.get("admissible")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node of an episode's history tree: the world after ``step``, reached from ``parent``.

    Args:
        id: serial number in the episode, 0 at the root, in the order of real steps.
        parent: None at the root.
        t: number of actions on the way from the root: the restore point "before action t".
        step: what the environment returned here.
        ret: undiscounted return from the root to here, without step and rollback costs.
        summary: σ, a short description of the world derived from it when it was reached.
    """

    id: int
    parent: Node | None
    t: int
    step: Step
    ret: float = 0.0
    summary: str = ""

    def branch(self) -> tuple[Node, ...]:
        """The nodes from the root to this one."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return tuple(reversed(nodes))

    def __repr__(self) -> str:
        return f"Node(id={self.id}, t={self.t}, action={self.step.action!r})"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """C_t = (s_t, h_t): a saved world (the mechanism's ``token``, ``size`` bytes) and the node with its history."""

    node: Node
    token: Any
    size: int | None = None


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """A kept node that can be restored now: node id, its index t on its branch, and σ."""

    node: int
    t: int
    summary: str = ""


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


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``role`` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model, as it was sent and answered.

    ``kind`` is "first" for the request that makes up the role's invocation, "sub" for a further one that the role
    needs by design, "reask" for one that repeats an unreadable reply. ``options`` is None for free text. ``cut_tokens``
    is how many tokens of the prompt the model's context had no room for.
    """

    role: Literal["act", "review", "coarse", "fine", "patch"]
    messages: tuple[Message, ...]
    text: str
    kind: Literal["first", "sub", "reask"] = "first"
    options: tuple[str, ...] | None = None
    scores: tuple[float, ...] | None = None
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    cut_tokens: int = 0
    seconds: float = 0.0


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
    """

    kind: DecisionKind
    action: Any = None
    thought: str = ""
    target: int | None = None
    calls: tuple[Call, ...] = ()

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
        restriction: the (k, M+) it restricts itself to, in words.
        nodes: "branch" restores ancestors only (the operator's class); "tree" any kept node.
        uses_oracle: True lets its roles see ``View.oracle``; every table shows it.
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
    restriction: str = ""
    nodes: Literal["branch", "tree"] = "branch"
    uses_oracle: bool = False
    review_terminal: bool = True
    memory_position: MemoryPosition = "system"
    memory: Callable[[str], Memory] = ReflectionMemory
    settings: Mapping[str, Any] = field(default_factory=dict)
