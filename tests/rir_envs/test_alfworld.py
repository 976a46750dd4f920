"""The ALFWorld environments: the contract, restores against straight runs, the engine's traps, junk, and real data."""

from __future__ import annotations

import copy
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

from rir_envs import alfworld as alfworld_env
from rir_envs import alfworld_data, alfworld_engine
from rir_envs.alfworld import ALFWorldEnv, alfworld, alfworld_style
from rir_envs.alfworld_data import games_of
from rir_envs.alfworld_engine import NOTHING_HAPPENS
from rir_envs.alfworld_goals import TASK_TYPES
from rir_gym.base import Oracle
from rir_gym.errors import MissingDependency, UsageError
from rir_gym.testing import check_restore

INSTALLED = all(find_spec(name) is not None for name in ("alfworld", "textworld", "fast_downward"))
pytestmark = pytest.mark.skipif(not INSTALLED, reason="needs the extra 'alfworld'")

JUNK = ("", "   ", "\n\n", "\x00look", "水火 äöü", "go to", "take apple 1", "look " * 200_000, "a" * 1_000_000, "{r}",
        "#look.feedback#", "\ud800", "<look>", "restart", "look; look")  # fmt: skip
HEAT, LOOK, SIMPLE = "pick_heat_then_place_in_recep", "look_at_obj_in_light", "pick_and_place_simple"
GOLD = (
    "go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to microwave 1",
    "heat apple 1 with microwave 1", "go to shelf 1", "move apple 1 to shelf 1",
)  # fmt: skip

RECEPTACLES = ("Fridge", "Microwave", "Shelf", "Cabinet", "CounterTop")
OPENABLE = ("Fridge", "Microwave", "Cabinet")
THINGS = {"Apple": "Fridge", "Mug": "CounterTop", "Statue": "CounterTop", "DeskLamp": "Shelf"}
PLACE = "(exists (?r - receptacle) (exists (?o - object) (and {} (objectType ?o AppleType) "
PLACE += "(receptacleType ?r ShelfType) (inReceptacle ?o ?r))))"
IN_LIGHT = """(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot DeskLampType)
    (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))
    (exists (?o - object ?a - agent) (and (objectType ?o MugType) (holds ?a ?o))))"""
GOALS = {
    HEAT: (PLACE.format("(heatable ?o) (isHot ?o)"), "put a hot apple in shelf"),
    SIMPLE: (PLACE.format(""), "put some apple on shelf"),
    LOOK: (IN_LIGHT, "look at mug under the desklamp"),
    "other": (PLACE.format("(not (isHot ?o))"), "put a raw apple in shelf"),
}


def problem(goal: str) -> str:
    """A kitchen of five receptacles and four things; nothing holds a statue, and nobody lifts a lamp."""
    named = {kind: f"{kind}_bar_{number}" for number, kind in enumerate((*RECEPTACLES, *THINGS))}
    init = ["(= (total-cost) 0)", "(atLocation agent1 loc_bar_9)"]
    for number, kind in enumerate(RECEPTACLES):
        init += [f"(receptacleType {named[kind]} {kind}Type)", f"(receptacleAtLocation {named[kind]} loc_bar_{number})"]
        init += [f"(openable {named[kind]})"] if kind in OPENABLE else []
        init += [f"(canContain {kind}Type {thing}Type)" for thing in ("Apple", "Mug")]
    for kind, where in THINGS.items():
        spot = f"loc_bar_{RECEPTACLES.index(where)}"
        init += [f"(objectType {named[kind]} {kind}Type)", f"(inReceptacle {named[kind]} {named[where]})"]
        init += [f"(objectAtLocation {named[kind]} {spot})"]
        init += [f"({'toggleable' if kind == 'DeskLamp' else 'pickupable'} {named[kind]})"]
    init += [f"({able} {named['Apple']})" for able in ("heatable", "coolable", "cleanable")]
    objects = ["agent1 - agent", *(f"loc_bar_{number} - location" for number in (0, 1, 2, 3, 4, 9))]
    objects += [f"{kind}Type - rtype" for kind in (*RECEPTACLES, "SinkBasin")]
    objects += [f"{kind}Type - otype" for kind in (*THINGS, "Knife", "ButterKnife")]
    objects += [f"{named[kind]} - receptacle" for kind in RECEPTACLES] + [f"{named[kind]} - object" for kind in THINGS]
    lines = "\n".join(objects), "\n".join(init)
    text = "(define (problem kitchen)\n(:domain alfred)\n(:objects\n{}\n)\n(:init\n{}\n)\n(:goal {})\n"
    return text.format(*lines, goal) + "(:metric minimize (total-cost))\n)"


