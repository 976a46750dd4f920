"""Which TextWorld games there are, and a cache on disk that makes each of them once.

A game is a function of its challenge, settings and seed alone: it is generated in a child process with a fixed hash
seed (TextWorld iterates over sets of strings) and sorted directory listings, so the caller's generators, hash seed,
warnings filters and working directory neither matter nor change. Files are published with ``os.replace`` and verified
by digest at every use. This module knows how games are made and kept, and nothing of how they are played.

The challenges are TextWorld's own: Côté et al., "TextWorld: A Learning Environment for Text-based Games", arXiv
1806.11532; the cooking game is that of the First TextWorld Problems competition. The level presets are ours.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rir_gym.errors import MissingDependency, RirError, UsageError

__all__ = [
    "COOKING_LEVELS",
    "SIMPLE_LEVELS",
    "Game",
    "cached",
    "cooking_game",
    "import_textworld",
    "quietly",
    "simple_game",
]

# Not "tw-...": by that name jericho takes a game for one it scores itself, and looks around with moves of its own.
_FILES = ("game.z8", "game.json")
_DIGESTS = "digests.json"
_CHILD = "import sys; from rir_envs.textworld_games import _generate; _generate(sys.argv[1], sys.argv[2])"
_TIMEOUT_S = 600.0


def _cooking(recipe: int, rooms: int, *skills: str) -> dict[str, Any]:
    chosen = {skill: skill in skills for skill in ("open", "cook", "cut")}
    return {"recipe": recipe, "take": recipe, "go": rooms, **chosen, "drop": False, "recipe_seed": 0, "split": None}


COOKING_LEVELS: Mapping[int, Mapping[str, Any]] = {
    1: _cooking(1, 1),
    2: _cooking(1, 1, "open", "cook"),
    3: _cooking(2, 6, "open", "cook"),
    4: _cooking(3, 9, "open", "cook", "cut"),
    5: _cooking(5, 12, "open", "cook", "cut"),
}
"""Ingredients of the recipe (all must be fetched), rooms, and skills that are needed beyond carrying."""

SIMPLE_LEVELS: Mapping[int, Mapping[str, Any]] = {
    1: {"rewards": "dense", "goal": "detailed", "test": False},
    2: {"rewards": "balanced", "goal": "brief", "test": False},
    3: {"rewards": "sparse", "goal": "brief", "test": False},
}
"""How often the score moves, and whether the objective spells out the steps. ("none" would leave no objective.)"""


@dataclass(frozen=True, slots=True)
class Game:
    """One game: the id it is offered under, TextWorld's challenge, a level of it, and the generator's seed."""

    id: str
    challenge: str
    level: int
    seed: int
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """A folder name that is unique for the challenge, its settings and the seed."""
        text = json.dumps([self.challenge, self.settings, self.seed], sort_keys=True)
        return f"{self.challenge}-{self.level}-{self.seed}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def cooking_game(level: int, seed: int) -> Game:
    """The cooking game of this level and seed.

    Raises:
        UsageError: a level that does not exist or a seed out of range.
    """
    return _game("rir_gym/TextWorld-Cooking-v0", "tw-cooking", COOKING_LEVELS, level, seed)


def simple_game(level: int, seed: int) -> Game:
    """The simple game (one house, fetch a food item and put it on the stove) of this level and seed.

    Raises:
        UsageError: a level that does not exist or a seed out of range.
    """
    return _game("rir_gym/TextWorld-Simple-v0", "tw-simple", SIMPLE_LEVELS, level, seed)


def _game(id: str, challenge: str, levels: Mapping[int, Mapping[str, Any]], level: int, seed: int) -> Game:
    if isinstance(level, bool) or not isinstance(level, int) or level not in levels:
        raise UsageError(f"level={level!r}: levels of {id} are {', '.join(map(str, levels))}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise UsageError(f"game_seed={seed!r}: an int from 0 to {2**32 - 1}")
    return Game(id, challenge, level, seed, levels[level])


@contextmanager
def quietly() -> Iterator[None]:
    """Run foreign code whose deprecation warnings and draws from the global generators are not the caller's concern."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002


def import_textworld(feature: str) -> Any:
    """The ``textworld`` package, imported now.

    Raises:
        MissingDependency: it is not installed; ``feature`` is what needs it.
    """
    try:
        with quietly():
            return importlib.import_module("textworld")
    except ImportError as error:
        raise MissingDependency(feature, "textworld") from error


def cached(game: Game) -> Path:
    """The compiled game file, with TextWorld's ``.json`` beside it; made now (2 to 5 s) where it is not in the cache.

    The cache is the folder ``textworld`` in ``RIR_GYM_CACHE``, or else in the user's cache folder. Any number of
    processes may ask for the same game at once. A file that is missing, torn or changed is made again.

    Raises:
        MissingDependency: TextWorld is not installed.
        UsageError: the cache folder cannot be written.
        RirError: TextWorld could not make the game.
    """
    version = str(import_textworld(game.id).__version__)
    root = _cache_root()
    folder = root / "textworld" / version / game.name
    if not _intact(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as scratch:
                _publish(_made(game, Path(scratch)), folder)
        except OSError as error:
            raise UsageError(f"RIR_GYM_CACHE={str(root)!r}: a folder that can be written ({error})") from error
    return folder / _FILES[0]


def _cache_root() -> Path:
    if chosen := os.environ.get("RIR_GYM_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rir_gym"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rir_gym"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _intact(folder: Path) -> bool:
    try:
        digests = json.loads((folder / _DIGESTS).read_text("utf-8"))
        return bool(digests == {name: _digest(folder / name) for name in _FILES})
    except (OSError, ValueError):
        return False


def _made(game: Game, scratch: Path) -> Path:
    """A folder inside ``scratch`` with the game's files and their digests."""
    request = json.dumps({"challenge": game.challenge, "settings": dict(game.settings), "seed": game.seed})
    fixed = {
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, request, str(scratch / _FILES[0])],
            cwd=scratch,
            env={**os.environ, **fixed},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise RirError(f"game={game.name!r}: TextWorld did not make it in {_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0 or not all((scratch / name).is_file() for name in _FILES):
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise RirError(f"game={game.name!r}: TextWorld could not make it ({said[-1]})")
    (scratch / _DIGESTS).write_text(json.dumps({name: _digest(scratch / name) for name in _FILES}), "utf-8")
    return scratch


def _publish(made: Path, folder: Path) -> None:
    """File by file, digests last: a reader sees whole files only, and a mixed set does not pass for intact."""
    for name in (*_FILES, _DIGESTS):
        os.replace(made / name, folder / name)


def _generate(request: str, path: str) -> None:
    """The child process: make and compile the game of ``request`` (JSON) at ``path``."""
    import glob

    listing = glob.glob
    glob.glob = lambda *args, **kwargs: sorted(listing(*args, **kwargs))  # TextWorld loads its rules in this order
    textworld = importlib.import_module("textworld")
    challenges = importlib.import_module("textworld.challenges").CHALLENGES
    wanted = json.loads(request)
    options = textworld.GameOptions()
    options.seeds = wanted["seed"]
    options.path = path
    _, make, _ = challenges[wanted["challenge"]]
    textworld.generator.compile_game(make(wanted["settings"], options), options)
