"""Games whose state is in C as anybody would wrap them, without this project's adapters: Z-machine, TextWorld, NetHack.

``Frotz`` is jericho's emulator on a game file, ``Story`` TextWorld's own environment on the same file, ``Dungeon`` the
NetHack Learning Environment. Ids ``rir_bench/<Name>-v0``. This module knows no mechanism.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

import rir_gym

__all__ = ["COMMANDS", "Dungeon", "Frotz", "Story", "register_engines", "story_file"]

COMMANDS = (
    *("look", "inventory", "examine cookbook", "go north", "go south", "go east", "go west", "open door"),
    *("open fridge", "take all", "take knife", "drop all", "eat all", "prepare meal"),
)


def story_file() -> str:
    """A cooking game for the Z-machine, made once and kept in the cache."""
    making, games = (importlib.import_module(f"rir_envs.textworld_{name}") for name in ("making", "games"))
    return str(making.cached(games.game_of("cooking", level=2)))


@contextmanager
def quietly() -> Iterator[None]:
    """Without jericho's warning that it does not score this game itself; nobody asks it to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is not fully supported")
        yield


class Frotz(gym.Env[str, str]):
    """jericho's emulator. Commands are offered whether they make sense or not."""

    def __init__(self) -> None:
        self.action_space, self.observation_space = rir_gym.Unicode(), rir_gym.Unicode()
        with quietly():
            self.frotz = importlib.import_module("jericho").FrotzEnv(story_file())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """From the start; ``options`` are not read."""
        super().reset(seed=seed)
        self.frotz.seed(1 if seed is None else seed)
        observation, _ = self.frotz.reset()
        return observation, {"admissible": list(COMMANDS)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One command."""
        observation, reward, done, _ = self.frotz.step(action)
        return observation, float(reward), bool(done), False, {"admissible": list(COMMANDS)}

    def close(self) -> None:
        """The emulator, too."""
        self.frotz.close()


class Story(gym.Env[str, str]):
    """TextWorld's own environment; the reward is the score so far."""

    def __init__(self) -> None:
        self.action_space, self.observation_space = rir_gym.Unicode(), rir_gym.Unicode()
        textworld = importlib.import_module("textworld")
        with quietly():
            self.story = textworld.start(story_file(), textworld.EnvInfos(admissible_commands=True, score=True))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """From the start; ``options`` are not read."""
        super().reset(seed=seed)
        state = self.story.reset()
        return state.feedback, {"admissible": sorted(state.admissible_commands)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One command."""
        state, score, done = self.story.step(action)
        return state.feedback, float(score), bool(done), False, {"admissible": sorted(state.admissible_commands)}

    def close(self) -> None:
        """The engine, too."""
        self.story.close()


class Dungeon(gym.Env[Any, Any]):
    """NLE's scoring task, with the two things that it leaves to its user: its seeds, and where its files are.

    The phase of the moon changes the luck of a player, so it is held.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012
    render_mode = "ansi"

    def __init__(self) -> None:
        importlib.import_module("nle")
        self.game = gym.make("NetHackScore-v0", render_mode="ansi", fix_moon_phase=True).unwrapped
        self.action_space, self.observation_space = self.game.action_space, self.game.observation_space

    @property
    def workdir(self) -> str:
        """Where NetHack keeps its levels."""
        return str(self.game.nethack._vardir)  # type: ignore[attr-defined]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """With both of NetHack's seeds; it never seeds itself anew."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed, seed, reseed=False)  # type: ignore[attr-defined]
        return self.game.reset(options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """NetHack's."""
        return self.game.step(action)

    def render(self) -> Any:
        """The terminal, as text."""
        return self.game.render()

    def close(self) -> None:
        """NetHack, too."""
        self.game.close()


def register_engines() -> None:
    """Register the ids of this module, once."""
    for name, entry in (("Frotz", "Frotz"), ("Story", "Story"), ("NetHack", "Dungeon")):
        if (env_id := f"rir_bench/{name}-v0") not in gym.registry:
            gym.register(env_id, entry_point=f"{__name__}:{entry}")
