"""The process that forked worlds descend from, and this process's handle on it.

It makes the first live world on request and lives as long as it is wanted. All worlds and checkpoints are its
descendants, orphans come back to it, and when the process that asked for it ends in whatever way, or closes its link,
it ends them all: politely the live one (its environment is closed), then by force. It never holds an environment.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import json
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from typing import NoReturn

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.fork_audit import count_prints
from rir_gym.snapshot.fork_link import Closed, Late, Link, pair
from rir_gym.snapshot.fork_worker import serve

__all__ = ["Keeper", "main"]

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from rir_gym.snapshot.fork_keeper import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_SUBREAPER = 36
_START_S, _GRACE_S, _END_S = 120.0, 2.0, 10.0


class Keeper:
    """A keeper process of its own. ``begin`` gives a link to a new live world; ``close`` ends everything.

    Raises:
        SnapshotError: the process could not be started.
    """

    def __init__(self) -> None:
        ours, theirs = pair()
        command = [sys.executable, "-c", _START, json.dumps(sys.path), str(theirs.fileno()), str(os.getpid())]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1")},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SnapshotError(f"fork: {sys.executable} could not be started: {error}") from error
        finally:
            theirs.close()
        self._link, self._process, self._owner, self._open = ours, process, os.getpid(), True
        _alive.add(self)

    def begin(self) -> Link:
        """A link to a process that has no environment yet.

        Raises:
            SnapshotError: the keeper is gone, or could not fork.
        """
        try:
            self._link.send("begin")
            (outcome, said), descriptors = self._link.receive(_START_S)
        except (Closed, Late) as error:
            raise SnapshotError(f"fork: the worker's process could not be started: {error or 'no answer'}") from error
        if outcome == "error":
            raise SnapshotError(f"fork: {said}")
        return Link(descriptors[0])

    def close(self) -> None:
        """Let go, and wait until all is gone; a second call does nothing."""
        if not self._open:
            return
        self._open = False
        _alive.discard(self)
        self._link.close()
        if os.getpid() != self._owner:  # a copy of this process: the worlds are not its to end
            self._process.returncode = 0
            return
        try:
            self._process.wait(_END_S + _GRACE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __del__(self) -> None:
        if "_open" in self.__dict__:
            self.close()


_alive: weakref.WeakSet[Keeper] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Whoever is forgotten ends with this process."""
    for keeper in list(_alive):
        keeper.close()


def main(control: int, owner: int) -> NoReturn:
    """The keeper's whole life."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: nobody asks how a world ended
    faulthandler.enable()
    count_prints()
    gc.collect()
    gc.freeze()  # collections in a world do not touch, and so do not copy, what all have in common
    link = Link(control)
    poll = select.poll()
    poll.register(link, select.POLLIN)
    watched = _watch(owner)
    if watched is not None:
        poll.register(watched, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if link.fileno() not in ready:
            break
        try:
            link.receive()
            _begin(link, watched, owner)
        except Closed:
            break
    link.close()
    _end_all()
    os._exit(0)


def _watch(owner: int) -> int | None:
    """A descriptor that is ready when the owner has ended, whichever of its threads started this one."""
    try:
        descriptor = os.pidfd_open(owner)
    except OSError:
        return None
    if os.getppid() != owner:  # it ended before, and its number may be another's
        os._exit(0)
    return descriptor


def _begin(link: Link, watched: int | None, owner: int) -> None:
    ours, theirs = pair()
    try:
        child = os.fork()
    except OSError as error:
        ours.close()
        theirs.close()
        link.send(("error", f"no more processes: {error}"))
        return
    if child == 0:
        link.close()
        ours.close()
        if watched is not None:
            os.close(watched)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        serve(theirs, owner)
    theirs.close()
    link.send(("ok", child), [ours.fileno()])
    ours.close()


def _end_all() -> None:
    """Whoever lives closes its environment when nobody asks any more; who has not ended in time is ended."""
    began = time.monotonic()
    while (left := _children()) and (waited := time.monotonic() - began) < _GRACE_S + _END_S / 2:
        if waited > _GRACE_S:
            for child in left:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.002 if waited < 0.2 else 0.02)
    if left:
        os.killpg(0, signal.SIGKILL)


def _children() -> list[int]:
    """Direct children; the children of one that ends become direct ones."""
    task = os.getpid()
    try:
        with open(f"/proc/self/task/{task}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []
