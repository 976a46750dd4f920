"""Which moves a TextArena game takes now, for the games where that is plain to see; the others list none.

Each function reads the raw game object and changes nothing. This module knows the games' rules of moving and nothing of
Gymnasium. A listed move is never answered as invalid (a mine in Minesweeper is: the game counts it so).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["moves"]


def moves(game: str, raw: Any) -> list[str] | None:
    """The moves of ``raw``, the running game of that id (such as "2048-v0-easy"), in a fixed order; None: unlisted."""
    listing = _LISTINGS.get(game.partition("-v0")[0])
    return None if listing is None else [f"[{move}]" for move in listing(raw)]


def _slides(raw: Any) -> list[str]:
    rows: list[list[int]] = raw.state.game_state["board"]
    columns = [list(column) for column in zip(*rows, strict=True)]
    towards = {
        "Up": columns,
        "Down": [column[::-1] for column in columns],
        "Left": rows,
        "Right": [row[::-1] for row in rows],
    }
    return [name for name, lines in towards.items() if any(_slid(raw, line) != line for line in lines)]


def _slid(raw: Any, line: list[int]) -> list[int]:
    slid: list[int] = raw._compress_and_merge(list(line))[0]
    return slid


def _walks(raw: Any) -> list[str]:
    row, column = raw.state.game_state["player_pos"]
    inside = range(raw.size)
    return [name for name, (down, right) in raw.actions.items() if row + down in inside and column + right in inside]


def _disks(raw: Any) -> list[str]:
    towers: Mapping[str, list[int]] = raw.state.game_state["towers"]
    return [
        f"{source} {target}"
        for source, disks in towers.items()
        for target, below in towers.items()
        if source != target and disks and (not below or below[-1] > disks[-1])
    ]


def _jumps(raw: Any) -> list[str]:
    pegs: list[bool] = raw.state.game_state["board"]
    return [f"{start} {end}" for start, over, end in raw.ALLOWED_MOVES if pegs[start] and pegs[over] and not pegs[end]]


def _hidden(raw: Any) -> list[str]:
    return [
        f"{row} {column}" for row, line in enumerate(raw.revealed) for column, open_ in enumerate(line) if not open_
    ]


def _lights(raw: Any) -> list[str]:
    return [f"{row} {column}" for row in range(raw.size) for column in range(raw.size)]


def _guesses(raw: Any) -> list[str]:
    numbers = range(raw.min_number, raw.max_number + 1)
    return [str(number) for number in numbers if number not in raw.guessed_numbers]


def _pushes(raw: Any) -> list[str]:
    return [name for name in raw.action_space if not raw._would_collide_with_wall(name)]


_LISTINGS: Mapping[str, Callable[[Any], list[str]]] = {
    "2048": _slides,
    "Bandit": lambda raw: list(raw.buttons),
    "Blackjack": lambda raw: ["Hit", "Stand"],
    "FrozenLake": _walks,
    "GuessTheNumber": _guesses,
    "LightsOut": _lights,
    "Minesweeper": _hidden,
    "PegJump": _jumps,
    "Secretary": lambda raw: ["accept", "continue"],
    "Sokoban": _pushes,
    "TowerOfHanoi": _disks,
}
