"""Vector environments of wrapped environments: one is rolled back, the others are not (kind B4)."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from rir_gym import RollbackWrapper, Unicode


class Rooms(gym.Env[str, str]):
    """Text rooms; the third one ends the episode."""

    action_space = Unicode()
    observation_space = Unicode()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = 0
        return "room 0", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.room += action == "go"
        return f"room {self.room}", float(action == "go"), self.room >= 3, False, {}


def make() -> RollbackWrapper:
    return RollbackWrapper(Rooms(), terminal="held")


def lake() -> RollbackWrapper:
    return RollbackWrapper(gym.make("FrozenLake-v1", is_slippery=False))


def vector(kind: str, make_one: Any) -> Any:
    if kind == "sync":
        return SyncVectorEnv([make_one] * 3)
    return AsyncVectorEnv([make_one] * 3, shared_memory=False)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_only_one_text_environment_is_rolled_back(kind: str) -> None:
    envs = vector(kind, make)
    try:
        envs.reset(seed=0)
        envs.step(["go", "go", "go"])
        envs.step(["go", "go", "wait"])
        observations, rewards, _, _, info = envs.step(["wait", "rollback 0", "go"])
        assert list(observations) == ["room 2", "room 0", "room 2"]
        assert rewards.tolist() == [0.0, -2.0, 1.0]
        assert info["_rollback"].tolist() == [False, True, False]
        assert info["rollback"]["depth"][1] == 2
        observations, *_ = envs.step(["wait", "go", "wait"])
        assert list(observations) == ["room 2", "room 1", "room 2"]
    finally:
        envs.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_only_one_discrete_environment_is_rolled_back(kind: str) -> None:
    envs = vector(kind, lake)
    try:
        envs.reset(seed=0)
        envs.step([1, 1, 1])
        observations, *_, info = envs.step([1, 4, 0])
        assert observations.tolist() == [8, 0, 4]
        assert info["action_mask"][:, 4:6].tolist() == [[1, 1], [0, 0], [1, 1]]
        assert envs.step([2, 2, 2])[0].tolist() == [9, 1, 5]
    finally:
        envs.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_held_end_survives_the_automatic_reset(kind: str) -> None:
    envs = vector(kind, make)
    try:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(["go", "go", "go"])
        observations, _, terminated, _, info = envs.step(["go", "go", "wait"])
        assert list(observations) == ["room 3", "room 3", "room 2"]
        assert terminated.tolist() == [False, False, False]
        assert info["_held"].tolist() == [True, True, False]
        observations, rewards, terminated, *_ = envs.step(["rollback 2", "go", "wait"])
        assert list(observations) == ["room 2", "room 3", "room 2"]
        assert rewards.tolist() == [-1.0, 0.0, 0.0]
        assert terminated.tolist() == [False, True, False]
        observations, *_ = envs.step(["wait", "go", "wait"])
        assert list(observations) == ["room 2", "room 0", "room 2"]
    finally:
        envs.close()


def test_same_step_autoreset_can_undo_a_held_end() -> None:
    envs = SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    for _ in range(3):
        envs.step(["go"])
    observations, *_ = envs.step(["rollback 1"])
    assert list(observations) == ["room 1"]
    envs.close()
