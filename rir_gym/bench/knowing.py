"""What an episode's memory was worth, and whether the agent still did what its expert would do after a rollback.

- *contradicted*: of the facts that were said to be invariant and have the form "subject: value", the share whose value
  a later fact of the same subject contradicts. Other facts are not counted: nobody can tell from a record.
- *repeats*: of the rollbacks that undid a step, the share after which the agent, standing where it resumed, first did
  the undone action again. This asks no memory, so it compares all mechanisms; where one resumes far before the mistake,
  the first undone action may well have been right.
- *recorded repeats*: of the failures that a memory recorded with their action and conditions (σ), the share that the
  agent did again later under the same conditions.
- *agreement*: of the agent's decisions, the share that is what the environment's expert would have done in the same
  view (without an expert: what the oracle would have done), ``before`` the first rollback, ``after`` it, and ``at`` the
  first decision after each rollback.

Pure; knows records (schema 1). Text is compared with blanks and case folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rir_gym.bench.sidecar import Truth
from rir_gym.bench.tree import branch, common, recoveries
from rir_gym.bench.truth import Tally
from rir_gym.jsonable import decode

__all__ = ["KNOWING", "knowing_tallies"]

KNOWING = (
    "contradicted",
    "repeats",
    "recorded_repeats",
    "agreement_before",
    "agreement_after",
    "agreement_at",
)


def knowing_tallies(record: Mapping[str, Any], truth: Truth | None) -> dict[str, Tally]:
    """The tallies of one episode by name (``KNOWING``); agreement needs ``truth``. Unknown is (0, 0)."""
    found: dict[str, Tally] = dict.fromkeys(KNOWING, (0.0, 0.0))
    found["contradicted"] = _contradicted(record)
    found["repeats"] = _repeats(record)
    found["recorded_repeats"] = _recorded(record)
    if truth is not None:
        found |= _agreement(record, truth)
    return found


def _contradicted(record: Mapping[str, Any]) -> Tally:
    said: dict[str, list[str]] = {}
    for event in record["events"]:
        for fact in decode(event["learned"]) if event["kind"] == "review" else ():
            subject, colon, value = str(fact["text"]).rpartition(": ")
            if fact["channel"] == "fact" and fact["invariant"] and colon:
                values = said.setdefault(_folded(subject), [])
                if _folded(value) not in values:
                    values.append(_folded(value))
    facts = sum(map(len, said.values()))
    return float(sum(len(values) - 1 for values in said.values())), float(facts)


def _repeats(record: Mapping[str, Any]) -> Tally:
    nodes, again, count = record["nodes"], 0, 0
    for recovery in recoveries(record):
        if not recovery.done or recovery.target is None:
            continue
        undone = branch(nodes, recovery.node)
        from_ = common(nodes, recovery.node, recovery.target)
        if from_ != recovery.target or from_ == recovery.node:
            continue
        later = _next_action(record, recovery.number)
        if later is None or later[0] != recovery.target:
            continue
        count += 1
        again += later[1] == nodes[undone[undone.index(from_) + 1]]["action"]
    return float(again), float(count)


def _next_action(record: Mapping[str, Any], number: int) -> tuple[int, Any] | None:
    """(node, action) of the first task action that was executed after an event."""
    for event in record["events"][number + 1 :]:
        if event["kind"] == "act" and event["outcome"] == "executed":
            return event["node"], event["action"]
    return None


def _recorded(record: Mapping[str, Any]) -> Tally:
    """Failures by (action, conditions), and whether the same was done again after it was written down."""
    nodes = record["nodes"]
    recorded: dict[tuple[str, str], bool] = {}
    done: set[int] = {recovery.number + 1 for recovery in recoveries(record) if recovery.done}
    for number, event in enumerate(record["events"]):
        if event["kind"] == "patch" and number in done:
            failure = decode(event["memory"]).get("failure")
            if isinstance(failure, Mapping) and failure.get("action") and failure.get("conditions"):
                recorded.setdefault((_folded(failure["action"]), _folded(failure["conditions"])), False)
        elif event["kind"] == "act" and event["outcome"] == "executed":
            here = _folded(str(event["action"])), _folded(str(decode(nodes[event["node"]]["summary"])))
            if here in recorded:
                recorded[here] = True
    return float(sum(recorded.values())), float(len(recorded))


def _agreement(record: Mapping[str, Any], truth: Truth) -> dict[str, Tally]:
    sums: dict[str, list[float]] = {name: [0.0, 0.0] for name in KNOWING if name.startswith("agreement")}
    rolled = fresh = False
    number = 0
    for event in record["events"]:
        if event["kind"] == "review":
            if event["outcome"] == "rollback":
                rolled = fresh = True
        elif event["kind"] == "act":
            meant = _meant(truth, number, event["node"])
            number += 1
            if meant is not None:
                agrees = event["decision"] in ("action", "final") and str(decode(event["action"])) == meant
                for name in ("agreement_after" if rolled else "agreement_before", *["agreement_at"] * fresh):
                    sums[name][0] += agrees
                    sums[name][1] += 1
            fresh = False
    return {name: (top, bottom) for name, (top, bottom) in sums.items()}


def _meant(truth: Truth, number: int, node: int) -> str | None:
    if truth.expert is not None:
        return truth.expert[number] if number < len(truth.expert) else None
    return truth.best[node] if truth.best is not None else None


def _folded(text: str) -> str:
    return " ".join(str(text).casefold().split())
