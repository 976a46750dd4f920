"""``rir_gym/TextArena-v0``: TextArena's single-player games that need no download, as Gymnasium environments.

TextArena seeds the process-global ``random`` at every reset, and some games (2048, Bandit, Blackjack, Minesweeper) draw
from it in their steps. That is left as it is: whoever draws from ``random`` between two steps changes the game, except
under ``RollbackWrapper`` after a rollback, which keeps the game's stream apart. ``textarena`` (extra "textarena") is
imported when an environment is made. This module knows how a game is played and what it says; ``textarena_moves``
which moves it takes. It holds no way to save a game: a game is plain Python objects.

TextArena: Guertler et al., "TextArena", arXiv 2504.11442.
"""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any, Literal

import gymnasium as gym

from rir_envs.textarena_moves import moves
from rir_envs.unknown import UnknownOracle
from rir_gym.errors import MissingDependency, UsageError
from rir_gym.snapshot.streams import untouched
from rir_gym.spaces import Unicode

__all__ = ["GAMES", "LEFT_OUT", "TextArenaEnv"]

GAMES = (
    *(f"2048-v0{size}" for size in ("", "-ultra-easy", "-mega-easy", "-super-easy", "-very-easy", "-easy", "-hard")),
    *(f"2048-v0{size}" for size in ("-very-hard", "-extreme", "-3x3", "-5x5", "-6x6", "-8x8", "-10x10")),
    *("Bandit-v0", "Bandit-v0-hard", "Blackjack-v0", "Blackjack-v0-long"),
    *("FrozenLake-v0", "FrozenLake-v0-random", "FrozenLake-v0-hardcore"),
    *("GuessTheNumber-v0", "GuessTheNumber-v0-hardcore", "LightsOut-v0"),
    *("Mastermind-v0", "Mastermind-v0-hard", "Mastermind-v0-extreme"),
    *("Minesweeper-v0", "Minesweeper-v0-small", "Minesweeper-v0-medium", "Minesweeper-v0-hard"),
    *("PegJump-v0", "RushHour-v0", "Secretary-v0", "Secretary-v0-long", "Sokoban-v0"),
    *("Sudoku-v0", "Sudoku-v0-very-easy", "Sudoku-v0-easy", "Sudoku-v0-medium"),
    *(f"TowerOfHanoi-v0{size}" for size in ("", "-medium", "-hard", "-hardcore", "-extreme")),
)

# Not here, of the single-player games of TextArena 0.7.4; a name stands for all its variants that GAMES has not.
LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(("Hangman", "WordLadder", "WordSearch", "Wordle"), "a word list to download"),
    **dict.fromkeys(("GuessWho", "TwentyQuestions"), "a model on a server"),
    "Klondike": "no valid Python",
    "UltimateTexasHoldem": "no valid Python before 3.12",
    **dict.fromkeys(
        ("Cryptarithm", "Slitherlink", "ThreeCardMonte"), "reward and reason of an invalid move are mixed up"
    ),
    "Countdown": "reward and reason of an invalid move are mixed up, and its seed does not fix the game",
    "FifteenPuzzle": "raises when it is won",
    **dict.fromkeys(("Crosswords", "LogicPuzzle"), "what several moves in one do depends on the hash seed"),
    "Set": "its reward is a count",
    "Sokoban": "the medium variant takes seconds to minutes a reset",
    "Sudoku": "the hard variant takes seconds a reset",
}

_FEATURE = "rir_gym/TextArena-v0"
_LONGEST = 4000  # int() reads at most 4,300 digits, and Bandit's pattern takes time quadratic in the length
_SUMMARY = 160
_SPEECH = ("GAME_BOARD", "GAME_ACTION_DESCRIPTION", "GAME_MESSAGE")

Phase = Literal["new", "playing", "over", "closed"]


