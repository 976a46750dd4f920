"""Recovery roles without a model: exact and degraded reviewers and localizers from the oracle, and a patcher.

They read ``View.oracle``, which only mechanisms with ``uses_oracle=True`` receive. Every draw comes from the view's
seed and its agent calls, so a run is repeatable and no episode disturbs another. This module knows no environment.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from rir_gym.base import OracleView, Patch, Restore, RestorePoint, Verdict, VerdictKind, View
from rir_gym.errors import UsageError
from rir_gym.memory import Fact
from rir_policies.ask import draw_seed
from rir_policies.what import abandon, failure
from rir_policies.where import candidates

__all__ = ["ExactLocalizer", "ExactReviewer", "ScriptedPatch", "rescue"]

Learn = Callable[[View], Sequence[Fact]]


def rescue(view: View) -> RestorePoint | None:
    """r*: the latest restorable step from which success is within the calls left; None where going on may succeed.

    Only what is proven counts (``OracleView.reaches``): a step is out of reach where the oracle proves that success
    takes more than the calls left, or where the environment has ended without it. An upper bound of the distance that
    is too long proves nothing. Where no step is proven to be within reach, the latest one with a known plan that is
    not proven to be out of reach is taken: going on is hopeless, that may not be.

    Raises:
        UsageError: a view without oracle, or an environment whose oracle knows no distances.
    """
    oracle = _oracle(view)
    left = view.agent_calls_left
    if oracle.success or not (view.terminal or oracle.reaches(view.t, left) is False):
        return None
    earlier = [point for point in reversed(candidates(view)) if point.t < view.t]
    proven = [point for point in earlier if oracle.reaches(point.t, left)]
    open_ = [point for point in earlier if oracle.reaches(point.t, left) is None and _planned(oracle, point.t)]
    return next(iter([*proven, *open_]), None)


@dataclass(frozen=True, slots=True)
class ExactReviewer:
    """A ``Reviewer`` from the oracle: ROLLBACK where success is proven out of reach from here but not from some I_t.

    The call that made the pending action is spent, so the rule is one call early where that action would be the last
    of a plan that just fits: rolling back is safe then, going on is not.

    Args:
        learn: gives ΔE from a view; None learns nothing.
        recall: probability of ROLLBACK where it is right.
        false_alarm: probability of ROLLBACK where it is not and something can be restored. A success is never doubted.
        urgency: the ρ of every verdict.

    Raises:
        UsageError: a probability outside [0, 1]; on call, a view without oracle.
    """

    _: KW_ONLY
    learn: Learn | None = None
    recall: float = 1.0
    false_alarm: float = 0.0
    urgency: float = 0.5

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        _check(recall=self.recall, false_alarm=self.false_alarm, urgency=self.urgency)

    def __call__(self, views: Sequence[View]) -> Sequence[Verdict]:
        """One verdict a view."""
        return [self._judge(view) for view in views]

    def _judge(self, view: View) -> Verdict:
        doubtful = bool(view.restorable) and not _oracle(view).success
        chance = self.recall if rescue(view) is not None else self.false_alarm if doubtful else 0.0
        learned = tuple(self.learn(view)) if self.learn is not None else ()
        if _draw(view, "verdict").random() < chance:
            diagnosis = f"by step {view.t} the objective was out of reach"
            return Verdict(VerdictKind.ROLLBACK, self.urgency, diagnosis, learned)
        return Verdict(VerdictKind.CONTINUE, self.urgency, "", learned)


@dataclass(frozen=True, slots=True)
class ExactLocalizer:
    """A ``Where`` from the oracle: the latest rescue point, degraded by ``exactness``.

    A uniformly random restorable step with probability 1 - exactness, and always where the alarm was false. Both
    stages count as invoked; the interval is r and the next restorable step after it.

    Raises:
        UsageError: an exactness outside [0, 1]; on call, a view without oracle.
    """

    _: KW_ONLY
    exactness: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        _check(exactness=self.exactness)

    def __call__(self, views: Sequence[View], verdicts: Sequence[Verdict]) -> Sequence[Restore]:
        """One restore point a view; None where nothing can be restored."""
        return [self._locate(view) for view, _ in zip(views, verdicts, strict=True)]

    def _locate(self, view: View) -> Restore:
        points, point, rng = candidates(view), rescue(view), _draw(view, "restore point")
        if not points:
            return Restore(None, "nothing can be restored")
        if point is None or rng.random() >= self.exactness:
            point = rng.choice(points)
        last = next((later.t for later in points if later.t > point.t), point.t)
        return Restore(point, point.summary, None, (point.t, last), stages=("coarse", "fine"))


@dataclass(frozen=True, slots=True)
class ScriptedPatch:
    """A ``What`` without a model: the diagnosis is the cause, all else is derived as in ``what.Reflect``."""

    def __call__(
        self, views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Restore]
    ) -> Sequence[Patch]:
        """One patch a view."""
        return [
            Patch(abandon(view, restore, failure(view, restore, verdict.diagnosis or "the attempt did not succeed")))
            for view, verdict, restore in zip(views, verdicts, restores, strict=True)
        ]


def _oracle(view: View) -> OracleView:
    if view.oracle is None:
        raise UsageError("view.oracle=None: this role needs a mechanism with uses_oracle=True")
    if view.oracle.source is None and all(distance is None for distance in view.oracle.distances):
        raise UsageError("view.oracle.source=None: this role needs an environment with an oracle of distances")
    return view.oracle


def _planned(oracle: OracleView, step: int) -> bool:
    distance = oracle.distances[step]
    return distance is not None and distance < math.inf


def _draw(view: View, salt: str) -> random.Random:
    return random.Random(draw_seed(view, salt))


def _check(**probabilities: float) -> None:
    for name, value in probabilities.items():
        if not 0 <= value <= 1:
            raise UsageError(f"{name}={value!r}: a number in [0, 1]")
