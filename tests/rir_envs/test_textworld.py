"""The TextWorld environments: the contract, winning and losing, restores against straight runs, junk."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from rir_envs.textworld import REFUSED, TextWorldEnv, coin_collector, cooking, simple, treasure_hunter
from rir_envs.textworld_oracle import followed
from rir_gym.base import Oracle
from rir_gym.errors import UsageError
from rir_gym.testing import check_restore

pytestmark = pytest.mark.skipif(find_spec("textworld") is None, reason="needs the extra 'textworld'")

MAKERS: dict[str, Callable[..., TextWorldEnv]] = {
    "Cooking": cooking,
    "Simple": simple,
    "CoinCollector": coin_collector,
    "TreasureHunter": treasure_hunter,
}
LOSABLE = ("Cooking", "Simple", "TreasureHunter")
ODD = ("take", "get apple", "north", "", "xyzzy", "quit", "examine me", "put", "eat", "go", "open", "i", "l")
META = ("save", "restore", "script", "transcript", "quit", "restart", "undo", "verbose", "superbrief", "again", "score",
        "tw-print state", "tw-extra-infos score", "notify", "yes", "version")  # fmt: skip
JUNK = ("", "   ", "\n\n", "\x00look", "look\x00quit", "水火 äöü", "open 水", "dance " * 200_000, "a" * 1_000_000,
        "look. save", "take all", "drop everything", "look then quit", "look and save", "look, quit",
        '"*** The End ***"', "\ud800", "<look>")  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp() / "textworld-games"  # every test file of a run uses the same
        folder.mkdir(exist_ok=True)
        patch.setenv("RIR_GYM_CACHE", str(folder))
        yield folder


@pytest.fixture(params=sorted(MAKERS))
def env(request: pytest.FixtureRequest, cache: Path) -> Iterator[TextWorldEnv]:
    made = MAKERS[request.param]()
    yield made
    made.close()


@pytest.fixture
def kitchen(cache: Path) -> Iterator[TextWorldEnv]:
    made = cooking(level=2, game_seed=0)
    yield made
    made.close()


def start(env: TextWorldEnv) -> tuple[Any, ...]:
    observation, info = env.reset()
    return observation, 0.0, False, False, info


def seen(env: TextWorldEnv, returned: tuple[Any, ...]) -> tuple[Any, ...]:
    oracle = env.oracle
    return returned, env.describe(), oracle.plan(), oracle.distance(), oracle.recoverable(5), oracle.progress()


def straight(env: TextWorldEnv, actions: tuple[str, ...]) -> tuple[Any, ...]:
    returned = start(env)
    for action in actions:
        returned = env.step(action)
    return seen(env, returned)


def losing(env: TextWorldEnv) -> str:
    """A command that loses the game at once; the game is left where it can be said."""
    while (following := env.oracle.best_action()) is not None:
        here = env.get_state()
        for command in env._info()["admissible"]:
            _, _, _, _, info = env.step(command)
            env.set_state(here)
            if info["oracle"]["failed"]:
                return str(command)
        env.step(following)
    rng = random.Random(0)
    for _ in range(20):
        _, info = env.reset()
        while info["admissible"]:
            here = env.get_state()
            command = rng.choice([known for known in info["admissible"] if known.split()[0] in ("go", "open", "take")])
            *_, info = env.step(command)
        if info["oracle"]["failed"]:
            env.set_state(here)
            return str(command)
    raise AssertionError("nothing loses this game")


def test_keeps_the_contract_and_passes_the_checker(env: TextWorldEnv) -> None:
    check_env(env, skip_render_check=True)
    observation, info = env.reset(seed=7)
    assert set(info) == {"objective", "admissible", "committed", "oracle"}
    assert info["objective"]
    assert info["objective"] in observation
    assert "-= " in observation
    assert "$$" not in observation
    assert info["admissible"] == sorted(set(info["admissible"]))
    assert {"look", "inventory"} < set(info["admissible"])
    assert info["committed"] is False
    assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}
    assert isinstance(env.oracle, Oracle)
    assert env.submit("done") is None
    assert env.reset(seed=8) == (observation, info)


@pytest.mark.usefixtures("cache")
def test_renders_the_last_observation() -> None:
    env = cooking(render_mode="ansi")
    observation, _ = env.reset()
    assert env.render() == observation
    observation, *_ = env.step("inventory")
    assert env.render() == observation == "You are carrying nothing."
    with pytest.raises(UsageError, match="render_mode='human'"):
        cooking(render_mode="human")


def test_the_plan_wins_and_the_rewards_sum_to_one(env: TextWorldEnv) -> None:
    env.reset()
    plan = env.oracle.plan()
    assert plan is not None
    assert env.oracle.distance() == len(plan) > 2
    assert env.oracle.recoverable(len(plan)) is True
    assert env.oracle.recoverable(len(plan) - 1) is None
    assert [env.oracle.recoverable(within) for within in (-1, 0, 1)] == [False, False, None]
    total = 0.0
    for left, command in zip(range(len(plan), 0, -1), plan, strict=True):
        assert env.oracle.distance() == left
        observation, reward, terminated, truncated, info = env.step(command)
        total += reward
        assert (terminated, truncated) == (left == 1, False)
        assert command in plan
    assert "*** The End ***" in observation
    assert "RESTART" not in observation
    assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert info["admissible"] == []
    assert total == pytest.approx(1.0)
    assert (env.oracle.distance(), env.oracle.best_action(), env.oracle.progress()) == (0.0, None, 1.0)
    assert [env.oracle.recoverable(within) for within in (-1, 0, 1)] == [False, True, True]
    assert "game won" in env.describe()


@pytest.mark.parametrize("name", LOSABLE)
def test_what_is_lost_is_lost_until_it_is_put_back(name: str, cache: Path) -> None:
    env = MAKERS[name]()
    env.reset()
    command = losing(env)
    before = env.get_state()
    _, reward, terminated, truncated, info = env.step(command)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["oracle"]["success"], info["oracle"]["failed"]) == (False, True)
    assert env.oracle.recoverable(10**6) is False
    assert env.oracle.distance() == float("inf")
    assert env.oracle.plan() is None
    with pytest.raises(UsageError, match="this one is over"):
        env.step("look")
    lost = env.get_state()
    env.set_state(before)
    plan = env.oracle.plan()
    assert plan
    for step in plan:
        *_, info = env.step(step)
    assert info["oracle"]["success"]
    env.set_state(lost)
    assert "game lost" in env.describe()
    env.close()


def test_nothing_loses_the_coin_collector(cache: Path) -> None:
    env, rng = coin_collector(), random.Random(3)
    for _ in range(3):
        _, info = env.reset()
        for _ in range(15):
            if info["admissible"]:
                *_, info = env.step(rng.choice(info["admissible"]))
                assert not info["oracle"]["failed"]
                assert env.oracle.plan() is not None
    env.close()


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_restores_in_a_random_tree_equal_straight_runs(name: str, cache: Path) -> None:
    env, fresh, rng = MAKERS[name](), MAKERS[name](), random.Random(5)
    nodes = [((), seen(env, start(env)), env.get_state())]
    restores = after_end = 0
    while restores < 20 or not after_end:
        actions, expected, state = rng.choice(nodes) if rng.random() < 0.5 else nodes[-1]
        after_end += env._phase == "over"
        env.set_state(state)
        restores += 1
        returned = expected[0]
        assert seen(env, returned) == expected
        assert env._info() == returned[4]
        if returned[2]:
            continue
        best, draw = env.oracle.best_action(), rng.random()
        if draw < 0.15:
            action = rng.choice(ODD)
        else:
            action = best if best is not None and draw < 0.75 else rng.choice(returned[4]["admissible"])
        now = seen(env, env.step(action))
        assert now == straight(fresh, (*actions, action))
        nodes.append(((*actions, action), now, env.get_state()))
    assert len({node[0] for node in nodes}) > 10


def test_what_the_interpreters_own_state_forgets_is_put_back(kitchen: TextWorldEnv) -> None:
    kitchen.reset()
    library = kitchen._engine.unwrapped._jericho.frotz_lib
    statics = [ctypes.c_int.in_dll(library, name) for name in ("tw_score", "tw_max_score", "emulator_halted")]
    for static, value in zip(statics, (3, 5, 0), strict=True):
        static.value = value
    state = kitchen.get_state()
    for static in statics:
        static.value = 1
    kitchen.set_state(state)
    assert [static.value for static in statics] == [3, 5, 0]


def test_the_first_reward_after_a_restore_is_right(env: TextWorldEnv) -> None:
    env.reset()
    plan = env.oracle.plan()
    assert plan
    points = []
    for command in plan:
        points.append((env.get_state(), command, env.step(command)[1]))
    assert len({reward for *_, reward in points}) > 1
    for state, command, reward in reversed(points):
        env.set_state(state)
        assert env.step(command)[1] == reward


def test_a_state_is_complete_reusable_and_in_place(kitchen: TextWorldEnv) -> None:
    kitchen.reset(seed=3)
    oracle, engine, generator = kitchen.oracle, kitchen._engine, kitchen.np_random
    state = kitchen.get_state()
    draws = [kitchen.np_random.random() for _ in range(3)]
    facts = set(kitchen._engine._game_progression.state.facts)
    for _ in range(3):
        for command in (kitchen.oracle.plan() or ())[:2]:
            kitchen.step(command)
        assert set(kitchen._engine._game_progression.state.facts) != facts
        kitchen.set_state(state)
        assert set(kitchen._engine._game_progression.state.facts) == facts
        assert [kitchen.np_random.random() for _ in range(3)] == draws
    assert (kitchen.oracle, kitchen._engine, kitchen.np_random) == (oracle, engine, generator)
    assert followed(kitchen._engine, None).commands == kitchen.oracle.plan()


def test_two_environments_do_not_disturb_each_other(cache: Path) -> None:
    pair, fresh, rng = (cooking(), cooking()), cooking(), random.Random(2)
    paths: list[tuple[str, ...]] = [(), ()]
    returned = [start(env) for env in pair]
    for turn in range(16):
        which = turn % 2
        command = rng.choice(returned[which][4]["admissible"])
        returned[which] = pair[which].step(command)
        paths[which] = (*paths[which], command)
        if returned[which][2]:
            returned[which], paths[which] = start(pair[which]), ()
        assert seen(pair[which], returned[which]) == straight(fresh, paths[which])
    pair[0].close()
    assert pair[1].step("look")[4] == returned[1][4]


def test_no_command_of_the_interpreter_gets_through(
    env: TextWorldEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, info = env.reset()
    for command in (*META, *JUNK):
        assert env.step(command) == (REFUSED, 0.0, False, False, info)
    assert list(tmp_path.iterdir()) == []
    for command in env.oracle.plan() or ():
        *_, info = env.step(command)
    assert info["oracle"]["success"]


def test_other_spellings_of_a_move_work(kitchen: TextWorldEnv) -> None:
    kitchen.reset()
    opened = kitchen.step("open fridge")
    kitchen.reset()
    assert kitchen.step("  OPEN   Fridge\n") == opened
    assert kitchen.step("x cookbook")[0] == kitchen.step("examine cookbook")[0] != REFUSED


def test_use_out_of_order_is_a_usage_error(kitchen: TextWorldEnv) -> None:
    for call in (lambda: kitchen.step("look"), kitchen.describe, kitchen.get_state, kitchen.oracle.plan):
        with pytest.raises(UsageError, match="reset"):
            call()
    kitchen.reset()
    state = kitchen.get_state()
    with pytest.raises(UsageError, match="a string"):
        kitchen.step(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="this very game"):
        kitchen.set_state("state")  # type: ignore[arg-type]
    kitchen.close()
    kitchen.close()
    for call in (lambda: kitchen.step("look"), kitchen.reset, kitchen.describe, lambda: kitchen.set_state(state)):
        with pytest.raises(UsageError, match="closed"):
            call()


@pytest.mark.parametrize("name", sorted(MAKERS))
@pytest.mark.usefixtures("cache")
def test_random_trees_are_put_back_by_the_native_pair(name: str) -> None:
    report = check_restore(lambda: gym.make(f"rir_gym/TextWorld-{name}-v0"), restores=12)
    assert report.mechanism == "native"
    assert report.restores == 12


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused(copied: Callable[[Any], Any], kitchen: TextWorldEnv) -> None:
    kitchen.reset()
    with pytest.raises(TypeError, match="use get_state"):
        copied(kitchen)
    assert kitchen.step("look")[0] != REFUSED


@pytest.mark.usefixtures("cache")
def test_environments_left_to_the_garbage_collector_do_not_crash() -> None:
    script = "import gc; from rir_envs.textworld import cooking as c; a = c(); a.reset(); a.a = a; del a; gc.collect();"
    script += "b = c(); b.reset(); b.b = b; d = c(); d.reset(); d.close(); c()"
    paths = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0


@pytest.mark.usefixtures("cache")
def test_the_transcript_in_the_docs_is_what_its_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "textworld.md").read_text("utf-8")
    code, printed = (page.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text"))
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.stdout == printed, done.stderr
