"""Household games in ALFWorld's style, made offline, in the file layout of ALFWorld's own data.

``style_game`` gives the folder of one game. **These are not ALFWorld's games**: those are a download, and no result on
these is a result on ALFWorld. What is ALFWorld's: the PDDL domain, the grammar, the goal library, the constants, the
floor plans and the planner, all from the ``alfworld`` package. What is ours is said in ``alfworld_rooms`` and
``alfworld_goals``. Every game has a walk by construction; the package's planner must find one that is no longer, of
``STEPS`` steps, and this shortest plan is played to the goal before it is stored as ``walkthrough``.

A game is a function of (task type, split, game seed): it is made in a child process with a fixed hash seed and kept in
the cache. This module knows how games are made and kept, and nothing of how they are played by an agent.

Source of the original: Shridhar et al., "ALFWorld: Aligning Text and Embodied Environments for Interactive Learning",
arXiv 2010.03768; task types and splits of rooms: Shridhar et al., "ALFRED", arXiv 1912.01734.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import random
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from rir_envs.alfworld_data import game_of
from rir_envs.alfworld_engine import started
from rir_envs.alfworld_goals import TASK_TYPES, asks_for_a_slice, draw, objective
from rir_envs.alfworld_planner import COMMANDS, shortest_plan
from rir_envs.alfworld_problem import Fact, facts_of, problem
from rir_envs.alfworld_rooms import LAMP, Home, Split, rules
from rir_envs.alfworld_route import Goal, Step, route
from rir_envs.cache import in_child, kept
from rir_gym.errors import MissingDependency, RirError, UsageError

__all__ = ["FILES", "SEEDS", "STEPS", "style_game"]

FILES = ("game.tw-pddl", "traj_data.json", "initial_state.pddl")
"""The files of a game's folder, named as in ALFWorld's data."""

STEPS = range(6, 26)
"""How many steps a stored walkthrough may take."""

SEEDS = range(2**31)
"""The game seeds. The same seed in the other split is another game, in rooms that this split never uses."""

_REVISION = 1  # of what is generated: another number, other games
_DRAWS = 10_000
_TIMEOUT_S = 600.0


def style_game(task_type: str, game_seed: int, *, split: Split = "train") -> Path:
    """The folder of this ALFWorld-style game, with ``FILES``; made now (some seconds) where it is not in the cache.

    ``game.tw-pddl`` is JSON with ``pddl_domain``, ``grammar``, ``pddl_problem``, ``solvable`` (true) and
    ``walkthrough`` (commands, with the names that ALFWorld's demangler gives without shuffling). ``traj_data.json``
    has ``task_type``, ``pddl_params`` and ``turk_annotations`` as ALFRED's does (one annotation, made by a template),
    and says under ``style`` how the game was made. The cache is ``alfworld_style`` in ``RIR_GYM_CACHE``, or else in the
    user's cache folder; it may be shared by any number of processes, and spoilt files are made again.

    Raises:
        UsageError: a task type, game seed or split that does not exist, or a cache folder that cannot be written.
        MissingDependency: the packages of the extra ``alfworld`` are not installed.
        RirError: the game could not be made.
    """
    if task_type not in TASK_TYPES:
        raise UsageError(f"task_type={task_type!r}: task types are {', '.join(TASK_TYPES)}")
    if isinstance(game_seed, bool) or not isinstance(game_seed, int) or game_seed not in SEEDS:
        raise UsageError(f"game_seed={game_seed!r}: an int from 0 to {SEEDS[-1]}")
    if split not in get_args(Split):
        raise UsageError(f"split={split!r}: splits are {', '.join(get_args(Split))}")
    if any(find_spec(package) is None for package in ("alfworld", "textworld", "fast_downward")):
        raise MissingDependency("an ALFWorld-style game", "alfworld")
    made_by = "-".join(importlib.metadata.version(package) for package in ("alfworld", "textworld"))

    def make(scratch: Path) -> None:
        data = scratch / "alfworld_data"  # importing alfworld makes a folder: here, and not in the user's home
        in_child(
            __name__,
            "_generate",
            (task_type, str(game_seed), split, str(scratch)),
            cwd=scratch,
            environment={"ALFWORLD_DATA": str(data)},
            timeout_s=_TIMEOUT_S,
        )

    return kept(f"alfworld_style/{made_by}-{_REVISION}/{split}/{task_type}-style-{game_seed}", FILES, make)


def _generate(task_type: str, game_seed: str, split: Split, folder: str) -> None:
    """The child process: draw homes until one has a gold path of the right length, write the files, play it."""
    rng = random.Random(f"{task_type}/{split}/{game_seed}")
    known = rules()
    sliced = asks_for_a_slice(task_type, rng)
    for _ in range(_DRAWS):
        drawn = draw(task_type, sliced, split, known, rng)
        walk = route(*drawn, known) if drawn is not None else None
        if drawn is None or walk is None or len(walk) not in STEPS:
            continue
        goal, home = drawn
        facts = facts_of(home, known)
        plan = shortest_plan(goal, facts)
        if plan is None or len(plan) > len(walk):
            raise RirError(f"plan={plan!r}: the planner has none as short as {walk!r}, which is there by construction")
        if len(plan) in STEPS:
            _write(Path(folder), goal, home, facts, objective(goal, rng), plan, int(game_seed), split)
            return
    raise RirError(f"game_seed={game_seed}: no {split} game of type {task_type} in {_DRAWS} draws")


def _write(
    folder: Path,
    goal: Goal,
    home: Home,
    facts: Collection[Fact],
    words: str,
    plan: Sequence[Step],
    game_seed: int,
    split: Split,
) -> None:
    info: Any = importlib.import_module("alfworld.info")
    start = problem(goal, facts)
    game: dict[str, Any] = {
        "pddl_domain": Path(info.ALFRED_PDDL_PATH).read_text("utf-8"),
        "grammar": Path(info.ALFRED_TWL2_PATH).read_text("utf-8").replace("UNKNOWN GOAL", words),
        "pddl_problem": start,
        "solvable": True,
    }
    name = f"style-{goal.task_type}-{split}-{game_seed}"
    told = {
        "task_id": name,
        "task_type": goal.task_type,
        "pddl_params": {
            "mrecep_target": "",
            "object_sliced": goal.sliced,
            "object_target": goal.target,
            "parent_target": goal.destination,
            "toggle_target": "" if goal.destination else LAMP,
        },
        "scene": {"floor_plan": "+".join(home.plans)},
        "turk_annotations": {
            "anns": [{"assignment_id": name, "task_desc": f"{words}.", "high_descs": [], "votes": []}]
        },
        "style": {
            "made_by": __name__,
            "revision": _REVISION,
            "game_seed": game_seed,
            "split": split,
            "hand_full_at_start": any(thing.where is None for thing in home.things),
            "gold_steps": len(plan),
        },
    }
    (folder / FILES[1]).write_text(json.dumps(told, indent=1), "utf-8")
    (folder / FILES[2]).write_text(start, "utf-8")
    (folder / FILES[0]).write_text(json.dumps(game), "utf-8")
    game["walkthrough"] = _played(folder, plan)
    (folder / FILES[0]).write_text(json.dumps(game), "utf-8")


def _played(folder: Path, plan: Sequence[Step]) -> list[str]:
    """The plan as commands, after the engine took them, each admissible, to the goal and not before the last."""
    engine = started(game_of(folder))
    called = {"": "", **engine.names}
    commands = [COMMANDS[verb].format(called[thing], called[place]) for verb, thing, place in plan]
    for command in commands:
        if engine.won or command not in engine.commands:
            raise RirError(f"command={command!r}: cannot be done there in {commands!r}")
        engine.step(command)
    if not engine.won:
        raise RirError(f"commands={commands!r}: do not reach the goal")
    return commands
