"""The rules of the operator: each decision that a user of the wrapper relies on."""

from __future__ import annotations

import json
import math
import random
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from gymnasium.utils.env_checker import check_env

from rir_gym import Node, NotRestorable, RollbackRefused, RollbackWrapper, Unicode, UsageError


class Walk(gym.Env[str, str]):
    """A line of rooms in text. Commands: right, left, roll, send, look; the sixth room ends it with a reward of 5."""

    action_space = Unicode()
    observation_space = Unicode()

    def __init__(self, end: int = 5) -> None:
        self.end, self.place, self.rolled = end, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.rolled = int((options or {}).get("place", 0)), 0
        return self.text(), self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action == "boom":
            self.place = 77
            raise RuntimeError("the floor gave way")
        before = self.place
        self.place = max(0, self.place + {"right": 1, "left": -1}.get(action, 0))
        if action == "roll":
            self.rolled = int(self.np_random.integers(10**6))
        over = self.place >= self.end
        info = self.info() | {"committed": action == "send"}
        return self.text(), float(self.place - before) + 5.0 * over, over, False, info

    def text(self) -> str:
        return f"room {self.place}, rolled {self.rolled}"

    def info(self) -> dict[str, Any]:
        listed = ["right", "left", "roll", "send", "look"]
        return {"admissible": listed, "oracle": {"success": self.place >= self.end, "score": self.place / self.end}}

    def describe(self) -> str:
        return f"in room {self.place}"


