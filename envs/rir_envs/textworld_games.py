"""Which TextWorld games there are: kinds, levels, game seeds and splits.

A task is (id, level, game seed), which fixes the game wherever it is made. This module knows what is asked for;
``textworld_making`` how it is made, ``textworld_files`` takes games that somebody else has made.

The challenges are TextWorld's own: Côté et al., "TextWorld: A Learning Environment for Text-based Games", arXiv
1806.11532; the cooking game is that of the First TextWorld Problems competition. The levels of the cooking and the
simple game are ours, those of the coin collector and the treasure hunter are TextWorld's.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rir_gym.errors import MissingDependency, UsageError

__all__ = ["KINDS", "Game", "Kind", "Split", "game_of", "game_seeds", "import_textworld", "quietly"]

Split = Literal["train", "test"]

_SEEDS = 2**32


def _cooking(recipe: int, rooms: int, *skills: str) -> dict[str, Any]:
    chosen = {skill: skill in skills for skill in ("open", "cook", "cut")}
    return {"recipe": recipe, "take": recipe, "go": rooms, **chosen, "drop": False, "recipe_seed": 0, "split": None}


def _numbered(*levels: range) -> dict[int, Mapping[str, Any]]:
    # The full objective would spell out every step of the way.
    return {level: {"level": level, "only_last_action": True} for some in levels for level in some}


@dataclass(frozen=True, slots=True)
class Kind:
    """One family of games: the id it is offered under, TextWorld's challenge, its levels and the usual one."""

    id: str
    challenge: str
    levels: Mapping[int, Mapping[str, Any]]
    level: int


KINDS: Mapping[str, Kind] = {
    "cooking": Kind(
        "rir_gym/TextWorld-Cooking-v0",
        "tw-cooking",
        {  # ingredients of the recipe (all must be fetched), rooms, and skills that are needed beyond carrying
            1: _cooking(1, 1),
            2: _cooking(1, 1, "open", "cook"),
            3: _cooking(2, 6, "open", "cook"),
            4: _cooking(3, 9, "open", "cook", "cut"),
            5: _cooking(5, 12, "open", "cook", "cut"),
        },
        2,
    ),
    "simple": Kind(
        "rir_gym/TextWorld-Simple-v0",
        "tw-simple",
        {  # how often the score moves, and whether the objective spells out the steps ("none" would leave no objective)
            1: {"rewards": "dense", "goal": "detailed", "test": False},
            2: {"rewards": "balanced", "goal": "brief", "test": False},
            3: {"rewards": "sparse", "goal": "brief", "test": False},
        },
        1,
    ),
    "coin_collector": Kind(  # TextWorld 1.7 makes no more than 100 rooms
        "rir_gym/TextWorld-CoinCollector-v0",
        "tw-coin_collector",
        _numbered(range(1, 151), range(201, 234)),
        110,
    ),
    "treasure_hunter": Kind("rir_gym/TextWorld-TreasureHunter-v0", "tw-treasure_hunter", _numbered(range(1, 31)), 15),
}


def game_seeds(split: Split) -> range:
    """The game seeds of a split, lowest first: the even ones for training, the odd ones for testing.

    >>> game_seeds("train")[:3], game_seeds("test")[:3], 7 in game_seeds("test")
    (range(0, 6, 2), range(1, 7, 2), True)

    Raises:
        UsageError: no such split.
    """
    if split not in ("train", "test"):
        raise UsageError(f"split={split!r}: 'train', 'test' or None")
    return range(0 if split == "train" else 1, _SEEDS, 2)


@dataclass(frozen=True, slots=True)
class Game:
    """One game to be made: the id it is offered under, TextWorld's challenge, a level of it, and the game seed."""

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


def game_of(kind: str, *, level: int | None = None, game_seed: int | None = None, split: Split | None = None) -> Game:
    """The game of this kind, level (None: the usual one) and game seed (None: the first of the split, or else 0).

    Raises:
        UsageError: a level or split that does not exist, or a game seed that is out of range or not of the split.
    """
    known = KINDS[kind]
    level = known.level if level is None else level
    if isinstance(level, bool) or not isinstance(level, int) or level not in known.levels:
        raise UsageError(f"level={level!r}: levels of {known.id} are {_ranges(known.levels)}")
    seeds = range(_SEEDS) if split is None else game_seeds(split)
    seed = seeds[0] if game_seed is None else game_seed
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < _SEEDS:
        raise UsageError(f"game_seed={seed!r}: an int from 0 to {_SEEDS - 1}")
    if seed not in seeds:
        raise UsageError(
            f"game_seed={seed!r}: the game seeds of split={split!r} are {seeds[0]}, {seeds[1]}, {seeds[2]}…"
        )
    return Game(known.id, known.challenge, level, seed, known.levels[level])


def _ranges(levels: Mapping[int, Any]) -> str:
    """Numbers in order as text; more than two in a row as "a to b"."""
    runs: list[list[int]] = []
    for level in sorted(levels):
        if runs and level == runs[-1][-1] + 1:
            runs[-1].append(level)
        else:
            runs.append([level])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 5 else ", ".join(map(str, run)) for run in runs)


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
