"""How a TextWorld game is made, once, and kept in the cache.

A game is a function of its challenge, settings and seed alone: it is generated in a child process with a fixed hash
seed (TextWorld iterates over sets of strings) and sorted directory listings, so the caller's generators, hash seed,
warnings filters and working directory neither matter nor change. This module knows nothing of how games are played.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rir_envs.cache import cache_root, in_child, kept
from rir_envs.textworld_games import Game, import_textworld
from rir_gym.errors import RirError

__all__ = ["FILES", "cached", "one_maker"]

# Not "tw-...": by that name jericho takes a game for one it scores itself, and looks around with moves of its own.
FILES = ("game.z8", "game.json")
_TIMEOUT_S = 600.0
_TRIES = 5


def cached(game: Game) -> Path:
    """The compiled game file, with TextWorld's ``.json`` beside it; made now (2 to 5 s) where it is not in the cache.

    The cache is the folder ``textworld`` in ``RIR_GYM_CACHE``, or else in the user's cache folder. Any number of
    processes may ask for the same game at once: one makes it, the others wait. A file that is missing, torn or changed
    is made again. The largest levels of the treasure hunter take a minute.

    Raises:
        MissingDependency: TextWorld is not installed.
        UsageError: the cache folder cannot be written.
        RirError: TextWorld could not make the game.
    """
    version = str(import_textworld(game.id).__version__)
    name = f"textworld/{version}/{game.name}"
    with one_maker(name):
        return kept(name, FILES, lambda scratch: _make(game, scratch)) / FILES[0]


@contextmanager
def one_maker(name: str) -> Iterator[None]:
    """Hold the folder ``name`` of the cache against other processes, as far as its file system has locks.

    A maker that dies lets go of it. Without locks several processes make the same thing, which is only slower.
    """
    holder: int | None = None
    with suppress(OSError):
        folder = cache_root() / name
        folder.mkdir(parents=True, exist_ok=True)
        holder = os.open(folder, os.O_RDONLY)
        fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if holder is not None:
            with suppress(OSError):  # nothing was made
                folder.rmdir()
            os.close(holder)


def _make(game: Game, scratch: Path) -> None:
    """Make the game in a child process."""
    request = json.dumps({"challenge": game.challenge, "settings": dict(game.settings), "seed": game.seed})
    work = scratch / "work"
    work.mkdir()
    try:
        in_child(__name__, "_generate", [request, str(work / FILES[0])], cwd=work, environment={}, timeout_s=_TIMEOUT_S)
        for name in FILES:
            os.replace(work / name, scratch / name)
    except (RirError, FileNotFoundError) as error:
        raise RirError(f"game={game.name!r}: TextWorld could not make it ({error})") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _generate(request: str, path: str) -> None:
    """The child process: make and compile the game of ``request`` (JSON) at ``path``."""
    import glob

    listing = glob.glob
    glob.glob = lambda *args, **kwargs: sorted(listing(*args, **kwargs))  # TextWorld loads its rules in this order
    textworld = importlib.import_module("textworld")
    challenges = importlib.import_module("textworld.challenges").CHALLENGES
    wanted = json.loads(request)
    settings = dict(wanted["settings"])
    brief = settings.pop("only_last_action", False)
    _, make, _ = challenges[wanted["challenge"]]
    for seed in _seeds(wanted["seed"]):
        options = textworld.GameOptions()
        options.grammar.only_last_action = brief
        options.seeds, options.path = seed, path
        try:
            made = make(settings, options)
        except textworld.generator.QuestGenerationError as error:  # this map has no quest of the wanted length
            failed = error
            continue
        textworld.generator.compile_game(made, options)
        return
    raise failed


def _seeds(seed: int) -> Iterator[int]:
    """The seed, then some that follow from it and are of the same split."""
    yield seed
    for attempt in range(1, _TRIES):
        digest = hashlib.sha256(f"{seed}/{attempt}".encode()).digest()
        yield (int.from_bytes(digest[:4], "big") & ~1) | (seed & 1)
