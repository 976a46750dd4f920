"""What to remember: the patcher that turns an abandoned suffix into M+, and the one that keeps M.

Only the failure cause is asked of a model. Conditions, milestones, route and failure pattern are derived from the
branch and its summaries σ, so they are exact and claim nothing about the current state. Source: Yu et al.,
arXiv 2609.18304, the memory section; the bounds are ours. This module knows no environment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from rir_gym.base import DecisionKind, Patch, Restore, RestorePoint, Verdict, View
from rir_gym.errors import UsageError
from rir_gym.memory import Failure, Memory, ReflectionMemory
from rir_policies import chat
from rir_policies.ask import generate, prompt
from rir_policies.model import Model
from rir_policies.prompts import Prompts
from rir_policies.read import read_reflection

__all__ = ["Reflect", "abandon", "failure", "keep"]

_MAX_ROUTE = 12
_MAX_MILESTONES = 8


def keep(views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Restore]) -> Sequence[Patch]:
    """A ``What`` that leaves M as it is and invokes no patcher."""
    return [Patch(view.memory, invoked=False) for view, _, _ in zip(views, verdicts, restores, strict=True)]


@dataclass(frozen=True, slots=True)
class Reflect:
    """A ``What`` played by a language model: it writes the failure cause, and M+ follows by ``abandon``.

    An unreadable cause (empty, an echoed command, a number) leaves the old F in place, is marked ``unread``, and E
    and H are updated all the same.

    Raises:
        UsageError: on call, a memory that is no ``ReflectionMemory``, or a restore without a point.
    """

    model: Model = field(repr=False)
    prompts: Prompts
    _: KW_ONLY
    cause_tokens: int = 96

    def __call__(
        self, views: Sequence[View], verdicts: Sequence[Verdict], restores: Sequence[Restore]
    ) -> Sequence[Patch]:
        """One patch a view, in one batch."""
        asked = [
            prompt(
                view,
                chat.patch(view, verdict, restore, self.prompts),
                salt="cause",
                max_new_tokens=self.cause_tokens,
            )
            for view, verdict, restore in zip(views, verdicts, restores, strict=True)
        ]
        patches = []
        answers = generate(self.model, "patch", "first", asked)
        for view, restore, (reply, call) in zip(views, restores, answers, strict=True):
            question = self.prompts.texts["patch.cause"]
            cut = reply.stop_reason == "length"
            cause = read_reflection(call.text, echoes=chat.actions(view), question=question, cut=cut)
            memory = abandon(view, restore, failure(view, restore, cause) if cause else None)
            patches.append(Patch(memory, unread=cause is None, calls=(call,)))
        return patches


def failure(view: View, restore: Restore, cause: str) -> Failure:
    """F_new: the cause, with what was in force at the restore point and the action that is undone first.

    At k = 0 that action is the proposed one, which is dropped. Two failures are the same where the same action was
    undone under the same conditions.
    """
    point = _point(restore)
    conditions = " ".join(point.summary.split())
    if point.t < view.t:
        action = str(view.history[point.t + 1].action)
    else:
        proposed = view.proposed
        action = str(proposed.action) if proposed is not None and proposed.kind is DecisionKind.ACTION else ""
    pattern = f"{action} (then: {conditions})" if action and conditions else action
    return Failure(cause, conditions, action, pattern)


def abandon(view: View, restore: Restore, failed: Failure | None) -> ReflectionMemory:
    """M+ = φ(M, τ_{r:t}) with the milestones and the route of the abandoned suffix.

    Milestones are the parts of σ that were new along the suffix, the last eight; the route its last twelve actions.

    Raises:
        UsageError: a memory that is no ``ReflectionMemory``, or a restore without a point.
    """
    point = _point(restore)
    return _reflection(view.memory).abandon(
        resumed_at=point.t,
        ended_at=view.t,
        route=_route(view, point.t),
        milestones=_milestones(view, point),
        failure=failed,
        outcome="ended without success" if view.terminal else "abandoned",
    )


def _route(view: View, start: int) -> tuple[str, ...]:
    actions = tuple(str(step.action) for step in view.history[start + 1 :])
    return actions if len(actions) <= _MAX_ROUTE else ("…", *actions[-_MAX_ROUTE:])


def _milestones(view: View, point: RestorePoint) -> tuple[str, ...]:
    seen = set(_parts(point.summary))
    found: list[str] = []
    for later in sorted(view.restorable, key=lambda kept: kept.t):
        if point.t < later.t <= view.t:
            found += [part for part in _parts(later.summary) if part not in seen]
            seen |= set(found)
    return tuple(part.replace(", ", " and ") for part in dict.fromkeys(found))[-_MAX_MILESTONES:]


def _parts(summary: str) -> list[str]:
    return [part.strip() for part in re.split(r"[;\n]", summary) if part.strip()]


def _point(restore: Restore) -> RestorePoint:
    if restore.point is None:
        raise UsageError("restore.point=None: a patch needs the point that is restored")
    return restore.point


def _reflection(memory: Memory) -> ReflectionMemory:
    if not isinstance(memory, ReflectionMemory):
        raise UsageError(f"memory={type(memory).__name__}: this patcher updates a ReflectionMemory")
    return memory