def write_game(folder: Path, task_type: str, **changed: Any) -> Path:
    """A folder of ALFWorld's layout, with the domain and the grammar of the package."""
    package = Path(next(iter(find_spec("alfworld").submodule_search_locations)))  # type: ignore[union-attr,arg-type]
    goal, words = GOALS[task_type]
    data = {
        "pddl_domain": (package / "data" / "alfred.pddl").read_text("utf-8"),
        "grammar": (package / "data" / "alfred.twl2").read_text("utf-8").replace("UNKNOWN GOAL", words),
        "pddl_problem": problem(goal),
        "solvable": True,
        "walkthrough": [],
    }
    folder.mkdir(parents=True)
    (folder / "game.tw-pddl").write_text(json.dumps({**data, **changed}), "utf-8")
    (folder / "initial_state.pddl").write_text(data["pddl_problem"], "utf-8")
    (folder / "traj_data.json").write_text(json.dumps({"task_type": task_type}), "utf-8")
    return folder


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("games")
    return {task_type: write_game(root / task_type, task_type) for task_type in GOALS}


@pytest.fixture
def env(games: dict[str, Path]) -> Iterator[ALFWorldEnv]:
    made = ALFWorldEnv(games[HEAT])
    yield made
    made.close()


def start(env: ALFWorldEnv) -> tuple[Any, ...]:
    observation, info = env.reset()
    return observation, 0.0, False, False, info


def seen(env: ALFWorldEnv, returned: tuple[Any, ...]) -> tuple[Any, ...]:
    oracle = env.oracle
    return returned, env.describe(), oracle.plan(), oracle.distance(), oracle.recoverable(5), oracle.progress()


def straight(env: ALFWorldEnv, actions: tuple[str, ...]) -> tuple[Any, ...]:
    returned = start(env)
    for action in actions:
        returned = env.step(action)
    return seen(env, returned)


# --- the contract ---------------------------------------------------------------------------------------------------


def test_keeps_the_contract_and_passes_the_checker(env: ALFWorldEnv) -> None:
    check_env(env, skip_render_check=True)
    observation, info = env.reset(seed=7)
    assert set(info) == {"objective", "admissible", "committed", "oracle"}
    assert info["objective"] == "put a hot apple in shelf."
    assert observation.startswith("You are in the middle of a room. Looking quickly around you, you see a ")
    assert observation.endswith(f"Your task is to: {info['objective']}")
    assert info["admissible"] == sorted(set(info["admissible"]))
    assert {"look", "inventory", "go to fridge 1"} < set(info["admissible"])
    assert info["committed"] is False
    assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}
    assert isinstance(env.oracle, Oracle)
    assert env.submit("done") is None
    assert env.reset(seed=8) == (observation, info)


def test_renders_the_last_observation(games: dict[str, Path]) -> None:
    env = ALFWorldEnv(games[HEAT] / "game.tw-pddl", render_mode="ansi")
    observation, _ = env.reset()
    assert env.render() == observation
    observation, *_ = env.step("inventory")
    assert env.render() == observation == "You are not carrying anything."
    with pytest.raises(UsageError, match="render_mode='human'"):
        ALFWorldEnv(games[HEAT], render_mode="human")


@pytest.mark.parametrize(("task_type", "distance"), [(HEAT, 7), (SIMPLE, 5), (LOOK, 4), ("other", 5)])
def test_the_plan_wins(games: dict[str, Path], task_type: str, distance: int) -> None:
    env = ALFWorldEnv(games[task_type])
    env.reset()
    plan = env.oracle.plan()
    assert plan is not None
    assert env.oracle.exact is (task_type != "other")
    assert env.oracle.distance() == len(plan) == distance
    assert env.oracle.recoverable(distance) is True
    assert env.oracle.recoverable(distance - 1) is (False if env.oracle.exact else None)
    for left, command in zip(range(distance, 0, -1), plan, strict=True):
        assert env.oracle.distance() == left
        _, reward, terminated, truncated, info = env.step(command)
        assert (reward, terminated, truncated) == (float(left == 1), left == 1, False)
    assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert info["admissible"] == []
    assert (env.oracle.distance(), env.oracle.best_action(), list(env.oracle.plan() or [1])) == (0.0, None, [1])
    assert "goal reached" in env.describe()
    with pytest.raises(UsageError, match="this one is over"):
        env.step("look")


