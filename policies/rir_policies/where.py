"""Where to resume: coarse-to-fine localization by a model, and the two fixed choices of the restricted cases.

All of them choose among the ancestors that can be restored now (``nodes="branch"``). Source: Yu et al.,
arXiv 2609.18304, the localization section. This module knows no environment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rir_gym.base import Call, Restore, RestorePoint, Verdict, View
from rir_policies import chat
from rir_policies.ask import choose, prompt
from rir_policies.model import Choice, Model
from rir_policies.prompts import Prompts

__all__ = ["CoarseToFine", "Here", "Start", "candidates"]


def candidates(view: View) -> tuple[RestorePoint, ...]:
    """I_t in the order of steps; at an end without the current step where there is another (no action follows it)."""
    points = tuple(sorted(view.restorable, key=lambda point: point.t))
    earlier = tuple(point for point in points if point.t < view.t)
    return earlier if view.terminal and earlier else points


@dataclass(frozen=True, slots=True)
class Here:
    """A ``Where`` with k = 0: nothing is restored, only the context is corrected. It invokes no localization role."""

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """The restore point of the current step; None where that step is not in I_t."""
        return [
            Restore(next((point for point in view.restorable if point.t == view.t), None), "k = 0")
            for view, _ in zip(views, verdicts, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Start:
    """A ``Where`` with k = t: restart. It invokes no localization role.

    Where step 0 cannot be restored (evicted, or behind a commitment) it is the earliest step that can.
    """

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """The earliest restorable point; None where there is none."""
        return [
            Restore(min(view.restorable, key=lambda point: point.t, default=None), "restart")
            for view, _ in zip(views, verdicts, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class CoarseToFine:
    """A ``Where`` in two stages, played by a language model; both are choices.

    Coarse reads h_t and names the causal interval [l, u]: first l among I_t, then (a sub-request) u among the steps
    from l on. Fine reads the candidates in [l, u] with their summaries σ and names the restore point by the rule r*:
    drop what still holds the obstruction, take the latest left. Confidence is the softmax share of the chosen option.

    Both stages count as invoked also where one option was left and the model was not asked. With an empty I_t none is.
    A backend that writes its choices may write something unreadable: an interval of which either end is unreadable
    becomes all of I_t and is marked, an unreadable restore point is none.
    """

    model: Model = field(repr=False)
    prompts: Prompts

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """One restore point a view; three batches for all of them."""
        searches = [
            _Search(view, verdict, list(candidates(view))) for view, verdict in zip(views, verdicts, strict=True)
        ]
        self._first(searches)
        self._last(searches)
        self._fine(searches)
        return [search.finished() for search in searches]

    def _first(self, searches: Sequence[_Search]) -> None:
        open_ = [search for search in searches if len(search.points) > 1]
        asked = [
            prompt(search.view, chat.coarse(search.view, search.verdict, search.points, self.prompts), salt="coarse l")
            for search in open_
        ]
        rows = [_steps(search.points) for search in open_]
        for search, (choice, call) in zip(open_, choose(self.model, "coarse", "first", asked, rows), strict=True):
            search.calls.append(call)
            search.begins(choice.index)

    def _last(self, searches: Sequence[_Search]) -> None:
        open_ = [search for search in searches if len(search.points) > 1 and not search.unread]
        asked = [
            prompt(
                search.view,
                chat.follow(search.calls[-1].messages, str(search.points[0].t), self.prompts.fill("coarse.last")),
                salt="coarse u",
            )
            for search in open_
        ]
        rows = [_steps(search.points) for search in open_]
        for search, (choice, call) in zip(open_, choose(self.model, "coarse", "sub", asked, rows), strict=True):
            search.calls.append(call)
            search.ends(choice.index)

    def _fine(self, searches: Sequence[_Search]) -> None:
        open_ = [search for search in searches if len(search.points) > 1]
        asked = [
            prompt(search.view, chat.fine(search.view, search.verdict, search.points, self.prompts), salt="fine")
            for search in open_
        ]
        rows = [_steps(search.points) for search in open_]
        for search, (choice, call) in zip(open_, choose(self.model, "fine", "first", asked, rows), strict=True):
            search.calls.append(call)
            search.interval = (search.points[0].t, search.points[-1].t)
            search.points = [] if choice.index is None else [search.points[choice.index]]
            search.confidence = _share(choice)


@dataclass(slots=True)
class _Search:
    """The candidates left for one view, within one call of the role."""

    view: View
    verdict: Verdict
    points: list[RestorePoint]
    interval: tuple[int, int] | None = None
    confidence: float | None = 1.0
    calls: list[Call] = field(default_factory=list)
    unread: bool = False

    def begins(self, index: int | None) -> None:
        self.unread = index is None
        self.points = self.points[index or 0 :]

    def ends(self, index: int | None) -> None:
        self.unread = index is None
        self.points = list(candidates(self.view)) if index is None else self.points[: index + 1]

    def finished(self) -> Restore:
        if not self.points and self.calls:
            return Restore(
                None,
                "the restore point could not be read",
                interval=self.interval,
                interval_unread=self.unread,
                stages=("coarse", "fine"),
                calls=tuple(self.calls),
            )
        if not self.points:
            return Restore(None, "nothing can be restored")
        point = self.points[0]
        interval = self.interval or (point.t, point.t)
        return Restore(
            point,
            point.summary,
            self.confidence,
            interval,
            interval_unread=self.unread,
            stages=("coarse", "fine"),
            calls=tuple(self.calls),
        )


def _steps(points: Sequence[RestorePoint]) -> tuple[str, ...]:
    return tuple(str(point.t) for point in points)


def _share(choice: Choice) -> float | None:
    """The softmax share of the chosen option; None where there are no scores."""
    if choice.index is None or not choice.scores:
        return None
    best = max(choice.scores)
    weights = [math.exp(score - best) for score in choice.scores]
    return weights[choice.index] / sum(weights)
