"""Snapshot by pickling the wrapper stack in memory (``pickle`` first, ``cloudpickle`` where that fails).

Tokens live and die in this process: nothing that came from a file is ever unpickled. Proven by ``auto`` like the rest.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.layers import shared_objects
from rir_gym.snapshot.protocol import Start

__all__ = ["Pickle"]


@dataclass(frozen=True, slots=True)
class _Token:
    data: bytes
    shared: dict[int, Any]


@dataclass(frozen=True, slots=True)
class Pickle:
    """The token is bytes; a restore unpickles them into a new instance."""

    share: Sequence[str] = ()
    name: str = "pickle"
    sized: bool = True
    repeats: bool = False
    tied: bool = False

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> _Token:
        """The pickled stack; shared attributes are kept by identity."""
        shared = shared_objects(env, self.share)
        try:
            return _Token(_dump(_Pickler, env, shared), shared)
        except Exception:  # any class may raise anything; cloudpickle takes more (closures, classes of __main__)
            try:
                return _Token(_dump(_CloudPickler, env, shared), shared)
            except Exception as error:
                raise SnapshotError(f"pickle of {type(env.unwrapped).__name__}: {error}") from error

    def restore(self, env: gym.Env[Any, Any], token: _Token) -> gym.Env[Any, Any]:
        """A new instance from the bytes."""
        try:
            unpickler = _Unpickler(io.BytesIO(token.data))
            unpickler.shared = token.shared
            restored: gym.Env[Any, Any] = unpickler.load()
        except Exception as error:
            raise SnapshotError(f"unpickling {type(env.unwrapped).__name__}: {error}") from error
        return restored

    def size(self, token: _Token) -> int | None:
        """Length of the pickle."""
        return len(token.data)

    def drop(self, token: _Token) -> None:
        """Nothing to do: nobody else holds the bytes."""

    def forget(self) -> None:
        """Nothing to do."""


class _SharedIds:
    shared: dict[int, Any]

    def persistent_id(self, obj: Any) -> int | None:
        return id(obj) if id(obj) in self.shared else None


class _Pickler(_SharedIds, pickle.Pickler):
    pass


class _CloudPickler(_SharedIds, cloudpickle.Pickler):  # type: ignore[misc]
    pass


class _Unpickler(pickle.Unpickler):
    shared: dict[int, Any]

    def persistent_load(self, pid: Any) -> Any:
        return self.shared[pid]


def _dump(pickler_class: Any, env: gym.Env[Any, Any], shared: dict[int, Any]) -> bytes:
    buffer = io.BytesIO()
    pickler = pickler_class(buffer, protocol=5)
    pickler.shared = shared
    pickler.dump(env)
    return buffer.getvalue()
