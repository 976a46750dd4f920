"""Instruments: reviewers and localizers of known quality, to ask what each decision is worth.

``ExactReviewer`` and ``ExactLocalizer`` (``scripted``) already have recall, false alarms and exactness; here are their
delay, and one function that makes both from four numbers. They read ``View.oracle``, which only mechanisms with
``uses_oracle=True`` receive. This module knows no environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from rir_gym.base import Verdict, View
from rir_gym.errors import UsageError
from rir_gym.memory import Fact
from rir_policies.scripted import ExactLocalizer, ExactReviewer

__all__ = ["DelayedReviewer", "instruments", "lost_for"]


@dataclass(frozen=True, slots=True)
class DelayedReviewer:
    """A ``Reviewer`` that does not see a loss until it is ``delay`` steps old; the end of an episode it always sees.

    Until then it judges as its inner reviewer judges a branch on which nothing is lost.

    Raises:
        UsageError: a delay that is no int of at least 0; on call, a view without oracle.
    """

    reviewer: ExactReviewer
    _: KW_ONLY
    delay: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no number of steps."""
        if isinstance(self.delay, bool) or not isinstance(self.delay, int) or self.delay < 0:
            raise UsageError(f"delay={self.delay!r}: steps, an int of at least 0")

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """One verdict a view."""
        blind = replace(self.reviewer, recall=self.reviewer.false_alarm)
        return [(blind if self._unseen(view) else self.reviewer)([view])[0] for view in views]

    def _unseen(self, view: View) -> bool:
        age = lost_for(view)
        return age is not None and not view.terminal and age < self.delay


def lost_for(view: View) -> int | None:
    """For how many steps success has been *proven* out of reach at every step of the branch; None where it is not now.

    A step i steps ago had i more calls left. What is not proven (``OracleView.reaches``) is in reach.

    Raises:
        UsageError: a view without oracle.
    """
    if view.oracle is None:
        raise UsageError("view.oracle=None: this role needs a mechanism with uses_oracle=True")
    age: int | None = None
    last = len(view.oracle.distances) - 1
    for ago in range(last + 1):
        if view.oracle.reaches(last - ago, view.agent_calls_left + ago) is not False:
            break
        age = ago
    return age


def instruments(
    *,
    learn: Callable[[View], Sequence[Fact]] | None = None,
    recall: float = 1.0,
    false_alarm: float = 0.0,
    delay: int = 0,
    exactness: float = 1.0,
) -> tuple[DelayedReviewer | ExactReviewer, ExactLocalizer]:
    """A reviewer and a localizer of that quality; without a delay the reviewer is an ``ExactReviewer``.

    Raises:
        UsageError: a probability outside [0, 1] or a bad delay.
    """
    reviewer = ExactReviewer(learn=learn, recall=recall, false_alarm=false_alarm)
    late = DelayedReviewer(reviewer, delay=delay)
    return (late if delay else reviewer), ExactLocalizer(exactness=exactness)