def test_sigma_tells_place_hand_and_what_was_done(env: ALFWorldEnv) -> None:
    env.reset()
    told = [env.describe()]
    progress = [env.oracle.progress()]
    for command in GOLD:
        env.step(command)
        told.append(env.describe())
        progress.append(env.oracle.progress())
    assert told[0] == "in the middle of the room; carrying nothing"
    assert told[3] == "at fridge 1; carrying apple 1"
    assert told[5] == "at microwave 1; carrying hot apple 1; done: apple 1 is hot"
    assert told[7] == "at shelf 1; carrying nothing; done: apple 1 in shelf 1, apple 1 is hot; goal reached"
    assert progress == [0, 0, 0, 0, 0, 0.5, 0.5, 1]


def test_is_textworlds_engine_reset_and_stepped_by_itself(games: dict[str, Path]) -> None:
    textworld, pddl = pytest.importorskip("textworld"), pytest.importorskip("textworld.envs.pddl.pddl")
    for task_type in (HEAT, LOOK):
        env = ALFWorldEnv(games[task_type])
        naming = alfworld_engine._private("alfworld.agents.utils.misc")
        engine = pddl.PddlEnv(textworld.EnvInfos(admissible_commands=True, won=True))
        engine.load(json.loads((games[task_type] / "game.tw-pddl").read_text()))
        names = naming.Demangler(game_infos=engine._entity_infos)
        for entity in engine._entity_infos.values():
            entity.name = names.demangle_alfred_name(entity.id)
        state, rng = engine.reset(), random.Random(3)
        observation, info = env.reset()
        assert state.feedback.endswith(observation)
        for _ in range(25):
            assert info["admissible"] == state["admissible_commands"]
            command = env.oracle.best_action() if rng.random() < 0.3 else rng.choice(info["admissible"])
            observation, _, won, _, info = env.step(command)
            state, *_ = engine.step(command)
            assert (observation, won) == (state.feedback.strip(), state["won"])
            if won:
                break


# --- the end of an episode ------------------------------------------------------------------------------------------


def test_the_limit_cuts_and_rewinds_with_the_world(games: dict[str, Path]) -> None:
    env = ALFWorldEnv(games[HEAT], max_steps=8)
    env.reset()
    env.step("look")
    saved = env.get_state()
    assert env.oracle.distance() == 7
    env.step("nonsense")
    assert (env.oracle.distance(), env.oracle.plan(), env.oracle.recoverable(99)) == (float("inf"), None, False)
    for turn in range(6):
        _, reward, terminated, truncated, info = env.step("look")
        assert (reward, terminated, truncated) == (0.0, False, turn == 5)
    assert info["admissible"] == []
    assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}
    with pytest.raises(UsageError, match="this one is over"):
        env.step("look")
    env.set_state(saved)
    for command in env.oracle.plan() or ():
        *_, terminated, truncated, info = env.step(command)
    assert (terminated, truncated) == (True, False)


def test_fifty_steps_are_the_default_and_none_is_no_limit(games: dict[str, Path]) -> None:
    for limit, cut in ((50, True), (None, False)):
        env = ALFWorldEnv(games[HEAT]) if limit else ALFWorldEnv(games[HEAT], max_steps=None)
        env.reset()
        ends = [env.step("x")[3] for _ in range(50)]
        assert ends == [False] * 49 + [cut]
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="max_steps="):
            ALFWorldEnv(games[HEAT], max_steps=wrong)  # type: ignore[arg-type]


