"""Faults that people hit in software of this kind, each as a test on the whole kind (A: copying, B: restoring)."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import EzPickle

from rir_gym import NotRestorable, RollbackRefused, RollbackWrapper, Unicode
from rir_gym.testing import check_restore


class Board(gym.Env[int, str], EzPickle):
    """A board game on EzPickle that sets its attributes in ``reset`` only; text boards, scores, legal moves."""

    observation_space = Unicode()
    action_space = gym.spaces.Discrete(9)

    def __init__(self, size: int = 3) -> None:
        EzPickle.__init__(self, size)
        self.size = size

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.cells = ["."] * self.size**2
        self.scores = {"x": 0.0, "o": 0.0}
        return self.text(), self.info()

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.cells[action] == ".":
            self.cells[action] = "x"
            free = [i for i, cell in enumerate(self.cells) if cell == "."]
            if free:
                self.cells[free[int(self.np_random.integers(len(free)))]] = "o"
            self.scores["x"] += 1.0
        over = "." not in self.cells
        return self.text(), self.scores["x"], over, False, self.info()

    def text(self) -> str:
        return "".join(self.cells) + f" {self.scores}"

    def info(self) -> dict[str, Any]:
        mask = np.array([cell == "." for cell in self.cells] + [False] * (9 - self.size**2), dtype=np.int8)
        return {"action_mask": mask, "scores": self.scores}


class Dice(gym.Env[int, int]):
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(6)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.value = int(self.np_random.integers(6))
        return self.value, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.value = int(self.np_random.integers(6))
        return self.value, 0.0, False, False, {}


# --- A ----------------------------------------------------------------------------------------------------------------


def test_a1_a2_copies_that_rebuild_are_never_taken_for_copies() -> None:
    for snapshot in ("pickle", "deepcopy"):
        with pytest.raises(NotRestorable, match=rf"{snapshot}: after a restore env"):
            RollbackWrapper(Board(), snapshot=snapshot)
    for env in (
        RollbackWrapper(Board()),
        RollbackWrapper.from_factory(lambda: gym.wrappers.TimeLimit(gym.wrappers.OrderEnforcing(Board()), 9)),
        RollbackWrapper.from_factory(Board, snapshot="replay"),
    ):
        assert env.snapshot_report.chosen in ("heap", "replay")
        env.reset(seed=1)
        for cell in (0, 4, 8):
            env.step(cell)
        text, info = env.node.step.observation, env.node.step.info
        env.step(2)
        observation, *_, back = env.rollback(3)
        assert observation == text
        assert back["scores"] == info["scores"]
        assert back["action_mask"][:9].tolist() == info["action_mask"].tolist()
        env.step(2)
        assert check_restore(env, restores=15).restores == 15


@pytest.mark.parametrize("name", ["MountainCar-v0", "CartPole-v1", "Pendulum-v1", "Acrobot-v1"])
def test_a3_an_ordinary_stack_is_restored_with_its_base(name: str) -> None:
    env = gym.wrappers.FrameStackObservation(gym.wrappers.TimeAwareObservation(gym.make(name, max_episode_steps=30)), 2)
    report = check_restore(env, restores=15)
    assert report.restores == 15


def test_a4_spec_and_limits_are_unchanged_after_a_rollback() -> None:
    for snapshot in ("heap", "deepcopy", "pickle", "replay"):
        env = RollbackWrapper(gym.make("FrozenLake-v1", map_name="8x8", max_episode_steps=7), snapshot=snapshot)
        env.reset(seed=0)
        spec, inner = env.spec, env.unwrapped.spec
        env.step(1)
        env.rollback(0)
        assert env.spec == spec
        assert env.unwrapped.spec == inner
        assert env.spec is not None
        assert (env.spec.id, env.spec.max_episode_steps) == ("FrozenLake-v1", 7)


def test_a9_a_lock_is_named_and_the_live_environment_stays_playable() -> None:
    class Online(Dice):
        def __init__(self) -> None:
            self.event = threading.Event()
            self._lock = threading.RLock()

    env = Online()
    with pytest.raises(NotRestorable, match=r"env\._lock is _thread\.RLock|env\.event\._cond"):
        RollbackWrapper(env, snapshot="deepcopy")
    env.reset(seed=0)
    env.step(0)
    assert check_restore(Online(), restores=10).mechanism == "heap"  # open locks are passed over
    assert check_restore(Online, restores=10, snapshot="replay").mechanism == "replay"
    assert check_restore(Online(), restores=10, snapshot="deepcopy", share=["_lock", "event"]).restores == 10
    held = Online()
    held._lock.acquire()
    with pytest.raises(NotRestorable, match=r"heap: .*RLock"):
        RollbackWrapper(held, snapshot="heap")
    held._lock.release()


def test_a14_an_argument_that_is_no_json_is_no_mystery() -> None:
    gym.register("rir_gym_tests/Iter-v0", entry_point=lambda numbers: Dice())
    try:
        env = gym.make("rir_gym_tests/Iter-v0", numbers=(i for i in range(3)))
        for snapshot in ("pickle", "deepcopy"):
            assert RollbackWrapper(env, snapshot=snapshot).snapshot_report.chosen == snapshot
    finally:
        del gym.registry["rir_gym_tests/Iter-v0"]


def test_a16_a_missing_attribute_is_an_attribute_error_on_copies_too() -> None:
    env = RollbackWrapper(Dice())
    env.reset(seed=0)
    env.step(0)
    for each in (env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        with pytest.raises(AttributeError, match="no_such_attr"):
            _ = each.no_such_attr  # type: ignore[attr-defined]


def test_a16_a_copy_of_the_wrapper_is_independent() -> None:
    env = RollbackWrapper(Dice(), snapshot="deepcopy")
    env.reset(seed=0)
    first = [env.step(0)[0] for _ in range(3)]
    twin = copy.deepcopy(env)
    twin.rollback(0)
    assert [twin.step(0)[0] for _ in range(3)] == first
    assert env.node.t == 3
    with pytest.raises(RollbackRefused, match="another episode or environment"):
        twin.rollback(env.node)


def test_a16_a_copy_of_a_wrapper_on_the_heap_goes_on_without_the_checkpoints_of_the_original() -> None:
    env = RollbackWrapper(Dice(), snapshot="heap")
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    twin = copy.deepcopy(env)
    assert twin.restorable == (3,)
    with pytest.raises(RollbackRefused, match="stayed with the world that this one was copied from"):
        twin.rollback(0)
    twin.step(0)
    after = [twin.step(1)[0] for _ in range(3)]
    twin.rollback(4)
    assert [twin.step(1)[0] for _ in range(3)] == after
    assert env.node.t == 3
    assert env.restorable == (0, 1, 2, 3)
    assert env.rollback(0)[0] == env.nodes[0].step.observation


def test_a20_equal_draws_with_same_and_different_ones_with_resample() -> None:
    for rng, outcomes in (("same", 1), ("resample", 6)):
        env = RollbackWrapper(Dice(), rng=rng)
        env.reset(seed=0)
        env.step(0)
        drawn = set()
        for _ in range(60):
            env.rollback(0)
            drawn.add(env.step(0)[0])
        assert len(drawn) == outcomes


@pytest.mark.parametrize("numpy_too", [False, True])
def test_a22_an_agent_on_the_global_generator_is_never_rewound(numpy_too: bool) -> None:
    class Global(Dice):
        def step(self, action: int) -> Any:
            self.value = int(np.random.randint(6)) if numpy_too else random.randrange(6)
            return self.value, 0.0, False, False, {}

    env = RollbackWrapper(Global())
    env.reset(seed=0)
    agent = []
    for _ in range(40):
        env.step(0)
        env.rollback(0)
        agent.append(random.random())
    assert len(set(agent)) == 40
    env.step(0)
    first = env.node.step.observation
    env.rollback(0)
    random.random()
    assert env.step(0)[0] == first


def test_a24_what_was_returned_and_recorded_is_not_changed_by_later_steps() -> None:
    class Reuses(gym.Env[Any, Any]):
        action_space = gym.spaces.Discrete(3)
        observation_space = gym.spaces.Box(0, 99, (2,), dtype=np.int64)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.seen, self.notes = np.zeros(2, dtype=np.int64), {"log": [0]}
            return self.seen, self.notes

        def step(self, action: int) -> Any:
            self.seen += int(action)
            self.notes["log"].append(int(action))
            return self.seen, 0.0, False, False, self.notes

    for snapshot in ("heap", "deepcopy", "pickle"):
        env = RollbackWrapper(Reuses(), snapshot=snapshot)
        returned = [env.reset(seed=0), *[env.step(2) for _ in range(5)]]
        assert [result[0].tolist() for result in returned] == [[2 * i, 2 * i] for i in range(6)]
        assert [len(result[-1]["log"]) for result in returned] == [1, 2, 3, 4, 5, 6]
        observation, *_, info = env.rollback(2)
        env.step(1)
        assert observation.tolist() == [4, 4]
        assert info["log"] == [0, 2, 2]
        assert [node.step.observation[0] for node in env.nodes] == [0, 2, 4, 6, 8, 10, 5]
        assert check_restore(env, restores=15).restores == 15


# --- B ----------------------------------------------------------------------------------------------------------------


def test_b1_one_outcome_with_same_and_the_right_distribution_with_resample() -> None:
    """FrozenLake's slip: from the start, "right" goes right, down or stays with a third each."""
    env = RollbackWrapper(gym.make("FrozenLake-v1"))
    env.reset(seed=3)
    first = env.step(2)[0]
    for _ in range(50):
        env.rollback(0)
        assert env.step(2)[0] == first
    env = RollbackWrapper(gym.make("FrozenLake-v1"), rng="resample")
    env.reset(seed=3)
    env.step(2)
    counts = dict.fromkeys((0, 1, 4), 0)
    for _ in range(600):
        env.rollback(0)
        counts[int(env.step(2)[0])] += 1
    assert all(150 < count < 250 for count in counts.values())  # 200 each, standard deviation 11.5


