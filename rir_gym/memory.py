"""What survives a rollback: M = (G, E, H, F) and its update rules, all pure.

The memory lives outside checkpoints. Nothing in it says what the current state *is*: facts carry where they were
seen, attempts are worded as history. It replaces the previous memory block of a prompt; it is never appended.
Source: Yu et al., "Rollback the World, Keep the Reflection", arXiv 2609.18304, the memory section; the rules for
re-verify marks, de-duplication and promotion are ours. This module knows no environment and no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = ["Attempt", "Channel", "Fact", "Failure", "Memory", "ReflectionMemory"]

_MAX_FACTS = 256

Channel = Literal["fact", "elimination", "affordance"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One entry of the environment model E.

    Args:
        channel: an observed fact, an evidence-backed elimination, or an affordance (what can be done where).
        text: the statement, worded so that it stays true on another branch.
        step: the index i of the observation o_i that shows it (provenance); None where there is no single one.
        invariant: True where no action can change its truth (the text of a book, where things lay at the start).
        reverify: True once an action that its truth may depend on was undone.
    """

    channel: Channel
    text: str
    step: int | None = None
    invariant: bool = False
    reverify: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One past attempt of H: steps ``resumed_at``..``ended_at`` of a branch that ended or was abandoned."""

    resumed_at: int
    ended_at: int
    milestones: tuple[str, ...] = ()
    route: tuple[str, ...] = ()
    outcome: str = "abandoned"
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """F: why the last abandoned branch failed, and the conditions that were in force then.

    ``pattern`` is what makes two failures the same one; left empty it is ``cause``.
    """

    cause: str
    conditions: str = ""
    action: str = ""
    pattern: str = ""


@runtime_checkable
class Memory(Protocol):
    """What the loop asks of a memory. Implementations are values: every update returns a new one."""

    def render(self) -> str:
        """The block for a prompt; empty where there is nothing to say."""
        ...

    def learn(self, learned: Sequence[Fact]) -> Memory:
        """M with ΔE merged into the environment model."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        ...


@dataclass(frozen=True, slots=True)
class ReflectionMemory:
    """M = (G, E, H, F) of the method; G never changes, F is replaced, E and H grow.

    >>> m = ReflectionMemory("brew tea").learn([Fact("fact", "the kettle is in the hall", step=2)])
    >>> print(m.abandon(resumed_at=1, ended_at=4, route=("go hall",), failure=Failure("the water was spilt")).render())
    Known about the environment:
    - fact: the kettle is in the hall (seen at step 2 of an undone attempt; re-verify)
    Past attempts:
    - attempt 1, steps 1 to 4, abandoned; did: go hall
    Why the last abandoned attempt failed: the water was spilt
    """

    objective: str
    environment: tuple[Fact, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    failure: Failure | None = None

    def learn(self, learned: Sequence[Fact]) -> ReflectionMemory:
        """Merge ΔE. The same statement in the same channel is kept once, as it was seen last (this clears its mark).

        Statements that differ in case, spaces or a last mark are the same. At most 256 are kept: of more, those to be
        re-verified go first, then those that an action can change, then the others, the oldest of each kind first.
        """
        merged = {(fact.channel, _plain(fact.text)): fact for fact in self.environment}
        for fact in learned:
            known = merged.get((fact.channel, _plain(fact.text)))
            if known is not None and known.invariant:
                continue
            merged[(fact.channel, _plain(fact.text))] = fact
        return replace(self, environment=_capped(tuple(merged.values())))

    def abandon(
        self,
        *,
        resumed_at: int,
        ended_at: int,
        route: Sequence[str] = (),
        milestones: Sequence[str] = (),
        failure: Failure | None = None,
        outcome: str = "abandoned",
    ) -> ReflectionMemory:
        """φ(M, τ): the update at a rollback to step ``resumed_at`` from step ``ended_at``.

        - E: a fact whose evidence lies after ``resumed_at`` and that is not invariant is marked *re-verify*.
        - H: the abandoned suffix enters as one attempt, with its milestones and route. A correction (nothing undone,
          ``resumed_at == ended_at``) adds no attempt: its branch is still running.
        - F: replaced by ``failure``; without one (an unreadable or empty reflection) the old F stays.
        - Promotion: a failure pattern that an earlier attempt had already is added to E as an elimination.
        """
        environment = tuple(
            replace(fact, reverify=True)
            if fact.step is not None and fact.step > resumed_at and not fact.invariant
            else fact
            for fact in self.environment
        )
        pattern = (failure.pattern or failure.cause) if failure else ""
        promoted = bool(pattern) and any(_same(pattern, attempt.pattern) for attempt in self.attempts)
        attempt = Attempt(resumed_at, ended_at, tuple(milestones), tuple(route), outcome, pattern)
        memory = replace(
            self,
            environment=environment,
            attempts=(*self.attempts, attempt) if ended_at > resumed_at else self.attempts,
            failure=failure or self.failure,
        )
        if promoted and failure is not None:
            return memory.learn([Fact("elimination", f"failed in more than one attempt: {pattern}", invariant=True)])
        return memory

    def render(self) -> str:
        """E, H and F as text for a prompt (G is the objective, which every prompt states anyway)."""
        lines: list[str] = []
        if self.environment:
            lines.append("Known about the environment:")
            lines += [f"- {fact.channel}: {fact.text}{_provenance(fact)}" for fact in self.environment]
        if self.attempts:
            lines.append("Past attempts:")
            lines += [_history(number, attempt) for number, attempt in enumerate(self.attempts, 1)]
        if self.failure:
            conditions = f" (then: {self.failure.conditions})" if self.failure.conditions else ""
            lines.append(f"Why the last abandoned attempt failed: {self.failure.cause}{conditions}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """All four fields as plain JSON values."""
        return {
            "kind": "reflection",
            "objective": self.objective,
            "environment": [asdict(fact) for fact in self.environment],
            "attempts": [
                {**asdict(attempt), "milestones": list(attempt.milestones), "route": list(attempt.route)}
                for attempt in self.attempts
            ],
            "failure": asdict(self.failure) if self.failure else None,
        }


def _same(a: str, b: str) -> bool:
    return _plain(a) == _plain(b)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" .!。！") or text


def _capped(facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    dearest_last = sorted(range(len(facts)), key=lambda i: (not facts[i].reverify, facts[i].invariant, i))
    gone = set(dearest_last[: max(0, len(facts) - _MAX_FACTS)])
    return tuple(fact for i, fact in enumerate(facts) if i not in gone)


def _provenance(fact: Fact) -> str:
    if fact.reverify:
        return f" (seen at step {fact.step} of an undone attempt; re-verify)"
    return ""


def _history(number: int, attempt: Attempt) -> str:
    text = f"- attempt {number}, steps {attempt.resumed_at} to {attempt.ended_at}, {attempt.outcome}"
    if attempt.milestones:
        text += f"; had reached: {', '.join(attempt.milestones)}"
    if attempt.route:
        text += f"; did: {', '.join(attempt.route)}"
    return text