class Vectors(gym.Env[Any, Any]):
    """Any action space; the observation is its own array, changed in place."""

    observation_space = Box(-np.inf, np.inf, (3,), dtype=np.float64)

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self.action_space = action_space
        self.world = np.zeros(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.world[:] = self.np_random.random(3)
        return self.world, {"world": self.world}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        flat = gym.spaces.flatten(self.action_space, action)
        self.world += float(np.sum(flat)) + self.np_random.random(3)
        return self.world, 1.0, False, False, {"world": self.world}


def walk(**settings: Any) -> RollbackWrapper:
    env = RollbackWrapper(Walk(), **{"snapshot": "deepcopy", **settings})
    env.reset(seed=0)
    return env


def play(env: RollbackWrapper, *actions: Any) -> list[Any]:
    return [env.step(action) for action in actions]


# --- decision 1: inside is rolled back, outside is not ----------------------------------------------------------------


def test_an_inner_time_limit_rewinds_and_steps_taken_does_not() -> None:
    env = RollbackWrapper(gym.wrappers.TimeLimit(Walk(), 4))
    env.reset(seed=0)
    for _ in range(6):
        assert not any(result[3] for result in play(env, "look", "look", "look"))
        env.rollback(0)
    assert env.steps_taken == 18
    assert [result[3] for result in play(env, "look", "look", "look", "look")] == [False, False, False, True]


def test_step_limit_counts_real_steps_and_truncates_at_the_last() -> None:
    env = walk(step_limit=4)
    play(env, "right", "right", "right")
    env.rollback(1)
    _, _, terminated, truncated, _ = env.step("look")
    assert (terminated, truncated, env.steps_taken) == (False, True, 4)
    with pytest.raises(RollbackRefused, match="step_limit=4: spent"):
        env.rollback(0)
    with pytest.raises(UsageError, match="step_limit=4: spent"):
        env.step("look")
    _, _, _, truncated, info = env.step("rollback 0")
    assert truncated
    assert not info["rollback"]["ok"]
    env.reset()
    assert env.steps_taken == 0
    assert not env.step("look")[3]


def test_statistics_outside_count_what_was_undone_too() -> None:
    env = gym.wrappers.RecordEpisodeStatistics(walk())
    env.reset(seed=0)
    play(env, "right", "rollback 0", "right", "right", "right", "right")  # type: ignore[arg-type]
    *_, info = env.step("right")
    assert info["episode"]["l"] == 7
    assert info["episode"]["r"] == pytest.approx(10.0)  # telescoping: that of the branch that survived


# --- decision 2: rewards ----------------------------------------------------------------------------------------------


def test_rewards_telescope_to_the_surviving_return_minus_costs() -> None:
    env = walk(rollback_cost=0.5, step_cost=0.25)
    rewards = [result[1] for result in play(env, "right", "right", "right")]
    rewards.append(env.rollback(1)[1])
    rewards += [result[1] for result in play(env, "left", "right")]
    assert rewards == [0.75, 0.75, 0.75, -2.5, -1.25, 0.75]
    assert sum(rewards) == pytest.approx(env.node.ret - 5 * 0.25 - 0.5, rel=1e-9)


def test_a_reward_cannot_be_farmed_and_costs_are_never_refunded() -> None:
    env = walk(rollback_cost=0.1)
    total = 0.0
    for _ in range(5):
        total += env.step("right")[1] + env.rollback(0)[1]
    assert total == pytest.approx(-0.5)
    assert env.node.ret == 0.0


def test_zero_pays_nothing_at_a_rollback_but_its_cost() -> None:
    env = walk(reward="zero", rollback_cost=0.5)
    play(env, "right", "right")
    assert env.rollback(0)[1] == -0.5


# --- decision 3: generators -------------------------------------------------------------------------------------------


def test_the_same_action_has_the_same_future() -> None:
    env = walk()
    play(env, "right")
    futures = []
    for _ in range(4):
        futures.append([result[0] for result in play(env, "roll", "roll", "roll")])
        env.rollback(1)
    assert len({tuple(future) for future in futures}) == 1


def resampled(env: RollbackWrapper, **kwargs: Any) -> str:
    env.rollback(0, **kwargs)
    return str(env.step("roll")[0])


def test_resample_draws_a_new_future_that_follows_from_seed_and_number() -> None:
    runs = []
    for seed in (0, 0, 1):
        env = RollbackWrapper(Walk(), rng="resample")
        env.reset(seed=seed)
        first = str(env.step("roll")[0])
        runs.append([first, *(resampled(env) for _ in range(5))])
    assert len(set(runs[0])) == 6
    assert runs[0] == runs[1]
    assert not set(runs[0]) & set(runs[2])


def test_resample_can_be_seeded_for_one_rollback() -> None:
    env = walk(rng="resample")
    env.step("roll")
    assert resampled(env, seed=7) == resampled(env, seed=7)
    assert resampled(env, seed=7) != resampled(env, seed=8)
    with pytest.raises(UsageError, match="only with rng='resample'"):
        walk().rollback(0, seed=3)
    for seed in (-1, 1.5, True, "x"):
        play(env, "right")
        here = env.node
        with pytest.raises(UsageError, match="seed="):
            env.rollback(0, seed=seed)  # type: ignore[arg-type]
        assert env.node is here


def test_resample_differs_between_unseeded_episodes() -> None:
    env = walk(rng="resample")
    drawn = []
    for _ in range(4):
        env.step("roll")
        drawn.append(resampled(env))
        env.reset()
    assert len(set(drawn)) == 4


def test_resample_by_replay_repeats_the_new_futures_of_its_branches() -> None:
    env = RollbackWrapper.from_factory(Walk, snapshot="replay", rng="resample")
    env.reset(seed=3)
    play(env, "roll", "roll")
    env.rollback(1)
    play(env, "roll", "roll")
    node = env.node
    env.rollback(0)
    new = env.step("roll")[0]
    assert env.rollback(node)[0] == node.step.observation
    assert [seen.step.observation for seen in env.nodes if seen.step.observation == new] == [new]


def test_resample_is_refused_where_a_generator_may_be_out_of_reach() -> None:
    class Opaque(Walk):
        def reset(self, **kwargs: Any) -> Any:
            self.catalogue = iter(range(10))  # made by the reset only, as a game engine would be
            return super().reset(**kwargs)

    with pytest.raises(NotRestorable, match=r"env\.catalogue \(builtins\.range_iterator\) is out of reach"):
        RollbackWrapper.from_factory(Opaque, rng="resample")


def test_the_wrappers_action_space_is_its_own_and_never_rewound() -> None:
    env = RollbackWrapper(gym.make("FrozenLake-v1"))
    env.action_space.seed(4)
    env.reset(seed=0)
    straight = [int(gym.spaces.Discrete(12, seed=4).sample())]
    space = gym.spaces.Discrete(12, seed=4)
    straight = [int(space.sample()) for _ in range(6)]
    drawn = []
    for _ in range(3):
        env.step(0)
        drawn.append(int(env.action_space.sample()))
        env.rollback(0)
        drawn.append(int(env.action_space.sample()))
    assert drawn == straight


# --- decision 4: terminal steps ---------------------------------------------------------------------------------------


def test_a_terminal_step_can_be_undone_until_reset() -> None:
    env = walk()
    *_, last = play(env, *["right"] * 5)
    assert last[2]
    observation, reward, terminated, truncated, info = env.rollback(4)
    assert (observation, terminated, truncated) == ("room 4, rolled 0", False, False)
    assert reward == -6.0
    assert info["rollback"]["depth"] == 1
    assert env.step("right")[2]
    env.reset()
    assert env.restorable == (0,)


def held() -> tuple[RollbackWrapper, tuple[Any, ...]]:
    env = walk(terminal="held")
    *_, last = play(env, *["right"] * 5)
    return env, last


def test_held_flags_are_returned_in_info() -> None:
    env, (observation, reward, terminated, truncated, info) = held()
    assert (observation, reward, terminated, truncated) == ("room 5, rolled 0", 6.0, False, False)
    assert info["held"] == {"terminated": True, "truncated": False}
    assert env.steps_taken == 5


def test_a_feasible_rollback_undoes_a_held_end() -> None:
    env, _ = held()
    observation, _, terminated, _, info = env.step("rollback 3")
    assert (observation, terminated) == ("room 3, rolled 0", False)
    assert "held" not in info
    assert env.step("right")[0] == "room 4, rolled 0"


@pytest.mark.parametrize("action", ["right", "look", "boom", "rollback 9", "rollback -1"])
def test_any_other_action_or_a_refused_rollback_releases_a_held_end(action: str) -> None:
    env, last = held()
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated) == (last[0], 0.0, True, False)
    assert "held" not in info
    assert env.steps_taken == 5
    assert env.unwrapped.place == 5


