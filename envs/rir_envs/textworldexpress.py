"""``rir_gym/TextWorldExpress-v0``: the eight games of TextWorldExpress as Gymnasium environments.

The games run in a Java process, one for each environment, and cannot be saved there. A state is the game's seed and
the commands so far; to put it back is to begin the game again and say them, each answer being compared with the one
that was given. This module puts a game behind Gymnasium's interface; ``textworldexpress_game`` says how it is asked.

TextWorldExpress: Jansen and Côté, arXiv 2208.01174.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, SupportsIndex

import gymnasium as gym

from rir_envs.textworldexpress_game import FEATURE, FOLDS, GAMES, SEEDS, Express, Reply
from rir_envs.textworldexpress_oracle import GoldOracle, Standing
from rir_gym.errors import UsageError
from rir_gym.spaces import Unicode

__all__ = ["REFUSED", "Saved", "TextWorldExpressEnv"]

REFUSED = "That is no command of the game."

_LONGEST = 200

Phase = Literal["new", "playing", "over", "closed"]


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """What ``get_state`` returns: which game, what was said, and digests of all answers; good for any number of times.

    ``generator`` is the environment's generator and its position, None before its first use.
    """

    task: tuple[Any, ...]
    seed: int
    commands: tuple[str, ...]
    digests: tuple[str, ...]
    fields: Mapping[str, Any]
    generator: tuple[Any, Mapping[str, Any]] | None


class TextWorldExpressEnv(gym.Env[str, str]):
    """One game.

    The first observation begins with the task. ``info`` has ``objective``, ``admissible`` (sorted; empty at the end),
    ``committed`` (False) and ``oracle`` (success, failed, and the game's own score in [0, 1]). The reward is the gain
    in that score, below 0 where a mistake costs what was won. An episode ends when the game is won or lost; there is
    no step limit here. What no game can read (more than 200 characters, half of a surrogate pair) gets the answer
    ``REFUSED`` and changes nothing.

    Args:
        game: one of ``GAMES``.
        game_seed: 0 to 999, fixes the game within its split; None draws it at each reset, which ``reset(seed=...)``
            fixes.
        split: "train", "dev" or "test": TextWorldExpress's folds, which differ in seeds and in words.
        params: settings of the game's generator by name, such as {"numLocations": 5}.
        render_mode: None or "ansi".

    Raises:
        UsageError: an argument of another type or out of range, or settings that the generator does not take.
        MissingDependency: TextWorldExpress or Java is not installed; the message names the remedy.
        WorldDied: Java does not start.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - an instance variable upstream
    snapshot_static = ("rir_envs.textworldexpress_game:Express",)  # a state says how to make its game again

    def __init__(
        self,
        *,
        game: str = "cookingworld",
        game_seed: int | None = None,
        split: Literal["train", "dev", "test"] = "train",
        params: Mapping[str, int] | None = None,
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        if game not in GAMES:
            raise UsageError(f"game={game!r}: one of {', '.join(GAMES)}")
        if game_seed is not None and (
            isinstance(game_seed, bool) or not isinstance(game_seed, int) or not 0 <= game_seed < SEEDS
        ):
            raise UsageError(f"game_seed={game_seed!r}: None or an int from 0 to {SEEDS - 1}")
        if not isinstance(split, str) or split not in FOLDS:
            raise UsageError(f"split={split!r}: one of {', '.join(FOLDS)}")
        if params is not None and (
            not isinstance(params, Mapping)
            or not all(isinstance(name, str) and name.isidentifier() and name.isascii() for name in params)
            or not all(isinstance(value, int) and not isinstance(value, bool) for value in params.values())
        ):
            raise UsageError(f"params={params!r}: None, or ints by name")
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        self.game, self.game_seed, self.split, self.params = game, game_seed, split, dict(params or {})
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self._express = Express(game, self.params)
        self._phase: Phase = "new"
        self._seed = 0
        self._objective = self._observation = ""
        self._reply: Reply | None = None
        self._commands: tuple[str, ...] = ()
        self._digests: tuple[str, ...] = ()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a game. ``seed`` fixes it where no ``game_seed`` does; ``options`` has no entries and is not read.

        Raises:
            UsageError: the environment is closed, or ``params`` make no game of this seed.
            WorldDied: Java does not answer; a dead one is started again first.
        """
        self._require_open()
        super().reset(seed=seed)
        within = int(self.np_random.integers(SEEDS)) if self.game_seed is None else self.game_seed
        self._seed = FOLDS[self.split] + within
        self._objective, self._reply = self._express.begin(self.split, self._seed)
        self._phase, self._commands, self._digests = "playing", (), (self._reply.digest,)
        self._observation = f"{self._objective}\n\n{self._reply.observation}"
        return self._observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say one command to the game. Never truncates.

        Raises:
            UsageError: not a string, or the game has not begun, is over or closed.
            WorldDied: Java has died, and the game stands where it stood; ``reset`` or a rollback starts another.
        """
        self._require_open()
        if not isinstance(action, str):
            raise UsageError(f"action={type(action).__name__}: a str")
        before = self._reply
        if self._phase != "playing" or before is None:
            raise UsageError(f"env={FEATURE!r}: step() needs a game in play, this one is {self._phase}; call reset()")
        command = " ".join(action.split()) if len(action) <= _LONGEST else ""
        if not command or not _encodable(command):
            self._observation = REFUSED
            return REFUSED, 0.0, False, False, self._info()
        self._reply = now = self._express.say(command)
        self._commands, self._digests = (*self._commands, command), (*self._digests, now.digest)
        over = now.success or now.failed
        self._phase = "over" if over else "playing"
        self._observation = now.observation
        return self._observation, now.score - before.score, over, False, self._info()

    def describe(self) -> str:
        """σ: where the player is and what they carry; costs no step. The score stays out of prompts.

        Raises:
            UsageError: the game has not begun or the environment is closed.
        """
        reply = self._begun()
        here = reply.look.partition(". ")[0].removeprefix("You are ").rstrip(".")
        things = [line.strip() for line in reply.inventory.splitlines()[1:] if line.strip()]
        carried = "" if not things or "currently empty" in things[0] else f"carrying {', '.join(things)}"
        end = "game won" if reply.success else "game lost" if reply.failed else ""
        said = [part for part in (here, carried, end) if part]
        return "; ".join(said) if said else f"after {len(self._commands)} commands"

    def submit(self, text: str) -> None:
        """None: a game has no final response."""
        return

    @property
    def oracle(self) -> GoldOracle:
        """What the game's own way to win says, on demand (kept, it would keep this object and its Java alive)."""
        return GoldOracle(self._now)

    def get_state(self) -> Saved:
        """How to make the game as it is now; costs next to nothing.

        Raises:
            UsageError: the game has not begun or the environment is closed.
        """
        self._begun()
        generator = self._np_random
        return Saved(
            task=self._task(),
            seed=self._seed,
            commands=self._commands,
            digests=self._digests,
            fields={name: getattr(self, name) for name in _FIELDS},
            generator=None if generator is None else (generator, generator.bit_generator.state),
        )

    def set_state(self, state: Saved) -> None:
        """Make that game again, in place: begin it and say all that was said; every answer is compared.

        Raises:
            UsageError: not a state of this game, or the environment is closed.
            ReplayMismatch: the game answered otherwise than it did; it stands where it differs.
            WorldDied: Java does not answer; a dead one is started again first.
        """
        self._require_open()
        if not isinstance(state, Saved) or state.task != self._task():
            raise UsageError(f"state={type(state).__name__}: a state of this very game")
        self._express.again(self.split, state.seed, state.commands, state.digests)
        for name, value in state.fields.items():
            setattr(self, name, value)
        self._np_random = None
        if state.generator is not None:
            self._np_random, self._np_random.bit_generator.state = state.generator[0], state.generator[1]

    def render(self) -> str | None:
        """The last observation where ``render_mode`` is "ansi"."""
        return self._observation if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the Java process; closing twice is fine."""
        if self._phase != "closed":
            self._phase = "closed"
            self._express.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """No copy and no pickle: two environments would share one Java process. ``get_state`` saves a game.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{FEATURE} holds a Java process and cannot be copied or pickled: use get_state, set_state")

    def _task(self) -> tuple[Any, ...]:
        return self.game, self.split, tuple(sorted(self.params.items()))

    def _now(self) -> tuple[Standing, tuple[str, ...], tuple[str, ...] | None]:
        """How the game stands, what was said, and the way to win from its beginning."""
        reply = self._begun()
        gold = self._express.gold(self.split, self._seed, self._commands, self._digests)
        standing: Standing = "won" if reply.success else "lost" if reply.failed else "playing"
        return standing, self._commands, gold

    def _info(self) -> dict[str, Any]:
        reply = self._reply
        assert reply is not None
        return {
            "objective": self._objective,
            "admissible": [] if self._phase == "over" else list(reply.admissible),
            "committed": False,
            "oracle": {"success": reply.success, "failed": reply.failed, "score": reply.score},
        }

    def _require_open(self) -> None:
        if self._phase == "closed":
            raise UsageError(f"env={FEATURE!r}: closed; make a new one")

    def _begun(self) -> Reply:
        self._require_open()
        if self._phase == "new" or self._reply is None:
            raise UsageError(f"env={FEATURE!r}: call reset() first")
        return self._reply


_FIELDS = ("_phase", "_seed", "_objective", "_observation", "_reply", "_commands", "_digests", "_np_random_seed")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
