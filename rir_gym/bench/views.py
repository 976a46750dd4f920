"""What the agent saw when it was asked, put together again from a record: one view for each of its decisions.

A view has seed, objective, history, memory, signals and the budgets. It has no restore points and no last review, which
a record does not hold. A memory of another kind than G, E, H, F cannot be read back: it is taken for empty until
something enters it, and views end there. This module knows records (schema 1), no environment and no mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rir_gym.base import Step, View
from rir_gym.bench.tree import branch
from rir_gym.errors import RecordError
from rir_gym.jsonable import decode
from rir_gym.memory import Attempt, Fact, Failure, ReflectionMemory
from rir_gym.signals import signals

__all__ = ["agent_views", "memory_of"]


def agent_views(record: Mapping[str, Any]) -> Iterator[View | None]:
    """The view behind each ``act`` event, in order; None where its memory cannot be told.

    Raises:
        RecordError: a field is missing or malformed.
    """
    try:
        yield from _views(record)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise RecordError(f"not an episode record of schema 1 ({type(error).__name__}: {error})") from error


def memory_of(value: Mapping[str, Any]) -> ReflectionMemory | None:
    """The memory that ``ReflectionMemory.to_json`` wrote; None for another kind."""
    if value.get("kind") != "reflection":
        return None
    attempts = [
        Attempt(**{**one, "milestones": tuple(one["milestones"]), "route": tuple(one["route"])})
        for one in value["attempts"]
    ]
    failure = Failure(**value["failure"]) if value["failure"] is not None else None
    facts = tuple(Fact(**one) for one in value["environment"])
    return ReflectionMemory(value["objective"], facts, tuple(attempts), failure)


def _views(record: Mapping[str, Any]) -> Iterator[View | None]:
    header, nodes, budget = record["header"], record["nodes"], record["header"]["budget"]
    steps = [_step(node) for node in nodes]
    objective = str(decode(record["objective"]))
    memory: ReflectionMemory | None = ReflectionMemory(objective)
    readable = memory_of(decode(record["memory"])) is not None
    calls = rollbacks = 0
    outcome = ""
    for event in record["events"]:
        kind = event["kind"]
        if kind == "act":
            history = tuple([steps[at] for at in branch(nodes, event["node"])])
            yield (
                None
                if memory is None
                else View(
                    seed=header["seed"],
                    objective=objective,
                    history=history,
                    memory=memory,
                    signals=signals(history),
                    agent_calls=calls,
                    agent_calls_left=budget["agent_calls"] - calls,
                    rollbacks_left=budget["rollbacks"] - rollbacks,
                    memory_position="tail" if header["mechanism"].get("memory_position") == "tail" else "system",
                )
            )
            calls += event.get("agent_calls", 1)  # what this decision cost
        elif kind == "review":
            outcome = event["outcome"]
            rollbacks += outcome == "rollback"
            learned = [Fact(**decode(one)) for one in event["learned"]]
            if learned and memory is not None:
                memory = memory.learn(learned) if readable else None
        elif kind == "patch" and outcome in ("rollback", "correction"):
            memory = memory_of(decode(event["memory"]))


def _step(node: Mapping[str, Any]) -> Step:
    return Step(
        decode(node["action"]),
        decode(node["observation"]),
        decode(node["reward"]),
        node["terminated"],
        node["truncated"],
        decode(node["info"]),
    )