def test_a_held_end_can_be_kept_by_standing_still() -> None:
    env, _ = held()
    observation, reward, terminated, _, info = env.step("rollback 5")
    assert (observation, reward, terminated) == ("room 5, rolled 0", 0.0, True)
    assert info["rollback"]["depth"] == 0


def test_nothing_is_held_where_no_rollback_is_possible() -> None:
    spent = walk(terminal="held", max_rollbacks=0)
    assert play(spent, *["right"] * 5)[-1][2]
    limited = walk(terminal="held", step_limit=5)
    assert play(limited, *["right"] * 5)[-1][2:4] == (True, True)
    committed = walk(terminal="held")
    committed.env.unwrapped.end = 1
    committed.reset(options={"place": 1})
    result = committed.step("send")
    assert result[2]
    assert "held" not in result[4]


def test_a_truncation_is_held_too() -> None:
    env = RollbackWrapper(gym.wrappers.TimeLimit(Walk(), 2), terminal="held")
    env.reset(seed=0)
    play(env, "look")
    *_, info = env.step("look")
    assert info["held"] == {"terminated": False, "truncated": True}
    assert env.step("look")[2:4] == (False, True)


# --- decision 5: restore points and actions ---------------------------------------------------------------------------


def test_restore_points_are_absolute_and_standing_still_is_legal() -> None:
    env = walk(rollback_cost=1.0)
    play(env, "right", "right", "right")
    assert env.restorable == (0, 1, 2, 3)
    assert env.rollback(2)[0] == "room 2, rolled 0"
    assert env.restorable == (0, 1, 2)
    observation, reward, _, _, info = env.rollback(2)
    assert (observation, reward) == ("room 2, rolled 0", 0.0)
    assert info["rollback"] == {"ok": True, "to": 2, "from": 2, "depth": 0, "node": env.node.id, "rollbacks": 1}
    assert env.rollbacks_done == 1


def test_text_actions_roll_back_and_are_refused_in_info() -> None:
    env = walk(max_rollbacks=1)
    play(env, "right", "right")
    observation, *_, info = env.step("rollback 1")
    assert (observation, info["rollback"]["ok"]) == ("room 1, rolled 0", True)
    for action, reason in (("rollback 0", "max_rollbacks=1: spent"), ("rollback 7", "restore points are 0 to 1")):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (observation, reward, terminated, truncated) == ("room 1, rolled 0", 0.0, False, False)
        assert not info["rollback"]["ok"]
        assert reason in info["rollback"]["reason"]
    assert env.step("right")[0] == "room 2, rolled 0"


