"""One worker process: takes jobs from a pipe, plays them, sends the finished episodes back.

It dies with its parent, even with one that is killed. An interrupt of the terminal is the parent's affair. A message to
the worker is a list of jobs of one cell, or None to end; from it a ``Finished``, a ``Failed``, or None when a list is
done. This module knows no store and no environment.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from rir_gym import errors
from rir_gym.data.desk import Desk, Job
from rir_gym.data.lines import Compression
from rir_gym.errors import CollectError, RirError

__all__ = ["Failed", "Worker", "error_of"]

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Failed:
    """An exception of the player: the name of its class where it is one of ours (else ""), and one line on it."""

    kind: str
    text: str


class Worker:
    """A spawned process and this end of its pipe. ``jobs`` are the lists that it was sent and has not finished."""

    def __init__(self, compression: Compression) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=work, args=(theirs, os.getpid(), compression), daemon=True, name="rir-gym worker"
        )
        with _no_interrupts():
            self.process.start()
        theirs.close()
        self.jobs: list[list[Job]] = []

    def send(self, jobs: list[Job]) -> None:
        """Give it jobs of one cell. One that has died is noticed elsewhere."""
        self.jobs.append(jobs)
        with suppress(OSError):
            self.pipe.send(jobs)

    def death(self) -> str:
        """How it ended, in words."""
        self.process.join(5)
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return signal.Signals(-code).name
        return f"signal {-code}"

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def dismiss(self) -> None:
        """Let an idle worker end by itself, so that its environments and models are closed; killed after 10 s."""
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(10)
        self.kill()


def work(pipe: Connection, parent: int, compression: Compression) -> None:
    """What the process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    desk = Desk(compression)
    with suppress(EOFError, OSError):  # the parent has gone
        while (jobs := pipe.recv()) is not None:
            try:
                for finished in desk.play(jobs):
                    pipe.send(finished)
            except (EOFError, BrokenPipeError):
                raise
            except Exception as error:
                pipe.send(_failed(error))
            else:
                pipe.send(None)
        desk.close()


def error_of(failed: Failed) -> RirError:
    """The exception of a worker, of its own class, here."""
    cls: type[RirError] = getattr(errors, failed.kind, CollectError)
    error = cls.__new__(cls)
    Exception.__init__(error, failed.text)
    return error


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Hold an interrupt back; a process started meanwhile (and what that starts) never gets one from the terminal."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # it would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _failed(error: Exception) -> Failed:
    if isinstance(error, RirError):
        return Failed(type(error).__name__, str(error))
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
    return Failed("", f"{type(error).__name__}: {error} ({place})")


def _die_with(parent: int) -> None:
    """Ask the system, where it can, to kill this process when its parent dies; else a thread waits for that."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
                if os.getppid() != parent:  # it died before we asked
                    os._exit(1)
                return
    watched = parent_process()
    if watched is not None:
        threading.Thread(target=lambda: (wait([watched.sentinel]), os._exit(1)), daemon=True).start()
