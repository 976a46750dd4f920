"""Every error that this project raises, as one tree.

    RirError
    ├── UsageError                  (also a ValueError) a caller's mistake; nothing was done
    │   ├── UnknownName             an id, mechanism, model or agent that does not exist
    │   ├── MechanismError          a mechanism that left what it declares, or its budget
    │   └── OutputExists            a place to write that already holds something
    ├── MissingDependency           (also an ImportError) an extra that is not installed
    ├── RollbackRefused             a rollback that cannot be done; the world is unchanged
    ├── SnapshotError               a world that cannot be saved or put back
    │   ├── NotRestorable           no mechanism is faithful here; names the object and its path
    │   ├── ReplayMismatch          a replayed step differs from the recorded one
    │   └── WorldDied               the process in which an environment lives has died; names what it was doing
    ├── RecordError                 a record that cannot be read or does not fit its schema
    ├── StoreError                  a store that is in use, of another configuration, or cannot be written
    ├── CollectError                a collection that ended early; what was finished is kept
    └── ModelError                  a model that cannot be loaded or run

Expected outcomes (an unreadable reply, a spent budget, a refused rollback *action*) are values and are not here.
Messages read ``name=value: what is allowed``. This module knows nothing of the rest of the package.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "CollectError",
    "MechanismError",
    "MissingDependency",
    "ModelError",
    "NotRestorable",
    "OutputExists",
    "RecordError",
    "ReplayMismatch",
    "RirError",
    "RollbackRefused",
    "SnapshotError",
    "StoreError",
    "UnknownName",
    "UsageError",
    "WorldDied",
]


class RirError(Exception):
    """Root of the tree: ``except RirError`` catches all that this project raises on purpose."""


class UsageError(RirError, ValueError):
    """A bad argument. Nothing was done and nothing was written."""


class UnknownName(UsageError):
    """A name that is not in the table it was looked up in; the message lists what is."""

    def __init__(self, what: str, name: object, known: Iterable[str]) -> None:
        super().__init__(f"{what}={name!r}: unknown; known are {', '.join(sorted(known)) or 'none'}")


class MechanismError(UsageError):
    """A mechanism did what it does not declare: another (k, M+), a look at the oracle, calls beyond its budget."""


class OutputExists(UsageError):
    """The output already exists and was not to be overwritten."""


class MissingDependency(RirError, ImportError):
    """A feature needs an extra of this distribution that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'rir-gym[{extra}]'")


class RollbackRefused(RirError):
    """A rollback that cannot be done. The world is as it was before the call."""


class SnapshotError(RirError):
    """A world could not be saved or put back."""


class NotRestorable(SnapshotError):
    """No snapshot mechanism is faithful on this environment; the live environment stays playable."""


class ReplayMismatch(SnapshotError):
    """A replayed step gave something else than the recorded one: the environment is not deterministic."""


class WorldDied(SnapshotError):
    """The process in which an environment lives died, and in what; earlier checkpoints can still be restored."""


class RecordError(RirError):
    """A record that is torn, of another schema, or not a record."""


class StoreError(RirError):
    """A store is in use, was made with another configuration, or cannot be written. What it holds stays as it is."""


class CollectError(RirError):
    """A collection ended early: an episode failed twice. Finished episodes are in the store."""


class ModelError(RirError):
    """A model could not be loaded or run; the message names the model and the remedy."""
