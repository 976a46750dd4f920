"""How a fresh instance of a live environment is made: from its spec, the same stack again, here or in another process.

This module knows specs and stacks; it knows no mechanism and no proof.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.transparency import name_of

__all__ = ["WINDOW", "Make", "maker_of", "names_of"]

Make = Callable[[], gym.Env[Any, Any]]

WINDOW = "human"
"""The render mode that draws for a person."""


def maker_of(env: gym.Env[Any, Any], *, window: bool = True) -> Make | None:
    """A function that makes the same stack from the environment's spec, where it has one that can be made again.

    ``window=False``: what it makes opens no window, even where the environment does (``render_mode="human"``).
    """
    try:
        spec = copy.deepcopy(env.spec)
        if spec is None or spec.entry_point is None or any(each.kwargs is None for each in spec.additional_wrappers):
            return None
        if not window and spec.kwargs.get("render_mode") == WINDOW:
            spec.kwargs["render_mode"] = None
        spec.to_json()
    except Exception:  # a spec of wrappers that do not record their arguments, or arguments that are no JSON
        return None
    make = _FromSpec(spec, tuple(names_of(env)))
    try:
        make().close()
    except Exception:  # foreign constructors
        return None
    return make


@dataclass(frozen=True)
class _FromSpec:
    """Makes the stack of a spec, or that part of it which has these names; can be sent to another process."""

    spec: Any
    names: tuple[str, ...]

    def __call__(self) -> gym.Env[Any, Any]:
        made = gym.make(copy.deepcopy(self.spec))
        for layer in layers(made):  # ``gym.make(...).unwrapped`` has the spec of the whole stack
            if tuple(names_of(layer)) == self.names:
                return layer
        made.close()
        raise SnapshotError(f"a fresh instance is {names_of(made)}, the live one {list(self.names)}")


def names_of(env: gym.Env[Any, Any]) -> list[str]:
    """The classes of a stack, by name, outermost first."""
    return [name_of(type(layer)) for layer in layers(env)]
