"""Snapshot by the versioned object heap: in place, identity-keeping, for what has changed since the last save.

Checkpoints are a tree of deltas over every mutable Python object that the environment reaches (``engine``); what is
static costs a comparison in C and no memory. Objects of C types are met by registered adapters; a type that nobody
knows refuses this mechanism. See docs/snapshots.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from rir_gym.base import Node
from rir_gym.errors import SnapshotError
from rir_gym.snapshot.audit import path_of
from rir_gym.snapshot.heap.engine import Engine, Stranger, Version
from rir_gym.snapshot.layers import layers, shared_objects
from rir_gym.snapshot.protocol import Start

__all__ = ["Heap"]


class Heap:
    """The token is a version of the heap; a restore writes what differs back into the same objects."""

    def __init__(self, share: Sequence[str] = ()) -> None:
        self.share = tuple(share)
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """heap."""
        return "heap"

    @property
    def sized(self) -> bool:
        """It can tell sizes."""
        return True

    @property
    def repeats(self) -> bool:
        """It does not act again."""
        return False

    @property
    def tied(self) -> bool:
        """A version writes into the objects that it was read from."""
        return True

    def save(self, env: gym.Env[Any, Any], node: Node, start: Start) -> Version:
        """What changed since the version where the world stands."""
        if self._engine is None or self._engine.root is not env:
            apart = {id(layer): frozenset(self.share) for layer in layers(env)} if self.share else {}
            self._engine = Engine(env, shared_objects(env, self.share), apart)
        elif self.share:
            self._engine.skip.update(shared_objects(env, self.share))
        try:
            return self._engine.save()
        except Stranger as error:
            raise SnapshotError(f"{error} (at {path_of(env, error.live, share=self.share)})") from error
        except SnapshotError:
            raise
        except Exception as error:  # the environment's own code: what it hashes by, what it compares with
            raise SnapshotError(f"heap: {type(error).__name__}: {error}") from error

    def restore(self, env: gym.Env[Any, Any], token: Version) -> gym.Env[Any, Any]:
        """The same instance, put back in place."""
        if self._engine is None or self._engine.root is not env:
            raise SnapshotError("heap: this checkpoint belongs to another world")
        self._engine.restore(token)
        return env

    def drop(self, token: Version) -> None:
        """Free what only this version holds."""
        if self._engine is not None:
            self._engine.drop(token)

    def forget(self) -> None:
        """All versions of the episode are gone."""
        if self._engine is not None:
            self._engine.forget()

    def size(self, token: Version) -> int | None:
        """Bytes of the contents that this version does not share with its parent."""
        return self._engine.size(token) if self._engine is not None else None

    def __deepcopy__(self, memo: dict[int, Any]) -> Heap:
        return Heap(self.share)

    def __reduce__(self) -> tuple[Any, ...]:
        return Heap, (self.share,)
