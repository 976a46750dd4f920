"""What a MiniGrid agent sees, as text: its partial view, what it carries, and the names of its actions.

Steps ahead and to a side are counted from the agent, as in its view. This module reads a MiniGrid environment and
changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ACTIONS", "action_named", "carried", "facing", "view"]

ACTIONS: Mapping[str, str] = {
    "turn left": "left",
    "turn right": "right",
    "go forward": "forward",
    "pick up": "pickup",
    "drop": "drop",
    "toggle": "toggle",
    "done": "done",
}

_DIRECTIONS = ("east", "south", "west", "north")
_GROUND = frozenset({"empty", "unseen", "wall", "floor"})
_DOORS = ("an open", "a closed", "a locked")


def action_named(text: str) -> str | None:
    """MiniGrid's name of the action that a text names, by our name or by MiniGrid's own; None for no action.

    >>> [action_named(text) for text in (" Go  forward", "PICKUP", "go north", "")]
    ['forward', 'pickup', None, None]
    """
    if len(text) > 100:
        return None
    said = " ".join(text.split()).casefold()
    return ACTIONS.get(said, said if said in ACTIONS.values() else None)


def facing(grid_env: Any) -> str:
    """The direction in which the agent looks."""
    return _DIRECTIONS[int(grid_env.agent_dir)]


def carried(grid_env: Any) -> str:
    """What the agent carries, or "nothing"."""
    thing = grid_env.carrying
    return "nothing" if thing is None else _called(thing)


def view(grid_env: Any) -> str:
    """All that the agent sees now: things nearest first, and the nearest walls straight ahead and to both sides."""
    grid, visible = grid_env.gen_obs_grid()
    middle, last = grid.width // 2, grid.height - 1
    things: list[tuple[int, int, int, str]] = []
    for column in range(grid.width):
        for row in range(grid.height):
            cell = grid.get(column, row)
            here = (column, row) == (middle, last)  # there MiniGrid draws what is carried
            if cell is not None and not here and visible[column, row] and cell.type not in _GROUND:
                ahead, right = last - row, column - middle
                things.append((ahead + abs(right), abs(right), right, f"{_called(cell)}, {_where(ahead, right)}"))
    walls = [
        f"{_steps(distance)} {way}"
        for way, across, along in (("ahead", 0, 1), ("to the left", -1, 0), ("to the right", 1, 0))
        if (distance := _wall(grid, visible, middle, last, across, along)) is not None
    ]
    lines = [f"You face {facing(grid_env)} and carry {carried(grid_env)}.", f"In front of you: {_front(grid_env)}."]
    lines.append("You see:" if things else "You see no things.")
    lines.extend(f"- {said}" for *_, said in sorted(things))
    lines.append(f"Walls: {', '.join(walls)}." if walls else "Walls: none straight ahead or to the sides.")
    return "\n".join(lines)


def _front(grid_env: Any) -> str:
    cell = grid_env.grid.get(*grid_env.front_pos)
    return "nothing" if cell is None or cell.type in ("empty", "floor") else _called(cell)


def _called(cell: Any) -> str:
    if cell.type == "door":
        return f"{_DOORS[2 if cell.is_locked else 0 if cell.is_open else 1]} {cell.color} door"
    if cell.type in ("wall", "lava"):
        return "a wall" if cell.type == "wall" else "lava"
    return f"a {cell.color} {cell.type}"


def _where(ahead: int, right: int) -> str:
    """
    >>> _where(2, -1), _where(0, 3)
    ('2 steps ahead and 1 to the left', '3 steps to the right')
    """
    side = f"to the {'left' if right < 0 else 'right'}"
    if right == 0:
        return f"{_steps(ahead)} ahead"
    if ahead == 0:
        return f"{_steps(abs(right))} {side}"
    return f"{_steps(ahead)} ahead and {abs(right)} {side}"


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _wall(grid: Any, visible: Any, column: int, row: int, across: int, along: int) -> int | None:
    """Steps to the nearest visible wall in one direction of the view; None where none is seen."""
    distance = 0
    while True:
        distance += 1
        at = column + across * distance, row - along * distance
        if not (0 <= at[0] < grid.width and 0 <= at[1] < grid.height and visible[at]):
            return None
        cell = grid.get(*at)
        if cell is not None and cell.type == "wall":
            return distance
