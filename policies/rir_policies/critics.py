"""Reviewers of the rivals, played by a language model in the words of their cards.

Each judges every view that it is given. Wording is in ``prompts``; sources are by name in docs/mechanisms.md. This
module knows no environment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from rir_gym.base import Call, Verdict, VerdictKind, View
from rir_policies import chat
from rir_policies.ask import choose, generate, prompt
from rir_policies.model import Completion, Model
from rir_policies.prompts import Prompts
from rir_policies.read import read_reflection

__all__ = ["ModelCritic", "ModelValue", "NamesStep", "value_of"]

_VERDICTS = (VerdictKind.CONTINUE, VerdictKind.ROLLBACK)
_VALUES = tuple(str(value) for value in range(1, 11))
_VALUE = re.compile(r"value (\d+) of 10")


@dataclass(frozen=True, slots=True)
class ModelCritic:
    """A ``Reviewer``: CONTINUE or ROLLBACK, and on ROLLBACK a reason in free text, which is the diagnosis.

    Args:
        model: any ``Model``.
        prompts: the texts.
        name: the prompt file with the sections ``verdict`` and ``reason``; ``$draft`` is the proposed action.
        reason_tokens: length of the reason, in tokens.
    """

    model: Model = field(repr=False)
    prompts: Prompts
    name: str
    _: KW_ONLY
    reason_tokens: int = 64

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """One verdict a view; two batches for all of them. A verdict that cannot be read is UNPARSED."""
        asked = [
            prompt(view, chat.ask(view, self.prompts, f"{self.name}.verdict", draft=chat.draft(view)), salt=self.name)
            for view in views
        ]
        words = tuple(kind.name for kind in _VERDICTS)
        judged = choose(self.model, "review", "first", asked, [words] * len(views))
        kinds = [VerdictKind.UNPARSED if c.index is None else _VERDICTS[c.index] for c, _ in judged]
        wrong = [(i, judged[i][1]) for i, kind in enumerate(kinds) if kind is VerdictKind.ROLLBACK]
        verdicts = [Verdict(kind, calls=(call,)) for kind, (_, call) in zip(kinds, judged, strict=True)]
        for i, call, reason in _reasons(self.model, views, wrong, self.prompts.fill(f"{self.name}.reason"), self):
            verdicts[i] = Verdict(VerdictKind.ROLLBACK, diagnosis=reason, calls=(judged[i][1], call))
        return verdicts


@dataclass(frozen=True, slots=True)
class NamesStep:
    """GA-Rollback's assistant: it names the step that went wrong, or none, and explains it in one line.

    The verdict is a choice among "none" and the view's restore points, so ``Window`` says how far back it may name. It
    is ignored where the mean probability of the chosen option's tokens is below ``confidence`` (without scores it is
    never ignored). The step stands at the beginning of the diagnosis, "step 5: ...", where ``Named`` finds it.

    Args:
        model: any ``Model``.
        prompts: the texts; ``garollback.step`` and ``garollback.reason``.
        confidence: the least mean token probability that is heeded.
        reason_tokens: length of the explanation, in tokens.
    """

    model: Model = field(repr=False)
    prompts: Prompts
    _: KW_ONLY
    confidence: float = 0.93
    reason_tokens: int = 48

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """One verdict a view; two batches for all of them. Where nothing can be restored the model is not asked."""
        verdicts = [Verdict(VerdictKind.CONTINUE) for _ in views]
        rows = [("none", *(str(t) for t in sorted({point.t for point in view.restorable}))) for view in views]
        open_ = [i for i, row in enumerate(rows) if len(row) > 1]
        asked = [
            prompt(
                views[i], chat.ask(views[i], self.prompts, "garollback.step", steps=", ".join(rows[i][1:])), salt="step"
            )
            for i in open_
        ]
        named: list[tuple[int, Call]] = []
        judged = choose(self.model, "review", "first", asked, [rows[i] for i in open_])
        for i, (choice, call) in zip(open_, judged, strict=True):
            kind = VerdictKind.UNPARSED if choice.index is None else VerdictKind.CONTINUE
            verdicts[i] = Verdict(kind, calls=(call,))
            sure = not choice.scores or math.exp(choice.scores[choice.index or 0]) >= self.confidence
            if choice.index and sure:
                named.append((i, call))
        steps = {i: rows[i][judged[open_.index(i)][0].index or 0] for i, _ in named}
        for i, call, reason in _reasons(self.model, views, named, self.prompts.fill("garollback.reason"), self):
            told = f"step {steps[i]}: {reason or 'it went wrong there'}"
            verdicts[i] = Verdict(VerdictKind.ROLLBACK, diagnosis=told, calls=(*verdicts[i].calls, call))
        return verdicts


@dataclass(frozen=True, slots=True)
class ModelValue:
    """LATS's critic: a value from 1 to 10, a choice; the diagnosis says it and ``value_of`` reads it."""

    model: Model = field(repr=False)
    prompts: Prompts

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """One value a view, in one batch."""
        asked = [prompt(view, chat.ask(view, self.prompts, "lats.value"), salt="value") for view in views]
        judged = choose(self.model, "review", "first", asked, [_VALUES] * len(views))
        return [
            Verdict(VerdictKind.UNPARSED, calls=(call,))
            if choice.index is None
            else Verdict(VerdictKind.CONTINUE, diagnosis=f"value {choice.index + 1} of 10", calls=(call,))
            for choice, call in judged
        ]


def value_of(verdict: Verdict) -> float:
    """A verdict as a value in [0.1, 1]: what a ``ModelValue`` said, else 0.1 for ROLLBACK and 1 for CONTINUE.

    >>> value_of(Verdict(VerdictKind.CONTINUE, diagnosis="value 7 of 10")), value_of(Verdict(VerdictKind.ROLLBACK))
    (0.7, 0.1)
    """
    if found := _VALUE.fullmatch(verdict.diagnosis):
        return int(found[1]) / 10
    return {VerdictKind.ROLLBACK: 0.1, VerdictKind.UNPARSED: 0.5}.get(verdict.kind, 1.0)


def _reasons(
    model: Model,
    views: Sequence[View],
    asked: Sequence[tuple[int, Call]],
    question: str,
    critic: ModelCritic | NamesStep,
) -> list[tuple[int, Call, str]]:
    """The reason for each (index of a view, call whose conversation goes on); "" where it cannot be read."""
    prompts = [
        prompt(
            views[i],
            chat.follow(call.messages, call.text, question),
            salt="reason",
            max_new_tokens=critic.reason_tokens,
        )
        for i, call in asked
    ]
    replies = generate(model, "review", "sub", prompts)
    return [
        (i, call, _read(views[i], reply, call, question) or "")
        for (i, _), (reply, call) in zip(asked, replies, strict=True)
    ]


def _read(view: View, reply: Completion, call: Call, question: str) -> str | None:
    cut = reply.stop_reason == "length"
    return read_reflection(call.text, echoes=chat.actions(view), question=question, cut=cut)
