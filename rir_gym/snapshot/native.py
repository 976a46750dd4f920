"""Snapshot by the environment's own state pair, found on a layer of the stack or registered for its type.

Wrappers above that layer keep their own fields (time limits, statistics): those are copied beside the native state.
A restore is in place. Whether the pair is complete is never believed: ``auto`` proves it like any other mechanism.

    register_adapter("games.envs:Game", save=lambda env: env.engine.dump(), restore=lambda env, s: env.engine.load(s))
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.layers import layers, shared_objects
from rir_gym.snapshot.protocol import Start

__all__ = ["Adapter", "Native", "adapter_for", "register_adapter"]

_PAIRS = (
    ("get_state", "set_state"),
    ("get_full_state", "set_full_state"),
    ("clone_state", "restore_state"),
    ("save_state", "load_state"),
)
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type)
_OUTSIDE = ("env", "spec", "_cached_spec")


@dataclass(frozen=True, slots=True)
class Adapter:
    """How to save and put back one type of environment, in place; ``static`` as in ``register_adapter``."""

    save: Callable[[Any], Any]
    restore: Callable[[Any, Any], None]
    static: tuple[str, ...] = ()


_REGISTERED: dict[str, Adapter] = {}


def register_adapter(
    type_name: str,
    *,
    save: Callable[[Any], Any],
    restore: Callable[[Any, Any], None],
    static: Sequence[str] = (),
) -> None:
    """Teach the native mechanism a type by its qualified name ``module:Class`` (nothing is imported for it).

    ``save(layer)`` returns a reusable state and changes nothing; ``restore(layer, state)`` puts it back in place.
    A later registration of the same name replaces the earlier one. ``static`` names classes, as ``module:Class`` too,
    whose instances hold no state although they change (caches, tables filled on demand): the proof does not look into
    them.
    An environment with a method pair of its own says the same with a class attribute ``snapshot_static``.
    """
    _REGISTERED[type_name] = Adapter(save, restore, tuple(static))


def adapter_for(layer: Any) -> Adapter | None:
    """The registered adapter of the layer's class or of one of its bases, else its own method pair, else None."""
    for cls in type(layer).__mro__:
        if (known := _REGISTERED.get(f"{cls.__module__}:{cls.__qualname__}")) is not None:
            return known
    for getter, setter in _PAIRS:
        if callable(getattr(type(layer), getter, None)) and callable(getattr(type(layer), setter, None)):
            static = tuple(getattr(type(layer), "snapshot_static", ()))
            return Adapter(getattr(type(layer), getter), getattr(type(layer), setter), static)
    return None


@dataclass(frozen=True, slots=True)
class Native:
    """The token is the native state and, for each wrapper above it, a copy of the wrapper's own fields."""

    share: Sequence[str] = ()
    name: str = "native"

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> tuple[Any, tuple[dict[str, Any], ...]]:
        """The state of the outermost layer that has an adapter, and the fields of the wrappers above it."""
        above, layer, adapter = self._split(env)
        memo = self._memo(env)
        try:
            return adapter.save(layer), tuple(_fields(wrapper, memo) for wrapper in above)
        except Exception as error:  # foreign code
            raise SnapshotError(f"native state of {type(layer).__name__}: {error!r}") from error

    def restore(self, env: gym.Env[Any, Any], token: tuple[Any, tuple[dict[str, Any], ...]]) -> gym.Env[Any, Any]:
        """The same instance, put back in place; when the native call raises, what it had is put back first."""
        state, fields = token
        above, layer, adapter = self._split(env)
        memo = self._memo(env)
        try:
            copies = [_copied(kept, memo) for kept in fields]
            before = adapter.save(layer)
            try:
                adapter.restore(layer, state)
            except Exception:
                adapter.restore(layer, before)
                raise
        except Exception as error:
            raise SnapshotError(f"native restore of {type(layer).__name__}: {error!r}") from error
        for wrapper, kept in zip(above, copies, strict=True):
            for name in [name for name in vars(wrapper) if name not in kept and name not in _OUTSIDE]:
                delattr(wrapper, name)
            vars(wrapper).update(kept)
        return env

    def size(self, token: Any) -> int | None:
        """Unknown: the state belongs to the environment."""
        return None

    def _split(self, env: gym.Env[Any, Any]) -> tuple[list[gym.Env[Any, Any]], gym.Env[Any, Any], Adapter]:
        stack = layers(env)
        for depth, layer in enumerate(stack):
            if (adapter := adapter_for(layer)) is not None:
                return stack[:depth], layer, adapter
        raise SnapshotError(f"native: {type(env.unwrapped).__name__} has no state pair and no registered adapter")

    def _memo(self, env: gym.Env[Any, Any]) -> dict[int, Any]:
        return {**{id(layer): layer for layer in layers(env)}, **shared_objects(env, self.share)}


def _fields(wrapper: Any, memo: dict[int, Any]) -> dict[str, Any]:
    return _copied({name: value for name, value in vars(wrapper).items() if name not in _OUTSIDE}, memo)


def _copied(fields: dict[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
    """A deep copy that pays nothing for the usual case of a wrapper with a few plain values."""
    deep = {name: value for name, value in fields.items() if not isinstance(value, _ATOMS)}
    return {**fields, **copy.deepcopy(deep, dict(memo))} if deep else dict(fields)
