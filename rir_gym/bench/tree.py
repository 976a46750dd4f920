"""A record's nodes as a tree, and its reviews, restores and patches put together. Knows records (schema 1) only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Recovery", "branch", "common", "recoveries"]

Nodes = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Recovery:
    """A review that wanted a rollback and was carried out: its events, and the node where the episode resumed.

    ``done`` is False for one that was given up; ``target`` is then what was asked for, None where that was unreadable.
    """

    number: int
    node: int
    target: int | None
    where: Mapping[str, Any]
    patch: Mapping[str, Any] | None
    done: bool


def branch(nodes: Nodes, at: int) -> list[int]:
    """Node ids from the root to ``at``."""
    ids: list[int] = []
    node: int | None = at
    while node is not None:
        ids.append(node)
        node = nodes[node]["parent"]
    return ids[::-1]


def common(nodes: Nodes, a: int, b: int) -> int:
    """The last node that lies on the branches of both."""
    while a != b:
        if nodes[a]["step"] >= nodes[b]["step"]:
            a = nodes[a]["parent"]
        else:
            b = nodes[b]["parent"]
    return a


def recoveries(record: Mapping[str, Any]) -> Iterator[Recovery]:
    """Every localization, in order; ``number`` is the index of its event."""
    outcome = ""
    events = record["events"]
    for number, event in enumerate(events):
        if event["kind"] == "review":
            outcome = event["outcome"]
        elif event["kind"] == "where":
            after = events[number + 1] if number + 1 < len(events) else None
            patch = after if after is not None and after["kind"] == "patch" else None
            target = event["point"]["node"] if event["point"] is not None else None
            yield Recovery(number, event["node"], target, event, patch, outcome in ("rollback", "correction"))
