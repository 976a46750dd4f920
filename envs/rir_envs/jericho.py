"""``rir_gym/Jericho-v0``: any z-machine story file, as a Gymnasium environment.

jericho plays the file and reads the score of the games that it knows, TextWorld's among them. A checkpoint is the
z-machine's memory with what jericho's own state forgets (``jericho_state``). This module knows how a game is played;
``jericho_story`` which files are, ``jericho_text`` what may be said. ``jericho`` (extra "jericho") is imported when an
environment is made.

Jericho: Hausknecht et al., "Interactive Fiction Games: A Colossal Adventure", arXiv 1909.05398.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym

from rir_envs.jericho_story import FEATURE, Story, import_jericho, story_at
from rir_envs.jericho_text import REFUSED, sayable, told
from rir_envs.textworld_text import opening
from rir_envs.unknown import UnknownOracle
from rir_gym.errors import UsageError
from rir_gym.spaces import Unicode

__all__ = ["OBJECTIVE", "REFUSED", "JerichoEnv"]

OBJECTIVE = "Play this game to its end: get all points that there are, and win."

_SEEDS = 2**31
_SUMMARY = 120

Phase = Literal["new", "playing", "over", "closed"]


class JerichoEnv(gym.Env[str, str]):
    """One z-machine game.

    Observations are the game's own replies, without prompt and status line. ``info`` has ``objective``, ``admissible``
    (``commands``, or None: jericho's own list needs a language model to be downloaded, and knows few games),
    ``committed`` (False) and ``oracle``: success, failed, and score as the share of the game's points. The reward is
    the points that a command gained. Of a game that jericho does not know, neither points nor an end are seen: reward
    and score stay 0, and ``max_steps`` ends an episode. What is no move of the game (save, restore, quit, script, undo,
    a backslash, other than plain letters) gets the answer ``REFUSED`` and changes nothing.

    Args:
        game: the path of a story file, of versions 1 to 8 (``.z3``, ``.z5``, ``.z8`` …; the name does not matter).
        machine_seed: 1 to 2**31 - 1, fixes the z-machine's generator; None draws one at each reset, which
            ``reset(seed=...)`` fixes.
        objective: what an agent is told to do, where the game does not say it.
        commands: what ``info["admissible"]`` lists at every step, None for no list.
        max_steps: an episode is truncated after so many commands, refused ones included; None for no limit.
        render_mode: None or "ansi".

    Raises:
        UsageError: an argument of another type or out of range; a file that is missing, broken, or no story file.
        MissingDependency: jericho is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - an instance variable upstream

    def __init__(
        self,
        *,
        game: str | None = None,
        machine_seed: int | None = None,
        objective: str | None = None,
        commands: Sequence[str] | None = None,
        max_steps: int | None = None,
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        if machine_seed is not None and not _whole(machine_seed, 1, _SEEDS - 1):
            raise UsageError(f"machine_seed={machine_seed!r}: None or an int from 1 to {_SEEDS - 1}")
        if objective is not None and not isinstance(objective, str):
            raise UsageError(f"objective={objective!r}: None or a str")
        if commands is not None and (
            isinstance(commands, str)
            or not isinstance(commands, Sequence)
            or not all(isinstance(each, str) for each in commands)
        ):
            raise UsageError(f"commands={commands!r}: None or a list of str")
        if max_steps is not None and not _whole(max_steps, 1, None):
            raise UsageError(f"max_steps={max_steps!r}: None or an int of at least 1")
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        self.story: Story = story_at(game)
        self.machine_seed, self.max_steps, self.render_mode = machine_seed, max_steps, render_mode
        self.objective = OBJECTIVE if objective is None else objective
        self.commands = None if commands is None else tuple(commands)
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self.oracle = UnknownOracle()
        jericho, place = import_jericho(), self.story.stored()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a game is not known: ``known`` says it
            self._engine: Any = jericho.FrotzEnv(str(place), seed=1)
        self.known = bool(self._engine.is_fully_supported)
        self._most = int(self._engine.get_max_score()) if self.known else 0
        self._phase: Phase = "new"
        self._observation = ""
        self._steps = self._score = 0
        self._won = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the game again. ``seed`` fixes the z-machine's generator where no ``machine_seed`` does.

        Raises:
            UsageError: the environment is closed.
        """
        self._require_open()
        super().reset(seed=seed)
        drawn = self.machine_seed
        self._engine.seed(int(self.np_random.integers(1, _SEEDS)) if drawn is None else drawn)  # 0 is the clock
        said, now = self._engine.reset()
        self._phase, self._steps, self._won, self._score = "playing", 0, False, int(now["score"])
        self._observation = opening(told(said))
        return self._observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say one command to the game.

        Raises:
            UsageError: not a string, or the game has not begun, is over or closed.
        """
        self._require_open()
        if not isinstance(action, str):
            raise UsageError(f"action={type(action).__name__}: a str")
        if self._phase != "playing":
            raise UsageError(f"env={FEATURE!r}: step() needs a game in play, this one is {self._phase}; call reset()")
        self._steps += 1
        truncated = self.max_steps is not None and self._steps >= self.max_steps
        command = sayable(action, version=self.story.version)
        if command is None:
            self._observation, gained, over = REFUSED, 0, False
        else:
            said, _, over, now = self._engine.step(command)
            over = bool(over or self._engine._emulator_halted())
            gained, self._score = int(now["score"]) - self._score, int(now["score"])
            self._won = bool(self._engine.victory())
            self._observation = told(said)
        if over or truncated:
            self._phase = "over"
        return self._observation, float(gained), over, truncated and not over, self._info(over=over)

    def describe(self) -> str:
        """σ: where the player is and what they carry, as the game's objects say; else the end of the last reply.

        Raises:
            UsageError: the game has not begun or the environment is closed.
        """
        self._require_open()
        if self._phase == "new":
            raise UsageError(f"env={FEATURE!r}: call reset() first")
        place, things = self._objects()
        parts = [f"in {place}" if place else "", f"carrying {', '.join(things)}" if things else ""]
        if not any(parts):
            parts = [" ".join(self._observation.split())[:_SUMMARY]]
        parts.append("game won" if self._won else "game over" if self._phase == "over" else "")
        return "; ".join(part for part in parts if part)

    def submit(self, text: str) -> None:
        """None: a game has no final response."""
        return

    def render(self) -> str | None:
        """The last observation where ``render_mode`` is "ansi"."""
        return self._observation if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Free the interpreter; closing twice is fine."""
        self._phase = "closed"
        self._engine = None

    def _objects(self) -> tuple[str, list[str]]:
        """The names of the place and of what is carried, where the game's objects have them."""
        player = self._engine.get_player_object() if self.known else None
        if player is None:
            return "", []
        place = self._engine.get_player_location()
        carried = sorted(str(thing.name) for thing in self._engine.get_inventory() if thing is not None and thing.name)
        return str(place.name) if place is not None else "", carried

    def _info(self, *, over: bool = False) -> dict[str, Any]:
        ended = self._phase == "over"
        return {
            "objective": self.objective,
            "admissible": None if self.commands is None else [] if ended else list(self.commands),
            "committed": False,
            "oracle": {
                "success": self._won,
                "failed": self.known and over and not self._won,
                "score": min(1.0, max(0.0, self._score / self._most)) if self._most > 0 else 0.0,
            },
        }

    def _require_open(self) -> None:
        if self._phase == "closed":
            raise UsageError(f"env={FEATURE!r}: closed; make a new one")


def _whole(value: object, least: int, most: int | None) -> bool:
    """Whether it is an int of that range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value and (most is None or value <= most)
