"""``rir-gym`` with two more mechanisms: RIR and restart with a rule of decoding, as an ablation.

    python benchmarks/small_agent_bench.py bench SUITE --model FOLDER ...

``rir_away`` and ``restart_away`` are RIR and restart whose agent never chooses, under the same conditions σ, an action
that its memory blames for a failure: the best of the other options is taken. That is a rule beside the model, not
something that the model has learned. The worker processes of ``rir-gym`` import this module too, so they know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import rir_policies.mechanisms as table
from rir_gym.base import Decision, DecisionKind, Mechanism, View
from rir_gym.memory import ReflectionMemory
from rir_policies.act import ModelActor
from rir_policies.mechanisms.pieces import named

__all__ = ["Away", "blamed", "restart_away", "rir_away"]


def blamed(view: View) -> frozenset[str]:
    """The actions that the memory blames for a failure under the conditions that hold now.

    >>> blamed(View(0, "", (), ReflectionMemory("")))
    frozenset()
    """
    memory = view.memory
    if not isinstance(memory, ReflectionMemory):
        return frozenset()
    here = next((" ".join(point.summary.split()) for point in view.restorable if point.t == view.t), "")
    patterns = {attempt.pattern for attempt in memory.attempts}
    if memory.failure is not None:
        patterns.add(memory.failure.pattern)
    end = f" (then: {here})"
    return frozenset(pattern.removesuffix(end) for pattern in patterns if here and pattern.endswith(end))


@dataclass(frozen=True, slots=True)
class Away:
    """An ``Act``: a model's, but for actions that its memory blames under the conditions that hold now.

    Only a choice among scored options is changed, and only where another option that is an action is left.
    """

    act: ModelActor

    def __call__(self, views: Sequence[View]) -> Sequence[Decision]:
        """The model's decisions, or the best scored action that is not blamed."""
        return [self._away(view, made) for view, made in zip(views, self.act(views), strict=True)]

    def _away(self, view: View, made: Decision) -> Decision:
        avoided = blamed(view)
        if made.kind is not DecisionKind.ACTION or made.action not in avoided or not made.calls:
            return made
        call = made.calls[-1]
        scored = zip(call.options or (), call.scores or (), strict=True)
        open_ = [(score, option) for option, score in scored if option in (view.admissible or ())]
        left = [pair for pair in open_ if pair[1] not in avoided]
        if not left:
            return made
        best = max(left, key=lambda pair: pair[0])[1]
        return replace(made, action=best, calls=(*made.calls[:-1], replace(call, text=best)))


def rir_away(**pieces: Any) -> Mechanism:
    """RIR with that rule."""
    return _away(table.rir(**pieces), "rir_away")


def restart_away(**pieces: Any) -> Mechanism:
    """Restart with that rule."""
    return _away(table.restart(**pieces), "restart_away")


def _away(mechanism: Mechanism, name: str) -> Mechanism:
    act = mechanism.act
    if not isinstance(act, ModelActor):
        raise TypeError(f"act={type(act).__name__}: {name} needs an agent that is played by a language model")
    return named(replace(mechanism, act=Away(act)), name, mechanism.restriction)


table.MECHANISMS = MappingProxyType({**table.MECHANISMS, "rir_away": rir_away, "restart_away": restart_away})

if __name__ == "__main__":
    from rir_gym.cli import main

    main()
