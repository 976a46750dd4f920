"""Playing jobs where they are played, in this process or in a worker: from a recipe to the packed line of a record.

A cell names a top-level function as text, "module:function"; it is called once with the cell's settings and gives the
player of all its episodes. A desk keeps the player of the last cell only. This module knows no environment, no
mechanism and no store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from rir_gym.data.keys import Key
from rir_gym.data.lines import Compression, pack
from rir_gym.data.store import line_of
from rir_gym.errors import UsageError

__all__ = ["Cell", "Desk", "Finished", "Job", "Played", "Player"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What jobs have in common. ``make`` is "module:function", ``settings`` its argument (picklable, best plain)."""

    make: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to be: the key that its record must have, its cell, and what the player is told of it."""

    key: Key
    cell: Cell
    recipe: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Played:
    """What a player gives back: the record, and seconds by name for the file of times."""

    record: Mapping[str, Any]
    seconds: Mapping[str, float] = field(default_factory=dict, hash=False)


class Player(Protocol):
    """n recipes to n played episodes, in their order; a ``close`` is called where there is one.

    What it gives for a recipe must not depend on the other recipes, nor on what it played before.
    """

    def __call__(self, recipes: Sequence[Mapping[str, Any]]) -> Sequence[Played]:
        """Play them."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished episode on its way into a store."""

    key: Key
    packed: bytes
    success: bool
    seconds: Mapping[str, float] = field(hash=False)


class Desk:
    """Plays the jobs of one cell after another."""

    def __init__(self, compression: Compression) -> None:
        self._compression: Compression = compression
        self._cell: Cell | None = None
        self._player: Any = None

    def play(self, jobs: Sequence[Job]) -> Iterator[Finished]:
        """The episodes of jobs of one cell, played at once.

        Raises:
            UsageError: no such function, or the player gave another number of episodes or another key.
            RecordError: the player gave something that is no record.
        """
        if jobs[0].cell != self._cell:
            self.close()
            self._player = _found(jobs[0].cell.make)(jobs[0].cell.settings)
            self._cell = jobs[0].cell
        played = self._player([job.recipe for job in jobs])
        if len(played) != len(jobs):
            raise UsageError(f"{jobs[0].cell.make} gave {len(played)} episodes for {len(jobs)} recipes")
        for job, one in zip(jobs, played, strict=True):
            key, line = line_of(one.record)
            if key != job.key:
                raise UsageError(f"{jobs[0].cell.make} gave key={key!r} for the job {job.key!r}")
            success = bool(one.record["result"]["success"])
            yield Finished(key, pack(line, self._compression), success, one.seconds)

    def close(self) -> None:
        """Close the player."""
        player, self._player, self._cell = self._player, None, None
        if (close := getattr(player, "close", None)) is not None:
            close()


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"make={place!r}: no such module:function ({error})") from error
