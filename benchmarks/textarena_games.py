"""Which of TextArena's single-player games are put back exactly: each game tried, those left out by what happens.

    python benchmarks/textarena_games.py [--quick] [--json PATH]

Prints the Markdown table of docs/textarena.md. A game that is offered is played by ``check_restore``: random trees of
listed moves (of readable ones where a game lists none) with 24 restores, 6 with --quick, each node against a straight
run. A family that is left out is only begun, without a network. Rows: family, games, mechanism, restores, wrong, note.
Exit status 1 where a restore was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import logging
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym

import rir_gym  # noqa: F401 - registers the ids
from rir_gym.errors import RirError
from rir_gym.testing import check_restore

# Moves that can be read, for the games that list none.
UNLISTED = {
    "Mastermind": ["[1 2 3 4]", "[2 3 4 5]", "[6 5 4 3]", "[1 3 5 2]", "[4 3 2 1]"],
    "RushHour": [f"[{car}{way}]" for car in "XABCDFGHIJ" for way in "+-"],
    "Sudoku": [f"[{row} {column} {digit}]" for row in (1, 5, 9) for column in (1, 4, 9) for digit in (2, 5, 8)],
}


class Listing(gym.Wrapper[str, str, str, str]):
    """Lists the moves of ``UNLISTED`` where the game lists none."""

    def __init__(self, env: gym.Env[str, str], moves: list[str]) -> None:
        super().__init__(env)
        self.moves = moves

    def reset(self, **arguments: Any) -> tuple[str, dict[str, Any]]:
        observation, info = self.env.reset(**arguments)
        return observation, {**info, "admissible": list(self.moves)}

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        observation, reward, over, truncated, info = self.env.step(action)
        listed = info["admissible"] if info["admissible"] is not None else list(self.moves)
        return observation, reward, over, truncated, {**info, "admissible": listed}


def main() -> None:
    """Try, print, and write JSON where asked; exit status 1 where a restore was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="6 restores a game, not 24")
    parser.add_argument("--json", type=Path, help="write the rows there")
    asked = parser.parse_args()
    names = importlib.import_module("rir_envs.textarena")
    rows = [offered(game, 6 if asked.quick else 24) for game in names.GAMES]
    rows += [left_out(family, reason, names.GAMES) for family, reason in names.LEFT_OUT.items()]
    print("\n".join(["| game | put back by | restores | wrong | |", "|---|---|---|---|---|", *table(rows)]))
    if asked.json:
        asked.json.write_text(json.dumps({"rows": rows, "quick": asked.quick}, indent=1) + "\n")
    sys.exit(int(any(row["wrong"] for row in rows)))


def offered(game: str, restores: int) -> dict[str, Any]:
    """The row of a game that is offered."""
    family = game.partition("-v0")[0]

    def make() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = gym.make("rir_gym/TextArena-v0", game=game, disable_env_checker=True)
        return Listing(env, UNLISTED[family]) if family in UNLISTED else env

    row = {"family": family, "game": game, "offered": True, "mechanism": "", "restores": 0, "wrong": 0, "note": ""}
    try:
        report = check_restore(make, restores=restores)
    except (AssertionError, RirError) as error:
        return {**row, "wrong": 1, "note": str(error)[:200]}
    return {**row, "mechanism": report.mechanism, "restores": report.restores}


def left_out(family: str, reason: str, games: tuple[str, ...]) -> dict[str, Any]:
    """The row of a family, or of the variants of one, that is left out: why, and what its reset does here."""
    textarena = importlib.import_module("textarena")
    known = sorted(name.removesuffix("-raw") for name in textarena.envs.registration.ENV_REGISTRY)
    missing = sorted({name for name in known if name.partition("-v0")[0] == family and "-v0" in name} - {*games})
    missing = [name for name in missing if not name.endswith("-train") or name.removesuffix("-train") not in games]
    row = {"family": family, "game": ", ".join(dict.fromkeys(name.removesuffix("-train") for name in missing))}
    row |= {"offered": False, "mechanism": "", "restores": 0, "wrong": 0, "note": reason}
    if not missing or reason.endswith("a reset"):
        return {**row, "begun": ""}
    with quiet():
        try:
            textarena.make(f"{row['game'].partition(', ')[0]}-raw").reset(num_players=1, seed=1)
        except Exception as error:  # foreign code
            return {**row, "begun": type(error).__name__}
    return {**row, "begun": "begins"}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Markdown rows: the variants of a family in one where they came out alike."""
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["family"], row["offered"], row["mechanism"], bool(row["wrong"]), row["note"]
        lines.setdefault(key, []).append(row)
    said = []
    for (_, here, mechanism, _, note), group in lines.items():
        restores, wrong = (sum(row[name] for row in group) for name in ("restores", "wrong"))
        names = ", ".join(f"`{row['game']}`" for row in group)
        begun = group[0].get("begun", "")
        because = f"not offered: {note}" + (f" ({begun})" if begun not in ("", "begins") else "")
        tail = f"{mechanism} | {restores} | {wrong} | {note}" if here else f"– | – | – | {because}"
        said.append(f"| {names if here else names.replace(', ', '`, `')} | {tail} |")
    return said


@contextlib.contextmanager
def quiet() -> Any:
    """Foreign games without a network, and without their messages."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise OSError("no network here")

    kept = socket.getaddrinfo, socket.create_connection
    socket.getaddrinfo = socket.create_connection = refuse
    logging.disable()
    try:
        said = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            warnings.simplefilter("ignore")
            yield
    finally:
        socket.getaddrinfo, socket.create_connection = kept
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    main()
