"""``Live``: this process's end of the world that lives now, which is asked one question at a time and ended by force.

This module knows how a question goes there and comes back, and what it means when nothing does; it knows no environment
and no checkpoint.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import Any

from rir_gym.errors import SnapshotError, WorldDied
from rir_gym.snapshot.fork_link import Closed, Late, Link
from rir_gym.snapshot.process_rng import ProcessRng

__all__ = ["OURS_S", "Live"]

OURS_S = 120.0
"""Seconds that this package's own code may take there."""


class Live:
    """The link to what lives, and a descriptor of its process; nothing at first. ``gone`` says why, if nothing does."""

    def __init__(self) -> None:
        self._link: Link | None = None
        self._process: int | None = None
        self._gone = "it is closed"
        self._owner = os.getpid()

    @property
    def here(self) -> bool:
        """Whether something lives."""
        return self._link is not None

    @property
    def ours(self) -> bool:
        """Whether this is the process that it belongs to, and no copy of it."""
        return self._owner == os.getpid()

    @property
    def gone(self) -> str | None:
        """Why nothing lives, if so."""
        return self._gone if self._link is None else None

    def become(self, link: Link, process: int) -> None:
        """This lives from now on; what lived before has been ended, or goes on as a checkpoint."""
        if self._process is not None:
            os.close(self._process)
        self._link, self._process = link, process

    def goes_on_as(self, process: int) -> None:
        """The same link, and another process behind it."""
        assert self._link is not None
        self.become(self._link, process)

    def talk(
        self, told: str, message: Any, limit_s: float | None
    ) -> tuple[Any, list[int], BaseException | None, ProcessRng | None]:
        """The answer, the descriptors that came with it, the error there, and the global generators after that error.

        Args:
            told: what is asked, in words.

        Raises:
            WorldDied: its process died, or nothing lives.
            Late: no answer within the limit; the world is of no use any more.
            SnapshotError: this process is a copy of the one that it belongs to.
        """
        if not self.ours:
            raise SnapshotError("fork: the world belongs to the process that made it, of which this one is a copy")
        if self._link is None:
            raise WorldDied(f"fork: {told}: nothing lives: {self._gone}")
        try:
            self._link.send(message)
            (outcome, *said), descriptors = self._link.receive(limit_s)
        except Closed as error:
            self.end(f"its process died in {told}")
            raise WorldDied(f"fork: the environment's process died in {told}") from error
        except Late:
            raise
        except BaseException:  # interrupted: the answer would be taken for that of the next question
            self.end(f"{told} was interrupted")
            raise
        if outcome == "ok":
            return said[0], descriptors, None, None
        raised, trace, rng = said
        if not isinstance(raised, SnapshotError):
            raised.add_note(f"in the environment's process:\n{trace}")
        return None, descriptors, raised, rng

    def end(self, why: str) -> None:
        """End what lives, by force, and wait until it is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            poll = select.poll()
            poll.register(self._process, select.POLLIN)
            poll.poll(OURS_S * 1000)
        self.let_go(why)

    def let_go(self, why: str) -> None:
        """Close this end; whoever lives sees it, closes its environment and ends."""
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            os.close(self._process)
        self._link = self._process = None
        self._gone = why
