"""A record told in order: what happened at which node, with the ledger and the memory after each event.

Records keep the ledger and the memory of the end only. Here both are done again event by event, by the rules of
``rir_gym.loop`` and ``rir_gym.memory``; what a record does not say is None: of a memory that is not the method's, the
first one, and what a review made of it. This module knows records (schema 1) only, no layout and no page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rir_gym.jsonable import Opaque, decode
from rir_gym.ledger import Ledger
from rir_gym.memory import Attempt, Fact, Failure, ReflectionMemory

__all__ = ["Moment", "Return", "memory_text", "moments", "returns", "shown"]


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of a record: its index, the node that an act made, memory before and after it, the ledger after it.

    The ledger holds every count by name. Memories are texts, None where the record does not say them.
    """

    index: int
    event: Mapping[str, Any]
    made: int | None
    before: str | None
    after: str | None
    ledger: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Return:
    """An executed rollback: from the node where it was decided to the one that came back; ``depth`` in steps.

    ``depth`` is None where the target is no ancestor (mechanisms with ``nodes="tree"``).
    """

    index: int
    source: int
    target: int
    depth: int | None


def moments(record: Mapping[str, Any]) -> list[Moment]:
    """Every event in order; the last ledger is the record's own, as far as the record says what counts."""
    ledger, made, told = Ledger(), 0, []
    live = _begin(record)
    text = memory_text(live.to_json()) if live is not None else None
    events = record["events"]
    for index, event in enumerate(events):
        before, born = text, None
        if event["kind"] == "act" and event["outcome"] in ("executed", "submitted") and made + 1 < len(record["nodes"]):
            made += 1
            born = made
        _count(ledger, event, events[index + 1 : index + 3], stepped=born is not None)
        if event["kind"] == "review" and event["learned"] and live is not None:
            live = live.learn([fact for item in event["learned"] if (fact := _fact(item)) is not None])
            text = memory_text(live.to_json())
        elif event["kind"] == "review" and event["learned"]:
            text = None  # how another kind of memory learns stands in no record
        elif event["kind"] == "patch" and not _given_up(events, index):
            live = _reflection(event["memory"])
            text = memory_text(event["memory"])
        if text is None and index == len(events) - 1:
            text = memory_text(record["memory"])
        told.append(Moment(index, event, born, before, text, ledger.to_json()))
    return told


def returns(record: Mapping[str, Any]) -> Iterator[Return]:
    """Executed rollbacks in order; a correction (k = 0) is none."""
    nodes, wanted = record["nodes"], False
    for index, event in enumerate(record["events"]):
        if event["kind"] == "review":
            wanted = event["outcome"] == "rollback"
        elif event["kind"] == "where" and wanted and event["point"] is not None:
            source, target = event["node"], event["point"]["node"]
            at: int | None = source
            while at is not None and at > target:
                at = nodes[at]["parent"]
            depth = nodes[source]["step"] - nodes[target]["step"] if at == target else None
            yield Return(index, source, target, depth)
            wanted = False


def shown(value: Any) -> str:
    """A recorded value as text: text as it is, anything else as Python writes it, or as JSON where it is malformed."""
    if isinstance(value, str):
        return value
    try:
        value = decode(value)
    except Exception:  # a file may hold anything; the page shows it as it stands
        return json.dumps(value)
    if isinstance(value, Opaque):
        return value.text
    return value if isinstance(value, str) else repr(value)


