"""The tree of an environment's past: copies, save failures, seeds of episodes, and σ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.deepcopy import DeepCopy
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.world import World


class Line(gym.Env[Any, Any]):
    action_space = gym.spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.trail = np.zeros(1)
        self.start = float(self.np_random.random())
        return self.trail, {"oracle": {"score": self.start}, "trail": self.trail}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == 4:
            self.trail[:] = -1
            raise ZeroDivisionError
        self.trail += action
        return self.trail, 0.5, False, False, {"trail": self.trail}


@dataclass(frozen=True)
class Failing:
    """Saves every second node only."""

    name: str = "failing"
    sized: bool = False
    repeats: bool = False
    tied: bool = False

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> Any:
        if node.t % 2:
            raise SnapshotError(f"no room for step {node.t}")
        return DeepCopy().save(env, node, start)

    def restore(self, env: gym.Env[Any, Any], token: Any) -> gym.Env[Any, Any]:
        return DeepCopy().restore(env, token)

    def size(self, token: Any) -> int | None:
        return None

    def drop(self, token: Any) -> None:
        pass

    def forget(self) -> None:
        pass


def test_nodes_are_a_tree_with_copies_returns_and_the_oracle_apart() -> None:
    world = World(Line(), DeepCopy())
    world.reset(3, None)
    one = world.step(1)
    two = world.step(2)
    world.restore(one)
    three = world.step(3)
    assert [node.id for node in world.nodes] == [0, 1, 2, 3]
    assert [node.step.observation.tolist() for node in world.nodes] == [[0], [1], [3], [4]]
    assert [node.step.info["trail"].tolist() for node in world.nodes] == [[0], [1], [3], [4]]
    assert (two.ret, three.ret, three.parent) == (1.0, 1.0, one)
    assert world.nodes[0].step.oracle == {"score": world.env.unwrapped.start}
    assert "oracle" not in world.nodes[0].step.info


def test_a_failed_save_costs_that_node_only() -> None:
    world = World(Line(), Failing())
    world.reset(3, None)
    nodes = [world.step(1) for _ in range(4)]
    assert sorted(world.checkpoints) == [0, 2]
    assert world.unsaved == {1: "no room for step 1", 3: "no room for step 3"}
    with pytest.raises(SnapshotError, match="no room for step 1"):
        world.restore(nodes[0])
    with pytest.raises(SnapshotError, match="is not kept"):
        world.restore(nodes[3])
    assert world.node is nodes[3]
    world.restore(nodes[1])
    assert world.env.unwrapped.trail.tolist() == [2]


def test_a_step_that_raises_is_undone_and_leaves_no_node() -> None:
    world = World(Line(), DeepCopy())
    world.reset(3, None)
    here = world.step(1)
    with pytest.raises(ZeroDivisionError):
        world.step(4)
    assert world.node is here
    assert len(world.nodes) == 2
    assert world.step(1).step.observation.tolist() == [2]


def test_entropy_follows_from_the_last_seed_and_the_episodes_since() -> None:
    world = World(Line(), DeepCopy())
    seen = []
    for seed in (3, None, None, 3, None, 4):
        world.reset(seed, None)
        seen.append(world.entropy)
    assert seen == [(3,), (3, 2), (3, 3), (3,), (3, 2), (4,)]
    unseeded = World(Line(), DeepCopy())
    unseeded.reset(None, None)
    assert len(unseeded.entropy) == 1


def test_unseeded_episodes_go_on_with_the_environments_own_generator() -> None:
    world, bare = World(Line(), DeepCopy()), Line()
    for seed in (3, None, None):
        world.reset(seed, None)
        bare.reset(seed=seed)
        assert world.env.unwrapped.start == bare.start


def test_the_summary_is_the_environments_own_or_the_beginning_of_the_observation() -> None:
    class Describes(Line):
        def describe(self) -> str:
            return f"trail {self.trail.tolist()}"

    world = World(gym.wrappers.TimeLimit(Describes(), 9), DeepCopy())
    world.reset(3, None)
    assert world.step(1).summary == "trail [1.0]"
    plain = World(Line(), DeepCopy())
    assert plain.reset(3, None).summary == "array([0.])"


def test_forgetting_drops_everything() -> None:
    world = World(Line(), DeepCopy())
    world.reset(3, None)
    world.step(1)
    world.forget()
    assert not world.begun
    assert (world.nodes, world.checkpoints, world.unsaved) == ([], {}, {})
