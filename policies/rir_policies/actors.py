"""Acts made of another act: one that asks for a rollback by itself, one that gives up.

Scripted agents only act. To study a trigger that leaves it to the agent to ask, its own judgement needs a stand-in: a
reviewer. This module knows no environment and no model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from rir_gym.base import Act, Decision, DecisionKind, VerdictKind, View
from rir_gym.errors import UsageError
from rir_policies.ask import draw_seed
from rir_policies.chat import declined
from rir_policies.notes import Notes
from rir_policies.when import Reviewer

__all__ = ["Asking", "GivesUp"]


@dataclass(frozen=True, slots=True)
class Asking:
    """An ``Act`` that asks for a rollback where ``reviewer`` would: the agent judges for itself, at every call.

    It does not ask before the first action, nor with the rollback budget spent, nor again at a step where it was
    declined. What the reviewer says is the agent's own thought: it is no review, and the ledger does not count it.

    Args:
        act: what it does otherwise.
        reviewer: the stand-in for the agent's judgement.
        chance: probability of asking where the reviewer would; drawn at every call.

    Raises:
        UsageError: a chance outside [0, 1].
    """

    act: Act
    reviewer: Reviewer
    _: KW_ONLY
    chance: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not 0 <= self.chance <= 1:
            raise UsageError(f"chance={self.chance!r}: a number in [0, 1]")

    def __call__(self, views: Sequence[View]) -> Sequence[Decision]:
        """A request, or the inner decision; each inner role is called once."""
        able = [i for i, view in enumerate(views) if view.t > 0 and view.rollbacks_left > 0 and not declined(view)]
        verdicts = self.reviewer([views[i] for i in able]) if able else ()
        asks = {
            i: verdict
            for i, verdict in zip(able, verdicts, strict=True)
            if verdict.kind is VerdictKind.ROLLBACK and draw_seed(views[i], "asks") < self.chance * 2**31
        }
        rest = [i for i in range(len(views)) if i not in asks]
        acted = dict(zip(rest, self.act([views[i] for i in rest]) if rest else (), strict=True))
        return [
            Decision(DecisionKind.REQUEST, thought=asks[i].diagnosis) if i in asks else acted[i]
            for i in range(len(views))
        ]


@dataclass(frozen=True, slots=True)
class GivesUp:
    """An ``Act`` that gives up once a node was restored more than ``most`` times, by an empty final response (SRC)."""

    act: Act
    _: KW_ONLY
    most: int = 2

    def __call__(self, views: Sequence[View]) -> Sequence[Decision]:
        """The inner decision, or the end; the inner role is called once, if at all."""
        over = [i for i, view in enumerate(views) if self._over(view)]
        rest = [i for i in range(len(views)) if i not in over]
        acted = dict(zip(rest, self.act([views[i] for i in rest]) if rest else (), strict=True))
        end = Decision(DecisionKind.FINAL, "", f"the same state was restored more than {self.most} times")
        return [replace(end) if i in over else acted[i] for i in range(len(views))]

    def _over(self, view: View) -> bool:
        targets = view.memory.targets if isinstance(view.memory, Notes) else ()
        return any(count > self.most for count in Counter(targets).values())
