"""Rows of the formats that train the agent: ``sft``, ``messages``, ``dpo``, ``kto``. One record in, its rows out.

Which branches: the decisions that made the surviving branch (``sft``, ``messages``, the good ones of ``kto``); at a
restore point, the decision that survived against the one that was undone (``dpo``); what was undone first (the bad ones
of ``kto``). A prompt is the one of its own moment, so nothing that came later stands in it. This module words nothing
and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rir_gym.base import Decision, DecisionKind, MemoryPosition, Message
from rir_gym.data.exports.moments import Moment, moments
from rir_gym.data.exports.turns import Render, Turn, turns_of
from rir_gym.data.keys import digest_of, key_of

__all__ = ["Reading", "Row", "dpo_rows", "kto_rows", "messages_rows", "provenance", "sft_rows"]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """How records are read into rows.

    Args:
        render: words what was not sent to a model.
        placement: where the memory is to stand; None is where it stood.
        only: "success" takes what led to success; "all" takes episodes without success, too.
        requests: whether the agent's requests for a review that were granted are rows as well (``sft``, ``kto``).
        left_out: counts what could not be made into a row, by reason.
    """

    render: Render
    placement: MemoryPosition | None = None
    only: str = "success"
    requests: bool = False
    left_out: dict[str, int] = field(default_factory=dict, hash=False)

    def turns(self, moment: Moment) -> list[Turn]:
        """The turns of a moment; where they cannot be worded that is counted."""
        turns = turns_of(moment, render=self.render, placement=self.placement)
        if turns is None:
            self.count("cannot be worded")
        return turns or []

    def count(self, reason: str) -> None:
        """One more row that could not be made."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def provenance(record: Mapping[str, Any], moment: Moment, turn: Turn) -> Row:
    """Where a row comes from; ``episode`` is a digest of the episode's key."""
    header, key = record["header"], key_of(record)
    return {
        "episode": digest_of(list(key)),
        "task": key.task,
        "seed": key.seed,
        "attempt": key.attempt,
        "mechanism": header["mechanism"]["name"],
        "uses_oracle": header["mechanism"]["uses_oracle"],
        "player": player_of(header),
        "success": record["result"]["success"],
        "event": moment.event,
        "node": moment.node,
        "step": moment.view.t,
        "source": turn.source,
        "cut_tokens": turn.cut_tokens,
    }


def player_of(header: Mapping[str, Any]) -> str:
    """Who acted, in one text."""
    model, agent = header["model"], header["agent"]
    return f"model {model}" if model else f"agent {agent}"


def sft_rows(record: Mapping[str, Any], reading: Reading) -> Iterator[Row]:
    """One row for each reply of the agent that made the surviving branch: usually one a decision."""
    if not _taken(record, reading):
        return
    for moment in _chosen(record, reading):
        for turn in reading.turns(moment):
            yield {
                "prompt": _said(turn.messages),
                "completion": _reply(turn.text),
                "part": turn.part,
                **provenance(record, moment, turn),
            }


def messages_rows(record: Mapping[str, Any], reading: Reading) -> Iterator[Row]:
    """One conversation for each stretch of the surviving branch over which the memory block does not change.

    ``weight`` is 1 at the turns that are to be trained, once over all rows, and 0 elsewhere. The last turn's prefix is
    the prompt as it was sent; an earlier turn's is that prompt without the role's instructions after the observation.
    A decision ends its row where its turn in the history is not the very text that was generated, where it took more
    than one reply, and always where memory stands after the history.
    """
    if not _taken(record, reading):
        return
    stretch: list[tuple[Moment, list[Turn]]] = []
    for moment in _surviving(record):
        turns = reading.turns(moment)
        if not turns:
            continue
        if stretch and not _goes_on(stretch[-1], turns, reading):
            yield _conversation(record, stretch)
            stretch = []
        stretch.append((moment, turns))
    if stretch:
        yield _conversation(record, stretch)


def dpo_rows(record: Mapping[str, Any], reading: Reading) -> Iterator[Row]:
    """One pair for each rollback: the decision that survived against the one that was undone, one prompt for both.

    The prompt is the one of the decision that survived, made with M+. Where the new branch began with the action of the
    old one, the pair is where they first differ, as long as the world answered both the same.
    """
    if not _taken(record, reading):
        return
    told = list(moments(record))
    by_made = {moment.made: moment for moment in told if moment.made is not None}
    seen = set[tuple[int, int]]()
    for fork in _forks(record, told):
        pair = fork.difference(record)
        if pair is None:
            reading.count("no difference before the world's answers differ")
        if pair is None or pair in seen:
            continue
        seen.add(pair)
        rejected, chosen = by_made[pair[0]], by_made[pair[1]]
        good, bad = _action(reading.turns(chosen)), _action(reading.turns(rejected))
        if good is None or bad is None:
            continue
        if good.text == bad.text:
            reading.count("chosen and rejected are the same text")
            continue
        yield {
            "prompt": _said(good.messages),
            "chosen": _reply(good.text),
            "rejected": _reply(bad.text),
            "depth": fork.depth,
            "rejected_event": rejected.event,
            **provenance(record, chosen, good),
        }


def kto_rows(record: Mapping[str, Any], reading: Reading) -> Iterator[Row]:
    """Good: the decisions that made the surviving branch of a success. Bad: the first decision that a rollback undid.

    Bad ones of episodes without success only with ``only="all"``; their surviving decisions are neither.
    """
    success = bool(record["result"]["success"])
    if not success and reading.only == "success":
        return
    told = list(moments(record))
    bad = {_undone_first(record, fork) for fork in _forks(record, told)}
    good = {moment.event for moment in _chosen(record, reading)} if success else set[int]()
    for moment in told:
        label = moment.event in good
        if not label and (moment.made is None or moment.made not in bad):
            continue
        for turn in reading.turns(moment):
            yield {
                "prompt": _said(turn.messages),
                "completion": _reply(turn.text),
                "label": label,
                "part": turn.part,
                **provenance(record, moment, turn),
            }


