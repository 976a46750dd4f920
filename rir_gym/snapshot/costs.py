"""What saving, stepping and restoring cost, as measured, and how far apart keyframes should stand. Knows no mechanism.

With c the time of a save, m its bytes and μ the price of one, s the time of a step, r of a restore and p rollbacks per
step, keyframes every K steps cost per step J(K) = (c + μ m) / K + p (r + s (K − 1) / 2), which is least at
K* = sqrt(2 (c + μ m) / (p s)). (Young's and Daly's rule for checkpoints of programs, with rollbacks for failures.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["Costs", "best_spacing"]

_REMEMBERED, _SETTLED, _LARGEST = 32, 4, 8.0
_PRIOR_STEPS = 16


def best_spacing(
    *, save_s: float, step_s: float, restore_s: float, rollbacks_per_step: float, latency_s: float = math.inf
) -> int:
    """K*, at least 1; less where a restore from the farthest point would take longer than ``latency_s``.

    Args:
        save_s: c + μ m.
        latency_s: the longest that a restore with its replay should take, in seconds.

    >>> best_spacing(save_s=0.02, step_s=0.001, restore_s=0.01, rollbacks_per_step=0.1)
    20
    >>> best_spacing(save_s=0.00001, step_s=0.001, restore_s=0.01, rollbacks_per_step=0.1)
    1
    """
    risk = rollbacks_per_step * step_s
    if save_s <= risk:
        return 1
    best = math.sqrt(2 * save_s / risk) if risk > 0 else math.inf
    within = 1 + (latency_s - restore_s) / step_s if step_s > 0 else math.inf
    return max(1, round(min(best, max(within, 1.0), 1e9)))


@dataclass(slots=True)
class Mean:
    """A mean that forgets slowly; one value that is out of all proportion counts as a large one."""

    value: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        """One more."""
        if self.count >= _SETTLED:
            value = min(value, _LARGEST * self.value)
        self.count += 1
        self.value += (value - self.value) / min(self.count, _REMEMBERED)


@dataclass(slots=True)
class Costs:
    """Measured so far. Before there were rollbacks, one in ``_PRIOR_STEPS`` steps is expected."""

    save: Mean = field(default_factory=Mean)
    step: Mean = field(default_factory=Mean)
    restore: Mean = field(default_factory=Mean)
    size: Mean = field(default_factory=Mean)
    steps: int = 0
    rollbacks: int = 0

    @property
    def rollbacks_per_step(self) -> float:
        """p."""
        return (self.rollbacks + 1) / (self.steps + _PRIOR_STEPS)

    def spacing(self, *, price_s: float, latency_s: float) -> int:
        """K* by what is known; 1 before a step was measured.

        Args:
            price_s: μ: seconds that a kept byte is worth.
        """
        if not self.step.count:
            return 1
        return best_spacing(
            save_s=self.save.value + price_s * self.size.value,
            step_s=self.step.value,
            restore_s=self.restore.value,
            rollbacks_per_step=self.rollbacks_per_step,
            latency_s=latency_s,
        )
