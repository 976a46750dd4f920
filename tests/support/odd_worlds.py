"""Worlds that do to their own process what is hard to copy: in a module of their own, so that another can import it."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from forked_worlds import Base

_LATE = 3


class Late(Base):
    """Begins at its third step what it was told to; until then it is like any other."""

    def __init__(self, what: str) -> None:
        self.what, self.armed = what, False
        tempfile.gettempdir()  # which, asked for the first time, writes a file

    def begin(self) -> None:
        self.stop()

    def hidden(self, action: int) -> int:
        if self.armed and self.t == _LATE:
            self.kept: Any = getattr(self, self.what)()
        return 0

    def stop(self) -> None:
        if hasattr(self, "kept"):
            kept = self.__dict__.pop("kept")
            kept()

    def close(self) -> None:
        self.stop()

    def thread(self) -> Any:
        event = threading.Event()
        thread = threading.Thread(target=event.wait, daemon=True)
        thread.start()
        return lambda: (event.set(), thread.join())

    def child(self) -> Any:
        child = subprocess.Popen(["sleep", "600"])
        return lambda: (child.kill(), child.wait())

    def itself(self) -> Any:
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        return lambda: (os.kill(child, signal.SIGKILL), os.waitpid(child, 0))

    def shared(self) -> Any:
        memory = mmap.mmap(-1, 4096)
        return memory.close

    def shared_file(self) -> Any:
        file = tempfile.TemporaryFile()  # noqa: SIM115
        file.truncate(4096)
        memory = mmap.mmap(file.fileno(), 4096)
        return lambda: (memory.close(), file.close())

    def timer(self) -> Any:
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 600)
        return lambda: (signal.setitimer(signal.ITIMER_REAL, 0), signal.signal(signal.SIGALRM, before))

    def pending(self) -> Any:
        before = signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        os.kill(os.getpid(), signal.SIGUSR1)
        unblock = signal.SIG_UNBLOCK
        return lambda: (signal.pthread_sigmask(unblock, {signal.SIGUSR1}), signal.signal(signal.SIGUSR1, before))

    def lock(self) -> Any:
        file = tempfile.TemporaryFile()  # noqa: SIM115
        fcntl.lockf(file, fcntl.LOCK_EX)
        return file.close


class Signalled(Base):
    """Counts in a handler of its own the signals that it sends itself; one of them when a child of it has ended."""

    def begin(self) -> None:
        self.heard = 0
        signal.signal(signal.SIGUSR1, self.hear)
        signal.signal(signal.SIGCHLD, self.hear)

    def hear(self, *_: Any) -> None:
        self.heard += 1

    def hidden(self, action: int) -> int:
        if action == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        if action == 2:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        return self.heard


class Walker(Base):
    """Walks through the folders of its own with ``os.chdir`` and says in which it stands."""

    def __init__(self) -> None:
        self.top = tempfile.mkdtemp(prefix="rir_walker")
        for name in "0123":
            (Path(self.top) / name).mkdir()

    def begin(self) -> None:
        os.chdir(self.top)

    def hidden(self, action: int) -> int:
        os.chdir(Path(self.top) / str(action))
        return int(Path.cwd().name)

    def close(self) -> None:
        if Path.cwd().is_relative_to(self.top):
            os.chdir("/")
        for name in "0123":
            (Path(self.top) / name).rmdir()
        Path(self.top).rmdir()


class Returning(Base):
    """Forks itself, and the copy returns from ``step`` as well, as if it were the original."""

    def hidden(self, action: int) -> int:
        return int(action == 3 and os.fork() == 0)


class Scribe(Base):
    """Keeps a file open and writes into it. ``kept``: the file lies in its working directory; else beside it."""

    def __init__(self, kept: bool = True, flushes: bool = True) -> None:
        self.folder = tempfile.mkdtemp(prefix="rir_scribe")
        self.inside, self.flushes = Path(self.folder) / "inside", flushes
        self.inside.mkdir()
        self.workdir = str(self.inside) if kept else None

    def begin(self) -> None:
        self.stop()
        self.file: Any = open(self.inside / "log", "w+")  # noqa: SIM115

    def hidden(self, action: int) -> int:
        self.file.write(f"{action} ")
        if self.flushes:
            self.file.flush()
        return int(self.file.tell())

    def stop(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def close(self) -> None:
        self.stop()
        for place in (self.inside / "log",):
            place.unlink(missing_ok=True)
        for folder in (self.inside, Path(self.folder)):
            if folder.exists():
                folder.rmdir()


class Relative(Base):
    """Declares a path that means something else wherever somebody stands."""

    workdir = "saves"


class Ledger(Base):
    """Posts to a shop with action 3 and says so, and keeps its accounts in a file of its working directory."""

    def __init__(self) -> None:
        self.workdir = tempfile.mkdtemp(prefix="rir_ledger")
        self.posted: int | None = None

    def begin(self) -> None:
        self.posted = None
        (Path(self.workdir) / "book").write_text("")

    def hidden(self, action: int) -> int:
        place = Path(self.workdir) / "book"
        place.write_text(place.read_text() + str(action))
        if action == 3:
            self.posted = self.t
        return len(place.read_text())

    def info(self) -> dict[str, Any]:
        return {"committed": True} if self.posted == self.t else {}

    def book(self) -> str:
        return (Path(self.workdir) / "book").read_text()

    def close(self) -> None:
        place = Path(self.workdir)
        if place.exists():
            (place / "book").unlink(missing_ok=True)
            place.rmdir()


class Endless(Ledger):
    """Armed, it writes into its book at action 3 and never returns."""

    armed = False

    def hidden(self, action: int) -> int:
        told = super().hidden(action)
        if self.armed and action == 3:
            time.sleep(3600)
        return told

    def info(self) -> dict[str, Any]:
        return {}