def test_a_thing_that_nothing_holds_loses_for_good_where_the_hand_is_needed(games: dict[str, Path]) -> None:
    env = ALFWorldEnv(games[HEAT])
    env.reset()
    env.step("go to countertop 1")
    before = env.get_state()
    *_, terminated, _, info = env.step("take statue 1 from countertop 1")
    assert (terminated, info["oracle"]["failed"]) == (False, True)
    assert (env.oracle.distance(), env.oracle.plan(), env.oracle.best_action()) == (float("inf"), None, None)
    assert env.oracle.recoverable(10**6) is False
    assert not any(command.startswith("move") for command in info["admissible"])
    env.set_state(before)
    assert env.oracle.recoverable(10**6) is True
    *_, info = env.step("take mug 1 from countertop 1")
    assert info["oracle"]["failed"] is False


# --- snapshots ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task_type", [HEAT, LOOK, SIMPLE])
def test_restores_in_a_random_tree_equal_straight_runs(games: dict[str, Path], task_type: str) -> None:
    env, fresh, rng = ALFWorldEnv(games[task_type]), ALFWorldEnv(games[task_type]), random.Random(5)
    nodes = [((), seen(env, start(env)), env.get_state())]
    restores = after_end = 0
    while restores < 70 or not after_end:
        actions, expected, state = rng.choice(nodes) if rng.random() < 0.5 else nodes[-1]
        after_end += env._phase == "over"
        env.set_state(state)
        restores += 1
        returned = expected[0]
        assert seen(env, returned) == expected
        assert env._info(env._engine) == returned[4]
        if returned[2]:
            continue
        best, draw = env.oracle.best_action(), rng.random()
        action = rng.choice(JUNK[:6]) if draw < 0.1 else rng.choice(returned[4]["admissible"])
        action = best if best is not None and draw > 0.6 else action
        now = seen(env, env.step(action))
        assert now == straight(fresh, (*actions, action))
        nodes.append(((*actions, action), now, env.get_state()))
    assert len({node[0] for node in nodes}) > 30


def test_check_restore_passes(games: dict[str, Path]) -> None:
    report = check_restore(lambda: ALFWorldEnv(games[HEAT]), restores=20)
    assert (report.mechanism, report.restores) == ("native", 20)
    report = check_restore(lambda: ALFWorldEnv(games[SIMPLE], max_steps=4), restores=20)
    assert report.undone_ends


def test_a_state_of_an_earlier_reset_or_of_another_environment_is_refused(games: dict[str, Path]) -> None:
    env, other = ALFWorldEnv(games[HEAT]), ALFWorldEnv(games[HEAT])
    env.reset()
    other.reset()
    state = env.get_state()
    with pytest.raises(UsageError, match="since its last reset"):
        other.set_state(state)
    env.reset()
    observation = env.step("look")[0]
    for wrong in (state, "state", None):
        with pytest.raises(UsageError, match="since its last reset"):
            env.set_state(wrong)  # type: ignore[arg-type]
    assert env.step("look")[0] == observation


def test_a_state_is_complete_reusable_and_in_place(env: ALFWorldEnv) -> None:
    env.reset(seed=3)
    oracle, engine, generator = env.oracle, env._engine, env.np_random
    state = env.get_state()
    draws = [env.np_random.random() for _ in range(3)]
    facts = set(env._engine.world.facts)
    for _ in range(3):
        for command in GOLD:
            env.step(command)
        assert set(env._engine.world.facts) != facts
        env.set_state(state)
        assert set(env._engine.world.facts) == facts
        assert [env.np_random.random() for _ in range(3)] == draws
    assert (env.oracle, env._engine, env.np_random) == (oracle, engine, generator)


def test_asking_the_oracle_changes_nothing(games: dict[str, Path]) -> None:
    for task_type in (HEAT, "other"):
        asked, silent, rng = ALFWorldEnv(games[task_type]), ALFWorldEnv(games[task_type]), random.Random(4)
        rows = [asked.reset(), silent.reset()]
        saved = asked.get_state()
        for _ in range(12):
            number = asked._engine.library.get_state_id()
            for ask in (asked.oracle.distance, asked.oracle.plan, asked.oracle.progress, asked.describe):
                ask()
            assert asked._engine.library.get_state_id() == number
            command = rng.choice(rows[0][-1]["admissible"])
            rows = [asked.step(command), silent.step(command)]
            assert rows[0] == rows[1]
        asked.set_state(saved)
        assert asked._info(asked._engine) == silent.reset()[1]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused(copied: Callable[[Any], Any], env: ALFWorldEnv) -> None:
    env.reset()
    with pytest.raises(TypeError, match="use get_state"):
        copied(env)
    assert env.step("look")[0] != NOTHING_HAPPENS


