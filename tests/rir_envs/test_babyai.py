"""BabyAI and MiniGrid as text: every level, what is seen, what the bot's plans are worth, restores, junk and errors."""

from __future__ import annotations

import random
import sys
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from rir_envs import babyai_text
from rir_envs.babyai import BabyAIEnv, levels
from rir_gym.base import Oracle
from rir_gym.errors import MissingDependency, UnknownName, UsageError
from rir_gym.rollback import RollbackWrapper
from rir_gym.testing import check_restore

pytestmark = pytest.mark.skipif(find_spec("minigrid") is None, reason="needs the extra 'minigrid'")

SOME = (
    *("BabyAI-GoToLocal-v0", "BabyAI-Pickup-v0", "BabyAI-UnlockPickup-v0", "BabyAI-PutNextLocal-v0"),
    *("BabyAI-BossLevel-v0", "BabyAI-KeyInBox-v0", "MiniGrid-DoorKey-5x5-v0", "MiniGrid-LavaGapS5-v0"),
)
JUNK = ("", "  ", "\n", "forwards", "turn", "go forward; drop", "6", "\x00", "\ud800", "前进", "avancer à droite",
        "<|im_end|>", "turn left" * 100_000, "x" * 1_000_000)  # fmt: skip


def test_passes_the_checker() -> None:
    check_env(BabyAIEnv(), skip_render_check=True)


def test_every_level_can_be_played(capsys: pytest.CaptureFixture[str]) -> None:
    every = levels()
    assert len(every) > 150
    for level in every:
        env, choice = BabyAIEnv(level=level), random.Random(level)
        observation, info = env.reset(seed=2)
        assert info["objective"]
        assert observation.startswith("You face ")
        for _ in range(4):
            observation, reward, over, truncated, info = env.step(choice.choice(info["admissible"]))
            assert isinstance(observation, str)
            assert 0 <= info["oracle"]["score"] <= 1
            assert len(env.describe()) < 120
            if over or truncated:
                assert info["admissible"] == []
                assert info["oracle"]["success"] is (over and reward > 0)
                break
        env.close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("level", SOME)
def test_is_restored_as_it_was(level: str) -> None:
    report = check_restore(lambda: BabyAIEnv(level=level), restores=18)
    assert (report.mechanism, report.restores) == ("heap", 18)


@pytest.mark.parametrize("level", [level for level in SOME if level.startswith("BabyAI") and "InBox" not in level])
def test_the_plans_of_the_bot_win_and_change_nothing(level: str) -> None:
    env = BabyAIEnv(level=level)
    assert isinstance(env.oracle, Oracle)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        for action in random.Random(seed).choices(["turn left", "turn right", "go forward"], k=5):
            _, _, over, truncated, info = env.step(action)  # the bot takes over where somebody else stands
            if over or truncated:
                break
        if info["admissible"]:
            before = env.describe(), env._grid.step_count
            plan = env.oracle.plan()
            assert (env.describe(), env._grid.step_count) == before
            assert plan
            assert env.oracle.plan() == plan
            assert (env.oracle.distance(), env.oracle.best_action()) == (len(plan), plan[0])
            assert (env.oracle.recoverable(len(plan)), env.oracle.recoverable(len(plan) - 1)) == (
                True,
                None if len(plan) > 1 else False,
            )
            for action in plan:
                _, reward, over, _, info = env.step(action)
            assert over
            assert reward > 0
        assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
        assert (env.oracle.plan(), env.oracle.distance(), env.oracle.progress()) == ([], 0.0, 1.0)


def test_a_level_that_the_bot_does_not_know_is_unknown_and_not_lost() -> None:
    for level in ("BabyAI-KeyInBox-v0", "MiniGrid-DoorKey-5x5-v0"):
        env = BabyAIEnv(level=level)
        env.reset(seed=0)
        assert (env.oracle.plan(), env.oracle.distance(), env.oracle.recoverable(99)) == (None, None, None)
        assert env.oracle.recoverable(0) is False


def test_the_step_limit_is_the_levels_own_and_is_rolled_back() -> None:
    env: Any = RollbackWrapper(BabyAIEnv())
    _, info = env.reset(seed=1)
    steps = 0
    while info["admissible"]:
        _, _, over, truncated, info = env.step("done")
        steps += 1
    assert (over, truncated, steps) == (False, True, env.unwrapped._grid.max_steps)
    assert info["oracle"]["failed"]
    assert env.unwrapped.oracle.distance() == float("inf")
    env.rollback(steps - 1)
    assert env.step("turn left")[3] is True
    env.rollback(0)
    assert env.unwrapped._grid.step_count == 0


def test_a_lost_end_is_failed() -> None:
    env = BabyAIEnv(level="MiniGrid-LavaGapS5-v0")
    for seed in range(40):
        env.reset(seed=seed)
        choice = random.Random(seed)
        while True:
            _, reward, over, truncated, info = env.step(choice.choice(["go forward", "go forward", "turn left"]))
            if over or truncated:
                break
        if over and not reward:
            assert info["oracle"] == {"success": False, "failed": True, "score": 0.0}
            assert env.oracle.recoverable(5) is False
            assert env.describe().endswith("mission over")
            return
    pytest.fail("no walk ended in lava")


