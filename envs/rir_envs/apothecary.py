"""``rir_gym/Apothecary-v0``: a small seeded text game with irreversible steps, silent mistakes and a late verdict.

The agent sees its room, its hands and how full the pot is. It does not see which recipe is true, what lies elsewhere,
or whether a pour was right. Knowledge (the book, where things lay at the start) outlives a rollback, things do not.
The rules are in ``apothecary_world``, the shortest plans in ``apothecary_plan``; this module puts them behind
Gymnasium's interface and knows nothing of checkpoints, agents or reviewers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import gymnasium as gym
import numpy as np

from rir_envs import apothecary_plan, apothecary_world
from rir_envs.apothecary_world import INGREDIENTS, STORES, State, World
from rir_gym.errors import NotRestorable, UsageError
from rir_gym.spaces import Unicode

__all__ = ["ApothecaryEnv", "ApothecaryOracle", "Saved"]

_MAX_RECIPE = 8  # bounds the search for the fewest store rooms, which is exponential in the ingredients with a spare


@dataclass(frozen=True, slots=True)
class Saved:
    """Everything about an ``ApothecaryEnv`` that can change: a value that can be put back any number of times.

    ``rng`` is the position of the environment's generator (name, state, increment, has_uint32, uinteger), None before
    its first use. The generators of the spaces are the agent's, not the world's, and are not in it.
    """

    world: World | None
    state: State | None
    message: str
    rng: tuple[str, int, int, int, int] | None
    rng_seed: int | None


class ApothecaryEnv(gym.Env[str, str]):
    """Find the true recipe and its ingredients, brew, and offer the potion at the shrine (reward 1, the only one).

    Observations are four short lines of text. Any text is a legal action; what is not admissible changes nothing. A
    potion that the shrine refuses is gone, but the episode goes on: it ends with success only.

    Args:
        rumour_wrong: probability that the rumoured recipe is wrong in one point.
        spare: probability that an ingredient exists twice.
        stores: number of store rooms, 1 to 12.
        ingredients: number of ingredients in the world, ``recipe_size`` to 16.
        recipe_size: number of ingredients in the recipe, 1 to 8.
        render_mode: None or "ansi".

    Raises:
        UsageError: an argument of another type or out of range.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - an instance variable upstream

    def __init__(
        self,
        *,
        rumour_wrong: float = 0.5,
        spare: float = 0.2,
        stores: int = 5,
        ingredients: int = 6,
        recipe_size: int = 3,
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        _probability("rumour_wrong", rumour_wrong)
        _probability("spare", spare)
        _count("stores", stores, 1, len(STORES))
        _count("recipe_size", recipe_size, 1, _MAX_RECIPE)
        _count("ingredients", ingredients, recipe_size, len(INGREDIENTS))
        if render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode={render_mode!r}: None or 'ansi'")
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self._difficulty: dict[str, Any] = {
            "rumour_wrong": rumour_wrong,
            "spare": spare,
            "stores": stores,
            "ingredients": ingredients,
            "recipe_size": recipe_size,
        }
        self._objective = apothecary_world.objective(recipe_size)
        self._world: World | None = None
        self._state: State | None = None
        self._message = ""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a new world. ``seed`` fixes it, given equal difficulty; ``options`` has no entries and is not read."""
        super().reset(seed=seed)
        self._world, self._state = apothecary_world.draw(self.np_random, **self._difficulty)
        self._message = apothecary_world.first_message(self._world)
        return self._observation(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do what the text says, or nothing. Never truncates.

        Raises:
            UsageError: not a ``str``; before the first reset; after the end of the episode.
        """
        if not isinstance(action, str):
            raise UsageError(f"action={type(action).__name__}: a str")
        world, state = self._now()
        if state.won:
            raise UsageError("step: the episode has ended; call reset or set_state first")
        self._state, self._message = apothecary_world.advance(world, state, action)
        won = self._state.won
        return self._observation(), 1.0 if won else 0.0, won, False, self._info()

    def render(self) -> str | None:
        """The last observation in "ansi" mode, else None."""
        return self._observation() if self.render_mode == "ansi" else None

    def describe(self) -> str:
        """σ: place, inventory and sub-goals done, from the current state; no step number and nothing hidden."""
        return apothecary_world.description(self._now()[1])

    def submit(self, text: str) -> str | None:
        """None: there is no final response in this environment."""
        return None

    @property
    def oracle(self) -> ApothecaryOracle:
        """Exact knowledge of the current state, on demand."""
        return ApothecaryOracle(self)

    def get_state(self) -> Saved:
        """Everything that can change, as one immutable value.

        Raises:
            NotRestorable: ``np_random`` was replaced by a generator that is not a PCG64, Gymnasium's own.
        """
        return Saved(self._world, self._state, self._message, _position(self._np_random), self._np_random_seed)

    def set_state(self, state: Saved) -> None:
        """Put a ``get_state`` value of this class back, in place; also into another instance of equal difficulty.

        Raises:
            UsageError: not a ``get_state`` value.
        """
        if not isinstance(state, Saved):
            raise UsageError(f"state={type(state).__name__}: a value of get_state")
        self._world, self._state, self._message = state.world, state.state, state.message
        self._np_random, self._np_random_seed = _moved(self._np_random, state.rng), state.rng_seed

    def _now(self) -> tuple[World, State]:
        if self._world is None or self._state is None:
            raise UsageError("reset: call it first; there is no world yet")
        return self._world, self._state

    def _observation(self) -> str:
        world, state = self._now()
        return apothecary_world.observation(world, state, self._message)

    def _info(self) -> dict[str, Any]:
        world, state = self._now()
        return {
            "objective": self._objective,
            "admissible": apothecary_world.admissible(world, state),
            "committed": False,
            "oracle": {
                "success": state.won,
                "failed": apothecary_plan.lost(world.recipe, state),
                "score": apothecary_plan.progress(world.recipe, state),
            },
        }


@dataclass(frozen=True, slots=True)
class ApothecaryOracle:
    """Full information about the state that ``env`` is in when asked; all answers are exact (``rir_gym.base.Oracle``).

    Every method raises UsageError before the first reset.
    """

    env: ApothecaryEnv
    exact: ClassVar[bool] = True

    def distance(self) -> float:
        """Fewest commands to success: 0 after it, ``inf`` where it is out of reach."""
        world, state = self.env._now()
        return apothecary_plan.distance(world.recipe, state)

    def best_action(self) -> str | None:
        """The first command of a shortest plan; None where there is none to take."""
        commands = self.plan()
        return commands[0] if commands else None

    def plan(self) -> Sequence[str] | None:
        """A shortest plan: empty after success, None where success is out of reach."""
        world, state = self.env._now()
        return apothecary_plan.plan(world.recipe, state)

    def recoverable(self, within: int) -> bool:
        """Whether success is at most ``within`` commands away."""
        return self.distance() <= within

    def progress(self) -> float:
        """Share of the milestones that stand, in [0, 1]; 1 exactly at success."""
        world, state = self.env._now()
        return apothecary_plan.progress(world.recipe, state)


def _probability(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and 0 <= value <= 1):
        raise UsageError(f"{name}={value!r}: a number from 0 to 1")


def _count(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name}={value!r}: an int from {least} to {most}")


def _position(rng: np.random.Generator | None) -> tuple[str, int, int, int, int] | None:
    if rng is None:
        return None
    now: Mapping[str, Any] = rng.bit_generator.state
    if now["bit_generator"] != "PCG64":
        raise NotRestorable(f"np_random={now['bit_generator']}: the state pair holds the position of a PCG64 only")
    return "PCG64", now["state"]["state"], now["state"]["inc"], now["has_uint32"], now["uinteger"]


def _moved(
    rng: np.random.Generator | None, position: tuple[str, int, int, int, int] | None
) -> np.random.Generator | None:
    """``rng`` itself at ``position`` where it can be there, else a new generator."""
    if position is None:
        return None
    name, value, increment, has_uint32, uinteger = position
    if rng is None or not isinstance(rng.bit_generator, np.random.PCG64):
        rng = np.random.Generator(np.random.PCG64(0))
    rng.bit_generator.state = {
        "bit_generator": name,
        "state": {"state": value, "inc": increment},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    return rng
