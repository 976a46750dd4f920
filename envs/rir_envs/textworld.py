"""The makers of ``rir_gym/TextWorld-{Simple,CoinCollector,TreasureHunter,Cooking}-v0``.

A task is (id, level, game seed), or a game file. ``textworld`` (extra "textworld") is imported when an environment is
made. This module knows which game is asked for; ``textworld_games`` how it is made, ``textworld_files`` how a file is
checked, ``textworld_env`` how a game is played.

TextWorld: Côté et al., "TextWorld: A Learning Environment for Text-based Games", arXiv 1806.11532.
"""

from __future__ import annotations

import os

from rir_envs.textworld_env import REFUSED, State, TextWorldEnv
from rir_envs.textworld_files import GameFile, game_file
from rir_envs.textworld_games import KINDS, Game, Split, game_of
from rir_gym.errors import UsageError

__all__ = ["REFUSED", "State", "TextWorldEnv", "coin_collector", "cooking", "simple", "treasure_hunter"]


def simple(
    *,
    level: int | None = None,
    game_seed: int | None = None,
    split: Split | None = None,
    path: str | os.PathLike[str] | None = None,
    render_mode: str | None = None,
) -> TextWorldEnv:
    """The simple game: get out of the bedroom, find one food item in a house of six rooms, put it on the stove.

    Eating that food item loses the game for good.

    Args:
        level: 1 (the default) dense score and a detailed objective; 2 balanced and brief; 3 sparse (won or nothing)
            and brief.
        game_seed: which game of that level, 0 to 2**32 - 1; by default the first of the split.
        split: "train" allows the even game seeds only, "test" the odd ones; None allows all.
        path: a ``.z8`` file with its ``.json`` beside it, to be played instead of a game that is made.
        render_mode: None or "ansi".

    Raises:
        UsageError: an argument out of range, a file that cannot be played, or a cache folder that cannot be written.
        MissingDependency: TextWorld is not installed.
    """
    return _env("simple", level, game_seed, split, path, render_mode)


def coin_collector(
    *,
    level: int | None = None,
    game_seed: int | None = None,
    split: Split | None = None,
    path: str | os.PathLike[str] | None = None,
    render_mode: str | None = None,
) -> TextWorldEnv:
    """The coin collector: find the coin at the other end of a chain of rooms and take it. Nothing loses this game.

    Args:
        level: as in TextWorld: 1 to 100 are chains of so many rooms; 101 to 150 chains of level - 100 rooms with as
            many dead ends; 201 to 233 chains of level - 200 rooms with twice as many. By default 110.
        game_seed, split, path, render_mode: as for ``simple``.

    Raises:
        UsageError, MissingDependency: as for ``simple``.
    """
    return _env("coin_collector", level, game_seed, split, path, render_mode)


def treasure_hunter(
    *,
    level: int | None = None,
    game_seed: int | None = None,
    split: Split | None = None,
    path: str | os.PathLike[str] | None = None,
    render_mode: str | None = None,
) -> TextWorldEnv:
    """The treasure hunter: take the one thing that the objective names. Taking the other thing loses for good.

    Args:
        level: as in TextWorld: 1 to 10 five rooms, empty but for the two things; 11 to 20 ten rooms with doors and
            containers; 21 to 30 twenty rooms, some locked (making level 30 takes a minute). By default 15.
        game_seed, split, path, render_mode: as for ``simple``.

    Raises:
        UsageError, MissingDependency: as for ``simple``.
    """
    return _env("treasure_hunter", level, game_seed, split, path, render_mode)


def cooking(
    *,
    level: int | None = None,
    game_seed: int | None = None,
    split: Split | None = None,
    path: str | os.PathLike[str] | None = None,
    render_mode: str | None = None,
) -> TextWorldEnv:
    """The cooking game: find the recipe's ingredients, prepare them as it says, and eat the meal.

    Burning, eating, wrongly cooking or wrongly cutting an ingredient loses the game for good.

    Args:
        level: 1 one ingredient, one room; 2 (the default) with cooking and closed containers; 3 two ingredients, 6
            rooms; 4 three ingredients, 9 rooms, cutting; 5 five ingredients, 12 rooms.
        game_seed, split, path, render_mode: as for ``simple``.

    Raises:
        UsageError, MissingDependency: as for ``simple``.
    """
    return _env("cooking", level, game_seed, split, path, render_mode)


def _env(
    kind: str,
    level: int | None,
    game_seed: int | None,
    split: Split | None,
    path: str | os.PathLike[str] | None,
    render_mode: str | None,
) -> TextWorldEnv:
    if path is None:
        game: Game | GameFile = game_of(kind, level=level, game_seed=game_seed, split=split)
    elif (level, game_seed, split) == (None, None, None):
        game = game_file(KINDS[kind].id, path)
    else:
        raise UsageError(f"path={str(path)!r}: a file is a game; level, game_seed and split choose another")
    return TextWorldEnv(game, render_mode=render_mode)
