"""Instances on trial in other processes: where worlds are forked, and where a copy that ends a process may end one.

This module knows no ladder; it knows which mechanisms copy objects.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from rir_gym.errors import WorldDied
from rir_gym.snapshot.deepcopy import DeepCopy
from rir_gym.snapshot.fork import packed
from rir_gym.snapshot.fork_audit import supported
from rir_gym.snapshot.fork_env import ForkedEnv
from rir_gym.snapshot.fork_keeper import Keeper
from rir_gym.snapshot.makers import Make
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.probe import probe
from rir_gym.snapshot.world import World

__all__ = ["COPIES", "Trial"]

COPIES: dict[str, type[DeepCopy] | type[Pickle]] = {"pickle": Pickle, "deepcopy": DeepCopy}
"""The rungs that copy objects."""


@dataclass
class Trial:
    """Instances in other processes, all of them descendants of one keeper, which is started when it is needed."""

    make: Make | None
    share: tuple[str, ...]
    step_timeout: float | None = None
    keeper: Keeper | None = None

    def elsewhere(self) -> ForkedEnv:
        """A fresh instance in another process."""
        assert self.make is not None
        data = packed(self.make)
        self.keeper = self.keeper or Keeper()
        return ForkedEnv(data, keeper=self.keeper, step_timeout=self.step_timeout)

    def died_of(self, rung: str) -> str | None:
        """In words, if a process dies of copying by this rung: it may free twice what both copies think to own.

        Only where an instance can be made in another process; else the copies are tried here at once.
        """
        if self.make is None or supported() is not None:
            return None
        try:
            there = self.elsewhere()
        except Exception:  # that it cannot be made there is found again, and told
            return None
        try:
            there.in_worker(_copied_there, rung, self.share)
        except WorldDied:
            return "a copy of it ends the process: C objects that are not made to be copied"
        except Exception:  # what else goes wrong with a copy is found again here, and told better
            return None
        finally:
            there.close()
        return None

    def spare(self) -> list[Keeper]:
        """The keeper, for who has a use for it from now on."""
        kept, self.keeper = self.keeper, None
        return [kept] if kept is not None else []

    def close(self) -> None:
        """End the keeper, if there is one, and all of its."""
        if self.keeper is not None:
            self.keeper.close()


def _copied_there(env: gym.Env[Any, Any], rung: str, share: Sequence[str]) -> None:
    """The first part of the proof, and the end of the copies."""
    world = World(env, COPIES[rung](tuple(share)), share=share)
    with suppress(Exception):
        probe(world, 0, share, (), "repeated")
    world.forget()
    del world
    gc.collect()