# --- several environments, several processes ------------------------------------------------------------------------


def test_two_environments_do_not_disturb_each_other(games: dict[str, Path]) -> None:
    pair, rng = (ALFWorldEnv(games[HEAT]), ALFWorldEnv(games[LOOK])), random.Random(2)
    fresh = (ALFWorldEnv(games[HEAT]), ALFWorldEnv(games[LOOK]))
    paths: list[tuple[str, ...]] = [(), ()]
    returned = [start(env) for env in pair]
    for turn in range(16):
        which = turn % 2
        command = rng.choice(returned[which][4]["admissible"])
        returned[which] = pair[which].step(command)
        paths[which] = (*paths[which], command)
        assert seen(pair[which], returned[which]) == straight(fresh[which], paths[which])
    pair[0].close()
    assert pair[1].step("look")[4] == returned[1][4]


def test_libraries_are_used_again(games: dict[str, Path]) -> None:
    mapped = Path("/proc/self/maps")
    if not mapped.is_file():
        pytest.skip("counts the libraries that Linux lists")

    def count() -> int:
        return len({line.split()[4] for line in mapped.read_text().splitlines() if "libdownward" in line})

    ALFWorldEnv(games[HEAT]).close()
    before = count()
    for task_type in (HEAT, LOOK, HEAT, SIMPLE):
        env = ALFWorldEnv(games[task_type])
        observation, _ = env.reset()
        assert GOALS[task_type][1] in observation
        if task_type == LOOK:
            del env  # without close
        else:
            env.close()
    assert count() == before


def test_vectors_with_one_rolled_back(data: Path) -> None:
    makers = [lambda: gym.make("rir_gym:rir_gym/ALFWorldRollback-v0", game_seed=2) for _ in range(2)]
    for vector in (gym.vector.SyncVectorEnv(makers), gym.vector.AsyncVectorEnv(makers, shared_memory=False)):
        vector.reset(seed=1)
        there, *_ = vector.step(("go to shelf 1", "go to shelf 1"))
        vector.step(("go to fridge 1", "go to fridge 1"))
        now, *_ = vector.step(("rollback 1", "open fridge 1"))
        assert now[0] == there[0]
        assert now[1].startswith("You open the fridge 1.")
        now, *_ = vector.step(("look", "take apple 1 from fridge 1"))
        assert now[0].startswith("You are facing the shelf 1.")
        assert now[1] == "You pick up the apple 1 from the fridge 1."
        vector.close()


_PLAYER = """
import json, os, random, sys
import numpy as np
random.seed(1); np.random.seed(1)
def states(): return random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]
before = states(), sys.argv, sys.stdout, dict(os.environ)
from rir_envs.alfworld import ALFWorldEnv
env = ALFWorldEnv(sys.argv[1])
rows = [env.reset()]
for command in ["look", "take", "go to countertop 1", "take mug 1 from countertop 1", "go to shelf 1",
                "move mug 1 to shelf 1", *env.oracle.plan()]:
    rows.append([env.step(command), env.describe(), env.oracle.plan()])
assert (states(), sys.argv, sys.stdout, dict(os.environ)) == before
assert not [name for name in sys.modules if name.split(".")[0] == "alfworld"]
print(json.dumps(rows))
"""


def test_other_processes_and_hash_seeds_play_the_same_game_and_leave_nothing_at_home(
    games: dict[str, Path], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(home)}
    environment.pop("ALFWORLD_DATA", None)
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-B", "-c", _PLAYER, str(games["other" if seed == "3" else HEAT])],
            env={**environment, "PYTHONHASHSEED": seed},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2", "3")
    ]
    answers = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert json.loads(answers[0][0])[-1][0][2] is True
    assert list(home.rglob("*")) == []


