"""What checkpoints weigh: bytes of each, and the growth of a long episode. For processes beside the measuring one."""

from __future__ import annotations

import gc
import os
import platform
import random
import statistics
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from contenders import FORKS, Nothing, Timed, mechanism, world_of
from leaks import descendants
from worlds import maker

import rir_gym

__all__ = ["long_episode", "weigh"]


def weigh(
    env_id: str,
    arguments: Mapping[str, Any],
    name: str,
    seed: int,
    actions: Sequence[Any],
    options: Mapping[str, Any] | None,
    limit_s: float,
) -> tuple[float, float]:
    """Bytes that the first checkpoint adds, and that each later step adds with its checkpoint and its history.

    As many steps as there are actions, fewer (at least one) after ``limit_s`` seconds. "nothing" is the history alone.
    """
    make, held = maker(env_id, **arguments), _forked if name in FORKS else _traced
    kept = Nothing() if name == "nothing" else mechanism(name, make)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        world = world_of(make, kept)
        world.reset(seed, options)
        traced, done = [held()], 0
        world.keep()
        traced.append(held())
        started = time.monotonic()
        while done < len(actions) and (done == 0 or time.monotonic() - started < limit_s):
            world.step(actions[done])
            done += 1
        world.keep()
        traced.append(held())
    finally:
        tracemalloc.stop()
        gc.enable()
    world.forget()
    world.env.close()
    return traced[1] - traced[0], (traced[2] - traced[1]) / done


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _forked() -> int:
    """Bytes of the processes that descend from this one; a page that several share is counted once."""
    total = 0
    for process in descendants(os.getpid()):
        with suppress(OSError):  # one that has just ended
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def long_episode(steps: int) -> dict[str, Any]:
    """One episode of the medium world, saved by heap before every action: memory growth and drift of the times.

    The growth is that of resident memory, so nothing else should have been done in the process.
    """
    env = rir_gym.RollbackWrapper(maker("rir_bench/Medium-v0")(), snapshot="heap")
    timed = env._world.mechanism = Timed(env._world.mechanism)
    rng, seconds, edge = random.Random(0), list[float](), min(1_000, steps // 2)
    env.reset(seed=0)
    settled = 0
    for step in range(steps):
        if step == steps // 10:
            settled = _resident()
        started = time.perf_counter()
        env.step(rng.randrange(3))
        seconds.append(time.perf_counter() - started)
    growth = (_resident() - settled) / (steps - steps // 10) / 1024
    return {
        "steps": steps,
        "kb_a_step": round(growth, 2),
        "save_last_over_first": _drift(timed.saves, edge),
        "step_last_over_first": _drift(seconds, edge),
    }


def _drift(seconds: list[float], edge: int) -> float:
    return round(statistics.median(seconds[-edge:]) / statistics.median(seconds[:edge]), 3)


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)