def memory_text(memory: Mapping[str, Any]) -> str:
    """A memory as lines, one thing a line, so that two of them can be compared line by line."""
    if memory.get("kind") != "reflection":
        return "\n".join(_lines("", memory))
    lines: list[str] = []
    for fact in memory.get("environment") or ():
        if isinstance(fact, Mapping):
            seen = f" (seen at step {fact['step']})" if fact.get("step") is not None else ""
            again = " [re-verify]" if fact.get("reverify") else ""
            lines.append(f"E {shown(fact.get('channel'))}: {shown(fact.get('text'))}{seen}{again}")
    for number, attempt in enumerate(memory.get("attempts") or (), 1):
        if isinstance(attempt, Mapping):
            ends = f"steps {attempt.get('resumed_at')} to {attempt.get('ended_at')}"
            lines.append(f"H attempt {number}, {ends}: {shown(attempt.get('outcome'))}")
            for name in ("milestones", "route"):
                if attempt.get(name):
                    lines.append(f"H   {name}: {', '.join(shown(item) for item in attempt[name])}")
    failure = memory.get("failure")
    if isinstance(failure, Mapping):
        lines.append(f"F {shown(failure.get('cause'))}")
        lines += [f"F   {name}: {shown(failure[name])}" for name in ("conditions", "action") if failure.get(name)]
    return "\n".join(lines)


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value and not any(key.startswith("$") for key in value):
        for key, item in value.items():
            yield from _lines(f"{name}.{key}" if name else key, item)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value, 1):
            yield from _lines(f"{name} {number}", item)
    else:
        yield f"{name}: {shown(value)}"


# --- the ledger and the memory, done again --------------------------------------------------------------------------


def _count(ledger: Ledger, event: Mapping[str, Any], following: Sequence[Mapping[str, Any]], *, stepped: bool) -> None:
    kind = event["kind"]
    if kind == "act":
        ledger.add("agent_calls", event.get("agent_calls", 1))
        ledger.add("steps", int(stepped))
        ledger.add("requests", int(event["decision"] == "request"))
        ledger.add("unreadable_actions", int(event["decision"] == "unparsed"))
    elif kind == "review":
        ledger.add("reviews")
        ledger.add("unreadable_verdicts", int(event["verdict"] == "unparsed"))
        for outcome, name in (("rollback", "rollbacks"), ("correction", "corrections"), ("abandoned", "abandoned")):
            ledger.add(name, int(event["outcome"] == outcome))
        if event["outcome"] == "abandoned":
            ledger.add("unreadable_restores", int(not any(item["kind"] == "patch" for item in following)))
    elif kind == "where":
        for stage in event["stages"]:
            if stage in ("coarse", "fine"):
                ledger.add(stage)
        ledger.add("unreadable_intervals", int(bool(event.get("interval_unread"))))
    elif kind == "patch":
        ledger.add("patches", int(event["invoked"]))
        ledger.add("unreadable_patches", int(event["unread"]))
    for call in event["calls"]:
        for name in ("prompt_tokens", "reused_tokens", "generated_tokens", "cut_tokens"):
            ledger.add(name, call.get(name, 0))
        ledger.add("subrequests", int(call["kind"] == "sub"))
        ledger.add("reasks", int(call["kind"] == "reask"))


def _given_up(events: Sequence[Mapping[str, Any]], index: int) -> bool:
    """Whether the patch at ``index`` belongs to a rollback that was refused: then the memory stays."""
    review = next((event for event in reversed(events[max(0, index - 2) : index]) if event["kind"] == "review"), None)
    return review is not None and review["outcome"] == "abandoned"


def _begin(record: Mapping[str, Any]) -> ReflectionMemory | None:
    memory = record["memory"]
    return ReflectionMemory(shown(memory.get("objective", ""))) if memory.get("kind") == "reflection" else None


def _reflection(memory: Mapping[str, Any]) -> ReflectionMemory | None:
    if memory.get("kind") != "reflection":
        return None
    try:
        facts = [_fact(item) for item in memory["environment"]]
        attempts = [
            Attempt(**{**item, "milestones": tuple(item["milestones"]), "route": tuple(item["route"])})
            for item in memory["attempts"]
        ]
        failure = Failure(**memory["failure"]) if memory["failure"] else None
        return ReflectionMemory(memory["objective"], tuple(fact for fact in facts if fact), tuple(attempts), failure)
    except (KeyError, TypeError):  # another version's memory: shown as it is written, not updated
        return None


def _fact(item: Any) -> Fact | None:
    try:
        fact = Fact(**item)
        return fact if isinstance(fact.text, str) and isinstance(fact.channel, str) else None
    except TypeError:
        return None
