"""ScienceWorld: how fast a step and a rollback are, and whether every task repeats in another process.

    python benchmarks/science.py [--quick] [--json PATH] [--only step rollback repeats]

Rows: "step": milliseconds of the package's own ``ScienceWorldEnv.step``, which always lists the commands that can be
done, and of ``RollbackWrapper.step`` here, which lists them on request, and their ratio, of a gold path in turns:
of the clock (medians), and of the processor (Python and Java together), which other work on the machine disturbs less.
"rollback": seconds of rollbacks from step 40 to step 30 (median and slowest). "repeats": for each task,
whether its first commands show the same in two Java processes here, one of them used, and in another Python process:
the gold path, with commands in between that fail. The exit status is 1 where a task does not, or a wanted figure is
missed on this machine (a step 8 times faster; a rollback within a second).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import rir_gym
from rir_envs.scienceworld_gold import gold_path
from rir_envs.scienceworld_tasks import TASKS, Task

QUICK = ("boil", "grow-fruit", "mendelian-genetics-known-plant", "chemistry-mix", "find-animal")
WALK = ("open door to kitchen", "go to kitchen", "look around", "open door to hallway", "go to hallway", "wait1")
JUNK = ("look around", "focus on nothing", "pick up everything", "wait1")


def step_row(*, rounds: int) -> dict[str, Any]:
    """The package's step against ours, of the same commands in turns."""
    from scienceworld import ScienceWorldEnv

    theirs = ScienceWorldEnv("", envStepLimit=10**6)
    theirs.load("boil", 0, "")
    theirs.reset()
    ours = rir_gym.RollbackWrapper(gym.make("rir_gym/ScienceWorld-v0", task="boil", variation=0))
    ours.reset(seed=0)
    java = {"theirs": theirs._gateway.java_process.pid, "ours": ours.unwrapped._live().process.pid}
    spent: dict[str, list[float]] = {"theirs": [], "ours": []}
    used = {"theirs": 0.0, "ours": 0.0}
    path = (gold_path(Task("boil", 0)) or WALK)[:-1]
    for number in range(rounds + 1):
        for name, env in (("theirs", theirs), ("ours", ours)):
            env.reset()
            began_cpu = _cpu_s(java[name])
            for command in path:
                began = time.perf_counter()
                env.step(command)
                if number:  # the first round warms up
                    spent[name].append(1e3 * (time.perf_counter() - began))
            if number:
                used[name] += _cpu_s(java[name]) - began_cpu
    ours.close()
    theirs.close()
    medians = {name: statistics.median(values) for name, values in spent.items()}
    row: dict[str, Any] = {"row": "step"}
    for name in medians:
        row[f"{name}_ms"] = round(medians[name], 2)
        row[f"{name}_cpu_ms"] = round(1e3 * used[name] / (rounds * len(path)), 2)
    ratio, cpu = medians["theirs"] / medians["ours"], used["theirs"] / max(used["ours"], 1e-9)
    return {**row, "ratio": round(ratio, 1), "cpu_ratio": round(cpu, 1)}


def _cpu_s(pid: int) -> float:
    """Seconds of the processor that this process and that one have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rollback_row(*, rounds: int) -> dict[str, Any]:
    """Rollbacks of ten steps at step 40."""
    env = rir_gym.RollbackWrapper(gym.make("rir_gym/ScienceWorld-v0", task="boil", variation=0))
    env.reset(seed=0)
    seconds = []
    for _ in range(rounds + 1):
        while env.node.t < 40:
            env.step(WALK[env.node.t % len(WALK)])
        began = time.perf_counter()
        env.rollback(30)
        seconds.append(time.perf_counter() - began)
    env.close()
    del seconds[0]  # the first one may have to start a Java process
    return {"row": "rollback", "median_s": round(statistics.median(seconds), 3), "slowest_s": round(max(seconds), 3)}


def played(task: str, *, most: int) -> str:
    """The digest of an episode of the gold path with failing commands in between."""
    env = gym.make("rir_gym/ScienceWorld-v0", task=task, variation=0)
    told = hashlib.sha256(repr(env.reset(seed=0)).encode())
    path = (gold_path(Task(task, 0)) or ())[:most]
    for number, command in enumerate(path):
        for said in (command, JUNK[number // 3 % len(JUNK)]) if number % 3 == 2 else (command,):
            returned = env.step(said)
            told.update(repr(returned).encode())
            if returned[2]:
                env.close()
                return told.hexdigest()
    env.close()
    return told.hexdigest()


def repeats_row(task: str, *, most: int) -> dict[str, Any]:
    """One task, here and elsewhere."""
    keeper = gym.make("rir_gym/ScienceWorld-v0", task="find-plant")  # keeps a used process at hand
    keeper.reset(seed=1)
    path = gold_path(Task(task, 0))
    found = [played(task, most=most), played(task, most=most)]
    keeper.close()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found.append(pool.apply(played, (task,), {"most": most}))
    return {"row": "repeats", "task": task, "gold": None if path is None else len(path), "same": len(set(found)) == 1}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="five tasks, 30 commands each; fewer rounds")
    parser.add_argument("--json", type=Path, help="write the rows there")
    kinds = ("step", "rollback", "repeats")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    asked = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []

    def told(row: dict[str, Any]) -> None:
        rows.append(row)
        print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)

    if "step" in asked.only:
        told(step_row(rounds=3 if asked.quick else 20))
    if "rollback" in asked.only:
        told(rollback_row(rounds=3 if asked.quick else 20))
    if "repeats" in asked.only:
        for task in QUICK if asked.quick else TASKS:
            told(repeats_row(task, most=30 if asked.quick else 10**6))
    if asked.json:
        asked.json.write_text(json.dumps({"rows": rows, "quick": asked.quick}, indent=1) + "\n")
    missed = [
        row for row in rows if not row.get("same", True) or row.get("cpu_ratio", 8) < 8 or row.get("median_s", 0) > 1
    ]
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
