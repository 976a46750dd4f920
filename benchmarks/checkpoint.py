"""What a checkpoint costs: time to save, time to restore, bytes, and what it makes of an environment's speed.

    python benchmarks/checkpoint.py [--quick] [--worlds ...] [--mechanisms ...] [--json PATH] [--markdown]
    python benchmarks/checkpoint.py --markdown PATH     the tables of an earlier --json as Markdown; measures nothing

Rows: world, mechanism, step_us (bare), save_us, restore_us (medians of single calls, the garbage collector off inside
them as in timeit), bytes (of a checkpoint after the first; first_bytes is that one), episode_overhead (an episode with
a checkpoint before every action, through RollbackWrapper, over a bare one), faithful, reason.

In one run the mechanisms of a world take turns: each drives its own instance of the same seeded world with the same
actions and restores; afterwards every kept branch is compared with a straight run from reset. What RollbackWrapper
refuses, or what is found wrong, has no times. ``copium`` takes the place of the wrapper's deepcopy. Bytes of what forks
are memory of all processes, each shared page counted once. The last five worlds are games and simulators in C.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import multiprocessing
import os
import platform
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from checkpoint_memory import long_episode, weigh
from checkpoint_report import lines, markdown, targets
from contenders import MECHANISMS, Make, Nothing, Timed, mechanism, world_of, wrapped
from worlds import Absent, maker

from rir_gym.errors import NotRestorable
from rir_gym.snapshot.process_rng import ProcessRng, read, write
from rir_gym.snapshot.protocol import Bounded
from rir_gym.snapshot.world import World
from rir_gym.values import same_value

Options = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Setting:
    """How a world is made and begun, and what it gets of each pass in a (quick, full) run.

    rounds: steps of the timed tree. steps: of an episode with and without checkpoints, ``episodes`` times. saves:
    checkpoints weighed, fewer where they take long. checks: random-tree restores of the fidelity check.
    """

    env_id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Options = None
    rounds: tuple[int, int] = (40, 400)
    saves: tuple[int, int] = (60, 300)
    episodes: tuple[int, int] = (3, 9)
    steps: tuple[int, int] = (30, 60)
    checks: tuple[int, int] = (24, 120)


_SIZES = ("rounds", "saves", "episodes", "steps", "checks")
_ENGINE: dict[str, Any] = dict(zip(_SIZES, ((16, 80), (20, 60), (2, 5), (12, 24), (6, 36)), strict=True))
WORLDS = {
    "small": Setting("rir_bench/Small-v0"),
    "medium": Setting("rir_bench/Medium-v0", rounds=(40, 240), steps=(20, 40), checks=(8, 60)),
    "large": Setting(
        "rir_bench/Large-v0",
        {"side": 50, "beings": 300},
        {"side": 5000, "beings": 50_000},
        rounds=(2, 5),
        saves=(15, 60),
        episodes=(1, 1),
        steps=(2, 15),
        checks=(12, 60),
    ),
    "taxi": Setting("Taxi-v4", rounds=(40, 240), steps=(20, 40), checks=(8, 60)),
    "textworld cooking": Setting(
        *("rir_gym/TextWorld-Cooking-v0", {"level": 2}), rounds=(16, 80), saves=(20, 60), steps=(12, 24), checks=(6, 36)
    ),
    "textworld simple": Setting(
        "rir_gym/TextWorld-Simple-v0", rounds=(16, 80), saves=(20, 60), steps=(12, 24), checks=(6, 36)
    ),
    "textworld coins": Setting(
        "rir_gym/TextWorld-CoinCollector-v0", rounds=(16, 80), saves=(20, 60), steps=(12, 24), checks=(6, 36)
    ),
    "textworld treasure": Setting(
        "rir_gym/TextWorld-TreasureHunter-v0", rounds=(16, 80), saves=(20, 60), steps=(12, 24), checks=(6, 36)
    ),
    "alfworld style": Setting(
        "rir_gym/ALFWorldStyle-v0", rounds=(16, 80), saves=(20, 60), steps=(12, 24), checks=(6, 36)
    ),
    "textarena 2048": Setting("rir_gym/TextArena-v0", {"game": "2048-v0"}),
    "babyai": Setting("minigrid:BabyAI-GoToObj-v0"),
    "babyai as text": Setting("rir_gym/BabyAI-v0", {"level": "BabyAI-GoToObj-v0"}),
    "textworld express": Setting(
        "rir_gym/TextWorldExpress-v0", rounds=(16, 80), saves=(20, 60), steps=(12, 24), checks=(6, 36)
    ),
    "apothecary": Setting("rir_gym/Apothecary-v0"),
    "ale breakout": Setting("ale_py:ALE/Breakout-v5", **_ENGINE),
    "mujoco hopper": Setting("Hopper-v5", **_ENGINE),
    "nle": Setting("rir_bench/NetHack-v0", **_ENGINE),
    "jericho": Setting("rir_bench/Frotz-v0", **_ENGINE),
    "textworld, bare": Setting("rir_bench/Story-v0", **_ENGINE),
}
_STRETCH = 20
_NEAR = 8
_WEIGHING_S = (0.8, 8.0)
_FIGURES = ("save_us", "restore_us", "bytes", "first_bytes", "episode_overhead")


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; for a look, not for the record")
    parser.add_argument("--json", type=Path, help="write rows, targets and machine there")
    parser.add_argument("--markdown", nargs="?", const=True, metavar="PATH", help="print Markdown tables")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS), help="only these")
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS), help="only these")
    parser.add_argument("--stretch", type=int, default=_STRETCH, help="steps that a mechanism plays in a row")
    asked = parser.parse_args()
    if isinstance(asked.markdown, str):
        print(markdown(json.loads(Path(asked.markdown).read_text())))
        return
    size, left_out = int(not asked.quick), list[str]()
    played = size, left_out, asked.stretch, asked.mechanisms
    rows = [row for name in asked.worlds for row in measure(name, WORLDS[name], *played)]
    long = add_memory(rows, size)
    result = {
        "rows": rows,
        "long": long,
        "targets": targets(rows, long),
        "left_out": list(dict.fromkeys(left_out)),
        "quick": asked.quick,
        "machine": {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()},
        "versions": {"gymnasium": gym.__version__, "numpy": np.__version__},
    }
    print("\n".join([*lines(rows), *(f"left out: {note}" for note in result["left_out"])]))
    print("\n".join(each["text"] for each in result["targets"]))
    if asked.markdown:
        print(markdown(result))
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


def measure(
    world: str, setting: Setting, size: int, left_out: list[str], stretch: int, names: Sequence[str]
) -> list[dict[str, Any]]:
    """One row a mechanism, without its bytes; ``size`` is 0 for quick and 1 for full, ``left_out`` what is not here."""
    try:
        make = maker(setting.env_id, **setting.arguments)
    except Absent as absent:
        left_out.append(f"{world}: {absent}")
        return []
    envs, reasons = {}, {}
    for name in names:
        try:
            envs[name] = wrapped(name, make, setting.checks[size])
        except Absent as absent:
            left_out.append(str(absent))
        except (NotRestorable, AssertionError) as error:
            reasons[name] = str(error)
    timed, wrong = {}, {}
    few = [name for name in envs if isinstance(mechanism(name, make), Bounded)]  # they keep few far nodes: a tree apart
    for some, near in (([name for name in envs if name not in few], None), (few, _NEAR)):
        those = time_calls(make, some, setting.options, setting.rounds[size], stretch=stretch, near=near)
        timed, wrong = timed | those[0], wrong | those[1]
    reasons |= wrong
    for name in wrong:
        envs.pop(name).close()
    seed, actions = scout(make, setting.options, setting.steps[size])
    steps = time_episodes(make, envs, seed, actions, setting.options, setting.episodes[size])
    rows = []
    for name in [name for name in names if name in envs or name in reasons]:
        row = {"world": world, "mechanism": name, "step_us": round(steps["bare"] * 1e6, 2), **dict.fromkeys(_FIGURES)}
        if name in envs:
            row["save_us"] = round(statistics.median(timed[name].saves) * 1e6, 2)
            row["restore_us"] = round(statistics.median(timed[name].restores) * 1e6, 2)
            row["episode_overhead"] = round(steps[name] / steps["bare"], 3)
        rows.append({**row, "faithful": name in envs, "reason": reasons.get(name, "")})
    return rows


def add_memory(rows: list[dict[str, Any]], size: int) -> dict[str, Any] | None:
    """Fill in the bytes of the rows, and give the long episode of heap on the medium world, where it is faithful.

    In other processes, after all that is timed. The long episode is the first task of one that has done nothing else.
    """
    kept = [row for row in rows if row["faithful"]]
    with multiprocessing.get_context("spawn").Pool(min(2, os.cpu_count() or 1)) as pool:
        heap = any((row["world"], row["mechanism"]) == ("medium", "heap") for row in kept)
        long = pool.apply_async(long_episode, ((2_000, 10_000)[size],)) if heap else None
        weights: dict[tuple[str, str], Any] = {}
        for world in dict.fromkeys(row["world"] for row in kept):
            setting = WORLDS[world]
            seed, actions = scout(maker(setting.env_id, **setting.arguments), setting.options, setting.saves[size])
            played = (seed, actions, setting.options, _WEIGHING_S[size])
            for name in ("nothing", *(row["mechanism"] for row in kept if row["world"] == world)):
                asked = (setting.env_id, dict(setting.arguments), name, *played)
                weights[world, name] = pool.apply_async(weigh, asked)
        for row in kept:
            first, later = weights[row["world"], row["mechanism"]].get()
            _, history = weights[row["world"], "nothing"].get()
            row["bytes"], row["first_bytes"] = max(0, round(later - history)), max(0, round(first))
        return None if long is None else long.get()


# --- the passes -----------------------------------------------------------------------------------------------------


def time_calls(
    make: Make, names: list[str], options: Options, rounds: int, *, stretch: int = _STRETCH, near: int | None = None
) -> tuple[dict[str, Timed], dict[str, str]]:
    """The calls of each mechanism over one common tree of steps and restores; and how the wrong ones went wrong.

    They take turns in stretches of 20 steps (``--stretch``): after one of its own steps a mechanism finds the
    processor's caches as it would alone, not as the deep copies of another left them. ``near``: only so many of the
    newest nodes are restored.
    """
    timed = {name: Timed(mechanism(name, make)) for name in names}
    worlds = {name: world_of(make, timed[name]) for name in names}
    digests: dict[str, dict[int, str | None]] = {}
    streams: dict[str, ProcessRng] = {}
    wrong: dict[str, str] = {}
    rng, every = random.Random(0), 2 if rounds < 10 else 4
    for name, world in worlds.items():
        world.reset(0, options)
        digests[name], streams[name] = {0: _digest(world)}, read()
        space = copy.deepcopy(world.env.action_space)
    for start in range(0, rounds, stretch):
        order = [name for name in names if name not in wrong]
        turn = start // stretch % max(len(order), 1)
        script: list[tuple[Any, int | None]] = []  # the first to come by decides what all do in a stretch
        for name in order[turn:] + order[:turn]:
            world = worlds[name]
            write(streams[name])  # a world may draw from the global generators, as if it were alone with them
            try:
                for round_ in range(start, min(start + stretch, rounds)):
                    if len(script) == round_ - start:
                        action = None if world.node.step.over else choose(world.node.step.info, space, rng)
                        back = action is None or round_ % every == every - 1
                        nodes = len(world.nodes)
                        oldest = 0 if near is None else max(0, nodes - near)
                        script.append((action, rng.randrange(oldest, nodes) if back else None))
                    _turn(world, *script[round_ - start], digests[name])
            except Exception as error:  # what foreign code does after a wrong restore
                wrong[name] = f"round {round_}: {type(error).__name__}: {error}"
            streams[name] = read()
    for name, world in worlds.items():
        if name not in wrong and (found := _differs(make, world, options)):
            wrong[name] = found
        world.forget()
        world.env.close()
    return timed, wrong


def _turn(world: World, action: Any, target: int | None, digests: dict[int, str | None]) -> None:
    """Save and step where there is an action; then save and restore where there is a target."""
    if action is not None:
        node = world.step(action)
        digests[node.id] = _digest(world)
    if target is not None:
        world.keep()
        world.restore(world.nodes[target])
        if _digest(world) != digests[target]:
            raise AssertionError(f"the restored world is not that of {world.node}")


def _digest(world: World) -> str | None:
    """The whole state in one word, of a world that can say it: one of which observations show little."""
    digest = getattr(world.env.unwrapped, "digest", None)
    return None if digest is None else str(digest())


def _differs(make: Make, world: World, options: Options) -> str:
    """The first difference between the tree and straight runs from reset to its leaves; empty where there is none."""
    parents = {node.parent for node in world.nodes}
    live = World(make(), Nothing())
    try:
        for leaf in [node for node in world.nodes if node not in parents]:
            live.reset(0, options)
            for node in leaf.branch():
                step = node.step if node.parent is None else live.step(node.step.action).step
                for what in ("observation", "reward", "terminated", "truncated", "admissible"):
                    if not same_value(getattr(node.step, what), getattr(step, what)):
                        return f"{node}: {what} is not that of a straight run"
    finally:
        live.env.close()
    return ""


def choose(info: Mapping[str, Any], space: gym.Space[Any], rng: random.Random) -> Any:
    """An admissible command where they are listed, else a sample of ``space``, which is reseeded for it."""
    if listed := info.get("admissible"):
        return rng.choice(listed)
    space.seed(rng.randrange(2**31))
    return space.sample(mask=info.get("action_mask"))


def scout(make: Make, options: Options, steps: int) -> tuple[int, list[Any]]:
    """A seed and random actions that do not end its episode within ``steps``, or the longest of twelve such runs."""
    best: tuple[int, list[Any]] = (0, [])
    env = make()
    space = copy.deepcopy(env.action_space)
    for seed in range(12):
        rng, actions, over = random.Random(seed), list[Any](), False
        _, info = env.reset(seed=seed, options=None if options is None else dict(options))
        while len(actions) < steps and not over:
            actions.append(choose(info, space, rng))
            _, _, terminated, truncated, info = env.step(actions[-1])
            over = terminated or truncated
        best = max(best, (seed, actions), key=lambda each: len(each[1]))
        if len(best[1]) == steps:
            break
    env.close()
    return best


def time_episodes(
    make: Make, envs: Mapping[str, gym.Env[Any, Any]], seed: int, actions: list[Any], options: Options, episodes: int
) -> dict[str, float]:
    """Median seconds per step by variant, "bare" among them; they take turns over the same actions, and are closed."""
    variants = {"bare": make(), **envs}
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    encoded = actions, [(0, action) for action in actions]  # where a wrapper has no action of the same space to spare
    for episode in range(episodes):
        names = list(variants)
        for name in names[episode % len(names) :] + names[: episode % len(names)]:
            env = variants[name]
            env.reset(seed=seed, options=None if options is None else dict(options))
            gc.collect()  # what was before is not this one's to pay for
            started = time.perf_counter()
            for action in encoded[isinstance(env.action_space, gym.spaces.OneOf)]:
                env.step(action)
            seconds[name].append((time.perf_counter() - started) / len(actions))
            if episode == episodes - 1:
                env.close()
    return {name: statistics.median(values) for name, values in seconds.items()}


if __name__ == "__main__":
    main()
