"""One TextWorld game as a Gymnasium environment.

The text is a function of the game and the actions: ``reset(seed=...)`` seeds the environment's unused generator and
never changes the game. This module knows how a game is played; ``textworld_making`` and ``textworld_files`` where it
comes from, ``textworld_state`` how it is put back, ``textworld_oracle`` how it is won, ``textworld_text`` what is said.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, SupportsIndex

import gymnasium as gym

from rir_envs.textworld_files import GameFile
from rir_envs.textworld_games import Game, import_textworld, quietly
from rir_envs.textworld_making import cached
from rir_envs.textworld_oracle import Plan, TextWorldOracle, followed
from rir_envs.textworld_state import Machine, SavedGame, attach
from rir_envs.textworld_text import carried, opening, place, reply, sayable
from rir_gym.errors import UsageError
from rir_gym.spaces import Unicode

__all__ = ["REFUSED", "State", "TextWorldEnv"]

REFUSED = "That command is not part of the game."

_MACHINE_SEED = 1

Phase = Literal["new", "playing", "over", "closed"]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What ``get_state`` returns: opaque, reusable, for this game only."""

    game: Game | GameFile
    saved: SavedGame
    fields: Mapping[str, Any]
    generator: Any


class TextWorldEnv(gym.Env[str, str]):
    """One TextWorld game.

    Observations are the game's own replies, without its banner and status line; the first one holds the objective and
    the room. ``info`` has ``objective``, ``admissible`` (sorted; empty at the end), ``committed`` (False) and
    ``oracle`` (success, failed, score as the share of the points). The reward is the gain in that share. An episode
    terminates when the game is won or lost; there is no step limit here. What is no move of the game (quit, save,
    restore, undo, several moves in one, unreadable text) gets the answer ``REFUSED`` and changes nothing.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012
    # The game itself never changes; its logic fills caches on demand.
    snapshot_static = ("textworld.generator.game:Game", "textworld.logic:GameLogic", "textworld.logic:Rule")

    def __init__(self, game: Game | GameFile, *, render_mode: str | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        self.game = game
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self.oracle = TextWorldOracle(self)
        textworld = import_textworld(game.id)
        path = cached(game) if isinstance(game, Game) else game.stored()
        wanted = ("admissible_commands", "description", "inventory", "won", "lost", "score", "max_score", "objective")
        with quietly():
            self._engine: Any = textworld.start(str(path), textworld.EnvInfos(**dict.fromkeys(wanted, True)))
            self._engine.seed(_MACHINE_SEED)
        # Left to the garbage collector, jericho may unload its library before TextWorld calls into it, and crash.
        weakref.finalize(self, self._engine.close)
        self._start: Machine | None = None
        self._phase: Phase = "new"
        self._now: Mapping[str, Any] = {}
        self._observation = ""
        self._plan: Plan | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the same game again; ``seed`` and ``options`` do not change it.

        Raises:
            UsageError: the environment is closed.
        """
        self._require_open()
        super().reset(seed=seed)
        with quietly():
            self._now = self._engine.reset()
        attach(self._engine)
        if self._start is None:
            self._start = Machine.of(self._engine)
        self._phase = "playing"
        self._plan = None
        self._observation = opening(str(self._now["feedback"]))
        return self._observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say one command to the game.

        Raises:
            UsageError: not a string, or the game has not begun, is over or closed.
        """
        self._require_open()
        if self._phase != "playing":
            raise UsageError(
                f"env={self.game.id!r}: step() needs a game in play, this one is {self._phase}; call reset()"
            )
        if not isinstance(action, str):
            raise UsageError(f"action={action!r}: a string")
        now, score = self._now, self._score()
        command = sayable(action, admissible=now["admissible_commands"], verbs=now["verbs"])
        if command is None:
            self._observation = REFUSED
            return REFUSED, 0.0, False, False, self._info()
        self._now, _, _ = self._engine.step(command)
        over = bool(self._now["won"] or self._now["lost"])
        self._phase = "over" if over else "playing"
        self._observation = reply(str(self._now["feedback"]))
        return self._observation, self._score() - score, over, False, self._info()

    def describe(self) -> str:
        """σ: where the player is and what they carry, in what state; costs no step. The score stays out of prompts.

        Raises:
            UsageError: the game has not begun or the environment is closed.
        """
        self._require_begun()
        here = place(str(self._now["description"] or ""))
        hands = carried(str(self._now["inventory"] or ""))
        end = "game won" if self._now["won"] else "game lost" if self._now["lost"] else ""
        return "; ".join(part for part in (f"in {here}" if here else "", hands, end) if part)

    def submit(self, text: str) -> None:
        """None: a game has no final response."""
        return

    def get_state(self) -> State:
        """The whole state of the game, this object's own fields and its generator included.

        Raises:
            UsageError: the game has not begun or the environment is closed.
        """
        start = self._require_begun()
        generator = self._np_random
        return State(
            game=self.game,
            saved=SavedGame.of(self._engine, start),
            fields={name: getattr(self, name) for name in _FIELDS},
            generator=None if generator is None else (generator, generator.bit_generator.state),
        )

    def set_state(self, state: State) -> None:
        """Put back, in place, a state of this game; it stays good for any number of times, from any branch.

        Raises:
            UsageError: a state of another game, or the game has not begun or the environment is closed.
        """
        start = self._require_begun()
        if not isinstance(state, State) or state.game != self.game:
            raise UsageError(f"state={type(state).__name__!r}: a state of this very game ({self.game.name})")
        state.saved.put_back(self._engine, start)
        for name, value in state.fields.items():
            setattr(self, name, value)
        self._np_random = None
        if state.generator is not None:
            self._np_random, bits = state.generator
            self._np_random.bit_generator.state = bits

    def render(self) -> str | None:
        """The last observation where ``render_mode`` is "ansi"."""
        return self._observation if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Free the interpreter; closing twice is fine."""
        if self._phase != "closed":
            self._phase = "closed"
            self._engine.close()
            self._engine = self._plan = None
            self._now = {}

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """No copy and no pickle: half a copy of a C interpreter crashes. ``get_state`` saves a game.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"{self.game.id} holds a C interpreter and cannot be copied or pickled: use get_state, set_state"
        )

    def _info(self) -> dict[str, Any]:
        over = self._phase == "over"
        return {
            "objective": str(self._now["objective"]),
            "admissible": [] if over else sorted(set(self._now["admissible_commands"])),
            "committed": False,
            "oracle": {"success": bool(self._now["won"]), "failed": bool(self._now["lost"]), "score": self._score()},
        }

    def _continuation(self) -> tuple[str, ...] | None:
        self._plan = followed(self._engine, self._plan)
        return self._plan.commands

    def _score(self) -> float:
        return min(1.0, max(0.0, float(self._now["score"]) / max(1, int(self._now["max_score"]))))

    def _require_open(self) -> None:
        if self._phase == "closed":
            raise UsageError(f"env={self.game.id!r}: closed; make a new one")

    def _require_begun(self) -> Machine:
        self._require_open()
        if self._start is None or self._phase == "new":
            raise UsageError(f"env={self.game.id!r}: call reset() first")
        return self._start


_FIELDS = ("_phase", "_now", "_observation", "_plan")
