"""A moment of a record in the words of a prompt: for episodes in which no model played, or with memory elsewhere.

Each function gives the requests that the model role of that name would have sent on this view (``act``, ``when``,
``where``, ``what``), and the replies: what a model generated where one played, else what the scripted decision says
in the same form. This module knows no environment and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rir_gym.base import (
    Decision,
    DecisionKind,
    Message,
    Patch,
    Restore,
    RestorePoint,
    Verdict,
    VerdictKind,
    View,
)
from rir_gym.data.exports.moments import Moment
from rir_gym.data.exports.turns import Turn
from rir_gym.memory import ReflectionMemory
from rir_policies import chat
from rir_policies.prompts import Prompts
from rir_policies.read import MAX_FACTS, read_text
from rir_policies.when import URGENCIES
from rir_policies.where import candidates

__all__ = ["Renderer"]


@dataclass(frozen=True, slots=True)
class Renderer:
    """Words moments with these texts; a ``rir_gym.data.exports.turns.Render``."""

    prompts: Prompts

    def __call__(self, moment: Moment) -> list[Turn]:
        """One turn for each call of the moment, or, where it has none, for each reply that it stands for."""
        value, view = moment.value, moment.view
        if isinstance(value, Decision):
            requests: chat.Requests = "offered" if moment.requests else "none"
            return _replayed_act(view, value, self.prompts, requests) or _told_act(view, value, self.prompts, requests)
        if isinstance(value, Verdict):
            return _review(view, value, self.prompts)
        if moment.verdict is None:
            return []
        if isinstance(value, Restore):
            return _where(view, moment.verdict, value, self.prompts)
        return _patch(view, moment.verdict, moment.restore, value, self.prompts)


def _replayed_act(view: View, decision: Decision, prompts: Prompts, requests: chat.Requests) -> list[Turn]:
    """The requests of ``ModelActor`` again, around the replies that it got."""
    calls, turns = decision.calls, list[Turn]()
    messages, notice, asked = chat.act(view, prompts, requests=requests), "act.reask", False
    for i, call in enumerate(calls):
        if i == 0 and len(calls) > 1 and call.options is None and calls[1].kind == "sub":
            thinking = chat.think(view, prompts, requests=requests)
            turns.append(_generated("act", thinking, call.text))
            if thought := read_text(call.text):
                messages = chat.follow(thinking, thought, chat.decide(view, prompts, requests=requests))
            continue
        if call.kind == "reask":
            messages = chat.reask(messages, prompts.fill(notice))
        elif asked:
            messages, notice = chat.follow(messages, chat.FINAL, prompts.fill("act.answer")), "act.answer"
        asked = True
        turns.append(_generated("act", messages, call.text))
    return turns


def _told_act(view: View, decision: Decision, prompts: Prompts, requests: chat.Requests) -> list[Turn]:
    messages = chat.act(view, prompts, requests=requests)
    if decision.kind is DecisionKind.ACTION:
        return [_scripted("act", "action", messages, str(decision.action))]
    if decision.kind is DecisionKind.REQUEST:
        return [_scripted("act", "action", messages, chat.ROLLBACK)]
    if decision.kind is DecisionKind.UNPARSED:
        return []
    answer = str(decision.action)
    if not chat.options(view, requests=requests):
        return [_scripted("act", "action", messages, f"{chat.FINAL}: {answer}")]
    asked = chat.follow(messages, chat.FINAL, prompts.fill("act.answer"))
    return [_scripted("act", "action", messages, chat.FINAL), _scripted("act", "answer", asked, answer)]


def _review(view: View, verdict: Verdict, prompts: Prompts) -> list[Turn]:
    messages, texts = chat.review(view, prompts), prompts.fill
    if verdict.calls:
        told = verdict.calls[0].text
        questions = ("urgency", "learned", "diagnosis")
        asked = [messages, *(chat.follow(messages, told, texts(f"review.{name}")) for name in questions)]
        return [_generated("review", asked[i], call.text) for i, call in enumerate(verdict.calls[: len(asked)])]
    if verdict.kind not in (VerdictKind.CONTINUE, VerdictKind.ROLLBACK):
        return []
    told = verdict.kind.name
    turns = [_scripted("review", "verdict", messages, told)]
    level = min(URGENCIES, key=lambda each: abs(float(each) - verdict.urgency))
    turns.append(_scripted("review", "urgency", chat.follow(messages, told, texts("review.urgency")), level))
    if verdict.learned:
        asked_for = chat.follow(messages, told, texts("review.learned"))
        turns.append(_scripted("review", "learned", asked_for, _news(view, verdict)))
    if verdict.kind is VerdictKind.ROLLBACK and verdict.diagnosis:
        asked_for = chat.follow(messages, told, texts("review.diagnosis"))
        turns.append(_scripted("review", "diagnosis", asked_for, verdict.diagnosis))
    return turns


def _news(view: View, verdict: Verdict) -> str:
    """What is new to M of ΔE in the form that is asked for: the last four lines, or none."""
    known = view.memory.environment if isinstance(view.memory, ReflectionMemory) else ()
    held = {(fact.channel, fact.text) for fact in known if not fact.reverify}
    new = [fact for fact in verdict.learned if (fact.channel, fact.text) not in held]
    return "\n".join(f"{fact.channel}: {fact.text}" for fact in new[-MAX_FACTS:]) or "none"


def _where(view: View, verdict: Verdict, restore: Restore, prompts: Prompts) -> list[Turn]:
    """Coarse to fine; a question with one possible answer is not asked, as ``CoarseToFine`` does."""
    points = list(candidates(view))
    if restore.calls:
        replies = [("fine" if call.role == "fine" else str(call.kind), call.text) for call in restore.calls]
    elif restore.point is None or not restore.stages:
        return []
    else:
        low, high = restore.interval or (None, None)
        told = (("first", low), ("sub", high), ("fine", restore.point.t))
        replies = [(question, str(step)) for question, step in told if step is not None]
    turns: list[Turn] = []
    messages: tuple[Message, ...] = ()
    first = ""
    for question, text in replies:
        steps = [str(point.t) for point in points]
        if not restore.calls and (len(points) < 2 or text not in steps):
            points = _narrowed(points, steps, question, text)
            continue
        if question == "first":
            messages, first = chat.coarse(view, verdict, points, prompts), text
        asked = {
            "first": messages,
            "sub": chat.follow(messages, first, prompts.fill("coarse.last")),
            "fine": chat.fine(view, verdict, points, prompts),
        }.get(question, ())
        if restore.calls:
            turns.append(_generated("fine" if question == "fine" else "coarse", asked, text))
        elif messages or question != "sub":
            part = {"first": "first", "sub": "last", "fine": "point"}[question]
            turns.append(_scripted("fine" if question == "fine" else "coarse", part, asked, text))
        points = _narrowed(points, steps, question, text)
    return turns


def _narrowed(points: list[RestorePoint], steps: Sequence[str], question: str, text: str) -> list[RestorePoint]:
    if text not in steps or question == "fine":
        return points
    at = steps.index(text)
    return points[at:] if question == "first" else points[: at + 1]


def _patch(view: View, verdict: Verdict, restore: Restore | None, patch: Patch, prompts: Prompts) -> list[Turn]:
    if restore is None or restore.point is None or not patch.invoked:
        return []
    messages = chat.patch(view, verdict, restore, prompts)
    if patch.calls:
        return [_generated("patch", messages, call.text) for call in patch.calls]
    failure = patch.memory.failure if isinstance(patch.memory, ReflectionMemory) else None
    if patch.unread or failure is None:
        return []
    return [_scripted("patch", "cause", messages, failure.cause)]


def _generated(role: str, messages: tuple[Message, ...], text: str) -> Turn:
    return Turn(role, "", messages, text, "rendered")


def _scripted(role: str, part: str, messages: tuple[Message, ...], text: str) -> Turn:
    return Turn(role, part, messages, text, "scripted")
