"""What environments that deceive a proof are made of, and what must hold for each: exact, or refused by name.

State hides where it shows in no observation before step 60, long after a proof has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from rir_gym import NotRestorable, RollbackWrapper
from rir_gym.testing import check_restore

__all__ = ["LATE", "Base", "counter", "is_refused_by_name", "is_repeated_or_refused"]

LATE = 60


class Base(gym.Env[int, int]):
    """A counter that mixes its actions; the hidden number counts only once it is large."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(1000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = int(self.np_random.integers(50))
        self.begin()
        return self.x, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        hidden = self.hidden(int(action))
        self.x = (self.x * 3 + int(action) + (hidden if hidden > LATE else 0) + 1) % 997
        return self.x, float(action), False, False, {}

    def begin(self) -> None: ...

    def hidden(self, action: int) -> int:
        return 0


def counter() -> Callable[[], int]:
    count = [0]

    def bump() -> int:
        count[0] += 1
        return count[0]

    bump.count = count  # type: ignore[attr-defined]
    return bump


def is_refused_by_name(make: Callable[[], Any], named: str) -> None:
    """Assert that the refusal says in one line what stands in the way, and that the live environment plays on."""
    env = make()
    with pytest.raises(NotRestorable) as raised:
        RollbackWrapper(env)
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)
    for _ in range(2):
        assert env.reset(seed=4)[0] == make().reset(seed=4)[0]
        assert len([env.step(1) for _ in range(LATE + 10)]) == LATE + 10


def is_repeated_or_refused(make: Callable[[], Any]) -> None:
    """Assert that ``replay`` is exact, or refused."""
    try:
        env = RollbackWrapper.from_factory(make, snapshot="replay")
    except NotRestorable:
        return
    assert env.snapshot_report.chosen == "replay"
    assert check_restore(env, restores=4, steps=LATE).restores == 4
