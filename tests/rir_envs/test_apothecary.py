"""Apothecary itself: Gymnasium's contract, the rules, the oracle against search, and the native state pair."""

from __future__ import annotations

import copy
import math
import pickle
import random
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rir_envs.apothecary import ApothecaryEnv, Saved
from rir_envs.apothecary_world import Recipe
from rir_gym.base import Oracle
from rir_gym.errors import NotRestorable, UsageError

SMALL: tuple[dict[str, Any], ...] = (
    {"stores": 2, "ingredients": 3, "recipe_size": 2, "spare": 0.5},
    {"stores": 3, "ingredients": 3, "recipe_size": 2, "spare": 0.5},
    {"stores": 1, "ingredients": 2, "recipe_size": 1, "spare": 1.0},
    {"stores": 3, "ingredients": 3, "recipe_size": 3, "spare": 0.0},
    {"stores": 5, "ingredients": 3, "recipe_size": 3, "spare": 0.2},
)
LARGE: tuple[dict[str, Any], ...] = (
    {},
    {"stores": 8, "ingredients": 9, "recipe_size": 5, "spare": 0.7},
    {"stores": 12, "ingredients": 16, "recipe_size": 8, "spare": 1.0},
    {"stores": 1, "ingredients": 6, "recipe_size": 6, "spare": 0.0, "rumour_wrong": 1.0},
)
JUNK = (
    "", " ", "x" * 1_000_000, "go " + "y" * 1_000_000, "открой дверь", "水\n火", "go hall", "go  attic", "GO ATTIC",
    "heat", "go attic\n", "take gold", "pour ash", "offer", "rollback 0", "\x00", "take", "go ", "\ud800",
)  # fmt: skip


def started(seed: int = 0, **difficulty: Any) -> tuple[ApothecaryEnv, dict[str, Any]]:
    env = ApothecaryEnv(**difficulty)
    return env, env.reset(seed=seed)[1]


def wander(env: ApothecaryEnv, rng: random.Random, steps: int) -> list[tuple[Any, ...]]:
    """A random walk that prefers handling things to walking; ends early at success."""
    trace: list[tuple[Any, ...]] = []
    admissible = env._info()["admissible"]
    while len(trace) < steps and admissible:
        action = rng.choices(admissible, [1 if command.startswith("go") else 5 for command in admissible])[0]
        trace.append((action, *env.step(action)))
        admissible = trace[-1][-1]["admissible"]
    return trace


def recipe(env: ApothecaryEnv) -> Recipe:
    world = env.get_state().world
    assert world is not None
    return world.recipe


def graph(env: ApothecaryEnv, seed: int) -> tuple[dict[Any, Saved], dict[Any, list[Any]]]:
    """Every state that admissible actions can reach, and its successors, by get_state, set_state and step alone."""
    _, info = env.reset(seed=seed)
    start = env.get_state()
    states, todo = {start.state: start}, [(start, info["admissible"])]
    successors: dict[Any, list[Any]] = {}
    while todo:
        saved, admissible = todo.pop()
        successors[saved.state] = []
        for action in admissible:
            env.set_state(saved)
            info = env.step(action)[-1]
            reached = env.get_state()
            successors[saved.state].append(reached.state)
            if reached.state not in states:
                states[reached.state] = reached
                todo.append((reached, info["admissible"]))
    return states, successors


def searched(successors: dict[Any, list[Any]]) -> dict[Any, float]:
    """Distance to success by breadth-first search backwards from every success."""
    parents: dict[Any, list[Any]] = {state: [] for state in successors}
    for state, reached in successors.items():
        for other in reached:
            parents[other].append(state)
    frontier = [state for state in successors if state.won]
    found: dict[Any, float] = dict.fromkeys(frontier, 0)
    while frontier:
        step = {parent: found[state] + 1 for state in frontier for parent in parents[state] if parent not in found}
        found |= step
        frontier = list(step)
    return {state: found.get(state, math.inf) for state in successors}


def test_gymnasium_checker_accepts_it() -> None:
    check_env(ApothecaryEnv(render_mode="ansi"), skip_render_check=True)
    check_env(ApothecaryEnv(), skip_render_check=True)


def test_nothing_mutable_is_returned_twice() -> None:
    env, first = started()
    _, _, _, _, second = env.step("x")
    assert first == second
    first["admissible"].clear()
    first["oracle"]["failed"] = True
    assert env.step("x")[-1] == second


@pytest.mark.parametrize("difficulty", [*SMALL, *LARGE])
def test_a_seed_fixes_everything(difficulty: dict[str, Any]) -> None:
    for seed in range(5):
        one, two = ApothecaryEnv(**difficulty), ApothecaryEnv(**difficulty)
        assert one.reset(seed=seed) == two.reset(seed=seed)
        assert wander(one, random.Random(seed), 40) == wander(two, random.Random(seed), 40)
        assert one.reset() == two.reset()