def test_the_text_says_what_the_grid_shows() -> None:
    env = BabyAIEnv(level="BabyAI-UnlockPickup-v0")
    seen = set()
    for seed in range(6):
        env.reset(seed=seed)
        for action in env.oracle.plan() or ():
            observation, *_ = env.step(action)
            grid = env._grid
            shown, visible = grid.gen_obs_grid()
            listed = [line for line in observation.splitlines() if line.startswith("- ")]
            things = [
                (column, row)
                for column in range(7)
                for row in range(7)
                if visible[column, row]
                and (cell := shown.get(column, row)) is not None
                and cell.type in ("key", "ball", "box", "door")
                and (column, row) != (3, 6)
            ]
            assert len(listed) == len(things)
            if grid.carrying is not None:
                assert f"carry a {grid.carrying.color} {grid.carrying.type}." in observation
                assert f"carrying a {grid.carrying.color} {grid.carrying.type}" in env.describe()
            front = grid.grid.get(*grid.front_pos)
            kind = "nothing" if front is None else front.type
            assert kind in next(line for line in observation.splitlines() if line.startswith("In front of you"))
            seen.update(word for word in ("locked", "open", "key", "box") if word in observation)
    assert seen == {"locked", "open", "key", "box"}


def test_actions_have_two_names_and_no_third() -> None:
    env, twin = BabyAIEnv(), BabyAIEnv()
    env.reset(seed=4)
    twin.reset(seed=4)
    for said, name in babyai_text.ACTIONS.items():
        if said != "done":
            assert env.step(f"  {said.upper()} ") == twin.step(name)


def test_junk_is_answered_and_changes_nothing() -> None:
    env = BabyAIEnv()
    env.reset(seed=0)
    before = env.describe(), env._grid.step_count
    for junk in JUNK:
        observation, reward, over, truncated, info = env.step(junk)
        assert observation.startswith("There is no such action")
        assert (reward, over, truncated, len(info["admissible"])) == (0.0, False, False, 7)
    assert (env.describe(), env._grid.step_count) == before


def test_two_in_one_process_and_one_in_a_worker_are_alike() -> None:
    kwargs = {"level": "BabyAI-PickupLoc-v0"}
    one, other = gym.make("rir_gym/BabyAI-v0", **kwargs), gym.make("rir_gym/BabyAI-v0", **kwargs)
    make = [lambda: gym.make("rir_gym:rir_gym/BabyAI-v0", **kwargs)]
    vector = gym.vector.AsyncVectorEnv(make, shared_memory=False, context="spawn")
    try:
        random.seed(5)
        state = random.getstate()
        assert one.reset(seed=3) == other.reset(seed=3)
        assert list(vector.reset(seed=[3])[0]) == [one.reset(seed=3)[0]]
        for action in ("turn left", "go forward", "pick up", "go forward"):
            said = one.step(action)
            one.get_wrapper_attr("oracle").plan()
            assert other.step(action) == said
            assert list(vector.step([action])[0]) == [said[0]]
        assert random.getstate() == state
    finally:
        vector.close()


def test_a_reset_without_a_seed_goes_on_from_the_last_one() -> None:
    env = BabyAIEnv(level="BabyAI-GoTo-v0")
    env.reset(seed=1)
    following = [env.reset()[0] for _ in range(4)]
    assert len(set(following)) > 1
    env.reset(seed=1)
    assert [env.reset()[0] for _ in range(4)] == following


def test_is_made_from_a_spec_that_is_json_and_renders() -> None:
    made = gym.make("rir_gym/BabyAIRollback-v0", level="BabyAI-GoToObj-v0", render_mode="ansi")
    assert made.spec is not None
    env = gym.make(EnvSpec.from_json(made.spec.to_json()))
    observation, _ = env.reset(seed=0)
    assert env.render() == observation
    env.step("turn left")
    assert env.step("rollback 0")[0] == observation


def test_what_is_asked_wrongly_is_a_usage_error() -> None:
    for level in ("GoToLocal", "BabyAI-Nowhere-v0", "CartPole-v1", "", None, 3):
        with pytest.raises(UnknownName, match="level="):
            BabyAIEnv(level=level)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="render_mode='human'"):
        BabyAIEnv(render_mode="human")  # type: ignore[arg-type]
    env = BabyAIEnv()
    for call in (lambda: env.step("drop"), env.describe, env.oracle.plan):
        with pytest.raises(UsageError, match="reset"):
            call()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="action=int"):
        env.step(1)  # type: ignore[arg-type]
    env.close()
    env.close()
    for call in (lambda: env.step("drop"), env.reset, env.describe):
        with pytest.raises(UsageError, match=r"closed|reset"):
            call()


def test_without_minigrid_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingDependency, match="'minigrid'"):
        BabyAIEnv()
