"""When to review: the hybrid trigger (agent request or adaptive schedule) and a reviewer played by a model.

The schedule is derived from the view, so nothing here keeps state. Source: Yu et al., arXiv 2609.18304, Algorithm 1:
L <- L_min + (1 - rho)(L_max - L_min). This module knows no environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from rir_gym.base import Call, DecisionKind, Verdict, VerdictKind, View, When
from rir_gym.errors import UsageError
from rir_policies import chat
from rir_policies.ask import choose, generate, prompt
from rir_policies.grammar import FACTS_PATTERN
from rir_policies.model import Completion, Model
from rir_policies.prompts import Prompts
from rir_policies.read import read_facts, read_reflection

__all__ = ["URGENCIES", "Hybrid", "ModelReviewer", "Reviewer", "Silent", "due", "horizon", "never"]

Reviewer = Callable[[Sequence[View]], Sequence[Verdict]]
"""Judges every view that it is given: CONTINUE, ROLLBACK or UNPARSED, never NOT_DUE."""

_VERDICTS = (VerdictKind.CONTINUE, VerdictKind.ROLLBACK)
URGENCIES = ("0.0", "0.25", "0.5", "0.75", "1.0")
_MIDDLE = 2


def horizon(view: View, l_min: float, l_max: float, l_0: float) -> float:
    """L: how many steps may pass after the last review; L_0 before any review and after a recovery."""
    last = view.last_review
    if last is None or last.urgency is None:
        return l_0
    return l_min + (1 - last.urgency) * (l_max - l_min)


def due(view: View, l_min: float, l_max: float, l_0: float) -> bool:
    """Whether a review is due: the environment ended, the agent asked for it, or t - t_rev >= L."""
    if view.terminal or (view.proposed is not None and view.proposed.kind is DecisionKind.REQUEST):
        return True
    last = view.last_review.step if view.last_review else 0
    return view.t - last >= horizon(view, l_min, l_max, l_0)


def never(views: Sequence[View]) -> Sequence[Verdict]:
    """A ``When`` that never reviews."""
    return [Verdict.not_due() for _ in views]


@dataclass(frozen=True, slots=True)
class Hybrid:
    """A ``When``: the reviewer is asked, once for the whole batch, about the views whose review is due.

    Args:
        reviewer: judges the due views.
        l_min, l_max: bounds of the review horizon L, in steps (4 and 8 in the paper).
        l_0: the first horizon, also after a recovery; None is l_max (ours).

    Raises:
        UsageError: not 1 <= l_min <= l_max, or l_0 below 1; on call, a reviewer that gives another number of verdicts.
    """

    reviewer: Reviewer
    _: KW_ONLY
    l_min: float = 4
    l_max: float = 8
    l_0: float | None = None

    def __post_init__(self) -> None:
        """Refuse a schedule that is none."""
        if not 1 <= self.l_min <= self.l_max:
            raise UsageError(f"l_min={self.l_min!r}, l_max={self.l_max!r}: 1 <= l_min <= l_max")
        if self.l_0 is not None and not self.l_0 >= 1:
            raise UsageError(f"l_0={self.l_0!r}: at least 1, or None for l_max")

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """NOT_DUE where no review is due, else the reviewer's verdict."""
        first = self.l_max if self.l_0 is None else self.l_0
        asked = [i for i, view in enumerate(views) if due(view, self.l_min, self.l_max, first)]
        verdicts = list(never(views))
        replies = self.reviewer([views[i] for i in asked]) if asked else ()
        if len(replies) != len(asked):
            raise UsageError(f"reviewer={self.reviewer!r}: {len(replies)} verdicts for {len(asked)} views")
        for i, verdict in zip(asked, replies, strict=True):
            verdicts[i] = verdict
        return verdicts


@dataclass(frozen=True, slots=True)
class Silent:
    """A ``When`` or reviewer whose new knowledge ΔE is dropped, so that M stays as it is (rollback only)."""

    when: When

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """The inner verdicts without ``learned``."""
        return [replace(verdict, learned=()) for verdict in self.when(views)]


@dataclass(frozen=True, slots=True)
class ModelReviewer:
    """A ``Reviewer`` played by a language model.

    The verdict is a choice (the invocation); the urgency a choice among five values, the diagnosis (on ROLLBACK) and
    ΔE generated text, each a sub-request that goes on in the same conversation. An unreadable diagnosis is empty,
    unreadable lines of ΔE are dropped. The two choices can be unreadable where the backend writes its choices: then
    the verdict is UNPARSED, and so is a CONTINUE whose urgency, which would set L, is unreadable.

    Args:
        model: any ``Model``.
        prompts: the texts.
        diagnosis_tokens, learned_tokens: length of these replies, in tokens.
        constrained: True lets the model write nothing but typed lines, or none, as ΔE; needs a backend that can
            (extra "grammar").
    """

    model: Model = field(repr=False)
    prompts: Prompts
    _: KW_ONLY
    diagnosis_tokens: int = 64
    learned_tokens: int = 128
    constrained: bool = False

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """One verdict a view; three batches for all of them."""
        texts = self.prompts.fill
        asked = [prompt(view, chat.review(view, self.prompts), salt="verdict") for view in views]
        words = tuple(kind.name for kind in _VERDICTS)
        judged = choose(self.model, "review", "first", asked, [words] * len(views))
        kinds = [VerdictKind.UNPARSED if c.index is None else _VERDICTS[c.index] for c, _ in judged]
        talks = [(call.messages, words[c.index] if c.index is not None else call.text or "-") for c, call in judged]

        asked = [
            prompt(view, chat.follow(*talk, texts("review.urgency")), salt="urgency")
            for view, talk in zip(views, talks, strict=True)
        ]
        urgent = choose(self.model, "review", "sub", asked, [URGENCIES] * len(views))

        questions = [(i, "learned", self.learned_tokens) for i in range(len(views))]
        questions += [(i, "diagnosis", self.diagnosis_tokens) for i, kind in enumerate(kinds) if kind is _VERDICTS[1]]
        asked = [
            prompt(
                views[i],
                chat.follow(*talks[i], texts(f"review.{name}")),
                salt=name,
                max_new_tokens=tokens,
                pattern=FACTS_PATTERN if self.constrained and name == "learned" else "",
            )
            for i, name, tokens in questions
        ]
        said: dict[tuple[int, str], tuple[Completion, Call]] = {
            (i, name): reply
            for (i, name, _), reply in zip(questions, generate(self.model, "review", "sub", asked), strict=True)
        }

        verdicts = []
        for i, view in enumerate(views):
            diagnosis = said.get((i, "diagnosis"))
            reply, learned = said[i, "learned"]
            urgency = urgent[i][0].index
            unread = urgency is None and kinds[i] is VerdictKind.CONTINUE
            verdicts.append(
                Verdict(
                    VerdictKind.UNPARSED if unread else kinds[i],
                    float(URGENCIES[_MIDDLE if urgency is None else urgency]),
                    (diagnosis and _diagnosis(view, *diagnosis)) or "",
                    read_facts(
                        learned.text, step=view.t, question=texts("review.learned"), cut=reply.stop_reason == "length"
                    ),
                    (judged[i][1], urgent[i][1], learned, *([diagnosis[1]] if diagnosis else ())),
                )
            )
        return verdicts


def _diagnosis(view: View, reply: Completion, call: Call) -> str | None:
    return read_reflection(
        call.text,
        echoes=chat.actions(view),
        question=call.messages[-1].content,
        cut=reply.stop_reason == "length",
    )
