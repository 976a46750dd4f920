"""For any sequence of actions, rollbacks, jumps and resets the world is a fresh run of the surviving actions."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rir_gym
from rir_gym import RollbackWrapper
from rir_gym.snapshot.audit import difference, fingerprint
from rir_gym.values import same_value

MOVES = st.lists(
    st.tuples(st.sampled_from(["act"] * 6 + ["back"] * 2 + ["node", "reset"]), st.integers(0, 10**6)), max_size=28
)
EXAMPLES = {"Taxi-v4": 2, "rir_gym/Apothecary-v0": 12}
MECHANISMS = {
    "FrozenLake-v1": ("deepcopy", "pickle", "replay"),
    "CliffWalking-v1": ("deepcopy", "pickle", "replay"),
    "Blackjack-v1": ("deepcopy", "pickle", "replay"),
    "Taxi-v4": ("pickle", "replay"),
    "rir_gym/Apothecary-v0": ("native", "deepcopy", "pickle", "replay"),
}
CASES = [(name, snapshot) for name, all_of_it in MECHANISMS.items() for snapshot in all_of_it]


def check_against_a_straight_run(env: RollbackWrapper, straight: gym.Env[Any, Any], seed: int) -> None:
    observation, _ = straight.reset(seed=seed)
    assert same_value(observation, env.history[0].step.observation)
    total = 0.0
    for node in env.history[1:]:
        observation, reward, terminated, truncated, info = straight.step(node.step.action)
        total += float(reward)
        seen = node.step
        assert same_value(observation, seen.observation)
        assert (float(reward), terminated, truncated) == (seen.reward, seen.terminated, seen.truncated)
        assert same_value(info.get("admissible"), seen.admissible)
        assert same_value(info.get("oracle"), seen.oracle)
    assert math.isclose(total, env.node.ret, rel_tol=1e-9, abs_tol=1e-9)
    assert difference(fingerprint(straight), fingerprint(env.env)) is None


@pytest.mark.parametrize(("name", "snapshot"), CASES)
def test_world_and_observations_equal_a_fresh_run_of_the_surviving_actions(name: str, snapshot: str) -> None:
    assert rir_gym.__version__
    env = RollbackWrapper(gym.make(name), snapshot=snapshot)
    straight = gym.make(name)

    @settings(
        max_examples=EXAMPLES.get(name, 10),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**31 - 1), moves=MOVES)
    def check(seed: int, moves: list[tuple[str, int]]) -> None:
        env.reset(seed=seed)
        total, taken, nodes_seen = 0.0, 0, 1
        for kind, number in moves:
            kept = [node for node in env.nodes if env.refusal(node) is None]
            if kind == "act" and not env.node.step.over:
                listed = env.node.step.admissible
                n = int(getattr(env.env.action_space, "n", 1))
                action = listed[number % len(listed)] if listed else np.int64(number % n)
                total += float(env.step(action)[1])
                taken += 1
            elif kind == "back":
                points = env.restorable
                total += float(env.rollback(points[number % len(points)])[1])
            elif kind == "node":
                total += float(env.rollback(kept[number % len(kept)])[1])
            elif kind == "reset":
                check_against_a_straight_run(env, straight, seed)
                seed, total, taken = number, 0.0, 0
                env.reset(seed=seed)
                nodes_seen = 1
            assert env.steps_taken == taken  # only grows within an episode
            assert len(env.nodes) >= nodes_seen
            nodes_seen = len(env.nodes)
            assert math.isclose(total, env.node.ret, rel_tol=1e-9, abs_tol=1e-9)
        check_against_a_straight_run(env, straight, seed)

    check()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rewards=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    data=st.data(),
    rollback_cost=st.floats(0, 10),
    step_cost=st.floats(0, 10),
)
def test_rewards_telescope_whatever_they_are(
    rewards: list[float], data: st.DataObject, rollback_cost: float, step_cost: float
) -> None:
    class Pays(gym.Env[int, int]):
        action_space = gym.spaces.Discrete(2)
        observation_space = gym.spaces.Discrete(100)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            self.t = 0
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            self.t += 1
            return self.t, rewards[self.t % len(rewards)], False, False, {}

        def get_state(self) -> int:
            return self.t

        def set_state(self, state: int) -> None:
            self.t = state

    env = RollbackWrapper(Pays(), snapshot="native", rollback_cost=rollback_cost, step_cost=step_cost)
    env.reset()
    total = 0.0
    for _ in range(12):
        if data.draw(st.booleans()):
            total += float(env.step(0)[1])
        else:
            total += float(env.rollback(data.draw(st.sampled_from(env.restorable)))[1])
    costs = step_cost * env.steps_taken + rollback_cost * env.rollbacks_done
    assert math.isclose(total + costs, env.node.ret, rel_tol=1e-9, abs_tol=1e-6)
