"""What a process holds that a fork does not copy, or that its copies would share: read from ``/proc`` of this process.

Other threads, a Java machine, child processes, running timers, signals that wait, memory mapped as shared, sockets,
pipes and locks of files are reasons to refuse.
Positions in files are shared between copies too: they are noted and put back. How much was written is counted, so that
a step that wrote to a file is noticed, whether it left it open or not. This module knows no environment; it must be
cheap, since it runs at every checkpoint.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["Counted", "count_prints", "obstacle", "positions", "put_positions", "supported", "written"]

_FREE = ("/dev/null", "/dev/urandom", "/dev/random", "/dev/zero", "/dev/full")
_STANDARD = (0, 1, 2)


def supported() -> str | None:
    """Why worlds cannot be forked on this system, if so."""
    if not sys.platform.startswith("linux") or not Path("/proc/self/task").is_dir():
        return "needs Linux with /proc"
    return None


def obstacle(own: Iterable[int]) -> str | None:
    """What in this process cannot be forked faithfully; None where nothing is known of.

    Args:
        own: the descriptors that belong to this package.
    """
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            permissions = line.split(" ", 2)[1]
            if "libjvm.so" in line:
                return "a Java virtual machine runs in it, of which a fork copies one thread"
            if permissions[1:4:2] == "ws":
                name = line.split(maxsplit=5)[5:] or ["anonymous"]
                return f"memory is mapped as shared, so that copies share it: {name[0].strip()}"
    told = written() is not None
    tasks = os.listdir("/proc/self/task")
    if len(tasks) > 1:
        return f"{len(tasks)} threads run in it, of which a fork copies one"
    if children := _children(tasks[0]):
        return f"it has child processes, which a fork does not copy: {children}"
    if (reason := _signals()) is not None:
        return reason
    for descriptor, mode, target in _open(own):
        if stat.S_ISREG(mode):
            shown = _shown(descriptor)
            if "\nlock:" in shown:
                return f"it holds a lock on a file, which a fork does not hold: {target}"
            if not told and _writable(shown):
                return f"a file is open for writing, and this system does not tell whether it is written to: {target}"
        elif not stat.S_ISDIR(mode) and target not in _FREE:
            return f"it holds something that copies would share: {target}"
    return None


def positions(own: Iterable[int]) -> dict[int, int]:
    """Where this process stands in each open file, by descriptor."""
    return {fd: os.lseek(fd, 0, os.SEEK_CUR) for fd, mode, _ in _open(own) if stat.S_ISREG(mode)}


def put_positions(kept: dict[int, int]) -> None:
    """Stand there again."""
    for descriptor, position in kept.items():
        os.lseek(descriptor, position, os.SEEK_SET)


class Counted:
    """Standard output or error, counting the bytes that go to it: printing is no change of a file."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.bytes = stream, 0

    def write(self, text: str) -> int:
        """Passed on."""
        self.bytes += len(text.encode(self.stream.encoding or "utf-8", self.stream.errors or "replace"))
        return int(self.stream.write(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Passed on."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "stream":
            raise AttributeError(name)
        return getattr(self.stream, name)


def count_prints() -> None:
    """From now on what Python prints is told apart from what is written elsewhere."""
    sys.stdout = sys.stdout if isinstance(sys.stdout, Counted) or sys.stdout is None else Counted(sys.stdout)
    sys.stderr = sys.stderr if isinstance(sys.stderr, Counted) or sys.stderr is None else Counted(sys.stderr)


def written() -> int | None:
    """Bytes that this process wrote so far, prints left out; None where the system does not tell."""
    printed = 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Counted):
            stream.flush()
            printed += stream.bytes
    try:
        with open("/proc/self/io", "rb") as file:
            line = next(line for line in file if line.startswith(b"wchar"))
    except (OSError, StopIteration):
        return None
    return int(line.split()[1]) - printed


def _open(own: Iterable[int]) -> list[tuple[int, int, str]]:
    """(descriptor, mode, target) of what is open, but for standard streams and ``own``."""
    skip, found = {*own, *_STANDARD}, []
    for name in os.listdir("/proc/self/fd"):
        if (descriptor := int(name)) not in skip:
            try:
                found.append((descriptor, os.fstat(descriptor).st_mode, os.readlink(f"/proc/self/fd/{name}")))
            except OSError:  # the one that the listing itself had open
                continue
    return found


def _children(task: str) -> str:
    try:
        with open(f"/proc/self/task/{task}/children") as file:
            return file.read().strip()
    except OSError:
        return ""


def _signals() -> str | None:
    """What of signals and timers a copy would not have."""
    timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    if any(signal.getitimer(timer)[0] for timer in timers) or _posix_timers():
        return "a timer runs in it, which a fork does not copy"
    if waiting := signal.sigpending():
        names = sorted(getattr(each, "name", str(each)) for each in waiting)
        return f"a signal waits in it, which a fork does not copy: {', '.join(names)}"
    if signal.getsignal(signal.SIGCHLD) is None:
        return "a handler that is not Python's waits for the end of child processes, which are this package's too"
    return None


def _posix_timers() -> bool:
    try:
        with open("/proc/self/timers", "rb") as file:
            return bool(file.read(1))
    except OSError:  # a kernel that does not tell
        return False


def _shown(descriptor: int) -> str:
    """What the system tells of an open file."""
    with open(f"/proc/self/fdinfo/{descriptor}") as file:
        return file.read()


def _writable(shown: str) -> bool:
    flags = next((line for line in shown.splitlines() if line.startswith("flags:")), "flags: 02")
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
