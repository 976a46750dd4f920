"""Rows of the format ``roles``: what reviewers, localizers and patchers were asked and said, with how right they were.

By outcome: a recovery is right where the episode succeeded and the first step after it survived to the end (no later
rollback undid it); a CONTINUE where the episode succeeded and the step that it let pass survived, wrong where a
rollback undid that step, and unknown in an episode without success. By truth: labels of every node
(``rir_gym.labels``) say whether the verdict, the restore point and the interval were right; patches have an outcome
only. Labels stand in a column of their own, never in a prompt. This module asks no oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rir_gym.base import Restore, Verdict, VerdictKind
from rir_gym.data.exports.moments import Moment, moments
from rir_gym.data.exports.rows import Reading, Row, provenance
from rir_gym.data.exports.turns import Turn
from rir_gym.errors import RecordError

__all__ = ["Truth", "roles_rows"]

Truth = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""A record -> one label a node, the ``labels`` of ``rir_gym.labels.label_record``."""


def roles_rows(record: Mapping[str, Any], reading: Reading, truth: Truth | None = None) -> Iterator[Row]:
    """One row for each reply of a recovery role whose label is known; with ``only="success"`` those that were right."""
    told = list(moments(record))
    labels = truth(record) if truth is not None else None
    if labels is not None and len(labels) != len(record["nodes"]):
        raise RecordError(f"labels={len(labels)}: one for each of {len(record['nodes'])} nodes")
    outcomes = _outcomes(record, told)
    for moment in told:
        if moment.kind == "act":
            continue
        for turn in reading.turns(moment):
            outcome = outcomes.get(moment.event)
            label = outcome if labels is None else _truth(moment, turn, labels, outcome)
            if label is None:
                reading.count("no label is known")
            elif label or reading.only == "all":
                yield {
                    "prompt": [{"role": said.role, "content": said.content} for said in turn.messages],
                    "completion": [{"role": "assistant", "content": turn.text}],
                    "role": turn.role,
                    "part": turn.part,
                    "outcome": moment.outcome or _outcome_of(moment, told),
                    "label": label,
                    **provenance(record, moment, turn),
                }


def _outcome_of(moment: Moment, told: Sequence[Moment]) -> str:
    """That of the review to which a localization or a patch belongs."""
    return next((each.outcome for each in reversed(told[: moment.event]) if each.kind == "review"), "")


def _outcomes(record: Mapping[str, Any], told: Sequence[Moment]) -> dict[int, bool | None]:
    """By event, whether what a role said led to success; None where that is not known."""
    nodes, success = record["nodes"], bool(record["result"]["success"])
    found: dict[int, bool | None] = {}
    label: bool | None = None
    for at, moment in enumerate(told):
        if moment.kind == "review":
            label = None
            if moment.outcome in ("rollback", "correction"):
                after = next((each.made for each in told[at:] if each.kind == "act" and each.made is not None), None)
                label = success and after is not None and bool(nodes[after]["surviving"])
            elif moment.outcome == "continue":
                passed = moment.node if moment.view.terminal else _step_let_pass(moment, told)
                survived = passed is None or bool(nodes[passed]["surviving"])
                label = False if not survived else True if success else None
        if moment.kind != "act":
            found[moment.event] = label
    return found


def _step_let_pass(moment: Moment, told: Sequence[Moment]) -> int | None:
    """The node that the reviewed proposal made."""
    act = next((each for each in reversed(told[: moment.event]) if each.kind == "act"), None)
    return act.made if act is not None else None


def _truth(moment: Moment, turn: Turn, labels: Sequence[Mapping[str, Any]], outcome: bool | None) -> bool | None:
    label = labels[moment.node]
    try:
        lost, rescuable, rescue = label["lost"], label["rescuable"], label["rescue"]
    except (KeyError, TypeError) as error:
        raise RecordError(f"labels[{moment.node}]: no label of a node ({error})") from error
    should = None if lost is None else bool(lost) and bool(rescuable)
    if isinstance(moment.value, Verdict):
        if turn.part == "urgency" or turn.part == "learned":
            return outcome
        return None if should is None else (moment.value.kind is VerdictKind.ROLLBACK) == should
    if not isinstance(moment.value, Restore):
        return outcome
    if should is None or (should and rescue is None):
        return None
    if not should:
        return False
    if turn.part == "first":
        return int(turn.text) <= rescue if turn.text.isdecimal() else False
    if turn.part == "last":
        return int(turn.text) >= rescue if turn.text.isdecimal() else False
    return moment.value.point is not None and moment.value.point.t == rescue
