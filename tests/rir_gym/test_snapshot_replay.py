"""Snapshot by doing it again: everything compared, nothing outside repeated, arguments kept as they were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rir_gym import RollbackRefused, RollbackWrapper, Unicode
from rir_gym.base import Node, Step
from rir_gym.errors import ReplayMismatch, SnapshotError
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.replay import Replay
from rir_gym.testing import check_restore

COUNTS = SimpleNamespace(made=0, closed=0)


class Notes(gym.Env[Any, Any]):
    """Keeps and changes the objects it is given (kind A23)."""

    action_space = gym.spaces.MultiDiscrete([3, 3])
    observation_space = Unicode()

    def __init__(self, fault: str = "") -> None:
        COUNTS.made += 1
        self.fault = fault
        self.drifts = fault != "" and COUNTS.made > 3

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.options = (options or {}).setdefault("notes", []) if options else []
        self.options.append("reset")
        self.kept: list[Any] = []
        return self.text(), {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.kept.append(action)
        text = self.text()
        action[:] = 0  # the caller's own array
        again = self.fault if self.drifts else ""
        admissible = ["a", "b"] if again != "admissible" else ["a"]
        info = {"admissible": admissible} if self.fault == "admissible" else {}
        return text, float(again == "reward"), again == "terminated", again == "truncated", info

    def text(self) -> str:
        return f"{self.options} {[list(map(int, each)) for each in self.kept]}"

    def close(self) -> None:
        COUNTS.closed += 1


@pytest.fixture(autouse=True)
def _counts() -> None:
    COUNTS.made = COUNTS.closed = 0


def node_of(env: Any, *actions: Any) -> tuple[Node, Start]:
    start = Start(5, {"notes": ["given"]})
    observation, info = env.reset(seed=5, options={"notes": ["given"]})
    node = Node(0, None, 0, Step(None, observation, info=info))
    for action in actions:
        kept = action.copy()
        observation, reward, terminated, truncated, info = env.step(action)
        step = Step(kept, observation, reward, terminated, truncated, info)
        node = Node(node.id + 1, node, node.t + 1, step)
    return node, start


def test_arguments_are_kept_as_they_were_before_the_environment_changed_them() -> None:
    env = Notes()
    token = node_of(env, np.array([1, 2]), np.array([2, 0]))
    for _ in range(3):
        restored = Replay(Notes).restore(env, token)
        assert restored.unwrapped.text() == "['given', 'reset'] [[0, 0], [0, 0]]"
    assert token[0].step.action.tolist() == [2, 0]
    assert token[1].options == {"notes": ["given"]}


def test_a_wrapped_environment_that_keeps_its_arguments_is_exact() -> None:
    assert check_restore(Notes, snapshot="replay", restores=20).restores == 20
    env = RollbackWrapper.from_factory(Notes, snapshot="replay")
    options = {"notes": ["mine"]}
    env.reset(seed=0, options=options)
    env.step((0, np.array([1, 1])))
    env.step((0, np.array([1, 1])))
    assert env.rollback(1)[0] == "['mine', 'reset'] [[1, 1]]"
    assert env.step((0, np.array([2, 1])))[0] == "['mine', 'reset'] [[0, 0], [2, 1]]"


@pytest.mark.parametrize("fault", ["reward", "terminated", "truncated", "admissible"])
def test_every_result_is_compared_and_the_first_difference_reported(fault: str) -> None:
    env = Notes(fault)
    token = node_of(env, np.array([1, 2]), np.array([2, 0]))
    COUNTS.made = 9  # the fresh one drifts
    closed = COUNTS.closed
    with pytest.raises(ReplayMismatch, match=f"replay: step=1: {fault} was .* and is now "):
        Replay(lambda: Notes(fault)).restore(env, token)
    assert COUNTS.closed == closed + 1  # the fresh one, not the live one
    assert env.text().count("[0, 0]") == 2


def test_an_unseeded_reset_cannot_be_repeated() -> None:
    env = Notes()
    node, _ = node_of(env)
    with pytest.raises(SnapshotError, match="begun without a seed"):
        Replay(Notes).save(env, node, Start())
    token = node, Start(1)
    assert Replay(Notes).save(env, *token) == token
    assert Replay(Notes).size(token) == 0


def test_another_stack_is_refused() -> None:
    env = Notes()
    with pytest.raises(SnapshotError, match="a fresh instance is"):
        Replay(lambda: gym.wrappers.TimeLimit(Notes(), 3)).restore(env, node_of(env))


def test_a_committed_step_is_never_done_again() -> None:
    env = Notes()
    root, start = node_of(env)
    node = Node(1, root, 1, Step(np.array([1, 1]), "sent", info={"committed": True}))
    made = COUNTS.made
    with pytest.raises(SnapshotError, match="step 1 had an effect outside, which doing it again would repeat"):
        Replay(Notes).restore(env, (node, start))
    assert COUNTS.made == made


def test_unseeded_episodes_get_seeds_that_can_be_repeated() -> None:
    env = RollbackWrapper(gym.make("FrozenLake-v1"), snapshot="replay")
    paths = []
    for _ in range(2):
        paths.append([])
        env.reset(seed=3)
        for _ in range(4):
            env.reset()
            path = [env.step(2)[0], env.step(1)[0]]
            env.rollback(0)
            assert [env.step(2)[0], env.step(1)[0]] == path
            paths[-1].append(path)
    assert paths[0] == paths[1]
    assert len({tuple(path) for path in paths[0]}) > 1


def test_a_factory_that_fails_later_is_a_refusal_and_the_world_stays() -> None:
    broken: list[int] = []

    def make() -> gym.Env[Any, Any]:
        if broken:
            raise ConnectionError("the server is gone")
        return Notes()

    env = RollbackWrapper.from_factory(make, snapshot="replay")
    env.reset(seed=0)
    seen = env.step((0, np.array([1, 1])))[0]
    broken.append(1)
    with pytest.raises(RollbackRefused, match="replay: ConnectionError: the server is gone"):
        env.rollback(0)
    assert env.node.step.observation == seen
    assert env.step((0, np.array([1, 1])))[0].endswith("[[0, 0], [1, 1]]")
