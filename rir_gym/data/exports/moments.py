"""A record as the moments at which a role spoke: what it could see then, what it said, and what became of it.

The view of every moment follows from the record alone, by the rules of ``rir_gym.loop``: the branch up to that node,
the memory as it was then (never as it became later), the last review, the budgets. It never holds oracle knowledge.
What a record does not hold is taken as usual: every checkpoint of the branch could be restored unless a commitment
barred it, and the environment had a final response only if one was given. This module knows no prompt and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from rir_gym.base import (
    Call,
    Decision,
    DecisionKind,
    MemoryPosition,
    Message,
    Patch,
    Restore,
    RestorePoint,
    Review,
    Step,
    Verdict,
    VerdictKind,
    View,
)
from rir_gym.data.keys import key_of
from rir_gym.errors import RecordError
from rir_gym.jsonable import decode
from rir_gym.memory import Attempt, Fact, Failure, Memory, ReflectionMemory
from rir_gym.signals import signals

__all__ = ["Moment", "moments"]

Value = Decision | Verdict | Restore | Patch


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of a record.

    Args:
        event: its number in the record.
        kind: "act", "review", "where" or "patch".
        node: where it happened; ``made`` is the node that an agent's action led to, None where it led to none.
        view: what the role could see, without oracle.
        value: what it said, with its calls.
        outcome: what became of it.
        verdict, restore: what a localizer and a patcher were given besides.
        renderable: False where the memory is of a kind that this package cannot word.
        requests: whether the agent of this mechanism may ask for a review.
    """

    event: int
    kind: Literal["act", "review", "where", "patch"]
    node: int
    view: View
    value: Value
    outcome: str
    made: int | None = None
    verdict: Verdict | None = None
    restore: Restore | None = None
    renderable: bool = True
    requests: bool = True