def test_seeds_differ_and_probabilities_do_not_move_the_rest_of_the_world() -> None:
    worlds = [started(seed)[0].get_state() for seed in range(50)]
    assert len({(saved.world, saved.state) for saved in worlds}) > 45
    told = [started(seed, rumour_wrong=1.0)[0].get_state() for seed in range(50)]
    assert [saved.state for saved in told] == [saved.state for saved in worlds]
    assert all(saved.world is not None and saved.world.rumour != saved.world.recipe for saved in told)


def test_rumours_are_wrong_in_one_point_as_often_as_asked() -> None:
    wrong = 0
    for seed in range(400):
        world = started(seed)[0].get_state().world
        assert world is not None
        strange = set(world.rumour.ingredients) ^ set(world.recipe.ingredients)
        differs = len(strange) // 2 + (world.rumour.treatment != world.recipe.treatment)
        assert differs <= 1
        wrong += differs
    assert 160 < wrong < 240


def test_first_observation_carries_the_rumour_and_is_short() -> None:
    observation, info = ApothecaryEnv().reset(seed=3)
    assert observation.split("\n") == [
        "A rumour on the wall says: bone, honey, salt, then heat.",
        "You are in the hall. You see nothing.",
        "You hold nothing.",
        "The pot is empty.",
    ]
    assert set(info) == {"objective", "admissible", "committed", "oracle"}
    assert info["committed"] is False
    assert info["oracle"] == {"success": False, "failed": False, "score": 0.0}


@pytest.mark.parametrize("difficulty", [*SMALL, *LARGE])
def test_exactly_the_admissible_commands_do_something(difficulty: dict[str, Any]) -> None:
    env, _ = started(1, **difficulty)
    rng = random.Random(1)
    every = {f"{verb} {thing}" for verb in ("go", "take", "pour") for thing in _words(env)}
    every |= {"heat", "chill", "empty", "read", "offer"}
    for _ in range(30):
        saved, admissible = env.get_state(), env._info()["admissible"]
        assert admissible == sorted(set(admissible))
        for action in every | set(admissible):
            observation = env.step(action)[0]
            assert (observation.split("\n")[0] != "Nothing happens.") == (action in admissible), action
            assert action in admissible or env.get_state().state == saved.state
            env.set_state(saved)
        wander(env, rng, 1)
        if not env._info()["admissible"]:
            break


def _words(env: ApothecaryEnv) -> set[str]:
    saved = env.get_state()
    assert saved.world is not None
    assert saved.state is not None
    return {*saved.world.rooms, *(thing for _, things in saved.state.floor for thing in things), "gold"}


@pytest.mark.parametrize("action", JUNK, ids=lambda action: ascii(action)[:20])
def test_junk_is_an_ordinary_step_that_changes_nothing(action: str) -> None:
    env, info = started()
    before = env.get_state()
    observation, reward, terminated, truncated, after = env.step(action)
    assert observation.startswith("Nothing happens.\nYou are in the hall.")
    assert (reward, terminated, truncated, after) == (0.0, False, False, info)
    assert env.get_state().state == before.state


@pytest.mark.parametrize("action", [None, 3, b"heat", ["go attic"], np.int64(1)])
def test_an_action_that_is_no_text_is_refused(action: Any) -> None:
    env, _ = started()
    with pytest.raises(UsageError, match="a str"):
        env.step(action)


def test_steps_before_reset_and_after_success_are_refused() -> None:
    env = ApothecaryEnv()
    for call in (lambda: env.step("heat"), env.describe, lambda: env.oracle.distance(), lambda: env.oracle.plan()):
        with pytest.raises(UsageError, match="reset"):
            call()
    env.reset(seed=0)
    before_end = None
    for action in env.oracle.plan() or ():
        before_end = env.get_state()
        *_, terminated, truncated, info = env.step(action)
    assert terminated
    assert not truncated
    assert info["oracle"] == {"success": True, "failed": False, "score": 1.0}
    assert (info["admissible"], env.oracle.distance(), env.oracle.plan(), env.oracle.best_action()) == ([], 0, [], None)
    with pytest.raises(UsageError, match="ended"):
        env.step("go hall")
    assert before_end is not None
    env.set_state(before_end)
    assert env.step("offer")[1:3] == (1.0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rumour_wrong": -0.1}, {"rumour_wrong": 1.1}, {"rumour_wrong": math.nan}, {"rumour_wrong": "half"},
        {"rumour_wrong": True}, {"spare": 2}, {"spare": None}, {"stores": 0}, {"stores": 13}, {"stores": 2.0},
        {"stores": True}, {"ingredients": 2}, {"ingredients": 17}, {"ingredients": 4, "recipe_size": 5},
        {"recipe_size": 0}, {"recipe_size": 9, "ingredients": 16}, {"render_mode": "human"},
    ],
    ids=str,
)  # fmt: skip
def test_bad_arguments_are_refused_by_name(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"(rumour_wrong|spare|stores|ingredients|recipe_size|render_mode)="):
        ApothecaryEnv(**arguments)


