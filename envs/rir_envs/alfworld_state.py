"""Put a running ALFWorld game back in place: Fast Downward's state number, TextWorld's facts, and the last reply.

Fast Downward registers every state it meets and never forgets one, so a number is a whole planner state, for as long as
the game stays loaded. The facts are kept beside it: observations are made from them, and they hold more than the
planner's state (negated facts appear once an action has made them). This module knows the engine's fields, and nothing
of Gymnasium.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rir_envs.alfworld_engine import Engine

__all__ = ["SavedWorld"]

_WORLD = ("_facts", "_vars_by_name", "_vars_by_type", "_var_counts", "_operators")
_GAME = ("state", "prev_state", "_last_action", "_moves")


@dataclass(frozen=True, slots=True, eq=False)
class SavedWorld:
    """A game at one moment. The engine replaces what it shares with this, at every step, and never changes it."""

    number: int
    world: Mapping[str, Any]
    game: Mapping[str, Any]

    @classmethod
    def of(cls, engine: Engine) -> SavedWorld:
        """The running game now."""
        world, game = engine.world, engine.pddl
        return cls(
            engine.library.get_state_id(),
            {name: getattr(world, name) for name in _WORLD},
            {name: getattr(game, name) for name in _GAME},
        )

    def put_back(self, engine: Engine) -> None:
        """Make the running game what it was."""
        engine.library.set_state_id(self.number)
        for kept, of in ((self.world, engine.world), (self.game, engine.pddl)):
            for name, value in kept.items():
                setattr(of, name, value)