def test_another_keyword_and_a_collision() -> None:
    env = walk(keyword="undo")
    play(env, "right")
    assert env.step("undo 0")[0] == "room 0, rolled 0"

    class Collides(Walk):
        def info(self) -> dict[str, Any]:
            return super().info() | {"admissible": ["rollback 2"]}

    with pytest.raises(UsageError, match="choose another"):
        RollbackWrapper(Collides()).reset(seed=0)
    RollbackWrapper(Collides(), keyword="undo").reset(seed=0)


def test_discrete_actions_with_a_start_and_their_mask() -> None:
    env = RollbackWrapper(Vectors(Discrete(3, start=4)), max_depth=3)
    start, info = env.reset(seed=0)
    assert env.action_space == Discrete(6, start=4)
    assert info["action_mask"].tolist() == [1, 1, 1, 0, 0, 0]
    seen = [start] + [env.step(np.int64(5))[0] for _ in range(4)]
    observation, *_, info = env.step(4 + 3 - 1 + 3)
    assert np.array_equal(observation, seen[1])
    assert info["action_mask"].tolist() == [1, 1, 1, 1, 0, 0]
    assert info["rollback"]["depth"] == 3
    _, _, _, _, info = env.step(8)
    assert not info["rollback"]["ok"]
    with pytest.raises(UsageError, match="action=10"):
        env.step(10)


@pytest.mark.parametrize("inner", [Box(-1, 1, (2,)), MultiDiscrete([2, 3]), Tuple((Discrete(2), Box(0, 1, (1,))))])
def test_any_other_space_is_one_of_two(inner: Any) -> None:
    env = RollbackWrapper(Vectors(inner))
    start, _ = env.reset(seed=0)
    inner.seed(1)
    action = inner.sample()
    first = env.step((0, action))[0]
    env.step((0, action))
    assert np.array_equal(env.step((1, 1))[0], first)
    assert np.array_equal(env.step((1, 1))[0], start)
    assert not env.step((1, 1))[4]["rollback"]["ok"]
    assert np.array_equal(env.step((0, action))[0], first)


def test_junk_actions_do_no_harm() -> None:
    env = walk()
    for junk in ("", "\n", "rollback", "rollback one", "水火", "x" * 10_000):
        assert env.step(junk)[0] == "room 0, rolled 0"


def test_an_environment_that_raises_in_a_step_is_put_back() -> None:
    for snapshot in ("deepcopy", "pickle"):
        env = walk(snapshot=snapshot)
        play(env, "right", "roll")
        here, text = env.node, env.node.step.observation
        with pytest.raises(RuntimeError, match="the floor gave way"):
            env.step("boom")
        assert env.node is here
        assert env.unwrapped.place == 1
        assert env.step("look")[0] == text
        assert env.steps_taken == 3


# --- decision 6: what comes back --------------------------------------------------------------------------------------


def test_what_comes_back_are_fresh_copies_with_the_checkpoints_info() -> None:
    env = RollbackWrapper(Vectors(Discrete(2)))
    start, info = env.reset(seed=0)
    kept = start.copy()
    start += 100
    info["world"] += 100
    play(env, 1, 0)
    one, *_, info_one = env.rollback(0)
    assert np.array_equal(one, kept)
    assert np.array_equal(info_one["world"], kept)
    one += 5
    two, *_, info_two = env.rollback(0)
    assert np.array_equal(two, kept)
    assert info_two["world"] is not info_one["world"]
    assert np.array_equal(env.node.step.observation, kept)


def test_info_of_a_rollback_names_both_ends() -> None:
    env = walk()
    play(env, "right", "right", "right")
    *_, info = env.rollback(1)
    assert info["rollback"] == {"ok": True, "to": 1, "from": 3, "depth": 2, "node": 1, "rollbacks": 1}
    assert info["admissible"] == ["right", "left", "roll", "send", "look"]
    assert info["oracle"] == {"success": False, "score": 0.2}
    assert "rollback" not in env.step("look")[4]


# --- decision 7: a tree of nodes --------------------------------------------------------------------------------------