@pytest.mark.parametrize("difficulty", [{}, LARGE[1]])
def test_a_mistake_is_silent_until_the_offer(difficulty: dict[str, Any]) -> None:
    """A brew with a wrong ingredient and a wrong seal reads like the right one, word by word, but for their names."""
    names = {**difficulty, "spare": 0.0}
    for seed in range(20):
        env, _ = started(seed, **names)
        true = recipe(env)
        wrong = next(thing for thing in _words(env) if f"take {thing}" in _takes(env) and thing not in true.ingredients)
        other = {"heat": "chill", "chill": "heat"}[true.treatment]
        swap = {true.ingredients[0]: wrong, true.treatment: other}
        texts = []
        for use in ({}, swap):
            env.reset(seed=seed)
            for thing in (*true.ingredients, wrong):
                _fetch(env, thing)
            env.step("go lab")
            brew = [f"pour {use.get(thing, thing)}" for thing in true.ingredients]
            brew.append(use.get(true.treatment, true.treatment))
            texts.append([[_masked(line) for line in env.step(action)[0].split("\n")] for action in brew])
            env.step("go shrine")
            _, reward, terminated, _, info = env.step("offer")
            assert (reward, terminated) == ((0.0, False) if use else (1.0, True))
            assert info["oracle"]["failed"] is bool(use)
        assert texts[0] == texts[1]


def _takes(env: ApothecaryEnv) -> set[str]:
    saved = env.get_state()
    assert saved.state is not None
    return {f"take {thing}" for _, things in saved.state.floor for thing in things}


def _fetch(env: ApothecaryEnv, thing: str) -> None:
    saved = env.get_state()
    assert saved.state is not None
    env.step(f"go {next(room for room, things in saved.state.floor if thing in things)}")
    env.step(f"take {thing}")


def _masked(line: str) -> str:
    if line.startswith("You hold"):
        return f"You hold {line.count(',')}"
    return re.sub(r"You pour the \w+|You (heat|chill)", "You", line)


@pytest.mark.parametrize("difficulty", SMALL)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_oracle_equals_search_in_every_reachable_state(difficulty: dict[str, Any], seed: int) -> None:
    env = ApothecaryEnv(**difficulty)
    states, successors = graph(env, seed)
    distances = searched(successors)
    assert len(states) > 500
    assert 0 < sum(math.isinf(distance) for distance in distances.values()) < len(states)
    for state, expected in distances.items():
        env.set_state(states[state])
        oracle = env.oracle
        assert oracle.distance() == expected, state
        assert env._info()["oracle"]["failed"] is math.isinf(expected)
        plan = oracle.plan()
        assert (None if plan is None else len(plan)) == (None if math.isinf(expected) else expected)
        assert oracle.recoverable(20) is (expected <= 20)
        assert oracle.recoverable(5) is (expected <= 5)
        assert (oracle.progress() == 1.0) is (expected == 0)
        if plan:
            env.step(plan[0])
            assert distances[env.get_state().state] == expected - 1


@pytest.mark.parametrize("difficulty", LARGE)
def test_in_large_worlds_the_distance_satisfies_bellmans_equation(difficulty: dict[str, Any]) -> None:
    """d = 1 + min d' over all successors (lost: all successors lost) in states of random walks."""
    rng = random.Random(7)
    checked = lost = 0
    for seed in range(12):
        env, _ = started(seed, **difficulty)
        for _ in range(5):
            wander(env, rng, rng.randrange(1, 14))
            saved = env.get_state()
            distance, admissible, score = env.oracle.distance(), env._info()["admissible"], env.oracle.progress()
            if distance == 0:
                break
            reached, scores = [], []
            for action in admissible:
                env.step(action)
                reached.append(env.oracle.distance())
                scores.append(env.oracle.progress())
                env.set_state(saved)
            assert distance == 1 + min(reached)
            assert 0.0 <= score < 1.0
            closer = [after for after, d in zip(scores, reached, strict=True) if d == distance - 1 and d < math.inf]
            assert all(after >= score for after in closer)
            checked, lost = checked + 1, lost + math.isinf(distance)
    assert checked >= 40
    assert lost > 0 or difficulty.get("spare") == 1.0


