"""Gold paths of ScienceWorld: made by the simulator, checked by playing them, and kept; and the oracle that uses them.

Making one takes from a second to a minute, so it is made when it is first asked for, in a Java process of its own, and
kept in the cache folder. A path that does not lead to 100 points when it is played is none. This module knows the
simulator; it searches nothing, and off the path it knows nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rir_envs.cache import kept
from rir_envs.scienceworld_java import give_back, lend
from rir_envs.scienceworld_tasks import Task

if TYPE_CHECKING:
    from rir_envs.scienceworld import ScienceWorldEnv

__all__ = ["WON", "WORLD_SEED", "ScienceWorldOracle", "gold_path"]

WORLD_SEED = 1
WON = 100
_MAKER_SEEDS = (1, 2, 3)
_FILE = "gold.json"


@lru_cache(maxsize=4096)
def gold_path(task: Task) -> tuple[str, ...] | None:
    """Commands that lead from the start of the task to 100 points, played before they are told; None: none is known.

    Raises:
        MissingDependency, JavaMissing, WorldDied: as ``scienceworld_java.lend`` and a ``Link``.
        UsageError: the cache folder cannot be written.
    """
    name = f"scienceworld/{version('scienceworld')}/{task.name}/{task.variation}-{task.simplifications or 'plain'}"
    told = json.loads((kept(name, [_FILE], lambda folder: _make(task, folder / _FILE)) / _FILE).read_text("utf-8"))
    return tuple(map(str, told)) if isinstance(told, list) else None


def _make(task: Task, path: Path) -> None:
    link = lend()
    try:
        found = None
        for seed in _MAKER_SEEDS:
            link.load(task.name, task.variation, task.simplifications, seed=seed, gold=True)
            commands = link.gold()
            link.load(task.name, task.variation, task.simplifications, seed=WORLD_SEED)
            for number, command in enumerate(commands, 1):
                _, score, over = link.step(command)
                if score >= WON:
                    found = commands[:number]
                if over or score < 0 or score >= WON:
                    break
            if found is not None:
                break
    finally:
        give_back(link)
    path.write_text(json.dumps(found), "utf-8")


@dataclass(frozen=True, slots=True)
class ScienceWorldOracle:
    """What is known of one environment: on the gold path its rest, at an end that it is one, and nothing elsewhere.

    Every method raises ``UsageError`` before the first reset and after close.
    """

    env: ScienceWorldEnv

    def distance(self) -> float | None:
        """Length of the rest of the path: an *upper bound* on the fewest commands; ``inf`` when it has failed."""
        if self.env.failed:
            return math.inf
        plan = self.plan()
        return None if plan is None else float(len(plan))

    def best_action(self) -> str | None:
        """The next command of the path."""
        plan = self.plan()
        return plan[0] if plan else None

    def plan(self) -> Sequence[str] | None:
        """The rest of the gold path; empty when won; None when failed, off the path, or where none is known."""
        done = self.env.commands
        if self.env.won:
            return ()
        if self.env.failed:
            return None
        path = gold_path(self.env.task)
        return path[len(done) :] if path is not None and path[: len(done)] == done else None

    def recoverable(self, within: int) -> bool | None:
        """True where the rest of the path is no longer; False where it has failed, or no command is left; else None."""
        if self.env.failed or within < 0 or (within < 1 and not self.env.won):
            return False
        plan = self.plan()
        return True if plan is not None and len(plan) <= within else None

    def progress(self) -> float:
        """The score, from 0 to 1."""
        return self.env.score
