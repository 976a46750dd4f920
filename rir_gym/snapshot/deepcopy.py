"""Snapshot by ``copy.deepcopy`` of the whole wrapper stack.

A restore puts another instance in the environment's place, so references that the caller holds to ``env.unwrapped``
go stale. Wrong wherever copying is not what the class says it is (EzPickle rebuilds, closures share, C objects raise):
``auto`` proves it on the environment at hand before it is used.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.layers import shared_objects
from rir_gym.snapshot.protocol import Start

__all__ = ["DeepCopy"]


@dataclass(frozen=True, slots=True)
class DeepCopy:
    """The token is a copy; a restore hands out a copy of the token, so that it can be used again."""

    share: Sequence[str] = ()
    name: str = "deepcopy"
    sized: bool = False
    repeats: bool = False
    tied: bool = False

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> gym.Env[Any, Any]:
        """A deep copy; shared attributes are kept by identity."""
        return self._copy(env)

    def restore(self, env: gym.Env[Any, Any], token: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """A deep copy of the token."""
        return self._copy(token)

    def size(self, token: gym.Env[Any, Any]) -> int | None:
        """Unknown: a deep copy does not say how much it holds."""
        return None

    def drop(self, token: gym.Env[Any, Any]) -> None:
        """Nothing to do: nobody else holds the copy."""

    def forget(self) -> None:
        """Nothing to do."""

    def _copy(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        memo = shared_objects(env, self.share)
        try:
            return copy.deepcopy(env, dict(memo))
        except Exception as error:  # any class may raise anything from its own copying code
            raise SnapshotError(f"deepcopy of {type(env.unwrapped).__name__}: {error}") from error