def test_alfworld_is_imported_as_if_it_were_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "alfworld.agents.utils.misc"
    monkeypatch.setattr(alfworld_engine, "_KEPT", {})
    for chosen in (None, str(tmp_path / "mine")):
        alfworld_engine._KEPT.clear()
        monkeypatch.delenv("ALFWORLD_DATA", raising=False)
        if chosen:
            monkeypatch.setenv("ALFWORLD_DATA", chosen)
        for known in [known for known in sys.modules if known.split(".")[0] == "alfworld"]:
            monkeypatch.delitem(sys.modules, known)
        assert hasattr(alfworld_engine._private(name), "Demangler")
        assert os.environ.get("ALFWORLD_DATA") == chosen
        assert not [known for known in sys.modules if known.split(".")[0] == "alfworld"]
    assert list(tmp_path.iterdir()) == []


# --- bad input ------------------------------------------------------------------------------------------------------


def test_junk_changes_nothing(env: ALFWorldEnv) -> None:
    _, info = env.reset()
    for command in JUNK:
        assert env.step(command) == (NOTHING_HAPPENS, 0.0, False, False, info)
    for command in env.oracle.plan() or ():
        *_, info = env.step(command)
    assert info["oracle"]["success"]


def test_other_spellings_of_a_command_work(env: ALFWorldEnv) -> None:
    env.reset()
    there = env.step("go to fridge 1")
    env.reset()
    assert env.step("  Go  TO fridge 1\n") == there


def test_use_out_of_order_is_a_usage_error(env: ALFWorldEnv) -> None:
    for call in (lambda: env.step("look"), env.describe, env.get_state, env.oracle.plan, env.oracle.progress):
        with pytest.raises(UsageError, match="reset"):
            call()
    env.reset()
    state = env.get_state()
    for wrong in (3, None, b"look", ["look"]):
        with pytest.raises(UsageError, match="a string"):
            env.step(wrong)  # type: ignore[arg-type]
    env.close()
    env.close()
    for call in (lambda: env.step("look"), env.reset, env.describe, lambda: env.set_state(state), env.oracle.distance):
        with pytest.raises(UsageError, match="closed"):
            call()


@pytest.mark.parametrize(
    "changed",
    [
        {"pddl_problem": "(define (problem torn)\n(:domain alfred)\n(:objects"},
        {"pddl_problem": 7},
        {"pddl_problem": ""},
        {"pddl_domain": "no domain"},
        {"grammar": "no grammar {"},
        {"grammar": None},
        {"pddl_problem": problem(GOALS[HEAT][0]).replace("Apple_bar_5 - object", "")},
        {"pddl_problem": problem(GOALS[HEAT][0]).replace("(:goal", "(:gaol")},
    ],
)
def test_a_corrupt_game_is_one_error_and_costs_no_library(tmp_path: Path, changed: dict[str, Any]) -> None:
    folder = write_game(tmp_path / "game", HEAT, **changed)
    idle = len(alfworld_engine._LIBRARIES.idle)
    with pytest.raises(UsageError, match="game="):
        ALFWorldEnv(folder)
    assert len(alfworld_engine._LIBRARIES.idle) >= idle
    argv = list(sys.argv)
    made = ALFWorldEnv(write_game(tmp_path / "whole", HEAT))
    made.reset()
    assert made.step("go to fridge 1")[0] == "You arrive at fridge 1. The fridge 1 is closed."
    assert sys.argv == argv


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000])
def test_a_file_that_is_no_game_is_one_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "game.tw-pddl").write_bytes(content)
    for place in (tmp_path, tmp_path / "game.tw-pddl", tmp_path / "missing", tmp_path / "game.tw-pddl" / "x"):
        with pytest.raises(UsageError, match="game="):
            ALFWorldEnv(place)