# --- which decisions --------------------------------------------------------------------------------------------------


def _taken(record: Mapping[str, Any], reading: Reading) -> bool:
    return bool(record["result"]["success"]) or reading.only == "all"


def _surviving(record: Mapping[str, Any]) -> Iterator[Moment]:
    """The agent's decisions that made the surviving branch, an unstepped final response among them."""
    for moment in moments(record):
        if moment.kind == "act":
            stepped = moment.made is not None and record["nodes"][moment.made]["surviving"]
            if stepped or (moment.outcome == "submitted" and moment.made is None):
                yield moment


def _chosen(record: Mapping[str, Any], reading: Reading) -> Iterator[Moment]:
    """The surviving decisions and, where they are wanted, the requests that a recovery answered."""
    if not reading.requests:
        yield from _surviving(record)
        return
    granted = _granted(record)
    wanted = {moment.event for moment in _surviving(record)} | granted
    yield from (moment for moment in moments(record) if moment.event in wanted)


def _granted(record: Mapping[str, Any]) -> set[int]:
    return {
        number
        for number, event in enumerate(record["events"])
        if event["kind"] == "act" and event["decision"] == DecisionKind.REQUEST.value and event["outcome"] == "dropped"
    }


@dataclass(frozen=True, slots=True)
class _Fork:
    """One executed rollback: the nodes that it undid, and those that survive from the restore point on."""

    undone: tuple[int, ...]
    kept: tuple[int, ...]
    depth: int

    def difference(self, record: Mapping[str, Any]) -> tuple[int, int] | None:
        """The first two steps that differ, going down both branches while the world answers both the same."""
        nodes = record["nodes"]
        for undone, kept in zip(self.undone, self.kept, strict=False):
            if nodes[undone]["action"] != nodes[kept]["action"]:
                return undone, kept
            if nodes[undone]["observation"] != nodes[kept]["observation"]:
                return None
        return None


def _forks(record: Mapping[str, Any], told: Sequence[Moment]) -> Iterator[_Fork]:
    """Each executed rollback to an ancestor, in order; ``kept`` is empty where the restore point does not survive."""
    surviving = _branch(record, record["result"]["last"])
    for at, moment in enumerate(told):
        point = getattr(told[at + 1].value, "point", None) if at + 1 < len(told) else None
        if moment.kind != "review" or moment.outcome != "rollback" or point is None:
            continue
        left = _branch(record, moment.node)
        if point.node not in left or left[-1] == point.node:
            continue  # a jump to another branch: it undoes nothing
        undone = left[left.index(point.node) + 1 :]
        kept = surviving[surviving.index(point.node) + 1 :] if point.node in surviving else ()
        # Nodes are numbered in the order of real steps: what survives must have been made after what was undone.
        yield _Fork(undone, kept if kept and kept[0] > undone[0] else (), len(undone))


def _undone_first(record: Mapping[str, Any], fork: _Fork) -> int | None:
    """The first undone step that the surviving branch did not repeat; None where it repeated all that is known."""
    if not fork.kept:
        return fork.undone[0]
    pair = fork.difference(record)
    return None if pair is None else pair[0]


def _branch(record: Mapping[str, Any], node: int) -> tuple[int, ...]:
    branch = list[int]()
    at: int | None = node
    while at is not None:
        branch.append(at)
        at = record["nodes"][at]["parent"]
    return tuple(reversed(branch))


# --- their words ------------------------------------------------------------------------------------------------------


def _said(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _action(turns: Sequence[Turn]) -> Turn | None:
    return next((turn for turn in turns if turn.part == "action"), None)


def _goes_on(last: tuple[Moment, list[Turn]], turns: Sequence[Turn], reading: Reading) -> bool:
    moment, before = last
    position = reading.placement or moment.view.memory_position
    if position == "tail" or len(before) != 1 or len(turns) != 1:
        return False
    value = moment.value
    plain = isinstance(value, Decision) and value.kind is DecisionKind.ACTION and before[0].text == str(value.action)
    return plain and before[0].messages[0] == turns[0].messages[0]


def _conversation(record: Mapping[str, Any], stretch: Sequence[tuple[Moment, list[Turn]]]) -> Row:
    moment, turns = stretch[-1]
    last = turns[-1]
    trained = {earlier.view.t: said[0].text for earlier, said in stretch[:-1]}
    rows: list[Row] = []
    action = 0
    for message in last.messages:
        weight = 0
        if message.role == "assistant":
            weight = int(trained.get(action) == message.content)
            action += 1
        rows.append({"role": message.role, "content": message.content, "weight": weight})
    for row, turn in zip(_replies_before(rows, turns), turns[:-1], strict=False):
        row["weight"] = int(row["content"] == turn.text)
    rows.append({"role": "assistant", "content": last.text, "weight": 1})
    return {"messages": rows, "decisions": len(stretch), **provenance(record, moment, last)}


def _replies_before(rows: Sequence[Row], turns: Sequence[Turn]) -> list[Row]:
    """The rows of the earlier replies of one decision: the last assistant turns before its last reply."""
    said = [row for row in rows if row["role"] == "assistant"]
    return said[len(said) - (len(turns) - 1) :] if len(turns) > 1 else []
