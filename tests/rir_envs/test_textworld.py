"""The TextWorld environments: the contract, winning and losing, restores against straight runs, junk, and the cache."""

from __future__ import annotations

import copy
import ctypes
import json
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

from rir_envs import textworld_games as games
from rir_envs.textworld import REFUSED, TextWorldEnv, cooking, simple
from rir_envs.textworld_oracle import followed
from rir_gym.base import Oracle
from rir_gym.errors import MissingDependency, RirError, UsageError
from rir_gym.rollback import RollbackWrapper

pytestmark = pytest.mark.skipif(find_spec("textworld") is None, reason="needs the extra 'textworld'")

MAKERS: dict[str, Callable[..., TextWorldEnv]] = {"cooking": cooking, "simple": simple}
ODD = ("take", "get apple", "north", "", "xyzzy", "quit", "examine me", "put", "eat", "go", "open", "i", "l")
META = ("save", "restore", "script", "transcript", "quit", "restart", "undo", "verbose", "superbrief", "again", "score",
        "tw-print state", "tw-extra-infos score", "notify", "yes", "version")  # fmt: skip
JUNK = ("", "   ", "\n\n", "\x00look", "look\x00quit", "水火 äöü", "open 水", "dance " * 200_000, "a" * 1_000_000,
        "look. save", "look then quit", "look and save", "look, quit",
        '"*** The End ***"', "\ud800", "<look>")  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("games")
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
    assert "game won" in env.describe()


def test_a_ruined_ingredient_loses_for_good(kitchen: TextWorldEnv) -> None:
    kitchen.reset()
    command = losing(kitchen)
    before = kitchen.get_state()
    _, reward, terminated, truncated, info = kitchen.step(command)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["oracle"]["success"], info["oracle"]["failed"]) == (False, True)
    assert kitchen.oracle.recoverable(10**6) is False
    assert kitchen.oracle.distance() == float("inf")
    assert kitchen.oracle.plan() is None
    with pytest.raises(UsageError, match="this one is over"):
        kitchen.step("look")
    lost = kitchen.get_state()
    kitchen.set_state(before)
    plan = kitchen.oracle.plan()
    assert plan
    for step in plan:
        *_, info = kitchen.step(step)
    assert info["oracle"]["success"]
    kitchen.set_state(lost)
    assert "game lost" in kitchen.describe()


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_restores_in_a_random_tree_equal_straight_runs(name: str, cache: Path) -> None:
    env, fresh, rng = MAKERS[name](), MAKERS[name](), random.Random(5)
    nodes = [((), seen(env, start(env)), env.get_state())]
    restores = after_end = 0
    while restores < 60 or not after_end:
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
    assert len({node[0] for node in nodes}) > 30


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


@pytest.mark.parametrize(("maker", "level"), [(cooking, 0), (cooking, 6), (simple, 4), (simple, True), (simple, "1")])
def test_a_wrong_level_names_the_levels(maker: Callable[..., TextWorldEnv], level: Any) -> None:
    with pytest.raises(UsageError, match=r"level=.*levels of rir_gym/TextWorld-\w+-v0 are 1, 2, 3"):
        maker(level=level)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, None, True])
def test_a_wrong_seed_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="game_seed="):
        cooking(game_seed=seed)


def test_games_have_names_of_their_own() -> None:
    made = [games.cooking_game(level, seed) for level in games.COOKING_LEVELS for seed in (0, 1)]
    made += [games.simple_game(level, seed) for level in games.SIMPLE_LEVELS for seed in (0, 1)]
    assert len({game.name for game in made}) == len(made)


def test_a_missing_dependency_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "textworld", None)
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    with pytest.raises(MissingDependency, match=r"rir_gym/TextWorld-Cooking-v0 needs the extra 'textworld'"):
        cooking()
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="RIR_GYM_CACHE="):
        cooking()


def test_a_game_that_cannot_be_made_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    with pytest.raises(RirError, match="could not make it"):
        games.cached(games.Game("x", "no-such-challenge", 1, 0, {}))
    assert [path for path in tmp_path.rglob("*") if path.is_file() or ".making" in path.name] == []


@pytest.mark.parametrize("damage", ["torn", "missing"])
def test_a_damaged_file_is_made_again(
    damage: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = games.simple_game(1, 0)
    whole = games.cached(game).parent
    contents = {path.name: path.read_bytes() for path in whole.iterdir()}
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    folder = tmp_path / whole.relative_to(cache)
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)

    def remade(game: games.Game, scratch: Path) -> Path:
        for name, content in contents.items():
            (scratch / name).write_bytes(content)
        return scratch

    monkeypatch.setattr(games, "_made", remade)
    if damage == "torn":
        (folder / "game.z8").write_bytes(contents["game.z8"][:1000])
    else:
        (folder / "game.json").unlink()
    assert games.cached(game) == folder / "game.z8"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents
    assert [path.name for path in folder.parent.iterdir()] == [game.name]


@pytest.mark.parametrize("name", ["Cooking", "Simple"])
@pytest.mark.usefixtures("cache")
def test_the_wrapper_proves_the_native_pair(name: str) -> None:
    env = RollbackWrapper(gym.make(f"rir_gym/TextWorld-{name}-v0"))
    assert env.snapshot_report.chosen == "native"
    env.close()


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


_PLAYER = """
import json, random
import numpy as np
random.seed(1); np.random.seed(1)
def states(): return random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]
before = states()
from rir_envs.textworld import cooking
env = cooking(level=2, game_seed=0)
rows = [env.reset()]
for command in [*env.oracle.plan()[:2], "look", "take", *env.oracle.plan()]:
    rows.append([env.step(command), env.describe(), env.oracle.plan()])
    if rows[-1][0][2]: break
assert states() == before
print(json.dumps(rows))
"""


def test_processes_with_other_hash_seeds_make_and_play_the_same_game_at_once(cache: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(sys.path)
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _PLAYER],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed, "RIR_GYM_CACHE": str(tmp_path / "new")},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    answers = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert json.loads(answers[0][0])[-1][0][2] is True
    here = games.cached(games.cooking_game(2, 0)).parent
    there = tmp_path / "new" / here.relative_to(cache)
    assert (there / "game.json").read_bytes() == (here / "game.json").read_bytes()
    assert [path.name for path in there.parent.iterdir()] == [there.name]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
