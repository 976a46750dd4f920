"""Snapshot by forking the process in which the environment lives: all of its memory, whatever language wrote it.

A checkpoint is a sleeping process. Saving costs a fork; a restore another one, and the process that lived before ends.
What a fork does not copy, or copies would share, is refused at every checkpoint (``fork_audit``), and once the
environment has written to a file outside its declared working directories, no checkpoint from before can be restored.
This module knows tokens; processes are ``fork_env``'s.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.fork_env import ForkedEnv, Frozen
from rir_gym.snapshot.fork_keeper import Keeper
from rir_gym.snapshot.protocol import Start

__all__ = ["Fork", "packed"]

_MOST = 96

Make = Callable[[], gym.Env[Any, Any]]


def packed(make: Make) -> bytes:
    """A function as bytes that another process can call: one of a module, or of the main script.

    Raises:
        SnapshotError: it is a closure or a lambda: what it shares with this process would be another there.
    """
    try:
        if getattr(make, "__module__", "") == "__main__" and "<" not in getattr(make, "__qualname__", "<"):
            data: bytes = cloudpickle.dumps(make)
            return data
        return pickle.dumps(make)
    except Exception as error:  # any object may raise anything
        raise SnapshotError(
            f"fork: {make!r} cannot be sent to another process: give a spec (gym.make) or a function of a module "
            f"({type(error).__name__}: {error})"
        ) from error


@dataclass(frozen=True, slots=True)
class Fork:
    """The token is a sleeping process. ``most`` of them at once: the further back, the fewer stay.

    ``keepers``: processes that worlds may descend from, one for each world to come; without one, one is started.
    """

    make: Make
    step_timeout: float | None = None
    most: int = _MOST
    keepers: list[Keeper] = field(default_factory=list, repr=False, compare=False)
    name: str = "fork"
    sized: bool = False
    repeats: bool = False
    tied: bool = True
    _open: dict[int, Frozen] = field(default_factory=dict, init=False, repr=False, compare=False)

    def adopt(self, env: gym.Env[Any, Any]) -> ForkedEnv:
        """A proxy of a new instance in a process of its own; ``env`` is closed, since the other takes its place.

        Raises:
            SnapshotError: it cannot be made there.
        """
        data, keeper = packed(self.make), self.keepers.pop() if self.keepers else Keeper()
        try:
            forked = ForkedEnv(data, keeper=keeper, spec=env.spec, step_timeout=self.step_timeout)
        except BaseException:
            keeper.close()
            raise
        forked.owns_keeper()
        env.close()
        return forked

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> Frozen:
        """The process as it is falls asleep, and a child of it goes on."""
        forked = _forked(env)
        if node.step.info.get("timeout") and forked.gone is not None:
            raise SnapshotError(f"fork: there is no world: {forked.gone}")
        frozen = forked.freeze()
        self._open[id(frozen)] = frozen
        return frozen

    def restore(self, env: gym.Env[Any, Any], token: Frozen) -> gym.Env[Any, Any]:
        """The same proxy; what lives behind it is a child of the sleeping process."""
        if (reason := self.lost(env, token)) is not None:
            raise SnapshotError(reason)
        _forked(env).wake(token)
        return env

    def lost(self, env: gym.Env[Any, Any], token: Frozen) -> str | None:
        """Why the token cannot be restored any more, if so."""
        forked = _forked(env)
        if token.writes != forked.writes and not forked.keeps_files:
            return "fork: the environment has written to a file since, which a fork does not put back"
        return None

    def size(self, token: Frozen) -> int | None:
        """Unknown: the processes share what neither has changed."""
        return None

    def drop(self, token: Frozen) -> None:
        """The process ends."""
        if self._open.pop(id(token), None) is not None:
            token.close()

    def forget(self) -> None:
        """All of them end."""
        for token in list(self._open.values()):
            self.drop(token)

    def __reduce__(self) -> tuple[type[Fork], Sequence[Any]]:
        return Fork, (self.make, self.step_timeout, self.most)  # a copy ends nothing that the original began


def _forked(env: gym.Env[Any, Any]) -> ForkedEnv:
    if not isinstance(env, ForkedEnv):
        raise SnapshotError(f"fork: {env} does not live in a process of its own")
    return env