def moments(record: Mapping[str, Any]) -> Iterator[Moment]:
    """Every event of a record that ``check_record`` has passed, in order.

    Raises:
        RecordError: a field that is needed here is missing or of another type, or the events do not make the nodes.
    """
    try:
        yield from _Past.of(record).moments(record["events"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise RecordError(f"{key_of(record)}: cannot be exported ({type(error).__name__}: {error})") from error


@dataclass(slots=True)
class _Past:
    """What the loop had to remember, taken from a record event by event."""

    record: Mapping[str, Any]
    steps: list[Step]
    summaries: list[str]
    memory: Memory
    renderable: bool
    position: MemoryPosition
    can_submit: bool
    requests: bool
    last_review: Review | None = None
    acted: Moment | None = None
    reviewed: Moment | None = None
    located: Moment | None = None
    patched: Mapping[str, Any] | None = None
    agent_calls: int = 0
    rollbacks: int = 0
    made: int = 1
    _branches: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> _Past:
        header, nodes = record["header"], record["nodes"]
        mechanism = header["mechanism"]
        position: MemoryPosition = "tail" if mechanism.get("memory_position") == "tail" else "system"
        finals = (event["decision"] == "final" for event in record["events"] if event["kind"] == "act")
        return cls(
            record=record,
            steps=[_step(node) for node in nodes],
            summaries=[str(decode(node["summary"])) for node in nodes],
            memory=ReflectionMemory(str(decode(record["objective"]))),
            renderable=record["memory"].get("kind") == "reflection",
            position=position,
            can_submit=any(finals),
            requests=mechanism["name"] != "react" and "requests='none'" not in str(mechanism["settings"].get("act")),
        )

    def moments(self, events: Sequence[Mapping[str, Any]]) -> Iterator[Moment]:
        for number, event in enumerate(events):
            if event["kind"] in ("act", "review"):
                self.settle()
            yield getattr(self, event["kind"])(number, event)
        if self.made != len(self.steps):
            raise ValueError(f"the agent's steps make {self.made} nodes, there are {len(self.steps)}")

    def act(self, number: int, event: Mapping[str, Any]) -> Moment:
        said = Decision(
            DecisionKind(event["decision"]),
            decode(event["action"]),
            str(decode(event["thought"])),
            event["target"],
            _calls(event),
        )
        stepped = event["outcome"] == "executed" or (
            event["outcome"] == "submitted" and self.record["result"]["final_response"] is None
        )
        made = self.made if stepped else None
        if made is not None and self.record["nodes"][made]["parent"] != event["node"]:
            raise ValueError(f"events[{number}] does not lead to nodes[{made}]")
        view = self.view(event["node"], proposed=None)
        self.agent_calls += event.get("agent_calls", 1)
        self.made += stepped
        self.acted = self.moment(number, event, view, said, made=made)
        return self.acted

    def review(self, number: int, event: Mapping[str, Any]) -> Moment:
        said = Verdict(
            VerdictKind(event["verdict"]),
            decode(event["urgency"]),
            str(decode(event["diagnosis"])),
            tuple([_fact(fact) for fact in event["learned"]]),
            _calls(event),
        )
        here = event["node"]
        proposed = self.acted.value if self.acted is not None and self.acted.node == here else None
        terminal = proposed is None and self.steps[here].over
        view = self.view(here, proposed=proposed if isinstance(proposed, Decision) else None, terminal=terminal)
        self.reviewed = self.moment(number, event, view, said)
        self.memory = self.memory.learn(said.learned)
        return self.reviewed

    def where(self, number: int, event: Mapping[str, Any]) -> Moment:
        point, interval = event["point"], event.get("interval")
        said = Restore(
            RestorePoint(point["node"], point["step"], self.summaries[point["node"]]) if point is not None else None,
            str(decode(event.get("justification", ""))),
            decode(event.get("confidence")),
            (interval[0], interval[1]) if interval is not None else None,
            bool(event.get("interval_unread", False)),
            tuple(event["stages"]),
            _calls(event),
        )
        self.located = self.moment(number, event, self.since(), said)
        return self.located

    def patch(self, number: int, event: Mapping[str, Any]) -> Moment:
        memory = self.memory
        if event["memory"].get("kind") == "reflection":
            memory = _memory(event["memory"])
        said = Patch(memory, event["invoked"], event["unread"], _calls(event))
        self.patched = event["memory"]
        restore = self.located.value if self.located is not None else None
        moment = self.moment(number, event, self.since(), said)
        return replace(moment, restore=restore if isinstance(restore, Restore) else None)

    def settle(self) -> None:
        """What a review changed, once all that belongs to it has been said."""
        done, self.reviewed = self.reviewed, None
        if done is None:
            return
        verdict, proposed, outcome = _verdict(done), done.view.proposed, _outcome(done.outcome)
        requested = proposed is not None and proposed.kind is DecisionKind.REQUEST
        at, urgency = done.view.t, None
        if outcome in ("rollback", "correction"):
            if self.patched is None or self.located is None or not isinstance(self.located.value, Restore):
                raise ValueError(f"events[{done.event}]: a recovery without its restore point and patch")
            point = self.located.value.point
            at = point.t if point is not None else at
            self.rollbacks += outcome == "rollback"
            if self.patched.get("kind") == "reflection":
                self.memory = _memory(self.patched)
        elif outcome == "unparsed":
            urgency = self.last_review.urgency if self.last_review is not None else None
        else:
            urgency = verdict.urgency
        self.last_review = Review(at, urgency, outcome, requested, verdict.diagnosis)
        self.located = self.patched = None

    def since(self) -> View:
        """The view of the roles after a review: the same moment, with what the review learned."""
        if self.reviewed is None:
            raise ValueError("a localization or patch without a review")
        return replace(self.reviewed.view, memory=self.memory)

    def moment(
        self, number: int, event: Mapping[str, Any], view: View, said: Value, *, made: int | None = None
    ) -> Moment:
        return Moment(
            event=number,
            kind=event["kind"],
            node=event["node"],
            view=view,
            value=said,
            outcome=event["outcome"],
            made=made,
            verdict=_verdict(self.reviewed) if self.reviewed is not None else None,
            renderable=self.renderable,
            requests=self.requests,
        )

    def view(self, node: int, *, proposed: Decision | None, terminal: bool = False) -> View:
        budget = self.record["header"]["budget"]
        branch = self.branch(node)
        history = tuple([self.steps[at] for at in branch])
        return View(
            seed=self.record["header"]["seed"],
            objective=str(decode(self.record["objective"])),
            history=history,
            memory=self.memory,
            proposed=proposed,
            last_review=self.last_review,
            terminal=terminal,
            signals=signals(history),
            restorable=self.restorable(branch, self.made - (proposed is not None and self.stepping)),
            agent_calls=self.agent_calls,
            agent_calls_left=budget["agent_calls"] - self.agent_calls,
            rollbacks_left=budget["rollbacks"] - self.rollbacks,
            can_submit=self.can_submit,
            memory_position=self.position,
            node=node,
        )

    @property
    def stepping(self) -> bool:
        """Whether the proposed action made a node, which was not there yet when it was reviewed."""
        return self.acted is not None and self.acted.made is not None

    def restorable(self, branch: tuple[int, ...], there_are: int) -> tuple[RestorePoint, ...]:
        """I_t: of the branch (or the whole tree), what the latest commitment does not bar."""
        there = branch if self.record["header"]["mechanism"].get("nodes") != "tree" else tuple(range(there_are))
        barrier = max((at for at in range(there_are) if self.steps[at].info.get("committed")), default=0)
        return tuple(
            [
                RestorePoint(at, self.record["nodes"][at]["step"], self.summaries[at])
                for at in there
                if barrier in self.branch(at)
            ]
        )

    def branch(self, node: int) -> tuple[int, ...]:
        known = self._branches.get(node)
        if known is None:
            parent = self.record["nodes"][node]["parent"]
            known = (node,) if parent is None else (*self.branch(parent), node)
            self._branches[node] = known
        return known


def _verdict(moment: Moment) -> Verdict:
    if not isinstance(moment.value, Verdict):
        raise ValueError(f"events[{moment.event}]: not a review")
    return moment.value


def _outcome(
    text: str,
) -> Literal["continue", "rollback", "correction", "refused", "abandoned", "unparsed"]:
    for outcome in get_args(Literal["continue", "rollback", "correction", "refused", "abandoned", "unparsed"]):
        if text == outcome:
            return outcome  # type: ignore[no-any-return]
    raise ValueError(f"outcome={text!r} of a review")


def _step(node: Mapping[str, Any]) -> Step:
    return Step(
        decode(node["action"]),
        decode(node["observation"]),
        decode(node["reward"]),
        node["terminated"],
        node["truncated"],
        decode(node["info"]),
    )


def _calls(event: Mapping[str, Any]) -> tuple[Call, ...]:
    return tuple([_call(call) for call in event["calls"]])


def _call(call: Mapping[str, Any]) -> Call:
    options = call.get("options")
    role: Any = call["role"]
    kind: Any = call["kind"]
    if kind not in get_args(Literal["first", "sub", "reask"]):
        raise ValueError(f"call.kind={kind!r}: first, sub or reask")
    return Call(
        role=role,
        messages=tuple([Message(said["role"], str(decode(said["content"]))) for said in call["messages"]]),
        text=str(decode(call["text"])),
        kind=kind,
        options=tuple([str(decode(option)) for option in options]) if options is not None else None,
        cut_tokens=call.get("cut_tokens", 0),
    )


def _fact(fact: Mapping[str, Any]) -> Fact:
    return Fact(
        fact["channel"],
        str(decode(fact["text"])),
        fact.get("step"),
        bool(fact.get("invariant", False)),
        bool(fact.get("reverify", False)),
    )


def _memory(told: Mapping[str, Any]) -> ReflectionMemory:
    failure = told["failure"]
    return ReflectionMemory(
        str(decode(told["objective"])),
        tuple([_fact(fact) for fact in told["environment"]]),
        tuple(
            [
                Attempt(
                    attempt["resumed_at"],
                    attempt["ended_at"],
                    tuple([str(decode(text)) for text in attempt["milestones"]]),
                    tuple([str(decode(text)) for text in attempt["route"]]),
                    str(decode(attempt["outcome"])),
                    str(decode(attempt["pattern"])),
                )
                for attempt in told["attempts"]
            ]
        ),
        Failure(**{name: str(decode(text)) for name, text in failure.items()}) if failure is not None else None,
    )
