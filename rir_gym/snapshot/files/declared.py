"""Which working directories an environment declares, and what can be told of them before they are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from rir_gym.errors import SnapshotError
from rir_gym.snapshot.files.descriptors import OPEN_FOLDER
from rir_gym.snapshot.fork_env import ForkedEnv, inside

__all__ = ["declared", "lies_in", "open_folder", "open_for_writing", "opened_there"]


def declared(env: gym.Env[Any, Any], *, resolved: dict[str, str] | None = None) -> tuple[str, ...]:
    """The working directories of an environment, as absolute paths without links, in their order.

    Args:
        resolved: what each path that was declared meant when it was first met; extended here. What an environment puts
            in the place of its directory later, a link for instance, is not followed.

    Raises:
        SnapshotError: ``workdir`` is no path, a directory lies in another one, or nothing lives that could be asked.
    """
    elsewhere = isinstance(env, ForkedEnv)
    if isinstance(env, ForkedEnv) and env.gone is not None:
        raise SnapshotError(f"workdir: nothing lives that could be asked: {env.gone}")
    try:
        found = env.get_wrapper_attr("workdir")
    except AttributeError:
        return ()
    except Exception as error:  # a property of the environment
        raise SnapshotError(f"workdir: {type(error).__name__}: {error}") from error
    given = [found] if isinstance(found, str | os.PathLike) else found
    if given is None:
        return ()
    if not isinstance(given, Sequence) or not all(
        isinstance(one, str | os.PathLike) and os.fspath(one) for one in given
    ):
        raise SnapshotError(f"workdir={found!r}: a path, or a sequence of paths")
    if elsewhere and (relative := [os.fspath(one) for one in given if not os.path.isabs(one)]):
        raise SnapshotError(
            f"workdir={relative[0]!r}: an absolute path, since the environment lives in another process"
        )
    meant = resolved if resolved is not None else {}
    for one in map(os.fspath, given):
        if one not in meant:
            meant[one] = os.path.realpath(one)
    paths = tuple(dict.fromkeys(meant[os.fspath(one)] for one in given))
    for path in paths:
        if inside := [other for other in paths if other != path and lies_in(other, path)]:
            raise SnapshotError(f"workdir={found!r}: {inside[0]!r} lies in {path!r}; declare the outer one")
    return paths


def lies_in(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


@contextmanager
def open_folder(path: str) -> Iterator[int | None]:
    """The open directory, or None where there is nothing of that name.

    Raises:
        SnapshotError: it is something else, or cannot be opened.
    """
    if sys.platform == "win32":
        raise SnapshotError(f"workdir={path!r}: working directories need a POSIX system")
    try:
        fd = os.open(path, OPEN_FOLDER)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise SnapshotError(f"workdir={path!r}: cannot be opened as a folder: {error.strerror}") from error
    try:
        yield fd
    finally:
        os.close(fd)


def open_for_writing(folder: str) -> str | None:
    """A file in a folder that this process has open for writing; on systems without ``/proc`` none is seen."""
    inside = partial(lies_in, folder=folder)
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError, ValueError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith(folder) and inside(target):
                for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
                    if line.startswith("flags:") and int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY:
                        return target
    return None


def opened_there(env: gym.Env[Any, Any], folders: Sequence[str]) -> str | None:
    """``open_for_writing`` in the process where the environment lives, where that is another one."""
    return inside(env, _first_open, tuple(folders)) if isinstance(env, ForkedEnv) else None


def _first_open(env: gym.Env[Any, Any], folders: Sequence[str]) -> str | None:
    return next(filter(None, map(open_for_writing, folders)), None)