def test_b3_restoring_the_same_point_again_and_again_does_not_drift() -> None:
    for name in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1"):
        env = RollbackWrapper(gym.make(name))
        env.action_space.seed(0)
        env.reset(seed=0)
        space = copy.deepcopy(env.env.action_space)
        space.seed(1)
        actions = [space.sample() for _ in range(8)]
        wrapped = [action if isinstance(space, gym.spaces.Discrete) else (0, action) for action in actions]
        env.step(wrapped[0])
        runs = []
        for _ in range(5):
            run = []
            for action in wrapped:
                if env.node.step.over:
                    break
                run.append(np.asarray(env.step(action)[0]).tolist())
            runs.append(run)
            env.rollback(1)
        assert runs[0] == runs[1] == runs[2] == runs[3] == runs[4]


def test_b7_a_new_episode_after_a_rolled_back_one_starts_afresh() -> None:
    for snapshot in ("heap", "deepcopy", "pickle", "replay"):
        env = RollbackWrapper(gym.make("CartPole-v1"), snapshot=snapshot)
        start = env.reset(seed=0)[0].tolist()
        starts = []
        for _ in range(4):
            env.step(0)
            env.rollback(0)
            starts.append(env.reset()[0].tolist())
            assert env.restorable == (0,)
            assert len(env.nodes) == 1
        assert len({tuple(each) for each in [start, *starts]}) == 5
        assert env.reset(seed=0)[0].tolist() == start


