"""Steps per second: an environment bare, and wrapped with a checkpoint before every action, per mechanism.

    python benchmarks/throughput.py [--quick] [--json PATH]

Rows: env, mechanism ("bare" is no wrapper), steps_per_s, times_bare (step time over the bare one, same run).
All variants of one environment take turns over the same admissible-random actions; medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym

import rir_gym
from rir_gym.errors import NotRestorable, RirError

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "rir_gym/Apothecary-v0": {},
    "FrozenLake-v1": {},
    "rir_gym/TextWorld-Simple-v0": {"level": 1, "game_seed": 0},
}
MECHANISMS = ("native", "heap", "pickle", "deepcopy")
STEPS = 40


def play(env: gym.Env[Any, Any], seed: int, steps: int) -> float:
    """Seconds per step of one episode of random admissible actions."""
    rng = random.Random(seed)
    _, info = env.reset(seed=seed)
    spent, done = 0.0, 0
    env.action_space.seed(seed)
    while done < steps:
        listed = info.get("admissible")
        action = rng.choice(listed) if listed else int(rng.randrange(4))
        started = time.perf_counter()
        _, _, terminated, truncated, info = env.step(action)
        spent += time.perf_counter() - started
        done += 1
        if terminated or truncated:
            _, info = env.reset(seed=seed + done)
    return spent / done


def variants(env_id: str, arguments: dict[str, Any]) -> Iterator[tuple[str, Callable[[], gym.Env[Any, Any]]]]:
    """The bare environment and each mechanism that is faithful on it."""
    yield "bare", lambda: gym.make(env_id, **arguments)
    for mechanism in MECHANISMS:
        try:
            rir_gym.RollbackWrapper(gym.make(env_id, **arguments), snapshot=mechanism).close()
        except NotRestorable:
            continue
        yield mechanism, lambda name=mechanism: rir_gym.RollbackWrapper(gym.make(env_id, **arguments), snapshot=name)


def measure(env_id: str, arguments: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    """One row a variant."""
    envs = {name: make() for name, make in variants(env_id, arguments)}
    seconds: dict[str, list[float]] = {name: [] for name in envs}
    for round_ in range(rounds):
        for name, env in envs.items():
            seconds[name].append(play(env, round_, STEPS))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for env in envs.values():
        env.close()
    return [
        {
            "env": env_id,
            "mechanism": name,
            "steps_per_s": round(1 / value, 1),
            "times_bare": round(value / medians["bare"], 2),
        }
        for name, value in medians.items()
    ]


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the rows there")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for env_id, settings in ENVIRONMENTS.items():
        try:
            rows += measure(env_id, settings, rounds=5 if arguments.quick else 25)
        except RirError as error:
            print(f"{env_id}: left out: {error}")
    for row in rows:
        print("  ".join(f"{value!s:>28}" if key == "env" else f"{value!s:>10}" for key, value in row.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
