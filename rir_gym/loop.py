"""Algorithm 1 on n episodes in lockstep, for every mechanism.

``run`` takes four functions (a ``Mechanism``) and n wrapped environments; nobody subclasses it. What one episode has
to remember between two lines of the algorithm is in ``_Run``. Roles see views, never environments. This module knows
no environment, no model and no mechanism by name.

Source: Yu et al., "Rollback the World, Keep the Reflection", arXiv 2609.18304, Algorithm 1. What it leaves open
(terminal reviews, declined requests, unreadable replies) follows this project's rules in docs/design.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rir_gym.base import (
    Decision,
    DecisionKind,
    Mechanism,
    Node,
    Patch,
    Restore,
    RestorePoint,
    Review,
    Step,
    Verdict,
    VerdictKind,
    View,
)
from rir_gym.declared import check_calls, check_memory, check_node, check_operator, no_peeking
from rir_gym.episode import Episode, Event
from rir_gym.errors import RollbackRefused, UsageError
from rir_gym.ledger import Budget, Ledger
from rir_gym.memory import Memory
from rir_gym.oracle import OracleLog
from rir_gym.rollback import RollbackWrapper
from rir_gym.signals import signals

__all__ = ["run"]

Outcome = Literal["continue", "refused", "abandoned", "unparsed"]
_SERIAL = itertools.count(1)


def run(
    envs: Sequence[RollbackWrapper], mechanism: Mechanism, *, budget: Budget, seeds: Sequence[int]
) -> list[Episode]:
    """Run one episode in each of n environments, in lockstep, until all have stopped.

    Args:
        envs: n environments, each a ``RollbackWrapper`` (outermost), each its own instance.
        mechanism: the roles. Every role is called with the views of the episodes that need it, so a batch is one call.
        budget: B_agent and B_rb of each episode; the loop owns both, and neither is rewound.
        seeds: n seeds, one an episode: the reset seed, and the root of every draw a scripted role makes.

    Returns:
        n episodes, in the order of ``envs``.

    Raises:
        UsageError: lengths differ, an environment twice, one that is no ``RollbackWrapper``, or one without an oracle
            under a mechanism that declares ``uses_oracle``.
        MechanismError: the mechanism left what it declares, or its budget; the environments stand where they stood.
    """
    runs = _begin(envs, mechanism, budget, seeds)
    while live := [run for run in runs if run.live()]:
        for run, decision in _ask(mechanism.act, [run for run in live if not run.terminal]):
            run.propose(decision)
        for run, verdict in _ask(mechanism.when, [run for run in live if run.reviewable]):
            run.reviewed(verdict)
        wanted = [run for run in live if run.verdict is not None]
        for run, restore in _ask(mechanism.where, wanted, [run.verdict for run in wanted]):
            run.located(restore)
        found = [run for run in wanted if run.restore is not None]
        answers = [run.verdict for run in found], [run.restore for run in found]
        for run, patch in _ask(mechanism.what, found, *answers):
            run.recover(patch)
        for run in live:
            run.execute()
    return [run.episode() for run in runs]


def _begin(envs: Sequence[Any], mechanism: Mechanism, budget: Budget, seeds: Sequence[int]) -> list[_Run]:
    if len(envs) != len(seeds) or len({id(env) for env in envs}) != len(envs):
        raise UsageError(f"envs={len(envs)}, seeds={len(seeds)}: one seed and one instance of its own for each episode")
    for env in envs:
        if not isinstance(env, RollbackWrapper):
            raise UsageError(f"env={env!r}: the outermost wrapper must be a RollbackWrapper")
    return [_Run.begin(env, mechanism, budget, seed) for env, seed in zip(envs, seeds, strict=True)]


def _ask(role: Any, runs: Sequence[_Run], *answers: Sequence[Any]) -> Iterator[tuple[_Run, Any]]:
    """Each run with what the role said of its view; the role is not called without views."""
    if not runs:
        return iter(())
    with no_peeking(runs[0].mechanism):
        replies = role([run.view() for run in runs], *answers)
    if len(replies) != len(runs):
        raise UsageError(f"{role!r} gave {len(replies)} answers for {len(runs)} views: one for each view is required")
    return zip(runs, replies, strict=True)


@dataclass(slots=True)
class _Run:
    """One episode under way. The methods stand in the order in which Algorithm 1 comes by."""

    env: RollbackWrapper
    mechanism: Mechanism
    budget: Budget
    seed: int
    objective: str
    memory: Memory
    submits: bool
    ledger: Ledger = field(default_factory=Ledger)
    last_review: Review | None = None
    terminal: bool = False
    stopped: str = ""
    final_response: str | None = None
    proposed: Decision | None = None
    verdict: Verdict | None = None
    restore: Restore | None = None
    events: list[Event] = field(default_factory=list)
    acted: int = -1
    decided: int = 0
    steps: dict[int, Step] = field(default_factory=dict)
    points: dict[int, RestorePoint] = field(default_factory=dict)
    oracle: OracleLog | None = None
    serial: int = field(default_factory=lambda: next(_SERIAL))

    @classmethod
    def begin(cls, env: RollbackWrapper, mechanism: Mechanism, budget: Budget, seed: int) -> _Run:
        """M ← (G = g, ∅, ∅, ∅); L ← L_0; t_rev ← 0; N_rb ← 0."""
        _, info = env.reset(seed=seed)
        objective = str(info.get("objective", ""))
        submits = env.has_wrapper_attr("submit") and env.get_wrapper_attr("submit")("") is not None
        budget = Budget(budget.agent_calls, min(budget.rollbacks, mechanism.max_rollbacks or budget.rollbacks))
        run = cls(env, mechanism, budget, seed, objective, mechanism.memory(objective), submits)
        run.oracle = OracleLog.of(env, mechanism.name) if mechanism.uses_oracle else None
        run.arrive(env.node)
        return run

    def live(self) -> bool:
        """N_agent < B_agent and the episode is not over (an unreviewed end is not over yet)."""
        if not self.stopped and not self.terminal and self.ledger.agent_calls >= self.budget.agent_calls:
            self.stopped = "agent_calls"
        return not self.stopped

    def propose(self, decision: Decision) -> None:
        """a_t ~ agent(g, h_t, M); N_agent += 1 (or as many as were sampled). A final response is submitted at once.

        An action that the wrapper would read as a rollback is a request: the agent never touches the operator itself.
        """
        self.decided += 1
        check_calls(self.mechanism, decision.agent_calls, self.decided, self.ledger, self.budget)
        self.ledger.add("agent_calls", decision.agent_calls)
        if decision.kind is DecisionKind.ACTION and (target := self.env.restore_point(decision.action)) is not None:
            decision = replace(decision, kind=DecisionKind.REQUEST, action=None, target=target)
        self.acted = len(self.events)
        self.events.append(Event(self.env.node.id, self.env.node.t, decision))
        self.count_calls(decision)
        self.proposed = decision
        if decision.kind is DecisionKind.UNPARSED:
            self.ledger.add("unreadable_actions")
        elif decision.kind is DecisionKind.REQUEST:
            self.ledger.add("requests")
        elif decision.kind is DecisionKind.FINAL:
            self.submit(str(decision.action))

    def submit(self, text: str) -> None:
        """The environment's submit action where it has one, else stop unstepped."""
        self.settle("submitted")
        action = self.env.get_wrapper_attr("submit")(text) if self.submits else None
        if action is None:
            self.final_response, self.stopped = text, "final"
            return
        self.step(action)
        if not self.terminal and not self.stopped:
            self.stopped = "final"

    @property
    def reviewable(self) -> bool:
        """Whether ``when`` is asked now: an open proposal, or an end that nobody has reviewed yet."""
        return not self.stopped and (self.proposed is not None or self.terminal)

    def reviewed(self, verdict: Verdict) -> None:
        """E ← E ∪ ΔE; t_rev ← t. An unreadable verdict leaves L; every other sets it by its urgency."""
        if verdict.kind is VerdictKind.NOT_DUE:
            return
        self.ledger.add("reviews")
        self.count_calls(verdict)
        learned = self.memory.learn(verdict.learned)
        check_memory(self.mechanism, self.env.node, self.memory, learned)
        self.memory = learned
        if verdict.kind is VerdictKind.UNPARSED:
            self.ledger.add("unreadable_verdicts")
            self.close_review(verdict, self.last_review.urgency if self.last_review else None, "unparsed")
        elif verdict.kind is VerdictKind.CONTINUE:
            self.close_review(verdict, verdict.urgency, "continue")
        elif self.ledger.rollbacks >= self.budget.rollbacks:
            self.close_review(verdict, verdict.urgency, "refused")
        else:
            self.verdict = verdict

    def located(self, restore: Restore) -> None:
        """[l, u] ← coarse; r ← fine. An unreadable restore point abandons the rollback; the step goes on."""
        for stage in restore.stages:
            self.ledger.add(stage)
        self.count_calls(restore)
        if restore.interval_unread:
            self.ledger.add("unreadable_intervals")
        if restore.point is not None and restore.point.node in self.points:
            check_node(self.mechanism, self.env.node, self.env.nodes[restore.point.node])
        if restore.point is not None and restore.point.node in {point.node for point in self.restorable()}:
            self.restore = restore
        else:
            self.ledger.add("unreadable_restores")
            self.abandon(restore)

    def recover(self, patch: Patch) -> None:
        """M ← M+; restore C_r; t ← r; t_rev ← r; L ← L_0; N_rb += 1; a_t is dropped. k = 0 restores nothing."""
        assert self.verdict is not None and self.restore is not None and self.restore.point is not None  # noqa: PT018
        verdict, restore, here = self.verdict, self.restore, self.env.node
        self.ledger.add("patches", int(patch.invoked))
        self.ledger.add("unreadable_patches", int(patch.unread))
        self.count_calls(patch)
        target = self.env.nodes[self.restore.point.node]
        check_operator(self.mechanism, self.env, target, self.memory, patch.memory)
        if target is not here:
            try:
                self.env.rollback(target)
            except RollbackRefused:
                self.abandon(restore, patch)
                return
        kind: Literal["rollback", "correction"] = "rollback" if target is not here else "correction"
        self.ledger.add(f"{kind}s")
        self.decided -= kind == "rollback" and self.proposed is not None  # what a rollback drops may come again
        self.memory = patch.memory
        for value, outcome in ((verdict, kind), (restore, ""), (patch, "")):
            self.events.append(Event(here.id, here.t, value, outcome))
        self.last_review = Review(target.t, None, kind, self.requested, verdict.diagnosis)
        self.terminal = self.terminal and target is here
        self.settle("dropped")

    def execute(self) -> None:
        """If a_t is a task action: execute it, extend h. An end that was not undone is the end."""
        decision = self.proposed
        self.verdict = self.restore = None
        if decision is None:
            if self.terminal and not self.stopped:
                self.stopped = _end(self.env.node)
        elif decision.kind is DecisionKind.ACTION:
            self.settle("executed")
            self.step(decision.action)
        else:
            self.settle("declined" if decision.kind is DecisionKind.REQUEST else "unparsed")

    # --- what the lines above share -------------------------------------------------------------------------------

    def step(self, action: Any) -> None:
        self.env.step(action)
        self.ledger.add("steps")
        self.arrive(self.env.node)

    def arrive(self, node: Node) -> None:
        """Keep what roles may see of a new node; note an end, and whether it is still to be reviewed."""
        self.points[node.id] = RestorePoint(node.id, node.t, node.summary)
        self.steps[node.id] = node.step if self.oracle else replace(node.step, oracle=None)
        if self.oracle:
            self.oracle.ask(node, self.budget.agent_calls - self.ledger.agent_calls)
        if node.step.over:
            self.terminal = self.mechanism.review_terminal and self.ledger.agent_calls < self.budget.agent_calls
            if not self.terminal:
                self.stopped = _end(node)

    def close_review(self, verdict: Verdict, urgency: float | None, outcome: Outcome) -> None:
        node = self.env.node
        self.events.append(Event(node.id, node.t, verdict, outcome))
        self.last_review = Review(node.t, urgency, outcome, self.requested, verdict.diagnosis)

    def abandon(self, *values: Restore | Patch) -> None:
        """The rollback is given up: L by the urgency, as if the budget were spent."""
        assert self.verdict is not None
        self.ledger.add("abandoned")
        self.close_review(self.verdict, self.verdict.urgency, "abandoned")
        node = self.env.node
        self.events += [Event(node.id, node.t, value) for value in values]
        self.verdict = self.restore = None

    def settle(self, outcome: str) -> None:
        """Write down what became of the proposal; nothing is proposed any more."""
        if self.proposed is not None:
            self.events[self.acted] = replace(self.events[self.acted], outcome=outcome)
            self.proposed = None

    def count_calls(self, value: Decision | Verdict | Restore | Patch) -> None:
        for call in value.calls:
            for count in ("prompt_tokens", "reused_tokens", "generated_tokens", "cut_tokens"):
                self.ledger.add(count, getattr(call, count))
            if call.kind != "first":
                self.ledger.add({"sub": "subrequests", "reask": "reasks"}[call.kind])

    @property
    def requested(self) -> bool:
        return self.proposed is not None and self.proposed.kind is DecisionKind.REQUEST

    def restorable(self) -> tuple[RestorePoint, ...]:
        """I_t; with ``nodes="tree"`` every kept node that may be restored."""
        if self.mechanism.nodes == "tree":
            return tuple([self.points[node.id] for node in self.env.nodes if self.env.refusal(node) is None])
        branch = self.env.history
        return tuple([self.points[branch[t].id] for t in self.env.restorable])

    def view(self) -> View:
        history = tuple([self.steps[node.id] for node in self.env.history])
        return View(
            seed=self.seed,
            objective=self.objective,
            history=history,
            memory=self.memory,
            proposed=self.proposed,
            last_review=self.last_review,
            terminal=self.terminal,
            signals=signals(history),
            restorable=self.restorable(),
            agent_calls=self.ledger.agent_calls,
            agent_calls_left=self.budget.agent_calls - self.ledger.agent_calls,
            rollbacks_left=self.budget.rollbacks - self.ledger.rollbacks,
            can_submit=self.submits,
            memory_position=self.mechanism.memory_position,
            oracle=self.oracle.view(self.env.history) if self.oracle else None,
            run=self.serial,
            node=self.env.node.id,
        )

    def episode(self) -> Episode:
        return Episode(
            seed=self.seed,
            objective=self.objective,
            mechanism=self.mechanism.name,
            budget=self.budget,
            nodes=self.env.nodes,
            last=self.env.node,
            events=tuple(self.events),
            ledger=self.ledger,
            memory=self.memory,
            stopped=self.stopped,
            final_response=self.final_response,
        )


def _end(node: Node) -> str:
    return "terminated" if node.step.terminated else "truncated"
