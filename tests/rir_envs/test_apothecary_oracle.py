"""Apothecary's oracle on states of random walks, against a search that shares nothing with it but the rules."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rir_envs.apothecary import ApothecaryEnv
from rir_envs.apothecary_world import State, World, admissible, advance

SETTINGS: list[dict[str, Any]] = [
    {"stores": 2, "ingredients": 3, "recipe_size": 2, "spare": 0.2},
    {"stores": 3, "ingredients": 4, "recipe_size": 2, "spare": 0.2},
    {"stores": 2, "ingredients": 3, "recipe_size": 3, "spare": 0.6},
]


def walked(count: int, difficulty: dict[str, Any], *, seed: int = 0) -> Iterator[tuple[ApothecaryEnv, World, State]]:
    """So many states, each at the end of a walk of its own: a plan for a while, then anything, walks less often."""
    rng = random.Random(seed)
    env = ApothecaryEnv(**difficulty)
    for number in range(count):
        _, info = env.reset(seed=1000 * seed + number)
        guided = list(env.oracle.plan() or ())[: rng.randrange(13)]
        for step in range(len(guided) + rng.randrange(2, 10)):
            doing = [action for action in info["admissible"] if not action.startswith("go ")]
            choices = doing if doing and rng.random() < 0.7 else info["admissible"]
            env.step(guided[step] if step < len(guided) else rng.choice(choices))
            info = env._info()
            if not info["admissible"]:
                break
        yield env, *env._now()


def searched(world: World, state: State) -> float:
    """Fewest commands to success, breadth first over the rules; the order in the pot and the book change nothing."""
    front, seen, steps = {canonical(state)}, set[State](), 0
    while front:
        if any(each.won for each in front):
            return float(steps)
        seen |= front
        front = {canonical(advance(world, each, action)[0]) for each in front for action in admissible(world, each)}
        front, steps = front - seen, steps + 1
    return math.inf


def canonical(state: State) -> State:
    return replace(state, pot=tuple(sorted(state.pot)), read=False)


def check(count: int, difficulty: dict[str, Any], *, seed: int = 0) -> dict[str, int]:
    """How many states were recoverable, lost and over; any disagreement fails."""
    counts = {"recoverable": 0, "lost": 0, "over": 0}
    for env, world, state in walked(count, difficulty, seed=seed):
        expected, oracle = searched(world, state), env.oracle
        for within in {0, 1, 5, 12, 40, *([int(expected) - 1, int(expected)] if 0 < expected < math.inf else [])}:
            assert oracle.recoverable(within) is (expected <= within), (difficulty, state, within, expected)
        assert oracle.distance() == expected
        for action in oracle.plan() or ():
            env.step(action)
        assert env._info()["oracle"]["success"] is (expected < math.inf)
        counts["over" if state.won else "lost" if math.isinf(expected) else "recoverable"] += 1
    return counts


@pytest.mark.parametrize("difficulty", SETTINGS)
def test_no_state_of_a_random_walk_is_falsely_recoverable_or_falsely_lost(difficulty: dict[str, Any]) -> None:
    counts = check(30, difficulty)
    assert min(counts["recoverable"], counts["lost"]) >= 3, counts