class TextArenaEnv(gym.Env[str, str]):
    """One TextArena game.

    Observations are what the game has said since the last one, without the player's own words; the first holds the
    rules, the last the game's reason for ending. ``info`` has ``objective`` (the rules), ``admissible`` (the moves that
    the game takes now, or None for games where they are not listed; empty at the end), ``committed`` (False) and
    ``oracle``: success is the full reward of 1, failed any other end, score the game's own reward, cut to [0, 1] and 0
    until the end. (Bandit rates a wrong answer by its regret.) The reward is the game's own at the end, cut to
    [-1, 1], and 0 before. Any text is a move, put in brackets where it has none, as TextArena does: a game answers
    an invalid one, and ends at the second in a row. Of a longer text the game reads the first 4,000 characters.

    Args:
        game: one of ``GAMES``.
        render_mode: None or "ansi".

    Raises:
        UsageError: another game or render mode.
        MissingDependency: TextArena is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - an instance variable upstream

    def __init__(self, *, game: str = "2048-v0", render_mode: Literal["ansi"] | None = None) -> None:
        if game not in GAMES:
            raise UsageError(f"game={game!r}: one of {', '.join(GAMES)}")
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        self.game = game
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self.oracle = UnknownOracle()
        if f"{game}-raw" not in _textarena().envs.registration.ENV_REGISTRY:
            raise UsageError(f"game={game!r}: the installed TextArena has no such game")
        self._raw: Any = None
        self._phase: Phase = "new"
        self._objective = self._observation = self._board = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a new game. ``seed`` is TextArena's own and fixes it; ``options`` has no entries and is not read.

        Raises:
            UsageError: the environment is closed.
        """
        if self._phase == "closed":
            raise UsageError(f"game={self.game!r}: closed; make a new one")
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        # A new object each time: games keep things from one reset to the next, and so do TextArena's own wrappers.
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            self._raw = _textarena().make(f"{self.game}-raw")
            self._raw.reset(num_players=1, seed=seed)
        self._phase = "playing"
        self._board = ""
        said = self._said()
        self._objective = "\n".join(text for kind, text in said if kind == "PROMPT").strip()
        self._observation = "\n".join(text for _, text in said)
        return self._observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say one move to the game. Never truncates: the games' own limits end them.

        Raises:
            UsageError: not a string, or the game has not begun, is over or closed.
        """
        if not isinstance(action, str):
            raise UsageError(f"action={type(action).__name__}: a str")
        if self._phase != "playing":
            raise UsageError(
                f"game={self.game!r}: step() needs a game in play, this one is {self._phase}; call reset()"
            )
        with redirect_stdout(io.StringIO()):
            over, _ = self._raw.step(_readable(action))
        said = [text for _, text in self._said()]
        if over:
            self._phase = "over"
            said.append(str(self._raw.state.game_info[0].get("reason") or "The game is over."))
        self._observation = "\n".join(said)
        return self._observation, min(1.0, max(-1.0, self._final())), bool(over), False, self._info()

    def describe(self) -> str:
        """σ: the number of turns taken and the beginning of what the board, or the game, last showed; no reward.

        Raises:
            UsageError: the game has not begun or the environment is closed.
        """
        if self._phase in ("new", "closed"):
            raise UsageError(f"game={self.game!r}: call reset() first")
        end = "" if self._phase == "playing" else "game won" if self._won() else "game over"
        return "; ".join(part for part in (f"turn {self._raw.state.turn}", self._board[:_SUMMARY], end) if part)

    def submit(self, text: str) -> None:
        """None: a game has no final response."""
        return

    def render(self) -> str | None:
        """The last observation where ``render_mode`` is "ansi"."""
        return self._observation if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Drop the game; closing twice is fine."""
        self._phase = "closed"
        self._raw = None

    def _said(self) -> list[tuple[str, str]]:
        """The kinds and texts of the new messages; the last board among them is kept for ``describe``."""
        _, messages = self._raw.get_observation()
        said = [(kind.name, str(text)) for _, text, kind in messages if kind.name != "PLAYER_ACTION"]
        shown = min((kind for kind, _ in said if kind in _SPEECH), key=_SPEECH.index, default=None)
        if shown is not None:
            board = [text for kind, text in said if kind == shown][-1]
            self._board = " ".join(word for word in board.split() if word.strip("+-="))
        return said

    def _info(self) -> dict[str, Any]:
        over = self._phase == "over"
        return {
            "objective": self._objective,
            "admissible": [] if over else moves(self.game, self._raw),
            "committed": False,
            "oracle": {
                "success": self._won(),
                "failed": over and not self._won(),
                "score": min(1.0, max(0.0, self._final())),
            },
        }

    def _final(self) -> float:
        """The game's own reward; 0 until the end."""
        rewards = self._raw.state.rewards
        return float(rewards[0]) if self._phase == "over" and rewards else 0.0

    def _won(self) -> bool:
        return self._final() >= 1.0 and not self._raw.state.game_info[0]["invalid_move"]


def _textarena() -> Any:
    """The ``textarena`` package; its first import draws from ``random`` and changes the warning filters."""
    try:
        with untouched(), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return importlib.import_module("textarena")
    except ImportError as error:
        raise MissingDependency(_FEATURE, "textarena") from error


def _readable(action: str) -> str:
    """What the games can read (beyond it, ``int`` raises and patterns take long), in the brackets that they want."""
    read = action[:_LONGEST]
    return read if "[" in read or "]" in read else f"[{read}]"
