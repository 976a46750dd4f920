"""Snapshot by the environment's own state pair, found on a layer of the stack or registered for its type.

Wrappers above that layer keep their own fields (time limits, statistics): those are copied beside the native state.
A restore is in place. Whether the pair is complete is never believed: ``auto`` proves it like any other mechanism.

    register_adapter("games.envs:Game", save=lambda env: env.engine.dump(), restore=lambda env, s: env.engine.load(s))
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.layers import layers, shared_objects
from rir_gym.snapshot.protocol import Start
from rir_gym.snapshot.transparency import name_of

__all__ = ["Adapter", "Native", "adapter_for", "register_adapter", "register_adapter_at", "registered"]

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
    """How to save and put back one type of environment, in place; the rest as in ``register_adapter``."""

    save: Callable[[Any], Any]
    restore: Callable[[Any, Any], None]
    static: tuple[str, ...] = ()
    close: Callable[[Any], None] | None = None


_REGISTERED: dict[str, Adapter | str] = {}


def register_adapter(
    type_name: str,
    *,
    save: Callable[[Any], Any],
    restore: Callable[[Any, Any], None],
    close: Callable[[Any], None] | None = None,
    static: Sequence[str] = (),
) -> None:
    """Teach the native mechanism a type by its qualified name ``module:Class`` (nothing is imported for it).

    ``save(layer)`` returns a reusable state and changes nothing; ``restore(layer, state)`` puts it back in place.
    ``close(state)`` is called once for each saved state when it is not needed any more (it frees what a C library holds
    for it); an error there is a ``RuntimeWarning``.
    A later registration of the same name replaces the earlier one. ``static`` names classes, as ``module:Class`` too,
    whose instances hold no state although they change (caches, tables filled on demand): the proof does not look into
    them.
    An environment with a method pair of its own says the same with a class attribute ``snapshot_static``.
    """
    _REGISTERED[type_name] = Adapter(save, restore, tuple(static), close)


def register_adapter_at(type_name: str, place: str) -> None:
    """Register the ``Adapter`` that stands at ``module:name``; the module is imported when such an object is met."""
    _REGISTERED[type_name] = place


def registered(cls: type) -> Adapter | None:
    """The adapter that was registered for a class or for one of its bases."""
    for name in (name_of(base, joint=":") for base in cls.__mro__) if _REGISTERED else ():
        if (known := _REGISTERED.get(name)) is not None:
            if isinstance(known, str):
                module, _, attribute = known.partition(":")
                known = _REGISTERED[name] = cast(Adapter, getattr(importlib.import_module(module), attribute))
            return known
    return None


def adapter_for(layer: Any) -> Adapter | None:
    """The registered adapter of the layer's class or of one of its bases, else its own method pair, else None."""
    if (known := registered(type(layer))) is not None:
        return known
    for getter, setter in _PAIRS:
        if callable(getattr(type(layer), getter, None)) and callable(getattr(type(layer), setter, None)):
            static = tuple(getattr(type(layer), "snapshot_static", ()))
            return Adapter(getattr(type(layer), getter), getattr(type(layer), setter), static)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Token:
    state: Any
    fields: tuple[dict[str, Any], ...]
    close: Callable[[Any], None] | None


@dataclass(frozen=True, slots=True)
class Native:
    """The token is the native state and, for each wrapper above it, a copy of the wrapper's own fields."""

    share: Sequence[str] = ()
    name: str = "native"
    sized: bool = False
    repeats: bool = False
    _open: dict[int, _Token] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def tied(self) -> bool:
        """Whether there are states that this instance will close: a copy could not know which are closed already."""
        return bool(self._open)

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> _Token:
        """The state of the outermost layer that has an adapter, and the fields of the wrappers above it."""
        above, layer, adapter = self._split(env)
        memo = self._memo(env)
        fields = tuple([_fields(wrapper, memo) for wrapper in above])
        try:
            token = _Token(adapter.save(layer), fields, adapter.close)
        except Exception as error:  # foreign code
            raise SnapshotError(f"native state of {type(layer).__name__}: {error!r}") from error
        if token.close is not None:
            self._open[id(token)] = token
        return token

    def restore(self, env: gym.Env[Any, Any], token: _Token) -> gym.Env[Any, Any]:
        """The same instance, put back in place; when the native call raises, what it had is put back first."""
        above, layer, adapter = self._split(env)
        memo = self._memo(env)
        try:
            copies = [_copied(kept, memo) for kept in token.fields]
            before = adapter.save(layer)
            try:
                adapter.restore(layer, token.state)
            except Exception:
                adapter.restore(layer, before)
                raise
            finally:
                _closed(before, adapter.close)
        except Exception as error:
            raise SnapshotError(f"native restore of {type(layer).__name__}: {error!r}") from error
        for wrapper, kept in zip(above, copies, strict=True):
            for name in [name for name in vars(wrapper) if name not in kept and name not in _OUTSIDE]:
                delattr(wrapper, name)
            vars(wrapper).update(kept)
        return env

    def size(self, token: Any) -> int | None:
        """Unknown: the state belongs to the environment, and may be no more than a handle."""
        return None

    def drop(self, token: _Token) -> None:
        """Close the state, where the adapter has a ``close``."""
        if self._open.pop(id(token), None) is not None:
            _closed(token.state, token.close)

    def forget(self) -> None:
        """Close every state that is not closed yet."""
        for token in list(self._open.values()):
            self.drop(token)

    def __reduce__(self) -> tuple[Any, ...]:
        return Native, (self.share,)  # a copy never closes what the original opened

    def _split(self, env: gym.Env[Any, Any]) -> tuple[list[gym.Env[Any, Any]], gym.Env[Any, Any], Adapter]:
        stack = layers(env)
        for depth, layer in enumerate(stack):
            if (adapter := adapter_for(layer)) is not None:
                return stack[:depth], layer, adapter
        raise SnapshotError(f"native: {type(env.unwrapped).__name__} has no state pair and no registered adapter")

    def _memo(self, env: gym.Env[Any, Any]) -> dict[int, Any]:
        return {**{id(layer): layer for layer in layers(env)}, **shared_objects(env, self.share)}


def _closed(state: Any, close: Callable[[Any], None] | None) -> None:
    """A state that cannot be freed is no reason to stop an episode, nor to keep silent."""
    if close is not None:
        try:
            close(state)
        except Exception as error:  # foreign code
            warnings.warn(f"native: {close!r} could not free a saved state: {error!r}", RuntimeWarning, stacklevel=2)


def _fields(wrapper: Any, memo: dict[int, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in vars(wrapper).items() if name not in _OUTSIDE}
    try:
        return _copied(kept, memo)
    except Exception as error:  # foreign code
        name = type(wrapper).__name__
        raise SnapshotError(f"native: {name} has no state pair, and its fields cannot be copied: {error}") from error


def _copied(fields: dict[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
    """A deep copy that pays nothing for the usual case of a wrapper with a few plain values."""
    deep = {name: value for name, value in fields.items() if not isinstance(value, _ATOMS)}
    return {**fields, **copy.deepcopy(deep, dict(memo))} if deep else dict(fields)
