"""The process in which a forked world lives: it holds the environment, does what it is asked, and forks.

At a checkpoint it forks: the child goes on as the live world, the process itself sleeps from then on and *is* the
checkpoint. Woken, it forks again, so that the checkpoint stays, and the child becomes the live world. So every world
that goes on is a child of a sleeper that does nothing but wait; whoever loses its link to the asking process ends.
This module runs in the worker alone; it knows no tree and no mechanism.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.fork_audit import obstacle, positions, put_positions, written
from rir_gym.snapshot.fork_link import Closed, Link, pair
from rir_gym.snapshot.process_rng import ProcessRng, read, same, write

__all__ = ["MISSING", "OBJECT", "VALUE", "Path", "serve"]

Path = tuple[str, ...]

MISSING, OBJECT, VALUE = "missing", "object", "value"
_ENDING_S = 0.5
_BY_VALUE = (type(None), bool, int, float, complex, str, bytes, Enum, np.generic, np.ndarray, gym.Space)


class _Live:
    """The environment, the link to whoever asks, and the global generators as the asker last knew them."""

    def __init__(self, link: Link, owner: int) -> None:
        self.link, self.owner = link, owner
        self.env: gym.Env[Any, Any] | None = None
        self.known = read()
        self.written = written()

    # --- what can be asked ------------------------------------------------------------------------------------------

    def make(self, packed: bytes) -> dict[str, Any]:
        """Make the environment: what a proxy shows of it."""
        self.env = env = pickle.loads(packed)()
        self.written = written()
        return {
            "action_space": env.action_space,
            "observation_space": env.observation_space,
            "metadata": dict(env.metadata),
            "render_mode": env.render_mode,
        }

    def act(self, what: str, rng: ProcessRng | None, *args: Any, **kwargs: Any) -> tuple[Any, ProcessRng | None, bool]:
        """``reset`` or ``step``: its result, the global generators where they moved, and whether it wrote anything."""
        if rng is not None:
            write(rng)
            self.known = rng
        result = getattr(self.env, what)(*args, **kwargs)
        now, total = read(), written()
        moved = None if same(now, self.known) else now
        wrote, self.known, self.written = total != self.written, now, total
        return result, moved, wrote

    def render(self) -> Any:
        """A picture."""
        assert self.env is not None
        return self.env.render()

    def get(self, path: Path) -> tuple[str, Any]:
        """What stands at a path of attributes: a plain value, or that it is a thing to be asked further."""
        try:
            found = self._at(path)
        except AttributeError:
            return MISSING, None
        return (VALUE, found) if _plain(found) else (OBJECT, repr(type(found)))

    def call(self, path: Path, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what stands there."""
        return self._at(path)(*args, **kwargs)

    def put(self, name: str, value: Any) -> None:
        """Set an attribute on the layer that has it."""
        assert self.env is not None
        self.env.set_wrapper_attr(name, value)

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of a module with the environment."""
        return function(self.env, *args, **kwargs)

    def close(self) -> None:
        """Close the environment."""
        if self.env is not None:
            env, self.env = self.env, None
            env.close()

    def _at(self, path: Path) -> Any:
        assert self.env is not None
        first, *rest = path
        found = self.env.get_wrapper_attr(first)
        for name in rest:
            found = getattr(found, name)
        return found

    # --- forking ----------------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Become a checkpoint; the child answers and goes on.

        Raises:
            SnapshotError: a fork would not be faithful, or was not possible; nothing has changed.
        """
        if (reason := obstacle([self.link.fileno()])) is not None:
            raise SnapshotError(f"fork: {reason}")
        rng, files = read(), positions([self.link.fileno()])
        theirs, ours = pair()
        try:
            child = os.fork()
        except OSError as error:
            theirs.close()
            ours.close()
            raise SnapshotError(f"fork: no more processes: {error}") from error
        if child == 0:
            ours.close()
            write(rng)  # Python seeds ``random`` anew in every child
            self.written = written()
            self._present(theirs.fileno())
            theirs.close()
            return
        self.link.close()
        theirs.close()
        self._sleep(ours, rng, files)

    def _sleep(self, link: Link, rng: ProcessRng, files: dict[int, int]) -> None:
        """Wait to be woken, again and again; returns in the children only."""
        handler = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ended is nobody's business here
        while True:
            try:
                link.receive()
            except Closed:
                os._exit(0)
            theirs, ours = pair()
            try:
                child = os.fork()
            except OSError as error:
                theirs.close()
                ours.close()
                with suppress(Closed):
                    link.send(("error", f"no more processes: {error}"))
                continue
            if child == 0:
                link.close()
                theirs.close()
                signal.signal(signal.SIGCHLD, handler)
                self.link = ours
                write(rng)
                self.written = written()
                self._present()
                self._until_told(files)
                return
            ours.close()
            try:
                link.send(("ok", None), [theirs.fileno()])
            except Closed:
                os._exit(0)
            theirs.close()

    def _present(self, *descriptors: int) -> None:
        """Say who lives now."""
        process = os.pidfd_open(os.getpid())
        try:
            self.link.send(("ok", os.getpid()), [process, *descriptors])
        except Closed:  # whoever asks next will see it, and close the environment
            pass
        finally:
            os.close(process)

    def _until_told(self, files: dict[int, int]) -> None:
        """Until the world that lived before is gone. Who is not told is not wanted, unless the asker has ended."""
        try:
            self.link.receive()
        except Closed:
            if not _ended(self.owner):
                os._exit(0)
        put_positions(files)


def _ended(process: int) -> bool:
    """Whether a process has ended, or does so at this moment."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ended = bool(poll.poll(_ENDING_S * 1000))
    os.close(descriptor)
    return ended


def serve(link: Link, owner: int) -> NoReturn:
    """Be asked until nobody is there to ask; then close the environment, and end.

    Args:
        owner: the process that asks.
    """
    live = _Live(link, owner)
    live._present()
    while True:
        try:
            (name, args, kwargs), _ = live.link.receive()
        except Closed:
            break
        answer: tuple[Any, ...]
        process = os.getpid()
        try:
            answer = ("ok", getattr(live, name)(*args, **kwargs))
        except BaseException as error:  # the environment's own code: its error is the asker's to see
            if name == "act":
                live.known = read()
            answer = ("error", *_told(error), live.known if name == "act" else None)
        if name == "freeze" and answer[0] == "ok":
            continue  # both of its children have presented themselves
        if os.getpid() != process:  # the environment has forked itself, and this copy came back from it as well
            os._exit(0)
        try:
            live.link.send(answer)
        except Closed:
            break
        except Exception as error:  # a result that cannot be sent
            live.link.send(("error", *_told(TypeError(f"{name}: its result cannot be sent: {error}")), None))
    with suppress(BaseException):
        live.close()
        sys.stdout.flush()
    os._exit(0)


def _told(error: BaseException) -> tuple[BaseException, str]:
    """An error that can be sent, and where it came from."""
    told = "".join(traceback.format_exception(error))
    error.__traceback__ = None
    try:
        same_kind = pickle.loads(pickle.dumps(error))
        if type(same_kind) is type(error) and isinstance(error, Exception):
            return error, told
    except Exception:  # an error of a class that does not pickle
        pass
    return RuntimeError(f"{type(error).__name__}: {error}"), told


def _plain(value: Any) -> bool:
    """Whether a copy of a value is as good as the value."""
    if isinstance(value, dict):
        return all(map(_plain, value.keys())) and all(map(_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return type(value) in (list, tuple, set, frozenset) and all(map(_plain, value))
    return isinstance(value, _BY_VALUE)
