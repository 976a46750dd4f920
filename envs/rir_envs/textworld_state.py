"""Put a running TextWorld game back in place: the Z-machine's memory, what jericho forgets, and the Python layers.

``jericho``'s own state leaves out C variables (the score it last saw, whether the emulator halted), after which the
first reward of a game that it scores itself is wrong; they are kept here. Its output and parse buffers are left out:
every step writes them before it reads them. RAM is kept as its difference from the game's start, some
kilobytes instead of some hundreds. This module knows TextWorld's layers, and nothing of Gymnasium.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rir_envs.jericho_state import statics

__all__ = ["Machine", "SavedGame", "Tracker", "attach", "layers_of"]

_FIXED = frozenset({"_wrapped_env", "_jericho", "_game", "_inform7", "_game_progression", "request_infos"})
_Bytes = npt.NDArray[np.uint8]
_Change = tuple[npt.NDArray[np.uint32], _Bytes]


class Tracker:
    """Stands where TextWorld keeps its ``GameProgression`` and also notes the logical actions taken since the reset.

    Following the quests at every step costs up to three times the step itself, so the progression given here does not;
    whoever needs a winning continuation follows ``actions`` on a progression of their own.
    """

    winning_policy = None

    def __init__(self, progression: Any) -> None:
        self.progression = progression
        self.actions: tuple[Any, ...] = ()

    @property
    def state(self) -> Any:
        """The facts that hold now."""
        return self.progression.state

    @property
    def valid_actions(self) -> Any:
        """The logical actions that are possible now."""
        return self.progression.valid_actions

    def update(self, action: Any) -> None:
        """Apply one logical action, to a copy of the facts: whoever keeps ``state`` keeps it as it is.

        A copy made at a save or restore instead would list the same facts in another order.
        """
        self.actions = (*self.actions, action)
        self.progression.state = self.progression.state.copy()
        self.progression.update(action)


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """The memory of the Z-machine at the start of a game: what saved states are differences from."""

    ram: _Bytes
    stack: _Bytes

    @classmethod
    def of(cls, top: Any) -> Machine:
        """The memory as it is now."""
        ram, stack, *_ = _jericho(top).get_state()
        return cls(ram, stack)


@dataclass(frozen=True, slots=True, eq=False)
class SavedGame:
    """A game at one moment. What it shares with the running game never changes; it is good for any number of times."""

    ram: _Change
    stack: _Change
    registers: tuple[Any, ...]
    statics: Mapping[str, int]
    facts: Any
    valid_actions: Any
    actions: tuple[Any, ...]
    layers: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, top: Any, start: Machine) -> SavedGame:
        """The running game ``top`` now; ``start`` is its memory at the beginning."""
        jericho = _jericho(top)
        ram, stack, *registers = jericho.get_state()
        tracker = _tracking(top)._game_progression
        return cls(
            ram=_change(start.ram, ram),
            stack=_change(start.stack, stack),
            registers=tuple(registers),
            statics={name: static.value for name, static in statics(jericho).items()},
            facts=tracker.state,
            valid_actions=tracker.valid_actions,
            actions=tracker.actions,
            layers=tuple({k: v for k, v in vars(layer).items() if k not in _FIXED} for layer in layers_of(top)),
        )

    def put_back(self, top: Any, start: Machine) -> None:
        """Make the running game ``top`` what it was; ``start`` is the memory at its beginning."""
        jericho = _jericho(top)
        jericho.set_state((_changed(start.ram, self.ram), _changed(start.stack, self.stack), *self.registers))
        for name, static in statics(jericho).items():
            static.value = self.statics[name]
        for layer, kept in zip(layers_of(top), self.layers, strict=True):
            for name in [name for name in vars(layer) if name not in kept and name not in _FIXED]:
                delattr(layer, name)
            vars(layer).update(kept)
        tracker = _tracking(top)._game_progression
        tracker.progression.state = self.facts
        tracker.progression._valid_actions = self.valid_actions
        tracker.actions = self.actions


def attach(top: Any) -> None:
    """Put a ``Tracker`` over the progression of a game that was just reset."""
    tracking = _tracking(top)
    tracking._game_progression = Tracker(tracking._game_progression)


def layers_of(top: Any) -> list[Any]:
    """TextWorld's wrappers, from the outermost to the interpreter."""
    layers = [top]
    while (inner := vars(layers[-1]).get("_wrapped_env")) is not None:
        layers.append(inner)
    return layers


def _tracking(top: Any) -> Any:
    return next(layer for layer in layers_of(top) if "_game_progression" in vars(layer))


def _jericho(top: Any) -> Any:
    return layers_of(top)[-1]._jericho


def _change(start: _Bytes, now: _Bytes) -> _Change:
    where = np.flatnonzero(start != now).astype(np.uint32)
    return where, now[where]


def _changed(start: _Bytes, change: _Change) -> _Bytes:
    where, values = change
    now = start.copy()
    now[where] = values
    return now