def test_the_history_is_a_tree_and_a_node_jumps_to_another_branch() -> None:
    env = walk()
    play(env, "right", "right", "right")
    leaf = env.node
    env.rollback(1)
    play(env, "roll")
    other = env.node
    assert [node.id for node in env.history] == [0, 1, 4]
    assert [(node.id, node.t, node.parent.id if node.parent else None) for node in env.nodes] == [
        *[(0, 0, None), (1, 1, 0), (2, 2, 1), (3, 3, 2), (4, 2, 1)],
    ]
    observation, reward, *_ = env.rollback(leaf)
    assert observation == "room 3, rolled 0"
    assert reward == 2.0
    assert env.history[-1] is leaf
    assert env.rollback(other)[0] == other.step.observation
    assert env.rollback(env.nodes[2])[0] == "room 2, rolled 0"
    assert [checkpoint.node.id for checkpoint in env.checkpoints] == [0, 1, 2, 3, 4]
    assert env.nodes[3].summary == "in room 3"
    with pytest.raises(AttributeError):
        leaf.t = 9  # type: ignore[misc]


def test_a_jump_back_to_an_end_shows_the_end() -> None:
    env = walk()
    play(env, *["right"] * 5)
    end = env.node
    env.rollback(0)
    observation, reward, terminated, _, _ = env.rollback(end)
    assert (observation, reward, terminated) == ("room 5, rolled 0", 10.0, True)


# --- decision 8: the oracle -------------------------------------------------------------------------------------------


def test_oracle_knowledge_stands_apart_in_the_nodes() -> None:
    env = walk()
    play(env, "right")
    assert env.node.step.oracle == {"success": False, "score": 0.2}
    assert "oracle" not in env.node.step.info


# --- decisions 0 and 10: arguments, specs -----------------------------------------------------------------------------


def test_spec_and_json_round_trip() -> None:
    settings = {"reward": "zero", "terminal": "held", "max_depth": 3, "rollback_cost": 0.5, "snapshot": "deepcopy"}
    env = RollbackWrapper(gym.make("FrozenLake-v1", is_slippery=False), **settings)
    assert env.spec is not None
    text = env.spec.to_json()
    assert json.loads(text)
    for spec in (env.spec, EnvSpec.from_json(text)):
        again = gym.make(spec)
        assert isinstance(again, RollbackWrapper)
        assert again.settings == env.settings
        assert again.action_space == Discrete(7)
        again.reset(seed=0)
        again.step(1)
        assert again.step(4)[0] == 0
        assert again.spec == env.spec


