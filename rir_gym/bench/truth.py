"""Reviews and localizations of one episode against the truth about it, as tallies (how many of how many).

- *review*: every review is held against three labels at the node v where it happened.
    - ``lost``: success is out of reach at v by going on, and some restore point would save it. Where none would, the
      review does not count: nothing was to be gained.
    - ``harmful``, ``wasted``: at least one step since the branch's last review (or since it was resumed) was.
  *Recall* is the share of ROLLBACK among reviews where the label is true, a *false alarm* the share where it is false.
- *delay*: steps from the first lost step of a branch to the first ROLLBACK verdict on it; *noticed* is the share of
  those losses, on a branch that was reviewed after them at all or not, that ever got one.
- *localization*, where v is lost and r* is known: exact (r = r*), within 1, interval hit (l ≤ r* ≤ u, where an interval
  was named), progress lost (max(0, r* − r) valid steps thrown away), rescue (success was in reach from r).
- *saved*: of the episodes that were ever lost but rescuable, the share that succeeded.

A label that is not known (None) makes its review or localization count nowhere. This module is pure; it knows records
(schema 1) and ``rir_gym.labels``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rir_gym.bench.sidecar import Truth
from rir_gym.bench.tree import Nodes, Recovery, branch, recoveries

__all__ = ["TRUTH", "Tally", "truth_tallies"]

Tally = tuple[float, float]
"""(sum, how many): a mean is the quotient of their sums."""

_LABELS = ("lost", "harmful", "wasted")
TRUTH = (
    *(f"recall_{label}" for label in _LABELS),
    *(f"false_alarm_{label}" for label in _LABELS),
    "noticed",
    "delay",
    "localization_exact",
    "localization_within_1",
    "interval_hit",
    "progress_lost",
    "rescue",
    "saved",
)


class _Tallies(dict[str, Tally]):
    def add(self, name: str, value: float) -> None:
        total, count = self.get(name, (0.0, 0.0))
        self[name] = (total + value, count + 1)


def truth_tallies(record: Mapping[str, Any], truth: Truth) -> dict[str, Tally]:
    """The tallies of one episode by name (``TRUTH``); what did not occur or is not known is (0, 0)."""
    found = _Tallies(dict.fromkeys(TRUTH, (0.0, 0.0)))
    _reviews(record, truth, found)
    _losses(record, truth, found)
    for recovery in recoveries(record):
        _localization(record["nodes"], truth, recovery, found)
    lost = truth.columns["lost"]
    if any(each is True and can is True for each, can in zip(lost, truth.columns["rescuable"], strict=True)):
        found.add("saved", record["result"]["success"])
    return dict(found)


def _reviews(record: Mapping[str, Any], truth: Truth, found: _Tallies) -> None:
    nodes = record["nodes"]
    reviewed: set[int] = set()  # nodes whose step some review has judged already
    for event in record["events"]:
        if event["kind"] != "review" or event["verdict"] not in ("rollback", "continue"):
            continue
        at, alarm = event["node"], event["verdict"] == "rollback"
        lost, can = truth.columns["lost"][at], truth.columns["rescuable"][at]
        if lost is False or (lost is True and can is True):
            found.add(f"{'recall' if lost else 'false_alarm'}_lost", alarm)
        fresh = [node for node in branch(nodes, at) if node not in reviewed]
        for label in ("harmful", "wasted"):
            said = [truth.columns[label][node] for node in fresh if node]
            if any(each is True for each in said):
                found.add(f"recall_{label}", alarm)
            elif all(each is False for each in said):
                found.add(f"false_alarm_{label}", alarm)
        reviewed.update(fresh)


def _losses(record: Mapping[str, Any], truth: Truth, found: _Tallies) -> None:
    """A loss is a node that is lost and whose parent is not (or that is the root)."""
    nodes, lost = record["nodes"], truth.columns["lost"]
    open_: dict[int, bool] = {}
    for node in nodes:
        parent = node["parent"]
        if lost[node["id"]] is True and (parent is None or lost[parent] is False):
            open_[node["id"]] = True
    for event in record["events"]:
        if event["kind"] != "review" or event["verdict"] != "rollback" or lost[event["node"]] is not True:
            continue
        loss = next((node for node in branch(nodes, event["node"]) if lost[node] is True), None)
        if loss is not None and open_.get(loss):
            open_[loss] = False
            found.add("delay", nodes[event["node"]]["step"] - nodes[loss]["step"])
    for missed in open_.values():
        found.add("noticed", not missed)


def _localization(nodes: Nodes, truth: Truth, recovery: Recovery, found: _Tallies) -> None:
    at, target = recovery.node, recovery.target
    if truth.columns["lost"][at] is not True or target is None:
        return
    best = truth.columns["rescue"][at]
    if best is not None and target in branch(nodes, at):
        chosen = nodes[target]["step"]
        found.add("localization_exact", chosen == best)
        found.add("localization_within_1", abs(chosen - best) <= 1)
        found.add("progress_lost", max(0, best - chosen))
        interval = recovery.where.get("interval")
        if interval is not None:
            found.add("interval_hit", interval[0] <= best <= interval[1])
    distance, ended = truth.columns["distance"][target], nodes[at]["terminated"] or nodes[at]["truncated"]
    left = truth.columns["calls_left"][at] - (not ended)
    if distance is None or truth.columns["rescuable"][at] is not True:
        return
    if distance <= left:
        found.add("rescue", True)
    elif truth.exact or distance == float("inf"):
        found.add("rescue", False)
