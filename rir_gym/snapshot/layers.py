"""The wrapper stack of an environment as a list, and what its owner declared shared. Knows no mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from rir_gym.errors import UsageError

__all__ = ["layers", "shared_objects"]


def layers(env: gym.Env[Any, Any]) -> list[gym.Env[Any, Any]]:
    """From the outermost wrapper to the base environment."""
    stack = [env]
    while isinstance(stack[-1], gym.Wrapper):
        stack.append(stack[-1].env)
    return stack


def shared_objects(env: gym.Env[Any, Any], share: Sequence[str]) -> dict[int, Any]:
    """The objects that stay as they are, by id: ``share`` names attributes of any layer; specs always do.

    Raises:
        UsageError: a name that no layer has.
    """
    specs = [vars(layer).get(name) for layer in layers(env) for name in ("spec", "_cached_spec")]
    found: dict[int, Any] = {id(spec): spec for spec in specs if spec is not None}
    for name in share:
        held = [vars(layer)[name] for layer in layers(env) if name in vars(layer)]
        if not held:
            raise UsageError(f"share={name!r}: no layer of {type(env.unwrapped).__name__} has such an attribute")
        found.update({id(value): value for value in held})
    return found
