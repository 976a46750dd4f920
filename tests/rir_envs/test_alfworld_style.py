"""Games in ALFWorld's style: their files, what may lie where, shortest plans, sameness everywhere, bad arguments."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rir_envs import alfworld_style as style
from rir_envs.alfworld_data import game_of
from rir_envs.alfworld_engine import started
from rir_envs.alfworld_goals import TASK_TYPES, asks_for_a_slice, draw
from rir_envs.alfworld_home import Standing, home_of
from rir_envs.alfworld_plan import shortest
from rir_envs.alfworld_planner import shortest_plan
from rir_envs.alfworld_problem import Fact, facts_of, problem, reduced
from rir_envs.alfworld_rooms import Rules, Split, rules
from rir_envs.alfworld_route import KNIVES, TOOLS, Goal, route
from rir_envs.alfworld_style import FILES, SEEDS, STEPS, style_game
from rir_gym.errors import MissingDependency, RirError, UsageError

pytestmark = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("alfworld", "textworld")), reason="needs the extra 'alfworld'"
)

SPLIT_OF: dict[str, Split] = {kind: ("train", "test")[n % 2] for n, kind in enumerate(TASK_TYPES)}
ABLE = {"heatable": "Heatable", "coolable": "Coolable", "cleanable": "Cleanable", "sliceable": "Sliceable"}
TREATED = {"clean": "Cleanable", "heat": "Heatable", "cool": "Coolable"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rules]:
    """The package's rules, imported without a trace in the user's home or in this process."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALFWORLD_DATA", str(tmp_path_factory.mktemp("alfworld_data")))
        yield rules()
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "alfworld":
            del sys.modules[name]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """One game of each type, of both splits."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setenv("RIR_GYM_CACHE", str(tmp_path_factory.mktemp("games")))
        made = pool.map(lambda kind: style_game(kind, 1, split=SPLIT_OF[kind]), TASK_TYPES)
        yield dict(zip(TASK_TYPES, made, strict=True))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads((folder / FILES[0]).read_text("utf-8")), json.loads((folder / FILES[1]).read_text("utf-8"))


def facts_in(text: str) -> list[Fact]:
    start = text.split("(:init")[1].split("(:goal")[0]
    return [tuple(fact.split()) for fact in re.findall(r"\(([a-z][^()]*)\)", start)]


def goal_in(told: dict[str, Any]) -> Goal:
    params = told["pddl_params"]
    return Goal(told["task_type"], params["object_target"], params["parent_target"], params["object_sliced"])


def bytes_of(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def is_sound(goal: Goal, facts: list[Fact], package: Rules) -> None:
    """What the package says of its types holds for every thing and receptacle; the goal fits them."""
    names = {kind.lower(): kind for kinds in package.holds.values() for kind in kinds} | {"desklamp": "DeskLamp"}
    names |= {kind.lower(): kind for kind in package.holds}
    kind_of = {
        fact[1]: names[fact[2].removesuffix("type")] for fact in facts if fact[0] in ("objecttype", "receptacletype")
    }
    said = set(facts)
    receptacles = {fact[1] for fact in facts if fact[0] == "receptacletype"}
    places = [fact[2] for fact in facts if fact[0] == "receptacleatlocation"]
    assert len(places) == len(set(places)) == len(receptacles)
    assert not any(fact[0] == "opened" for fact in facts)
    assert next(fact for fact in facts if fact[0] == "atlocation")[2] not in places
    assert all((("openable", r) in said) == (kind_of[r] in package.openable) for r in receptacles)
    things = [fact[1] for fact in facts if fact[0] == "objecttype"]
    for thing in things:
        kind, lamp = kind_of[thing], kind_of[thing] == "DeskLamp"
        assert ("pickupable", thing) in said or lamp
        assert (("toggleable", thing) in said) == lamp
        assert all(((word, thing) in said) == (kind in package.able[able]) for word, able in ABLE.items())
        lying = [fact[2] for fact in facts if fact[:2] == ("inreceptacle", thing)]
        assert len(lying) == (("holds", "agent1", thing) not in said)
        assert lamp or all(package.fits(kind, kind_of[receptacle]) for receptacle in lying)
        assert lamp or any(package.fits(kind, kind_of[receptacle]) for receptacle in receptacles)
    held = [fact for fact in facts if fact[0] == "holds"]
    assert len(held) == (goal.task_type == "look_at_obj_in_light")
    counts = Counter(kind_of[thing] for thing in things)
    assert counts[goal.target] >= 1 + (goal.task_type == "pick_two_obj_and_place")
    assert sum(counts.values()) - counts[goal.target] >= 5
    assert len(counts) >= 5
    kinds = {kind_of[receptacle] for receptacle in receptacles}
    if goal.task_type in TOOLS:
        verb, tool = TOOLS[goal.task_type]
        assert goal.target in package.able[TREATED[verb]]
        assert tool in kinds - {goal.destination}
    if goal.sliced:
        assert goal.target in package.able["Sliceable"]
        assert set(counts) & set(KNIVES)
    if goal.destination:
        assert goal.destination in kinds
        assert package.fits(goal.target, goal.destination)
    else:
        assert counts["DeskLamp"]


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_game_has_the_files_of_alfworlds_layout(kind: str, games: dict[str, Path], package: Rules) -> None:
    folder = games[kind]
    game, told = read(folder)
    goal = goal_in(told)
    info = importlib.import_module("alfworld.info")
    words = told["turk_annotations"]["anns"][0]["task_desc"]
    assert set(game) == {"pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough"}
    assert game["solvable"] is True
    assert game["pddl_domain"] == Path(info.ALFRED_PDDL_PATH).read_text("utf-8")
    assert game["grammar"] == Path(info.ALFRED_TWL2_PATH).read_text("utf-8").replace("UNKNOWN GOAL.", words)
    assert (folder / FILES[2]).read_text("utf-8") == game["pddl_problem"]
    assert len(game["walkthrough"]) in STEPS
    assert told["style"]["gold_steps"] == len(game["walkthrough"])
    assert told["style"]["split"] == SPLIT_OF[kind]
    assert goal.task_type == kind
    assert goal.target.lower() in words
    assert (goal.destination or told["pddl_params"]["toggle_target"]).lower() in words
    assert ("slice" in words) == goal.sliced
    assert "style" in folder.name
    assert told["task_id"].startswith("style-")
    assert not re.search("movable|Sliced", str(folder)), "ALFWorld's own loader would leave it out"
    is_sound(goal, facts_in(game["pddl_problem"]), package)


@pytest.mark.parametrize("kind", TASK_TYPES)
@pytest.mark.usefixtures("package")
def test_the_walkthrough_is_as_short_as_any_plan(kind: str, games: dict[str, Path]) -> None:
    game, told = read(games[kind])
    facts = facts_in(game["pddl_problem"])
    planned = shortest_plan(goal_in(told), facts)
    assert planned is not None
    assert len(planned) == len(game["walkthrough"])
    searched = shortest(home_of(game["pddl_problem"]), standing_at(facts))
    assert isinstance(searched, tuple)
    assert len(searched) == len(game["walkthrough"])


def standing_at(facts: list[Fact]) -> Standing:
    """The start as the other planner of this package, which searches by itself, wants it."""
    location = next(fact[2] for fact in facts if fact[0] == "atlocation")
    held = next((fact[2] for fact in facts if fact[0] == "holds"), None)
    changing = ("inreceptacle", "objectatlocation")
    return Standing(location, held, frozenset(fact for fact in facts if fact[0] in changing))


@pytest.mark.parametrize("kind", ["look_at_obj_in_light", "pick_two_obj_and_place"])
def test_the_walkthrough_reaches_the_goal_with_its_last_command(kind: str, games: dict[str, Path]) -> None:
    engine = started(game_of(games[kind]))
    for command in read(games[kind])[0]["walkthrough"]:
        assert not engine.won
        assert command in engine.commands
        engine.step(command)
    assert engine.won
    engine.release()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(TASK_TYPES), split=st.sampled_from(["train", "test"]), seed=st.integers(0, 2**40))
def test_every_draw_is_sound_and_solved_by_construction(kind: str, split: Split, seed: int, package: Rules) -> None:
    rng = random.Random(seed)
    drawn = draw(kind, asks_for_a_slice(kind, rng), split, package, rng)
    if drawn is None:
        return
    goal, home = drawn
    facts = facts_of(home, package)
    is_sound(goal, facts, package)
    assert route(goal, home, package)
    assert problem(goal, facts) == problem(goal, facts[::-1] + facts)
    assert 2 <= len(home.plans) <= 3
    assert set(reduced(goal, facts)) <= set(facts)
    assert sorted(reduced(goal, reduced(goal, facts))) == sorted(reduced(goal, facts))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(TASK_TYPES), seed=st.integers(0, 2**40))
def test_the_planner_agrees_with_the_construction(kind: str, seed: int, package: Rules) -> None:
    rng = random.Random(seed)
    drawn = draw(kind, asks_for_a_slice(kind, rng), "train", package, rng)
    if drawn is None:
        return
    goal, home = drawn
    facts, walk = facts_of(home, package), route(goal, home, package)
    plan = shortest_plan(goal, facts)
    assert walk is not None
    assert plan is not None
    assert len(plan) == len(walk)
    without = [fact for fact in facts if not (fact[0] == "objecttype" and fact[2] == f"{goal.target}type".lower())]
    assert shortest_plan(goal, without) is None


def test_the_same_game_in_any_process_and_nothing_in_the_home(
    games: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    home.mkdir()
    script = (
        "import random, sys, numpy; random.seed(4); numpy.random.seed(4)\n"
        "from rir_envs.alfworld_style import style_game\n"
        "style_game('pick_and_place_simple', 1, split='train')\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('alfworld', 'textworld')]\n"
        "assert random.random() == random.Random(4).random()\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    common = {**os.environ, "PYTHONPATH": paths, "HOME": str(home), "RIR_GYM_CACHE": str(cache), "XDG_CACHE_HOME": ""}
    subprocess.run([sys.executable, "-c", script], env={**common, "PYTHONHASHSEED": "7"}, cwd=tmp_path, check=True)
    monkeypatch.setenv("RIR_GYM_CACHE", str(cache))
    monkeypatch.setattr(style, "in_child", None)  # nothing is left to make
    assert bytes_of(style_game("pick_and_place_simple", 1)) == bytes_of(games["pick_and_place_simple"])
    assert list(home.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "home"]


def test_the_splits_never_meet(games: dict[str, Path], package: Rules) -> None:
    plans: dict[str, set[int]] = {"train": set(), "test": set()}
    for split, seen in plans.items():
        for kind in TASK_TYPES:
            for seed in range(30):
                drawn = draw(kind, False, split, package, random.Random(seed))  # type: ignore[arg-type]
                seen |= {int(plan.removeprefix("FloorPlan")) for plan in drawn[1].plans} if drawn else set()
    assert not plans["train"] & plans["test"]
    constants = importlib.import_module("alfworld.gen.constants")
    assert plans["train"] <= set(constants.TRAIN_SCENE_NUMBERS)
    assert plans["test"] <= set(constants.TEST_SCENE_NUMBERS)
    for kind, folder in games.items():
        named = read(folder)[1]["scene"]["floor_plan"].split("+")
        assert {int(plan.removeprefix("FloorPlan")) % 100 in range(7, 31) for plan in named} == {
            SPLIT_OF[kind] == "train"
        }


@pytest.mark.parametrize("kind", ["", "pick", "pick_and_place_with_movable_recep", None, 3, ["pick_and_place_simple"]])
def test_an_unknown_task_type_is_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match=r"task_type=.*: task types are pick_and_place_simple, "):
        style_game(kind, 0)


@pytest.mark.parametrize("seed", [-1, SEEDS[-1] + 1, True, 1.0, "1", None, float("nan")])
def test_a_seed_out_of_range_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match=r"game_seed=.*: an int from 0 to 2147483647"):
        style_game(TASK_TYPES[0], seed)


@pytest.mark.parametrize("split", ["", "valid_seen", "Train", None, 0, ["train"]])
def test_an_unknown_split_is_refused(split: Any) -> None:
    with pytest.raises(UsageError, match=r"split=.*: splits are train, test"):
        style_game(TASK_TYPES[0], 0, split=split)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"rir-gym\[alfworld\]"):
        style_game(TASK_TYPES[0], 0)


def test_a_game_that_cannot_be_made_is_one_error_and_leaves_no_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIR_GYM_CACHE", str(tmp_path))
    monkeypatch.setattr(style, "_TIMEOUT_S", 0.05)
    with pytest.raises(RirError, match="not done in 0 s"):
        style_game(TASK_TYPES[0], 0)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
