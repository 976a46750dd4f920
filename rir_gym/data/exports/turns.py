"""What a role was asked and what it said, at one moment: the pairs that a model can be trained on.

Where a model played, these are its requests as they were sent and its replies as they were generated, but for replies
that could not be read and were asked for again. Where none played, or memory is to stand in another place, a function
that is passed in words the request. This module knows no wording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rir_gym.base import Call, Decision, DecisionKind, MemoryPosition, Message, Patch, Restore, Verdict, VerdictKind
from rir_gym.data.exports.moments import Moment

__all__ = ["Render", "Turn", "turns_of"]

Source = Literal["sent", "rendered", "scripted"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its reply.

    Args:
        role: "act", "review", "coarse", "fine" or "patch".
        part: what the reply is: of the agent "thought", "action" or "answer"; of the reviewer "verdict", "urgency",
            "learned" or "diagnosis"; of the localizer "first", "last" or "point"; of the patcher "cause".
        source: "sent": as it was sent and generated; "rendered": the request is worded anew, the reply was generated;
            "scripted": no model took part, both follow from what the role decided.
        cut_tokens: how many tokens of the request the model had no room for.
    """

    role: str
    part: str
    messages: tuple[Message, ...]
    text: str
    source: Source
    cut_tokens: int = 0


Render = Callable[[Moment], Sequence[Turn]]
"""Words a moment: one turn for each of its calls, or, where it has none, for each reply that it stands for."""


def turns_of(moment: Moment, *, render: Render, placement: MemoryPosition | None = None) -> list[Turn] | None:
    """The turns of a moment in their order; none where nothing readable was said; None where they cannot be worded.

    Args:
        render: words what was not sent.
        placement: where the memory is to stand; None is where it stood.
    """
    calls, here = moment.value.calls, moment.view.memory_position
    if calls and placement in (None, here):
        turns = [Turn(call.role, "", call.messages, call.text, "sent", call.cut_tokens) for call in calls]
    elif not moment.renderable:
        return None
    else:
        if calls and [turn.messages for turn in render(moment)] != [call.messages for call in calls]:
            return None  # other prompts, or another role than these words are made for
        turns = list(render(replace(moment, view=replace(moment.view, memory_position=placement or here))))
    if not calls:
        return turns
    return [replace(turn, part=part) for turn, part in zip(turns, _parts(moment), strict=True) if part]


def _parts(moment: Moment) -> list[str]:
    """The part that each call is, "" where it led to nothing that could be read."""
    value = moment.value
    return ["" if _again(value.calls, at) else name for at, name in enumerate(_names(value))]


def _names(value: Decision | Verdict | Restore | Patch) -> list[str]:
    calls = value.calls
    if isinstance(value, Decision):
        return [""] * len(calls) if value.kind is DecisionKind.UNPARSED else _act_names(value)
    if isinstance(value, Verdict):
        return [""] * len(calls) if value.kind is VerdictKind.UNPARSED else _review_names(value)
    if isinstance(value, Restore):
        return [""] * len(calls) if value.point is None else _where_names(value)
    return ["" if value.unread else "cause" for _ in calls]


def _act_names(decision: Decision) -> list[str]:
    """The reply that was acted on, the thought before it, the answer after it; drafts and other samples are nothing."""
    calls, last = decision.calls, len(decision.calls) - 1
    names = [""] * len(calls)
    answers = [i for i, call in enumerate(calls) if i and call.kind == "sub"]
    at = last
    if decision.kind is DecisionKind.ACTION:
        at = _acted_on(decision)
    elif decision.kind is DecisionKind.FINAL and answers and any(call.options for call in calls):
        at = answers[-1] - 1
        names[at:] = ["answer"] * (len(calls) - at)
    names[at] = "action"
    before = _thought_before(decision, at)
    if before is not None:
        names[before] = "thought"
    return names


def _thought_before(decision: Decision, at: int) -> int | None:
    """The call before call ``at`` that gave the decision's thought, where there is one."""
    calls = decision.calls
    before = max((i for i in range(at) if calls[i].kind == "first"), default=None)
    if before is None or not decision.thought or calls[before].options is not None or calls[at].kind == "first":
        return None
    return before if _spaced(decision.thought) in _spaced(calls[before].text) else None


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _acted_on(decision: Decision) -> int:
    """The call whose reply is the action (of several, one after the thought), else one that was read into it."""
    calls, action = decision.calls, str(decision.action)
    same = [i for i, call in enumerate(calls) if call.text.strip() == action]
    thought_out = [i for i in same if _thought_before(decision, i) is not None]
    written = [i for i, call in enumerate(calls) if call.options is None and not _again(calls, i)]
    return (thought_out or same or written or [len(calls) - 1])[-1]


def _again(calls: Sequence[Call], at: int) -> bool:
    return at + 1 < len(calls) and calls[at + 1].kind == "reask"


def _review_names(verdict: Verdict) -> list[str]:
    """The order of ``rir_policies.when.ModelReviewer``; a reviewer that asks otherwise has a verdict and replies."""
    questions = [call for call in verdict.calls if call.kind != "reask"]
    known = len(questions) > 2 and questions[1].options is not None
    names = ("verdict", "urgency", "learned", "diagnosis") if known else ("verdict",)
    said = {"learned": bool(verdict.learned), "diagnosis": bool(verdict.diagnosis)}
    parts, at = list[str](), -1
    for call in verdict.calls:
        at += call.kind != "reask" or at < 0
        part = names[at] if at < len(names) else "reply"
        parts.append(part if said.get(part, True) else "")
    return parts


def _where_names(restore: Restore) -> list[str]:
    parts, part = list[str](), ""
    for call in restore.calls:
        if call.role != "coarse":
            part = "point"
        elif call.kind != "reask":
            part = "first" if call.kind == "first" else "last"
        parts.append("" if restore.interval_unread and part != "point" else part)
    return parts
