"""How the heap saves a ``jericho.FrotzEnv`` that somebody's own environment holds: as one leaf, exactly.

jericho's state leaves out C variables (the score that it last saw, whether the emulator halted), after which the first
reward of a game that it scores itself is wrong; they are saved beside it. This module knows no other layer.
"""

from __future__ import annotations

import ctypes
from typing import Any

from rir_gym.snapshot.native import Adapter

__all__ = ["ADAPTER", "statics"]

_STATICS = ("tw_score", "tw_max_score", "emulator_halted")


def statics(frotz: Any) -> dict[str, ctypes.c_int]:
    """The C variables that jericho's own state leaves out, as far as this build of it has them."""
    found: dict[str, ctypes.c_int] = {}
    for name in _STATICS:
        try:
            found[name] = ctypes.c_int.in_dll(frotz.frotz_lib, name)
        except ValueError:
            continue
    return found


def _save(frotz: Any) -> tuple[Any, dict[str, int], int | None]:
    return frotz.get_state(), {name: static.value for name, static in statics(frotz).items()}, frotz._seed


def _restore(frotz: Any, saved: tuple[Any, dict[str, int], int | None]) -> None:
    state, values, frotz._seed = saved
    frotz.set_state(state)
    for name, static in statics(frotz).items():
        static.value = values[name]


ADAPTER = Adapter(_save, _restore)
