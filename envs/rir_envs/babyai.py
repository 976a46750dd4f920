"""``rir_gym/BabyAI-v0``: missions in MiniGrid's and BabyAI's grids, as text.

The agent reads the mission and its partial view, and acts by the names of the actions. ``minigrid`` (extra
"minigrid") is imported when an environment is made. This module puts a level behind Gymnasium's interface to text;
``babyai_text`` says what is seen, ``babyai_oracle`` what BabyAI's bot would do. It holds no way to save a level: one is
plain Python objects and arrays.

BabyAI: Chevalier-Boisvert et al., arXiv 1810.08272. MiniGrid: Chevalier-Boisvert et al., arXiv 2306.13831.
"""

from __future__ import annotations

import importlib
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Literal

import gymnasium as gym

from rir_envs.babyai_oracle import BabyAIOracle, Standing
from rir_envs.babyai_text import ACTIONS, action_named, carried, facing, view
from rir_gym.errors import MissingDependency, UnknownName, UsageError
from rir_gym.snapshot.streams import untouched
from rir_gym.spaces import Unicode

__all__ = ["BabyAIEnv", "levels"]

_FEATURE = "rir_gym/BabyAI-v0"
_NO_SUCH = "There is no such action. Say one of: " + ", ".join(ACTIONS) + "."

Phase = Literal["new", "playing", "over", "closed"]


def levels() -> tuple[str, ...]:
    """The levels that can be played: the ids of BabyAI and MiniGrid in the installed ``minigrid``.

    Not among them: those of MiniGrid that need other packages (WFC), and the one that has no mission (Playground).

    Raises:
        MissingDependency: MiniGrid is not installed.
    """
    _minigrid()
    return tuple(sorted(name for name in gym.registry if name.startswith(_FAMILIES) and not _OTHERS.search(name)))


class BabyAIEnv(gym.Env[str, str]):
    """One level.

    Observations say what the agent sees, carries and faces. Actions are "turn left", "turn right", "go forward",
    "pick up", "drop", "toggle" and "done" (which only some levels of MiniGrid heed); MiniGrid's own names do too. Any
    other text is answered, and changes nothing. ``info`` has ``objective`` (the mission), ``admissible`` (these names;
    empty at the end), ``committed`` (False) and ``oracle`` (success, failed, score 1 or 0). The reward is MiniGrid's:
    1 - 0.9 of the share of the step limit that was used at success, else 0. A level ends at success, at a failure that
    it knows, or is truncated at its own step limit, which is rolled back with it.

    Args:
        level: one of ``levels()``, such as "BabyAI-GoToLocal-v0" or "MiniGrid-DoorKey-5x5-v0".
        render_mode: None or "ansi".

    Raises:
        UnknownName: no such level.
        UsageError: another render mode.
        MissingDependency: MiniGrid is not installed.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - an instance variable upstream

    def __init__(self, *, level: str = "BabyAI-GoToLocal-v0", render_mode: Literal["ansi"] | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        if level not in (known := levels()):
            raise UnknownName("level", level, known)
        self.level, self.render_mode = level, render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        with _quiet():
            self._grid: Any = gym.make(level, disable_env_checker=True).unwrapped
        self._phase: Phase = "new"
        self._won = False
        self._observation = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a mission, which ``seed`` fixes; ``options`` has no entries and is not read.

        Raises:
            UsageError: the environment is closed.
        """
        if self._phase == "closed":
            raise UsageError(f"level={self.level!r}: closed; make a new one")
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        with _quiet():
            self._grid.reset(seed=seed)
        self._phase, self._won = "playing", False
        self._observation = view(self._grid)
        return self._observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do one action.

        Raises:
            UsageError: not a string, or the mission has not begun, is over or closed.
        """
        if not isinstance(action, str):
            raise UsageError(f"action={type(action).__name__}: a str")
        if self._phase != "playing":
            raise UsageError(
                f"level={self.level!r}: step() needs a mission in play, this one is {self._phase}; call reset()"
            )
        name = action_named(action)
        if name is None:
            self._observation = _NO_SUCH
            return _NO_SUCH, 0.0, False, False, self._info()
        with _quiet():
            _, reward, terminated, truncated, _ = self._grid.step(self._grid.actions[name])
        over = bool(terminated)
        truncated = bool(truncated) and not over
        self._won = over and float(reward) > 0
        if over or truncated:
            self._phase = "over"
        self._observation = view(self._grid)
        return self._observation, float(reward), over, truncated, self._info()

    def describe(self) -> str:
        """σ: where the agent is, which way it looks, and what it carries; costs no step.

        Raises:
            UsageError: the mission has not begun or the environment is closed.
        """
        if self._phase in ("new", "closed"):
            raise UsageError(f"level={self.level!r}: call reset() first")
        column, row = (int(each) for each in self._grid.agent_pos)
        end = "mission done" if self._won else "mission over" if self._phase == "over" else ""
        said = f"at column {column}, row {row}, facing {facing(self._grid)}", f"carrying {carried(self._grid)}", end
        return "; ".join(part for part in said if part)

    @property
    def oracle(self) -> BabyAIOracle:
        """What BabyAI's bot would do, on demand."""
        return BabyAIOracle(self._now)

    def submit(self, text: str) -> None:
        """None: a mission has no final response."""
        return

    def render(self) -> str | None:
        """The last observation where ``render_mode`` is "ansi"."""
        return self._observation if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Drop the level; closing twice is fine."""
        if self._phase != "closed":
            self._phase = "closed"
            self._grid.close()

    def _now(self) -> tuple[Any, Standing]:
        if self._phase in ("new", "closed"):
            raise UsageError(f"level={self.level!r}: call reset() first")
        return self._grid, "playing" if self._phase == "playing" else "won" if self._won else "lost"

    def _info(self) -> dict[str, Any]:
        over = self._phase == "over"
        return {
            "objective": str(self._grid.mission),
            "admissible": [] if over else list(ACTIONS),
            "committed": False,
            "oracle": {"success": self._won, "failed": over and not self._won, "score": float(self._won)},
        }


_FAMILIES = ("BabyAI-", "MiniGrid-")
_OTHERS = re.compile(r"-WFC-|-Playground-")


@contextmanager
def _quiet() -> Iterator[None]:
    """Making a mission prints what was rejected on the way."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _minigrid() -> Any:
    """The ``minigrid`` package, whose import registers the levels."""
    try:
        with untouched(), _quiet():
            return importlib.import_module("minigrid")
    except ImportError as error:
        raise MissingDependency(_FEATURE, "minigrid") from error
