"""Fills a store: plays the jobs whose episodes are missing, in this process or in several, and keeps each at once.

Which process plays a job never matters: a job says all that its episode depends on. Only this process writes. An
episode whose worker dies, or whose environment raises, is tried once more in a new worker. This module knows no
environment and no mechanism; a cell names the function that does ("module:function").
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

from rir_gym.data.desk import Cell, Desk, Finished, Job, Played, Player
from rir_gym.data.keys import Key
from rir_gym.data.store import Store
from rir_gym.data.worker import Failed, Worker, error_of
from rir_gym.errors import CollectError, UsageError

__all__ = ["Cell", "Job", "Played", "Player", "Progress", "collect"]

_AHEAD = 2  # lists of jobs a worker has at hand, so that it never waits for us
_TRIES = 2
_IDLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """One more episode is in the store: its key, whether it succeeded, and how far the jobs of this call are."""

    key: Key
    success: bool
    done: int
    total: int


def collect(
    store: Store,
    jobs: Sequence[Job],
    *,
    workers: int = 0,
    lockstep: int = 1,
    notify: Callable[[Progress], None] = lambda progress: None,
    notice: Callable[[str], None] = lambda text: None,
) -> int:
    """Play every job whose key the store does not hold; how many were played.

    Args:
        jobs: their order is the order of playing; jobs of one cell should stand together.
        workers: 0 plays here; else so many spawned processes. A script that calls this with workers needs its
            ``if __name__ == "__main__"``.
        lockstep: how many jobs of one cell a player gets at once. A player's episodes come when all of them are done.
        notify: called after each episode, when it is in the store.
        notice: called with a sentence where a worker had to be replaced.

    Raises:
        UsageError: a number below what is allowed, or a key twice. Nothing was played.
        CollectError: an episode failed twice (its worker died, or its environment raised). Without workers an
            exception of an environment comes through as it is.
        StoreError: the store cannot be written.
        RirError: whatever of ours a player raised.

    However it ends (KeyboardInterrupt as well), workers are gone and every episode that was notified is in the store.
    """
    for name, value, least in (("workers", workers, 0), ("lockstep", lockstep, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(f"{name}={value!r}: an int of at least {least}")
    if twice := [key for key, count in Counter(job.key for job in jobs).items() if count > 1]:
        raise UsageError(f"jobs: {len(twice)} keys stand there more than once, such as {twice[0]}")
    missing = [job for job in jobs if job.key not in store.keys]
    tally = _Tally(store, len(missing), notify)
    lists = deque(_lists(missing, lockstep))
    if workers == 0:
        desk = Desk(store.compression)
        try:
            for some in lists:
                for finished in desk.play(some):
                    tally.take(finished)
        finally:
            desk.close()
    elif lists:
        _Crew(store, min(workers, len(lists)), lists, tally, notice).work()
    store.sync()
    return tally.done


def _lists(jobs: Sequence[Job], most: int) -> Iterator[list[Job]]:
    """Jobs in lists of one cell each."""
    some: list[Job] = []
    for job in jobs:
        if some and (len(some) == most or job.cell != some[0].cell):
            yield some
            some = []
        some.append(job)
    if some:
        yield some


@dataclass(slots=True)
class _Tally:
    """Puts finished episodes into the store and counts them."""

    store: Store
    total: int
    notify: Callable[[Progress], None]
    done: int = 0

    def take(self, finished: Finished) -> None:
        self.store.append_line(finished.key, finished.packed, seconds=finished.seconds)
        self.done += 1
        self.notify(Progress(finished.key, finished.success, self.done, self.total))


@dataclass(slots=True)
class _Crew:
    """The workers, the lists that wait, and who failed how often."""

    store: Store
    workers: int
    waiting: deque[list[Job]]
    tally: _Tally
    notice: Callable[[str], None]
    crew: list[Worker] = field(default_factory=list)
    failures: Counter[Key] = field(default_factory=Counter)

    def work(self) -> None:
        try:
            for _ in range(self.workers):
                self.hire()
            while any(worker.jobs for worker in self.crew):
                ready: Sequence[Any] = wait([worker.pipe for worker in self.crew], timeout=_IDLE_S)
                for worker in [worker for worker in self.crew if worker.pipe in ready]:
                    self.hear(worker)
                if not ready:
                    self.store.sync()
            for worker in self.crew:
                worker.dismiss()
        except BaseException:
            self.keep_what_was_sent()
            raise
        finally:
            for worker in self.crew:
                with suppress(OSError, ValueError):
                    worker.kill()

    def hire(self) -> None:
        worker = Worker(self.store.compression)
        self.crew.append(worker)
        self.feed(worker)

    def feed(self, worker: Worker) -> None:
        """One list at a time near the end, so that no list waits behind another while somebody is idle."""
        while self.waiting and len(worker.jobs) < (_AHEAD if len(self.waiting) >= 2 * self.workers else 1):
            worker.send(self.waiting.popleft())

    def hear(self, worker: Worker) -> None:
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            self.replace(worker, f"a worker died ({worker.death()})")
            return
        if isinstance(said, Finished):
            self.tally.take(said)
        elif isinstance(said, Failed):
            if said.kind:
                raise error_of(said)
            self.replace(worker, said.text)
        else:
            worker.jobs.pop(0)
            self.feed(worker)

    def replace(self, worker: Worker, why: str) -> None:
        """Put what the worker has not finished back in front, if nothing of it has failed too often."""
        left = [[job for job in some if job.key not in self.store.keys] for some in worker.jobs]
        worker.kill()
        self.crew.remove(worker)
        for job in left[0] if left else []:
            self.failures[job.key] += 1
            if self.failures[job.key] >= _TRIES:
                raise CollectError(f"{job.key}: failed {_TRIES} times, at last: {why}; {len(self.store.keys)} are kept")
        self.waiting.extendleft(reversed([some for some in left if some]))
        again = f"; {len(left[0])} episodes begin again" if left and left[0] else ""
        self.notice(f"{why}{again}")
        if self.waiting:
            self.hire()

    def keep_what_was_sent(self) -> None:
        """Take in the finished episodes that wait in the pipes."""
        for worker in self.crew:
            with suppress(Exception):
                while worker.pipe.poll(0):
                    if isinstance(said := worker.pipe.recv(), Finished):
                        self.tally.take(said)