def test_plans_played_from_the_start_succeed_in_every_world() -> None:
    assert isinstance(started()[0].oracle, Oracle)
    for seed in range(200):
        env, _ = started(seed, **LARGE[seed % len(LARGE)])
        plan = env.oracle.plan()
        assert plan is not None
        score, left = 0.0, len(plan)
        for action in plan:
            assert env.oracle.best_action() == action
            assert env.oracle.recoverable(left)
            assert not env.oracle.recoverable(left - 1)
            _, _, terminated, _, info = env.step(action)
            left -= 1
            assert info["oracle"]["score"] >= score
            assert terminated is (left == 0)
            score = info["oracle"]["score"]
        assert score == 1.0


@pytest.mark.parametrize("difficulty", [{}, LARGE[1]])
def test_the_state_pair_is_complete_and_reusable(difficulty: dict[str, Any]) -> None:
    for seed in range(20):
        env, _ = started(seed, **difficulty)
        rng = random.Random(seed)
        wander(env, rng, rng.randrange(25))
        saved = env.get_state()
        futures = []
        for _ in range(3):
            walk = wander(env, random.Random(seed + 1), 25)
            futures.append((walk, env.np_random.random(3).tolist(), env.reset(), env.np_random_seed, env.describe()))
            wander(env, rng, 10)
            env.reset(seed=seed + 100)
            env.set_state(saved)
            assert env.get_state() == saved
        assert futures[0] == futures[1] == futures[2]
        elsewhere = ApothecaryEnv(**difficulty)
        elsewhere.set_state(pickle.loads(pickle.dumps(saved)))
        assert wander(elsewhere, random.Random(seed + 1), 25) == futures[0][0]
        assert elsewhere.np_random.random(3).tolist() == futures[0][1]


def test_restoring_is_in_place_for_the_generator_too() -> None:
    env, _ = started()
    generator, saved = env.np_random, env.get_state()
    expected = generator.random(4).tolist()
    env.set_state(saved)
    assert env.np_random is generator
    assert generator.random(4).tolist() == expected


def test_the_state_before_the_first_reset_is_a_state() -> None:
    env = ApothecaryEnv()
    fresh = env.get_state()
    env.reset(seed=5)
    env.set_state(fresh)
    with pytest.raises(UsageError, match="reset"):
        env.step("heat")
    assert env.reset(seed=5) == ApothecaryEnv().reset(seed=5)


def test_what_is_no_state_and_what_has_no_state_are_refused() -> None:
    env, _ = started()
    before = env.get_state()
    for value in (None, (), {"room": "hall"}):
        with pytest.raises(UsageError, match="get_state"):
            env.set_state(value)  # type: ignore[arg-type]
    assert env.get_state() == before
    env.np_random = np.random.Generator(np.random.MT19937(1))
    with pytest.raises(NotRestorable, match="MT19937"):
        env.get_state()
    env.set_state(before)
    assert env.get_state() == before


@pytest.mark.parametrize(
    "copier", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
def test_copies_go_on_alike_and_apart(copier: Any) -> None:
    env, _ = started(4)
    wander(env, random.Random(1), 12)
    twin = copier(env)
    assert twin.get_state() == env.get_state()
    assert twin.oracle.plan() == env.oracle.plan()
    before = twin.get_state()
    walk = wander(env, random.Random(2), 15)
    assert twin.get_state() == before
    assert wander(twin, random.Random(2), 15) == walk
    assert twin.reset() == env.reset()


def test_description_tells_what_the_agent_can_know_and_nothing_else() -> None:
    env, _ = started(3, spare=0.0)
    assert env.describe() == "in the hall; holding nothing; pot empty"
    for action in ("go attic", "take honey", "go lab", "pour honey", "chill"):
        env.step(action)
    assert env.describe() == "in the lab; holding nothing; pot with honey (chill)"
    saved = env.get_state()
    assert saved.world is not None
    env.step(f"go {saved.world.book}")
    env.step("read")
    assert env.describe().endswith("; book read")
    assert env.submit("done") is None


def test_render_follows_the_mode() -> None:
    env = ApothecaryEnv(render_mode="ansi")
    observation, _ = env.reset(seed=0)
    assert env.render() == observation
    assert env.step("go lab")[0] == env.render()
    assert started()[0].render() is None


def test_actions_and_observations_are_members_of_the_spaces() -> None:
    env, info = started()
    assert isinstance(env, gym.Env)
    assert all(env.action_space.contains(action) for action in (*info["admissible"], *JUNK))
    assert env.observation_space.contains(env.step("go lab")[0])
