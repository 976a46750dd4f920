"""State that more than one holds: two environments, a wrapper and its copy, wrappers inside and outside, a vector."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from deceivers import LATE, Base, counter

from rir_gym import RollbackRefused, RollbackWrapper, UsageError
from rir_gym.snapshot import native
from rir_gym.snapshot.native import register_adapter
from rir_gym.testing import check_restore


class Sharing(Base):
    def __init__(self, bump: Callable[[], int]) -> None:
        self.bump = bump

    def hidden(self, action: int) -> int:
        return LATE + self.bump()


def test_what_two_environments_share_goes_back_with_the_one_that_is_rolled_back() -> None:
    """In place, what is shared stays shared; a copy would come apart from the other one."""
    bump: Any = counter()
    one, other = RollbackWrapper(Sharing(bump), snapshot="heap"), Sharing(bump)
    one.reset(seed=0)
    other.reset(seed=0)
    at = bump.count[0]
    one.step(1)
    one.step(1)
    one.rollback(0)
    assert bump.count[0] == at
    other.step(1)
    assert one.unwrapped.bump is other.bump
    assert bump.count[0] == at + 1


class Handles(Base):
    """Its states are numbers of slots in a C library, which are freed when they are not needed any more."""


LIBRARY: Any = types.SimpleNamespace(slots=[])


def test_a_copied_wrapper_never_restores_a_state_that_the_original_may_have_closed() -> None:
    def save(env: Any) -> int:
        LIBRARY.slots.append(env.x)
        return len(LIBRARY.slots) - 1

    def restore(env: Any, slot: int) -> None:
        assert LIBRARY.slots[slot] is not None, "a state was used after it was closed"
        env.x = LIBRARY.slots[slot]

    name = f"{Handles.__module__}:{Handles.__qualname__}"
    register_adapter(name, save=save, restore=restore, close=lambda slot: LIBRARY.slots.__setitem__(slot, None))
    try:
        env = RollbackWrapper(Handles(), snapshot="native", share=[])
        env.reset(seed=0)
        for _ in range(4):
            env.step(1)
        twin = copy.deepcopy(env)
        env.reset(seed=1)
        assert twin.restorable == (4,)
        with pytest.raises(RollbackRefused, match="stayed with the world that this one was copied from"):
            twin.rollback(1)
        twin.step(2)
        assert twin.rollback(4)[0] == twin.history[4].step.observation
    finally:
        native._REGISTERED.pop(name)


class Ends(Base):
    def step(self, action: int) -> Any:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, observation % 7 == 0, False, info


@pytest.mark.parametrize("rng", ["same", "resample"])
@pytest.mark.parametrize("inner", [None, 5])
@pytest.mark.parametrize("outer", [False, True])
def test_the_check_goes_through_ends_limits_and_wrappers_inside_and_outside(rng: Any, inner: Any, outer: bool) -> None:
    steps: list[int] = []

    class Seen(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            steps.append(1)
            return super().step(action)

    env: gym.Env[Any, Any] = gym.wrappers.OrderEnforcing(Ends())
    env = gym.wrappers.TimeAwareObservation(gym.wrappers.TimeLimit(env, inner)) if inner else env
    env = RollbackWrapper(env, rng=rng, step_limit=30, terminal="held" if outer else "pass")
    if outer:
        env = Seen(gym.wrappers.NormalizeReward(gym.wrappers.TimeLimit(env, 9)))
    report = check_restore(env, restores=40)
    assert report.restores >= 40
    assert report.undone_ends > 0
    assert report.jumps > 0
    assert bool(steps) == outer


@pytest.mark.parametrize("outer", [False, True])
def test_the_check_works_on_each_environment_of_a_vector(outer: bool) -> None:
    def make() -> gym.Env[Any, Any]:
        env = RollbackWrapper(gym.wrappers.TimeLimit(Ends(), 5))
        return gym.wrappers.TimeLimit(env, 8) if outer else env

    vector = gym.vector.SyncVectorEnv([make, make])
    vector.reset(seed=0)
    vector.step(np.zeros(2, dtype=np.int64))
    for env in vector.envs:
        assert check_restore(env, restores=15).restores == 15
    vector.reset(seed=0)
    vector.step(np.zeros(2, dtype=np.int64))
    vector.close()


def test_a_vector_is_refused_with_a_hint() -> None:
    vector = gym.vector.SyncVectorEnv([Ends, Ends])
    for wrong in (RollbackWrapper, check_restore):
        with pytest.raises(UsageError, match=r"SyncVectorEnv\(num_envs=2\): one environment"):
            wrong(vector)  # type: ignore[arg-type]
    vector.close()


def test_a_world_outside_that_is_wrong_is_still_found_through_the_wrappers_around() -> None:
    env = RollbackWrapper(Base(), snapshot="heap")
    wrong = env.unwrapped
    base_step = type(wrong).step
    drift = iter(range(10**6))

    def step(action: Any) -> Any:
        observation, *rest = base_step(wrong, action)
        return (observation + next(drift), *rest)

    wrong.step = step  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="observation was"):
        check_restore(gym.wrappers.TimeLimit(env, 50), restores=10)