def test_it_can_be_registered_as_an_additional_wrapper() -> None:
    gym.register(
        "rir_gym_tests/Lake-v0",
        entry_point="gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv",
        additional_wrappers=(RollbackWrapper.wrapper_spec(max_depth=2, rng="resample"),),
        max_episode_steps=9,
    )
    try:
        env = gym.make("rir_gym_tests/Lake-v0")
        assert isinstance(env, RollbackWrapper)
        env.reset(seed=0)
        env.step(0)
        assert env.step(4)[4]["rollback"]["ok"]
        assert isinstance(gym.make(EnvSpec.from_json(env.spec.to_json())), RollbackWrapper)
        assert env.spec.max_episode_steps == 9
    finally:
        del gym.registry["rir_gym_tests/Lake-v0"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.make("FrozenLake-v1"),
        lambda: gym.make("CartPole-v1"),
        lambda: gym.make("Pendulum-v1"),
        lambda: gym.make("Blackjack-v1"),
        Walk,
        lambda: Vectors(MultiDiscrete([2, 3])),
    ],
)
@pytest.mark.parametrize("terminal", ["pass", "held"])
def test_gymnasiums_own_checker_is_content(make: Any, terminal: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        warnings.filterwarnings("ignore", message=".*A Box observation space m.*")
        check_env(RollbackWrapper(make(), terminal=terminal), skip_render_check=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rng": "other"}, "rng='other': one of same, resample"),
        ({"rng": None}, "rng=None"),
        ({"reward": 3}, "reward=3"),
        ({"terminal": ["pass"]}, "terminal="),
        ({"snapshot": "magic"}, "snapshot='magic': unknown"),
        ({"max_depth": 0}, "max_depth=0"),
        ({"max_depth": None}, "max_depth=None"),
        ({"max_depth": True}, "max_depth=True"),
        ({"max_rollbacks": -1}, "max_rollbacks=-1"),
        ({"max_rollbacks": 1.0}, "max_rollbacks=1.0"),
        ({"step_limit": 0}, "step_limit=0"),
        ({"rollback_cost": -0.1}, "rollback_cost=-0.1"),
        ({"rollback_cost": math.nan}, "rollback_cost=nan"),
        ({"step_cost": math.inf}, "step_cost=inf"),
        ({"step_cost": "1"}, "step_cost='1'"),
        ({"share": "place"}, "share='place'"),
        ({"share": ["nothing"]}, "share='nothing': no layer"),
        ({"keyword": "two words"}, "keyword="),
    ],
)
def test_bad_settings_are_one_clear_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, NotRestorable)) as raised:
        RollbackWrapper(Walk(), **settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


# --- bad input to the method ------------------------------------------------------------------------------------------


def test_before_reset_and_after_close() -> None:
    env = RollbackWrapper(Walk())
    for call in (lambda: env.rollback(0), lambda: env.step("look"), lambda: env.node, lambda: env.history):
        with pytest.raises(RollbackRefused, match="not reset yet: call reset"):
            call()
    assert env.nodes == env.checkpoints == ()
    assert "not reset" in str(env.refusal(0))
    env.reset(seed=0)
    env.close()
    for call in (lambda: env.rollback(0), lambda: env.step("look")):
        with pytest.raises(RollbackRefused, match="closed: make a new one"):
            call()
    with pytest.raises(UsageError, match="closed"):
        env.reset()


def test_what_cannot_be_restored_is_refused_and_changes_nothing() -> None:
    env, other = walk(), walk()
    play(env, "right", "roll")
    play(other, "right")
    old = env.nodes[1]
    env.reset(seed=0)
    play(env, "right", "right")
    here, taken = env.node, env.steps_taken
    for to in (-1, 3, 10**30, old, other.node, Node(99, None, 0, here.step), True, 1.0, "1", None):
        assert env.refusal(to) is not None  # type: ignore[arg-type]
        with pytest.raises(RollbackRefused, match="rollback to"):
            env.rollback(to)  # type: ignore[arg-type]
    assert (env.node, env.steps_taken, env.rollbacks_done) == (here, taken, 0)
    assert env.step("look")[0] == "room 2, rolled 0"


def test_max_rollbacks_is_per_episode() -> None:
    env = walk(max_rollbacks=1)
    for _ in range(2):
        play(env, "right")
        env.rollback(0)
        play(env, "right")
        assert env.restorable == (1,)
        with pytest.raises(RollbackRefused, match="max_rollbacks=1: spent"):
            env.rollback(0)
        env.reset(seed=0)


# --- decision 13: commitments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", ["deepcopy", "pickle", "replay"])
def test_a_commitment_bars_every_node_that_does_not_descend_from_it(snapshot: str) -> None:
    env = RollbackWrapper.from_factory(Walk, snapshot=snapshot)
    env.reset(seed=0)
    play(env, "right", "right")
    side = env.node
    env.rollback(1)
    play(env, "right", "send")
    sent = env.node
    assert env.restorable == (3,)
    for to in (0, 1, 2, side):
        with pytest.raises(RollbackRefused, match="step 3 had an effect outside that cannot be taken back"):
            env.rollback(to)
    assert env.step("rollback 0")[4]["rollback"]["ok"] is False
    assert env.rollback(3)[4]["rollback"]["depth"] == 0
    play(env, "right", "roll")
    if snapshot == "replay":  # doing the actions again would send again
        assert env.restorable == (5,)
        return
    assert env.restorable == (3, 4, 5)
    assert env.rollback(sent)[0] == sent.step.observation
    assert "effect outside" in str(env.refusal(0))  # the barrier is not rolled back
    env.reset(seed=0)
    play(env, "right")
    assert env.restorable == (0, 1)


# --- determinism ------------------------------------------------------------------------------------------------------


def test_wrapping_leaves_the_global_generators_as_they_were() -> None:
    class Global(Walk):
        def step(self, action: str) -> Any:
            random.random()
            np.random.random()
            return super().step(action)

    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    RollbackWrapper(Global())
    RollbackWrapper.from_factory(Global)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
