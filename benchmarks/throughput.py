"""Steps per second, per id: bare, wrapped, and wrapped with a checkpoint before every action.

    python benchmarks/throughput.py [--quick] [--json PATH] [--ids ID ...]

Rows: id, variant ("bare"; "wrapped": a RollbackWrapper whose mechanism saves nothing, so that only the history is kept;
"checkpoints": the wrapper as it is), snapshot (what "auto" chose), steps_per_s, times_bare (step time over the bare
one of the same run). The variants take turns at the same random admissible actions; medians over the rounds. --quick
takes fewer rounds and steps. Ids that are not installed here, or need data that are not here, are left out by name.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
from contenders import Nothing

import rir_gym
from rir_gym.cli.worlds import seeded_arguments
from rir_gym.errors import RirError
from rir_gym.ids import IDS

KNOWN = (*(each.id for each in IDS), "FrozenLake-v1")
ROUNDS, STEPS = (3, 25), (20, 40)


def play(env: gym.Env[Any, Any], seed: int, steps: int) -> float:
    """Seconds per step of one episode of random admissible actions; begun again where it ends before that."""
    rng = random.Random(seed)
    space = copy.deepcopy(env.unwrapped.action_space)
    space.seed(seed)
    _, info = env.reset(seed=seed)
    spent, done = 0.0, 0
    while done < steps:
        listed = info.get("admissible")
        action = rng.choice(listed) if listed else space.sample()
        started = time.perf_counter()
        _, _, terminated, truncated, info = env.step(action)
        spent += time.perf_counter() - started
        done += 1
        if terminated or truncated:
            _, info = env.reset(seed=seed + done)
    return spent / done


def variants(env_id: str) -> tuple[dict[str, gym.Env[Any, Any]], str]:
    """Three instances of the id's first task, and the mechanism that "auto" chose.

    Raises:
        RirError, gym.error.Error: it cannot be made here.
    """
    bare, light, full = (gym.make(env_id, **seeded_arguments(env_id, {}, 0)) for _ in range(3))
    wrapped, checkpoints = rir_gym.RollbackWrapper(light), rir_gym.RollbackWrapper(full)
    wrapped._world.mechanism = Nothing()  # the wrapper itself always has one that can restore
    return {"bare": bare, "wrapped": wrapped, "checkpoints": checkpoints}, checkpoints.snapshot_report.chosen


def measure(env_id: str, *, rounds: int, steps: int) -> list[dict[str, Any]]:
    """One row a variant.

    Raises:
        RirError, gym.error.Error: it cannot be made here.
    """
    envs, chosen = variants(env_id)
    seconds: dict[str, list[float]] = {name: [] for name in envs}
    for round_ in range(rounds):
        for name, env in envs.items():
            seconds[name].append(play(env, round_, steps))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for env in envs.values():
        env.close()
    return [
        {
            "id": env_id,
            "variant": name,
            "snapshot": chosen if name == "checkpoints" else None,
            "steps_per_s": round(1 / value, 1),
            "times_bare": round(value / medians["bare"], 2),
        }
        for name, value in medians.items()
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and steps; for a look, not for the record")
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--ids", nargs="+", choices=KNOWN, default=list(KNOWN), metavar="ID", help=", ".join(KNOWN))
    asked = parser.parse_args(argv)
    full, rows, left_out = not asked.quick, list[dict[str, Any]](), dict[str, str]()
    for env_id in asked.ids:
        try:
            measured = measure(env_id, rounds=ROUNDS[full], steps=STEPS[full])
        except (RirError, gym.error.Error) as error:
            left_out[env_id] = str(error)
            print(f"{env_id}: left out: {error}", flush=True)
            continue
        rows += measured
        for row in measured:
            print("  ".join(f"{value!s:>36}" if key == "id" else f"{value!s:>11}" for key, value in row.items()))
    if asked.json:
        asked.json.write_text(json.dumps({"rows": rows, "left_out": left_out, "quick": asked.quick}, indent=1) + "\n")


if __name__ == "__main__":
    main()
