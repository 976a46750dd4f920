"""Cheap signals ξ for a reviewer, computed from the branch alone: no model, no oracle.

Observations are compared as they are; a text environment whose observation repeats has, as far as the agent can tell,
not moved. This module knows no environment.
"""

from __future__ import annotations

from collections.abc import Sequence

from rir_gym.base import Signals, Step
from rir_gym.values import same_value

__all__ = ["signals"]


def signals(history: Sequence[Step]) -> Signals:
    """The signals at the end of a branch.

    - ``repeated_actions``: how often the last action was taken in a row (0 before any action).
    - ``no_effect_steps``: the steps i whose observation equals the one before.
    - ``cycle_length``: how many steps ago the current observation was last seen, 0 if never.
    """
    last = len(history) - 1
    repeated = 0
    while repeated < last and same_value(history[last - repeated].action, history[last].action):
        repeated += 1
    seen = [step.observation for step in history]
    still = tuple([i for i in range(1, last + 1) if same_value(seen[i], seen[i - 1])])
    cycle = next((last - i for i in range(last - 1, -1, -1) if same_value(seen[i], seen[last])), 0)
    return Signals(repeated, still, cycle)