def test_a_missing_dependency_names_the_extra(games: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(MissingDependency, match="needs the extra 'alfworld'"):
        ALFWorldEnv(games[HEAT])


# --- the games there are --------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for ALFWorld's data, in its layout: three games to take, and one of each kind to leave."""
    split = tmp_path / "data" / "json_2.1.1" / "valid_unseen"
    for name, task_type, changed in (
        (f"{SIMPLE}-Apple-None-Shelf-10/trial_T2", SIMPLE, {}),
        (f"{HEAT}-Apple-None-Shelf-10/trial_T1", HEAT, {}),
        (f"{SIMPLE}-Apple-None-Shelf-10/trial_T1", SIMPLE, {}),
        ("pick_and_place_with_movable_recep-Apple-Bowl-Shelf-10/trial_T1", SIMPLE, {}),
        (f"{SIMPLE}-AppleSliced-None-Shelf-10/trial_T1", SIMPLE, {}),
        (f"{HEAT}-Apple-None-Shelf-10/trial_T3", HEAT, {"solvable": False}),
    ):
        write_game(split / name, task_type, **changed)
    unknown = write_game(split / "unknown/trial_T1", SIMPLE)
    (unknown / "traj_data.json").write_text('{"task_type": "pick_and_place_with_movable_recep"}')
    lonely = write_game(split / "lonely/trial_T1", SIMPLE)
    (lonely / "game.tw-pddl").unlink()
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_real_games_are_those_of_alfworlds_loader_in_order(data: Path) -> None:
    found = [path.relative_to(data / "json_2.1.1" / "valid_unseen").as_posix() for path in games_of("valid_unseen")]
    assert found == [
        f"{SIMPLE}-Apple-None-Shelf-10/trial_T1/game.tw-pddl",
        f"{SIMPLE}-Apple-None-Shelf-10/trial_T2/game.tw-pddl",
        f"{HEAT}-Apple-None-Shelf-10/trial_T1/game.tw-pddl",
    ]
    assert games_of("valid_unseen", task_type=HEAT) == games_of("valid_unseen")[2:]


def test_real_games_are_played_by_id(data: Path) -> None:
    env = gym.make("rir_gym:rir_gym/ALFWorld-v0", game_seed=2)
    assert env.unwrapped.game.task_type == HEAT  # type: ignore[attr-defined]
    env.reset()
    for command in env.get_wrapper_attr("oracle").plan():
        *_, info = env.step(command)
    assert info["oracle"]["success"]
    env.close()
    made = alfworld(task_type=SIMPLE, game_seed=1)
    assert made.game.path == games_of("valid_unseen")[1]


def test_wrong_arguments_for_real_games_are_one_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (-1, 3, 1.0, True, None, "0"):
        with pytest.raises(UsageError, match=r"game_seed=.*0 to 2, the 3 games of valid_unseen"):
            alfworld(game_seed=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"split='test'.*train, valid_seen, valid_unseen"):
        alfworld(split="test")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"task_type='fly'.*pick_two_obj_and_place"):
        alfworld(task_type="fly")
    with pytest.raises(UsageError, match=r"ALFWORLD_DATA=.*no games of split valid_unseen, look_at"):
        alfworld(task_type=LOOK)
    with pytest.raises(UsageError, match=r"ALFWORLD_DATA=.*json_2.1.1/train"):
        alfworld(split="train")
    monkeypatch.setenv("ALFWORLD_DATA", str(data / "nowhere"))
    with pytest.raises(UsageError, match=r"ALFWORLD_DATA=.*rir_gym/ALFWorldStyle-v0"):
        alfworld()
    assert not (data / "nowhere").exists()
    monkeypatch.delenv("ALFWORLD_DATA")
    with pytest.raises(UsageError, match=r"ALFWORLD_DATA=None.*rir_gym/ALFWorldStyle-v0 needs none"):
        alfworld()


def test_a_corrupt_file_among_real_games_is_named(data: Path) -> None:
    broken = next(data.rglob("traj_data.json"))
    broken.write_text("{")
    alfworld_data._listed.cache_clear()
    with pytest.raises(UsageError, match=r"game=.*traj_data\.json"):
        alfworld()


def test_style_games_are_played_by_id(games: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def made(task_type: str, game_seed: int, *, split: str) -> Path:
        asked.append((task_type, game_seed, split))
        return games[task_type]

    monkeypatch.setattr(alfworld_env, "style_game", made)
    env = gym.make("rir_gym:rir_gym/ALFWorldStyle-v0", task_type=HEAT, split="test", game_seed=4, max_steps=9)
    _, info = env.reset()
    assert info["objective"] == "put a hot apple in shelf."
    assert asked == [(HEAT, 4, "test")]
    env.close()
    monkeypatch.undo()
    with pytest.raises(UsageError, match="task_type='fly'"):
        alfworld_style(task_type="fly")
    with pytest.raises(UsageError, match="split='valid'"):
        alfworld_style(split="valid")  # type: ignore[arg-type]
    assert HEAT in TASK_TYPES
