"""The snapshot mechanisms as a benchmark meets them: made by name, timed call by call, wrapped and checked.

Beside those of the package: ``copium`` (the package of that name, a compiled ``copy.deepcopy``, used exactly as the
package's own deepcopy) and ``Nothing``, which saves nothing. This module knows no world.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from worlds import Absent

import rir_gym
from rir_gym.base import Node
from rir_gym.errors import SnapshotError, UnknownName
from rir_gym.snapshot.deepcopy import DeepCopy
from rir_gym.snapshot.fork import Fork
from rir_gym.snapshot.fork_audit import supported
from rir_gym.snapshot.heap import Heap
from rir_gym.snapshot.keyframes import Keyframes
from rir_gym.snapshot.layers import shared_objects
from rir_gym.snapshot.native import Native
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.protocol import Adopting, Bounded, Keyed, Losing, Snapshotter, Start
from rir_gym.snapshot.protocol import Timed as Stepping
from rir_gym.snapshot.replay import Replay
from rir_gym.snapshot.world import World
from rir_gym.testing import check_restore

__all__ = ["FORKS", "MECHANISMS", "Make", "Nothing", "Timed", "mechanism", "world_of", "wrapped"]

Make = Callable[[], gym.Env[Any, Any]]
FORKS = ("fork", "keyframes:fork")
MECHANISMS = ("native", "heap", "deepcopy", "copium", "pickle", "fork", "replay", "keyframes:heap", "keyframes:fork")


@dataclass(frozen=True, slots=True)
class Copium:
    """``DeepCopy`` with the other package's ``deepcopy``."""

    deepcopy: Callable[[Any, dict[int, Any]], Any]
    name: str = "copium"
    sized: bool = False
    repeats: bool = False
    tied: bool = False

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> gym.Env[Any, Any]:
        """A deep copy."""
        return self.restore(env, env)

    def restore(self, env: gym.Env[Any, Any], token: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """A deep copy of the token."""
        try:
            copied: gym.Env[Any, Any] = self.deepcopy(token, dict(shared_objects(token, ())))
        except Exception as error:  # as DeepCopy: any class may raise anything
            raise SnapshotError(f"copium of {type(env.unwrapped).__name__}: {error}") from error
        return copied

    def size(self, token: Any) -> int | None:
        """Unknown."""
        return None

    def drop(self, token: Any) -> None:
        """Nothing is held here."""

    def forget(self) -> None:
        """Nothing is held here."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Saves nothing: what is left is what the history alone weighs."""

    name: str = "nothing"
    sized: bool = True
    repeats: bool = False
    tied: bool = False

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> None:
        """None."""
        return

    def restore(self, env: gym.Env[Any, Any], token: Any) -> gym.Env[Any, Any]:
        """Never possible."""
        raise SnapshotError("nothing was saved")

    def size(self, token: Any) -> int | None:
        """Zero."""
        return 0

    def drop(self, token: Any) -> None:
        """Nothing is held here."""

    def forget(self) -> None:
        """Nothing is held here."""


@dataclass(slots=True)
class Timed:
    """Another mechanism, and the seconds of each of its calls."""

    inner: Snapshotter
    saves: list[float] = field(default_factory=list)
    restores: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The other one's."""
        return self.inner.name

    @property
    def sized(self) -> bool:
        """The other one's."""
        return self.inner.sized

    @property
    def repeats(self) -> bool:
        """The other one's."""
        return self.inner.repeats

    @property
    def tied(self) -> bool:
        """The other one's."""
        return self.inner.tied

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> Any:
        """The other one's, timed."""
        return _clocked(self.saves, lambda: self.inner.save(env, node, start))

    def restore(self, env: gym.Env[Any, Any], token: Any) -> gym.Env[Any, Any]:
        """The other one's, timed."""
        restored: gym.Env[Any, Any] = _clocked(self.restores, lambda: self.inner.restore(env, token))
        return restored

    @property
    def most(self) -> int | None:
        """The other one's, where its tokens are few."""
        return self.inner.most if isinstance(self.inner, Bounded) else None

    @property
    def keyframes(self) -> tuple[int, ...]:
        """The other one's, where it has any."""
        return self.inner.keyframes if isinstance(self.inner, Keyed) else ()

    def begins_at(self, token: Any) -> int:
        """The other one's, where it has keyframes; else no node."""
        return self.inner.begins_at(token) if isinstance(self.inner, Keyed) else -1

    def adopt(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """The other one's, where it wants its own kind."""
        return self.inner.adopt(env) if isinstance(self.inner, Adopting) else env

    def stepped(self, seconds: float) -> None:
        """The other one is told, where it wants to know."""
        if isinstance(self.inner, Stepping):
            self.inner.stepped(seconds)

    def lost(self, env: gym.Env[Any, Any], token: Any) -> str | None:
        """The other one's."""
        return self.inner.lost(env, token) if isinstance(self.inner, Losing) else None

    def size(self, token: Any) -> int | None:
        """The other one's."""
        return self.inner.size(token)

    def drop(self, token: Any) -> None:
        """The other one's, untimed."""
        self.inner.drop(token)

    def forget(self) -> None:
        """The other one's, untimed."""
        self.inner.forget()


def mechanism(name: str, make: Make) -> Snapshotter:
    """A new instance of it, unproven.

    Raises:
        Absent: it is not installed.
    """
    if name.startswith("keyframes:"):
        return Keyframes(mechanism(name.partition(":")[2], make))
    if name == "fork" and (reason := supported()) is not None:
        raise Absent(f"{name}: {reason}")
    if name == "copium":
        try:
            return Copium(importlib.import_module("copium").deepcopy)
        except ImportError as error:
            raise Absent(f"{name}: {error}") from error
    known: dict[str, Callable[[], Snapshotter]]
    known = {"native": Native, "heap": Heap, "deepcopy": DeepCopy, "pickle": Pickle, "replay": lambda: Replay(make)}
    known["fork"] = lambda: Fork(make)
    return known[name]()


def world_of(make: Make, mechanism: Snapshotter) -> World:
    """A new world on a mechanism, in the process where that wants it."""
    env = make()
    return World(mechanism.adopt(env) if isinstance(mechanism, Adopting) else env, mechanism)


def wrapped(name: str, make: Make, restores: int) -> rir_gym.RollbackWrapper:
    """The wrapper on that mechanism: proven by its own proof, then checked on random trees of so many restores.

    Raises:
        Absent: the wrapper knows no such mechanism, or it is not installed.
        NotRestorable: it is refused on this world; ``copium`` where deepcopy is, whose place it takes.
        AssertionError: it is accepted, and wrong.
    """
    stand_in = mechanism(name, make) if name == "copium" else None
    try:
        env = rir_gym.RollbackWrapper(make(), snapshot=name if stand_in is None else "deepcopy")
    except UnknownName as error:
        raise Absent(f"{name}: {error}") from error
    if stand_in is not None:
        env._world.mechanism = stand_in  # the wrapper knows the package's own mechanisms only
    check_restore(env, restores=restores)
    return env


def _clocked(seconds: list[float], call: Callable[[], Any]) -> Any:
    gc.disable()  # it would walk the checkpoints of every other mechanism, too
    try:
        started = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - started)
    finally:
        gc.enable()
    return result
