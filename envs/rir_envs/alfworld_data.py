"""Which ALFWorld games there are: the folders of ALFWorld's own data, filtered as its own loader does.

A game is a folder with ``game.tw-pddl`` and ``traj_data.json``, or the former file alone. ``real_game`` finds one in
the data that ALFWorld's downloader puts below ``ALFWORLD_DATA``; ``game_of`` reads any. The list of a split is sorted
by path, so game number n is the same on every machine that has the same files. This module knows files; it imports
neither ``alfworld`` nor ``textworld``, and knows nothing of how a game is played.

ALFWorld: Shridhar et al., "ALFWorld: Aligning Text and Embodied Environments for Interactive Learning", arXiv
2010.03768. The filter is that of its ``AlfredTWEnv``: no movable receptacles, no slices, solvable, a known task type.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from rir_envs.alfworld_goals import TASK_TYPES
from rir_gym.errors import UsageError

__all__ = ["GAME_FILE", "SPLITS", "Game", "RealSplit", "game_of", "games_of", "real_game"]

RealSplit = Literal["train", "valid_seen", "valid_unseen"]
SPLITS: tuple[RealSplit, ...] = ("train", "valid_seen", "valid_unseen")

GAME_FILE, _TOLD_FILE = "game.tw-pddl", "traj_data.json"
_DATASET = "json_2.1.1"
_TEXTS = ("pddl_domain", "grammar", "pddl_problem")


@dataclass(frozen=True, slots=True)
class Game:
    """One game, read.

    Args:
        path: its ``game.tw-pddl``.
        task_type: one of the six, or "" where no ``traj_data.json`` lies beside it.
        digest: of the game's texts; two games are the same where it is equal.
        data: what the file holds.
    """

    path: Path
    task_type: str
    digest: str
    data: dict[str, Any] = field(repr=False, compare=False, hash=False)


def game_of(place: str | Path) -> Game:
    """The game of a folder of ALFWorld's layout, or of a ``.tw-pddl`` file.

    Raises:
        UsageError: nothing there, or not a game: unreadable, not JSON, or without the texts that a game consists of.
    """
    path = Path(place)
    path = path / GAME_FILE if path.is_dir() else path
    data = _json(path)
    for name in _TEXTS:
        if not isinstance(data.get(name), str) or not data[name].strip():
            raise UsageError(f"game={str(path)!r}: an ALFWorld game, JSON with {', '.join(_TEXTS)}; {name} is missing")
    told = path.with_name(_TOLD_FILE)
    task_type = str(_json(told).get("task_type", "")) if told.is_file() else ""
    digest = hashlib.sha256(json.dumps([data[name] for name in _TEXTS]).encode()).hexdigest()
    return Game(path, task_type, digest, data)


def games_of(split: str, *, task_type: str | None = None) -> tuple[Path, ...]:
    """The game files of a split below ``ALFWORLD_DATA``, sorted by path; of one task type, or of all six.

    Raises:
        UsageError: an unknown split or task type; ``ALFWORLD_DATA`` is not set, or holds no such games.
    """
    if split not in SPLITS:
        raise UsageError(f"split={split!r}: splits of rir_gym/ALFWorld-v0 are {', '.join(SPLITS)}")
    if task_type is not None and task_type not in TASK_TYPES:
        raise UsageError(f"task_type={task_type!r}: None for all, or one of {', '.join(TASK_TYPES)}")
    root = os.environ.get("ALFWORLD_DATA")
    if not root:
        raise UsageError(
            "ALFWORLD_DATA=None: the folder of ALFWorld's games (alfworld-download fills it); "
            "rir_gym/ALFWorldStyle-v0 needs none"
        )
    folder = Path(root) / _DATASET / split
    if not folder.is_dir():
        raise UsageError(
            f"ALFWORLD_DATA={root!r}: a folder with {_DATASET}/{split}, as alfworld-download makes it; "
            "rir_gym/ALFWorldStyle-v0 needs none"
        )
    found = tuple(path for path, kind in _listed(folder, folder.stat().st_mtime_ns) if task_type in (None, kind))
    if not found:
        raise UsageError(f"ALFWORLD_DATA={root!r}: no games of split {split}" + (f", {task_type}" if task_type else ""))
    return found


def real_game(split: str, game_seed: int, *, task_type: str | None = None) -> Game:
    """Game number ``game_seed`` of ``games_of(split, task_type=task_type)``.

    Raises:
        UsageError: as ``games_of`` and ``game_of``; or no game of that number.
    """
    games = games_of(split, task_type=task_type)
    if isinstance(game_seed, bool) or not isinstance(game_seed, int) or not 0 <= game_seed < len(games):
        kind = f" of type {task_type}" if task_type else ""
        raise UsageError(f"game_seed={game_seed!r}: 0 to {len(games) - 1}, the {len(games)} games of {split}{kind}")
    return game_of(games[game_seed])


@lru_cache(maxsize=16)
def _listed(folder: Path, changed: int) -> tuple[tuple[Path, str], ...]:
    """Path and task type of every game that ALFWorld's loader would take; ``changed`` makes the cache notice news."""
    taken = []
    for told in sorted(folder.rglob(_TOLD_FILE), key=lambda path: path.relative_to(folder).as_posix()):
        name, path = told.parent.relative_to(folder).as_posix(), told.with_name(GAME_FILE)
        if "movable" in name or "Sliced" in name or not path.is_file():
            continue
        task_type = _json(told).get("task_type")
        if task_type in TASK_TYPES and _json(path).get("solvable"):
            taken.append((path, str(task_type)))
    return tuple(taken)


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"game={str(path)!r}: a readable JSON file ({type(error).__name__}: {error})") from error
    if not isinstance(data, dict):
        raise UsageError(f"game={str(path)!r}: a JSON object")
    return data
