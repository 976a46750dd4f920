"""Whether what the oracles plan is right: plans from the start, played step by step, must end in success.

    python benchmarks/gold.py [--quick] [--json PATH] [--ids ID ...]

Rows: id, games, solved, and the shortest, median and longest plan (gold_min, gold_median, gold_max), over tasks that
differ in their seed and, where an id has several kinds of tasks, in the kind. Success is the environment's own flag.
Ids with an oracle that are not installed here, or need data that are not here, are left out, by name and reason.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from rir_gym.cli.worlds import seeded_arguments
from rir_gym.errors import RirError
from rir_gym.ids import IDS


@dataclass(frozen=True, slots=True)
class Games:
    """How many games of an id are played in a (quick, full) run, shared out evenly over its kinds of tasks."""

    count: tuple[int, int] = (2, 25)
    kinds: Sequence[Mapping[str, Any]] = field(default=({},))


ALFWORLD_TYPES = (
    *("pick_and_place_simple", "look_at_obj_in_light", "pick_clean_then_place_in_recep"),
    *("pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep", "pick_two_obj_and_place"),
)
WORKSPACE_FAMILIES = ("backups", "chapters", "invoices", "labels", "ledger", "logs", "orders", "reminders")
BABYAI_LEVELS = ("GoToLocal", "PickupLoc", "UnlockPickup", "PutNextLocal", "BossLevel")
EXPRESS_GAMES = ("arithmetic", "coin", "cookingworld", "mapreader", "peckingorder", "simonsays", "sorting", "twc")
SCIENCE_TASKS = (  # those with short paths first: a quick run takes the first ones
    *("find-animal", "chemistry-mix", "find-living-thing", "find-non-living-thing", "find-plant"),
    *("boil", "freeze", "melt"),
    *("change-the-state-of-matter-of", "chemistry-mix-paint-secondary-color", "chemistry-mix-paint-tertiary-color"),
    *("grow-fruit", "grow-plant", "identify-life-stages-1", "identify-life-stages-2", "inclined-plane-determine-angle"),
    *("inclined-plane-friction-named-surfaces", "inclined-plane-friction-unnamed-surfaces", "lifespan-longest-lived"),
    *("lifespan-longest-lived-then-shortest-lived", "lifespan-shortest-lived", "measure-melting-point-known-substance"),
    *("measure-melting-point-unknown-substance", "mendelian-genetics-known-plant", "mendelian-genetics-unknown-plant"),
    *("power-component", "power-component-renewable-vs-nonrenewable-energy", "test-conductivity", "use-thermometer"),
    "test-conductivity-of-unknown-substances",
)
GAMES = {
    "rir_gym/Apothecary-v0": Games((10, 200)),
    "rir_gym/ALFWorldStyle-v0": Games((6, 60), [{"task_type": each} for each in ALFWORLD_TYPES]),
    "rir_gym/BabyAI-v0": Games((5, 100), [{"level": f"BabyAI-{each}-v0"} for each in BABYAI_LEVELS]),
    "rir_gym/ScienceWorld-v0": Games((3, 30), [{"task": each, "variation": 0} for each in SCIENCE_TASKS]),
    "rir_gym/TextWorldExpress-v0": Games((8, 40), [{"game": each} for each in EXPRESS_GAMES]),
    "rir_gym/Workspace-v0": Games((16, 200), [{"family": each} for each in WORKSPACE_FAMILIES]),
}


@dataclass(frozen=True, slots=True)
class Played:
    """One game: the length of the plan that was made at its start, None where there was none, and what it led to."""

    steps: int | None
    success: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Play, print, and write JSON where asked; 1 where a plan did not lead to success."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few games of each id")
    parser.add_argument("--json", type=Path, help="write the rows there")
    known = [each.id for each in IDS if each.oracle]
    parser.add_argument("--ids", nargs="+", choices=known, default=known, metavar="ID", help=f"of {', '.join(known)}")
    asked = parser.parse_args(argv)
    rows, left_out = [], {}
    for env_id in asked.ids:
        try:
            rows.append(row(env_id, measured(env_id, full=not asked.quick)))
        except (RirError, gym.error.Error) as error:
            left_out[env_id] = str(error)
            print(f"{env_id}: left out: {error}", flush=True)
            continue
        print("  ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps({"rows": rows, "left_out": left_out}, indent=1) + "\n")
    return int(any(each["solved"] < each["games"] for each in rows))


def measured(env_id: str, *, full: bool) -> list[Played]:
    """The games of one id.

    Raises:
        RirError, gym.error.Error: it cannot be made here.
    """
    games = GAMES.get(env_id, Games())
    each, rest = divmod(games.count[full], len(games.kinds))
    return [
        play(env_id, kind, seed) for number, kind in enumerate(games.kinds) for seed in range(each + (number < rest))
    ]


def play(env_id: str, kind: Mapping[str, Any], seed: int) -> Played:
    """Ask for a plan at the start of one game, and do what it says to the end, or to the end of the episode."""
    env = gym.make(env_id, **seeded_arguments(env_id, kind, seed))
    try:
        _, info = env.reset(seed=seed)
        plan = env.get_wrapper_attr("oracle").plan()
        for action in plan or ():
            _, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        return Played(None if plan is None else len(plan), bool(info["oracle"]["success"]))
    finally:
        env.close()


def row(env_id: str, played: Sequence[Played]) -> dict[str, Any]:
    """The figures of one id."""
    steps = [each.steps for each in played if each.steps is not None]
    return {
        "id": env_id,
        "games": len(played),
        "solved": sum(each.success for each in played),
        "gold_min": min(steps, default=None),
        "gold_median": statistics.median(steps) if steps else None,
        "gold_max": max(steps, default=None),
    }


if __name__ == "__main__":
    raise SystemExit(main())