def test_b8_the_head_moves_to_the_new_branch_and_the_old_one_is_kept() -> None:
    env = RollbackWrapper(Dice())
    env.reset(seed=0)
    for _ in range(5):
        env.step(0)
    old = env.history
    env.rollback(2)
    for _ in range(2):
        env.step(1)
    assert [node.id for node in env.history] == [0, 1, 2, 6, 7]
    assert [node.id for node in old] == [0, 1, 2, 3, 4, 5]
    assert [node.id for node in env.nodes] == list(range(8))
    assert env.nodes[5].branch() == old
    env.rollback(old[4])
    env.step(0)
    assert [node.id for node in env.history] == [0, 1, 2, 3, 4, 8]
    assert env.node.step.observation == old[5].step.observation


def test_b14_a_restored_environment_goes_on_from_where_it_was() -> None:
    env = RollbackWrapper.from_factory(Board)
    env.reset(seed=0)
    env.step(0)
    env.step(1)
    env.rollback(1)
    assert env.node.t == 1
    assert env.step(8)[0] != env.nodes[0].step.observation
    assert env.node.t == 2


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "CartPole-v1"])
def test_a17_pictures_are_left_out_and_drawn_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = RollbackWrapper(gym.make(name, render_mode="rgb_array"), snapshot="heap")
    env.reset(seed=0)
    pictures = [env.render()]
    for action in (1, 1, 0):
        env.step(action)
        pictures.append(env.render())
    for to in (2, 0):
        env.rollback(to)
        assert np.array_equal(env.render(), pictures[to])  # type: ignore[arg-type]
    env.close()


def test_b5_what_is_outside_the_wrapper_goes_on_counting() -> None:
    inside = gym.wrappers.TimeLimit(Dice(), 5)
    env = gym.wrappers.RecordEpisodeStatistics(RollbackWrapper(inside, step_limit=12))
    env.reset(seed=0)
    wrapper = env.env
    assert isinstance(wrapper, RollbackWrapper)
    while True:
        *_, terminated, truncated, info = env.step(0)
        if terminated or truncated:
            break
        if wrapper.node.t == 3:
            wrapper.rollback(0)
    assert wrapper.steps_taken == 12
    assert info["episode"]["l"] == 12


def test_b6_lengths_and_restore_points_agree_under_automatic_resets() -> None:
    def make() -> gym.Env[Any, Any]:
        return RollbackWrapper(gym.wrappers.TimeLimit(Dice(), 3))

    venv = gym.vector.SyncVectorEnv([make, make])
    venv.reset(seed=0)
    lengths = []
    for _ in range(12):
        _, _, terminated, truncated, _ = venv.step(np.zeros(2, dtype=np.int64))
        ends = terminated | truncated
        lengths += [env.node.t for env, over in zip(venv.envs, ends, strict=True) if over]  # type: ignore[attr-defined]
        for env in venv.envs:
            assert isinstance(env, RollbackWrapper)
            assert env.restorable == tuple(range(env.node.t + 1))
    assert lengths == [3] * 6
    venv.close()
