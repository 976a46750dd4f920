"""Collects episodes of your own environment and agent with worker processes, and reads the branches back.

    python examples/offline_collection.py [--quick] [--out FOLDER]

The store can be interrupted, killed and gone on with, and holds the same records for any number of workers
(docs/collect.md). The environment is FrozenLake; the agent walks at random and is put back three steps after a fall.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import rir_gym as rg
from rir_gym.data import read_episodes
from rir_gym.data.collect import Cell, Job, Played, collect
from rir_gym.data.keys import Key, canonical, digest_of
from rir_gym.data.records import episode_record, header_of
from rir_gym.data.store import open_store

ID, DEPTH, CALLS = "FrozenLake-v1", 3, 40


def walk(views: Sequence[rg.View]) -> list[rg.Decision]:
    return [rg.Decision.act(random.Random(f"{view.seed} {view.agent_calls}").randrange(4)) for view in views]


def fallen(views: Sequence[rg.View]) -> list[rg.Verdict]:
    falls = [view.terminal and view.history[-1].reward == 0 for view in views]
    return [rg.Verdict(rg.VerdictKind.ROLLBACK if fell else rg.VerdictKind.NOT_DUE) for fell in falls]


def some_steps_back(views: Sequence[rg.View], verdicts: Sequence[rg.Verdict]) -> list[rg.Restore]:
    return [rg.Restore(next(point for point in view.restorable if point.t >= view.t - DEPTH)) for view in views]


def remember_nothing(
    views: Sequence[rg.View], verdicts: Sequence[rg.Verdict], restores: Sequence[rg.Restore]
) -> list[rg.Patch]:
    return [rg.Patch(view.memory, invoked=False) for view in views]


def make_player(settings: Mapping[str, Any]) -> Any:
    """Called once in each worker; what it returns turns recipes into records."""
    mechanism = rg.Mechanism("random walk", walk, fallen, some_steps_back, remember_nothing)

    def play(recipes: Sequence[Mapping[str, Any]]) -> list[Played]:
        seeds = [int(recipe["seed"]) for recipe in recipes]
        envs = [rg.RollbackWrapper(gym.make(ID, is_slippery=False)) for _ in seeds]
        episodes = rg.run(envs, mechanism, budget=rg.Budget(CALLS, rollbacks=settings["rollbacks"]), seeds=seeds)
        return [
            Played(episode_record(episode, header_of(env, mechanism, agent="random") | settings["origin"]))
            for env, episode in zip(envs, episodes, strict=True)
        ]

    return play


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="20 episodes instead of 500")
    parser.add_argument("--out", type=Path, help="a folder; the same one goes on where it ended")
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp()) / "walks"
    config = {"env": ID, "depth": DEPTH, "calls": CALLS, "rollbacks": 10}
    task = {"env": ID, "arguments": {"is_slippery": False}}
    origin = {"config": digest_of(config), "task": task}
    cell = Cell("offline_collection:make_player", {"rollbacks": config["rollbacks"], "origin": origin})
    seeds = range(20 if asked.quick else 500)
    jobs = [Job(Key(digest_of(config), canonical(task), seed), cell, {"seed": seed}) for seed in seeds]
    with open_store(out, config) as store:
        played = collect(store, jobs, workers=2)
    print(f"{played} episodes played, {len(seeds)} in {out}")

    nodes = [node for record in read_episodes(out) for node in record["nodes"] if node["parent"] is not None]
    kept = sum(node["surviving"] for node in nodes)
    falls = sum(node["terminated"] and node["reward"] == 0 for node in nodes)
    print(
        f"{len(nodes)} transitions: {kept} on surviving branches, {len(nodes) - kept} on abandoned ones; {falls} falls"
    )
    print(f"goals reached: {sum(record['result']['return'] > 0 for record in read_episodes(out))}")


if __name__ == "__main__":
    main()
