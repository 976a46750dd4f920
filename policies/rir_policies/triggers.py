"""When the restricted cases and the rivals review: the paper's other triggers, and one for each card.

Nothing here keeps state: a trigger is a function of the view. Sources: the mechanisms' public papers, by name in
docs/mechanisms.md. This module knows no environment and no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from rir_gym.base import DecisionKind, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_policies.notes import Notes
from rir_policies.when import Hybrid, Reviewer, due, never

__all__ = ["Asked", "AttemptFailed", "EveryStep", "OnRequest", "Refining", "Scheduled", "Window", "requested"]


def requested(view: View) -> bool:
    """Whether the decision under review is the agent's request for one."""
    return view.proposed is not None and view.proposed.kind is DecisionKind.REQUEST


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A ``When`` on the schedule alone: as ``Hybrid``, but a request of the agent brings no review forward.

    With ``l_min == l_max`` the schedule is fixed.

    Raises:
        UsageError: a schedule that is none; see ``Hybrid``.
    """

    reviewer: Reviewer
    _: KW_ONLY
    l_min: float = 4
    l_max: float = 8
    l_0: float | None = None

    def __post_init__(self) -> None:
        """Refuse a schedule that is none."""
        Hybrid(self.reviewer, l_min=self.l_min, l_max=self.l_max, l_0=self.l_0)

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """NOT_DUE where no review is due, else the reviewer's verdict."""
        first = self.l_max if self.l_0 is None else self.l_0
        unasked = [replace(view, proposed=None) for view in views]
        return _reviewed(self.reviewer, views, [due(view, self.l_min, self.l_max, first) for view in unasked])


@dataclass(frozen=True, slots=True)
class OnRequest:
    """A ``When`` that reviews what the agent asks for, and the end; there is no schedule."""

    reviewer: Reviewer

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """NOT_DUE unless the agent asked or the environment ended."""
        return _reviewed(self.reviewer, views, [view.terminal or requested(view) for view in views])


@dataclass(frozen=True, slots=True)
class EveryStep:
    """A ``When`` that reviews at every step t > ``after``, and the end."""

    reviewer: Reviewer
    _: KW_ONLY
    after: int = 0

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """NOT_DUE on the first steps."""
        return _reviewed(self.reviewer, views, [view.terminal or view.t > self.after for view in views])


@dataclass(frozen=True, slots=True)
class Refining:
    """Self-Refine's ``When``: the draft is criticized until the critic is content or was heeded ``most`` times.

    The critiques so far are the notes that were written at this very step. The end is not criticized: it has no draft.
    """

    critic: Reviewer
    _: KW_ONLY
    most: int = 2

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """NOT_DUE once the last refinement has been drafted."""
        return _reviewed(self.critic, views, [not view.terminal and self._heeded(view) < self.most for view in views])

    def _heeded(self, view: View) -> int:
        return len(view.memory.at(view.t).notes) if isinstance(view.memory, Notes) else 0


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """ROLLBACK once the attempt is over and failed, or the same action was repeated in vain (Reflexion's ``When``).

    An attempt is over where the environment has ended without success, or says in ``info["oracle"]`` that it has
    failed: the success signal between attempts, which is an oracle. The second is ours and generous: an attempt that
    goes on in vain would not be noticed before the budget is spent.

    Args:
        reviewer: is asked about a failed attempt for its diagnosis and ΔE; its verdict is not heeded. None: neither.
        repeats: so many times the same action in a row, the last without effect, count as failed.

    Raises:
        UsageError: on call, a view without oracle.
    """

    reviewer: Reviewer | None = None
    _: KW_ONLY
    repeats: int = 3

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """ROLLBACK or NOT_DUE."""
        told = _reviewed(self.reviewer or _wordless, views, [self._failed(view) for view in views])
        return [
            verdict
            if verdict.kind is VerdictKind.NOT_DUE
            else replace(
                verdict,
                kind=VerdictKind.ROLLBACK,
                diagnosis=verdict.diagnosis or f"the attempt had failed by step {view.t}",
            )
            for view, verdict in zip(views, told, strict=True)
        ]

    def _failed(self, view: View) -> bool:
        if view.oracle is None:
            raise UsageError("view.oracle=None: this trigger needs a mechanism with uses_oracle=True")
        stuck = view.signals.repeated_actions >= self.repeats and view.t in view.signals.no_effect_steps
        return not view.oracle.success and (view.terminal or view.oracle.failed or stuck)


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent decides: a request is a ROLLBACK, its thought the diagnosis (AgentRewind's ``When``)."""

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """ROLLBACK where the agent asked, else NOT_DUE; at the end there is nobody left to ask."""
        return [
            Verdict(VerdictKind.ROLLBACK, diagnosis=view.proposed.thought)
            if view.proposed is not None and requested(view)
            else Verdict.not_due()
            for view in views
        ]


@dataclass(frozen=True, slots=True)
class Window:
    """A reviewer or ``Where`` that sees the restore points with ``least`` <= k <= ``most`` only (None: no bound).

    So an instrument looks for a rescue where the mechanism may go, and its verdict asks for no other.
    """

    role: Any
    _: KW_ONLY
    least: int = 0
    most: int | None = None

    def __call__(self, views: Sequence[View], *answers: Sequence[Any]) -> Any:
        """What the role says of the narrowed views."""
        return self.role([self._narrowed(view) for view in views], *answers)

    def _narrowed(self, view: View) -> View:
        deepest = view.t if self.most is None else self.most
        kept = tuple(point for point in view.restorable if self.least <= view.t - point.t <= deepest)
        return replace(view, restorable=kept)


def _reviewed(reviewer: Reviewer, views: Sequence[View], now: Sequence[bool]) -> Sequence[Verdict]:
    """NOT_DUE, or what the reviewer says of the views that are due, in one call."""
    asked = [view for view, is_due in zip(views, now, strict=True) if is_due]
    replies = list(reviewer(asked)) if asked else []
    if len(replies) != len(asked):
        raise UsageError(f"reviewer={reviewer!r}: {len(replies)} verdicts for {len(asked)} views")
    verdicts = list(never(views))
    for i, is_due in enumerate(now):
        if is_due:
            verdicts[i] = replies.pop(0)
    return verdicts


def _wordless(views: Sequence[View]) -> Sequence[Verdict]:
    return [Verdict(VerdictKind.ROLLBACK) for _ in views]
