"""Wrong restores, counted: random trees of steps and restores on many environments, each against straight runs.

    python benchmarks/fidelity.py [--quick] [--engines] [--json PATH]

--engines: only the simulators and games whose state is in C, as anybody would wrap them, each by what ``auto`` takes,
by ``fork`` and by ``keyframes``: some 1,800 restores where all five are installed (NLE needs Gymnasium 1.2).
Rows: env, asked (the ``snapshot=`` setting), mechanism (the one that was chosen), episodes, restores, jumps (restores
to another branch), undone_ends (restores from the end of an episode), wrong, reason (of a refusal, or of the last
wrong one). ``rir_gym.testing.check_restore`` does the checking, twelve restores a tree; a tree with a difference counts
as one wrong restore, is printed, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from contenders import Make
from worlds import Absent, maker

import rir_gym
from rir_gym.errors import NotRestorable, RollbackRefused, SnapshotError, UnknownName
from rir_gym.testing import check_restore

ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "FrozenLake, slippery": ("FrozenLake-v1", {"is_slippery": True}),
    "Taxi": ("Taxi-v4", {}),
    "CliffWalking": ("CliffWalking-v1", {}),
    "Blackjack": ("Blackjack-v1", {}),
    "CartPole": ("CartPole-v1", {}),
    "EzPickle": ("rir_bench/EzPickle-v0", {}),
    "Apothecary": ("rir_gym/Apothecary-v0", {}),
    "TextWorld cooking": ("rir_gym/TextWorld-Cooking-v0", {"level": 2}),
    "TextWorld simple": ("rir_gym/TextWorld-Simple-v0", {}),
    "TextWorld coin collector": ("rir_gym/TextWorld-CoinCollector-v0", {}),
    "TextWorld treasure hunter": ("rir_gym/TextWorld-TreasureHunter-v0", {}),
    "ALFWorld-style": ("rir_gym/ALFWorldStyle-v0", {}),
    "TextArena 2048": ("rir_gym/TextArena-v0", {"game": "2048-v0"}),
    "TextArena Minesweeper": ("rir_gym/TextArena-v0", {"game": "Minesweeper-v0"}),
    "TextArena Sokoban": ("rir_gym/TextArena-v0", {"game": "Sokoban-v0"}),
    "TextWorldExpress cookingworld": ("rir_gym/TextWorldExpress-v0", {"game": "cookingworld"}),
    "BabyAI GoToLocal": ("rir_gym/BabyAI-v0", {"level": "BabyAI-GoToLocal-v0"}),
    "BabyAI BossLevel": ("rir_gym/BabyAI-v0", {"level": "BabyAI-BossLevel-v0"}),
    "BabyAI GoToObj": ("minigrid:BabyAI-GoToObj-v0", {}),
    "BabyAI Pickup": ("minigrid:BabyAI-PickupLoc-v0", {}),
    "small": ("rir_bench/Small-v0", {}),
    "medium": ("rir_bench/Medium-v0", {}),
    "large, cut down": ("rir_bench/Large-v0", {"side": 300, "beings": 1_000}),
}
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "ALE Breakout": ("ale_py:ALE/Breakout-v5", {}),
    "MuJoCo Hopper": ("Hopper-v5", {}),
    "NLE": ("rir_bench/NetHack-v0", {}),
    "jericho": ("rir_bench/Frotz-v0", {}),
    "TextWorld, bare": ("rir_bench/Story-v0", {}),
}
ASKED = {
    **dict.fromkeys(ENVIRONMENTS, ("auto", "heap")),
    **dict.fromkeys(("TextWorldExpress cookingworld",), ("auto",)),  # a Java process fits no heap
    **dict.fromkeys(ENGINES, ("auto", "fork", "keyframes")),
}
_A_TREE = 12


def main() -> None:
    """Check, print, and write JSON where asked; exit status 1 where a restore was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one tree an environment and setting, not ten")
    parser.add_argument("--json", type=Path, help="write rows and totals there")
    parser.add_argument("--engines", action="store_true", help="only the simulators and games in C")
    parser.add_argument("--environments", nargs="+", choices=ASKED, help="only these")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    for name in arguments.environments or list(ENGINES if arguments.engines else ASKED):
        env_id, settings = {**ENVIRONMENTS, **ENGINES}[name]
        try:
            make = maker(env_id, **settings)
        except Absent as absent:
            left_out.append(f"{name}: {absent}")
            continue
        for asked in ASKED[name]:
            try:
                rows.append(row := {"env": name, "asked": asked, **check(make, asked, 1 if arguments.quick else 10)})
            except UnknownName as error:
                left_out.append(str(error))
            else:
                print(line(row), flush=True)
    restores, wrong = (sum(row[what] for row in rows) for what in ("restores", "wrong"))
    checked = {row["env"] for row in rows if row["restores"]}
    for note in dict.fromkeys(left_out):
        print(f"left out: {note}")
    print(f"{restores} restores over {len(checked)} environments, {wrong} wrong")
    if arguments.json:
        result = {"rows": rows, "restores": restores, "environments": len(checked), "wrong": wrong}
        arguments.json.write_text(
            json.dumps({**result, "left_out": left_out, "quick": arguments.quick}, indent=1) + "\n"
        )
    sys.exit(int(wrong > 0))


def check(make: Make, asked: str, trees: int) -> dict[str, Any]:
    """The row of one environment and one setting.

    Raises:
        UnknownName: there is no such mechanism.
    """
    counts = dict.fromkeys(("episodes", "restores", "jumps", "undone_ends", "wrong"), 0)
    mechanism = reason = ""
    try:
        env = rir_gym.RollbackWrapper(make(), snapshot=asked)
    except NotRestorable as error:
        return {"mechanism": "", **counts, "reason": str(error)}
    for tree in range(trees):
        mechanism = env.snapshot_report.chosen
        try:
            report = check_restore(env, restores=_A_TREE, seed=tree + (1_000 if asked == "heap" else 0))
        except (AssertionError, SnapshotError, RollbackRefused) as error:
            counts["wrong"] += 1
            reason = str(error)
            env.close()
            env = rir_gym.RollbackWrapper(make(), snapshot=asked)
        else:
            for name in ("episodes", "restores", "jumps", "undone_ends"):
                counts[name] += getattr(report, name)
    env.close()
    return {"mechanism": mechanism, **counts, "reason": reason}


def line(row: dict[str, Any]) -> str:
    """A row as one line, and what was wrong in full."""
    if not row["mechanism"]:
        return f"{row['env']:22} {row['asked']:9} refused: {row['reason'].partition('faithfully. ')[2][:130]}"
    told = (
        f"{row['env']:22} {row['asked']:9} {row['mechanism']:14} {row['restores']:5} restores, {row['jumps']:4} jumps, "
        f"{row['undone_ends']:4} from an end, {row['wrong']} wrong"
    )
    return told + (f"\n    {row['reason']}" if row["wrong"] else "")


if __name__ == "__main__":
    main()
