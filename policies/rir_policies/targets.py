"""Where the restricted cases and the rivals resume, besides ``Here`` and ``Start``.

All of them choose among the views' restore points. Sources: the mechanisms' public papers, by name in
docs/mechanisms.md. This module knows no environment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rir_gym.base import Message, Restore, RestorePoint, Verdict, View, Where
from rir_policies import chat
from rir_policies.ask import choose, prompt
from rir_policies.model import Choice, Model
from rir_policies.prompts import Prompts
from rir_policies.where import candidates

__all__ = ["AskedFor", "Direct", "Named", "OneStage"]

_NAMED = re.compile(r"step (\d{1,9}):")


@dataclass(frozen=True, slots=True)
class OneStage:
    """A ``Where`` in two stages taken for one: where it resumes stays, and no coarse stage is invoked or recorded."""

    where: Where

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """The inner restore points as one-stage choices."""
        return [
            replace(restore, stages=("fine",) if restore.stages else (), interval=None, interval_unread=False)
            for restore in self.where(views, verdicts)
        ]


@dataclass(frozen=True, slots=True)
class Named:
    """A ``Where`` that resumes before the step which the diagnosis names ("step 5: ..."); it invokes no role."""

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """The named step where it can be restored, else None."""
        return [self._read(view, verdict) for view, verdict in zip(views, verdicts, strict=True)]

    def _read(self, view: View, verdict: Verdict) -> Restore:
        found = _NAMED.match(verdict.diagnosis)
        step = int(found[1]) if found else None
        return Restore(next((point for point in view.restorable if point.t == step), None), verdict.diagnosis)


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A ``Where`` that resumes where the agent asked to; where it named no restorable step, ``where`` says."""

    where: Where

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """One restore point a view; the inner role is called once, with the views that it must decide."""
        found = [self._target(view) for view in views]
        open_ = [i for i, restore in enumerate(found) if restore is None]
        asked = self.where([views[i] for i in open_], [verdicts[i] for i in open_]) if open_ else ()
        decided = dict(zip(open_, asked, strict=True))
        return [decided[i] if restore is None else restore for i, restore in enumerate(found)]

    def _target(self, view: View) -> Restore | None:
        target = view.proposed.target if view.proposed is not None else None
        point = next((point for point in view.restorable if target is not None and point.t == target), None)
        return Restore(point, "asked for") if point is not None else None


@dataclass(frozen=True, slots=True)
class Direct:
    """A ``Where`` in one stage, played by a language model: any of I_t, chosen at once from h_t and the summaries σ.

    Args:
        model: any ``Model``.
        prompts: the texts.
        section: the prompt, with ``$diagnosis`` and ``$candidates``.
    """

    model: Model = field(repr=False)
    prompts: Prompts
    section: str = "direct.point"

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """One restore point a view, in one batch; where one is left the model is not asked."""
        rows = [candidates(view) for view in views]
        open_ = [i for i, row in enumerate(rows) if len(row) > 1]
        asked = [
            prompt(views[i], self._question(views[i], verdicts[i], rows[i]), salt=f"one stage {self.section}")
            for i in open_
        ]
        steps = [tuple(str(point.t) for point in rows[i]) for i in open_]
        restores = [
            Restore(row[0], row[0].summary, 1.0, stages=("fine",)) if row else Restore(None, "nothing can be restored")
            for row in rows
        ]
        for i, (choice, call) in zip(open_, choose(self.model, "fine", "first", asked, steps), strict=True):
            point = None if choice.index is None else rows[i][choice.index]
            told = "the restore point could not be read" if point is None else point.summary
            restores[i] = Restore(point, told, _share(choice), stages=("fine",), calls=(call,))
        return restores

    def _question(self, view: View, verdict: Verdict, points: Sequence[RestorePoint]) -> tuple[Message, ...]:
        diagnosis, lines = chat.diagnosed(verdict), chat.listed(points)
        return chat.ask(view, self.prompts, self.section, diagnosis=diagnosis, candidates=lines)


def _share(choice: Choice) -> float | None:
    """The softmax share of the chosen option; None where there are no scores."""
    if choice.index is None or not choice.scores:
        return None
    best = max(choice.scores)
    weights = [math.exp(score - best) for score in choice.scores]
    return weights[choice.index] / sum(weights)
