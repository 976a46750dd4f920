"""Small worlds for the tests of forking: in a module of their own, so that another process can import it."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import random
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

TALLY: list[int] = []
LIBC = ctypes.CDLL(None)


class Base(gym.Env[int, int]):
    """Mixes its actions with what ``hidden`` gives, for as many steps as anybody likes."""

    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Discrete(1000)
    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.t = int(self.np_random.integers(50)), 0
        self.begin()
        return self.x, self.info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.t += 1
        self.x = (self.x * 3 + int(action) + self.hidden(int(action)) + 1) % 997
        return self.x, float(action), self.t >= 60, False, self.info()

    def begin(self) -> None: ...

    def hidden(self, action: int) -> int:
        return 0

    def info(self) -> dict[str, Any]:
        return {}


class InC(Base):
    """Its state is a number in memory that no Python object owns, and the position of the C library's generator."""

    def __init__(self) -> None:
        LIBC.malloc.restype = ctypes.c_void_p
        self.address = LIBC.malloc(8)

    def begin(self) -> None:
        ctypes.c_long.from_address(self.address).value = 7
        LIBC.srand(self.x)

    def hidden(self, action: int) -> int:
        cell = ctypes.c_long.from_address(self.address)
        cell.value += action + LIBC.rand() % 10
        return int(cell.value)


class Everywhere(Base):
    """A running generator, a lock, a list of its module and the global generators, all at once."""

    def begin(self) -> None:
        self.lock = threading.Lock()
        TALLY.clear()
        self.events = (7 * i for i in itertools.count(self.x))

    def hidden(self, action: int) -> int:
        TALLY.append(action)
        if action == 1:
            (self.lock.release if self.lock.locked() else self.lock.acquire)()
        drawn = random.randrange(50) + int(np.random.randint(50)) + int(self.np_random.integers(9))
        return next(self.events) + sum(TALLY) + drawn + self.lock.locked()


class Reader(Base):
    """Reads a file on and on: where it stands in the file is shared by all copies of its process."""

    def begin(self) -> None:
        self.file = open("/proc/self/exe", "rb", buffering=0)  # noqa: SIM115

    def hidden(self, action: int) -> int:
        return sum(self.file.read(10 + action))


class Moody(Base):
    """Armed, it does at action 3 what it was told: kills its process, never returns, raises, or calls sys.exit."""

    def __init__(self, mood: str = "dies") -> None:
        self.mood, self.armed = mood, False

    def hidden(self, action: int) -> int:
        if action == 3 and self.armed:
            if self.mood == "dies":
                os._exit(3)
            if self.mood == "segfaults":
                ctypes.string_at(0)
            if self.mood == "hangs":
                time.sleep(3600)
            if self.mood == "exits":
                raise SystemExit(4)
            raise KeyError(f"at step {self.t}")
        return 1


class Talking(Base):
    """Has what this project's environments have beside the five functions; commits with action 3."""

    render_mode = "ansi"
    limits = {"deep": [1, 2]}  # noqa: RUF012

    def __init__(self) -> None:
        self.oracle = Knows(self)
        self.note = "mine"

    def describe(self) -> str:
        return f"at {self.x} after {self.t}"

    def submit(self, text: str) -> int | None:
        return len(text) % 3

    def render(self) -> str:
        return f"<{self.x}>"

    def info(self) -> dict[str, Any]:
        return {"committed": self.sent == self.t} if getattr(self, "sent", None) else {}

    def begin(self) -> None:
        self.sent: int | None = None

    def hidden(self, action: int) -> int:
        if action == 3:
            self.sent = self.t
        return 0


class Posting(Base):
    """Posts to a server with action 3 and says so (kind B10); has a state pair of its own."""

    posted = 0

    def begin(self) -> None:
        self.posted = 0

    def hidden(self, action: int) -> int:
        if action == 3:
            self.posted = self.t
        return 0

    def info(self) -> dict[str, Any]:
        return {"committed": True} if self.posted and self.posted == self.t else {}

    def get_state(self) -> Any:
        return self.x, self.t, self.posted, self.np_random.bit_generator.state

    def set_state(self, state: Any) -> None:
        self.x, self.t, self.posted, self.np_random.bit_generator.state = state


class Knows:
    """An oracle that holds the environment."""

    def __init__(self, env: Talking) -> None:
        self.env = env

    def distance(self) -> float:
        return float(self.env.x)

    def plan(self, *, most: int = 2) -> list[int]:
        return [self.env.x % 3] * most


class Holding(Base):
    """Has what a fork cannot copy, or what copies would share, once it is reset."""

    def __init__(self, what: str, place: str = "") -> None:
        self.what, self.place = what, place

    def begin(self) -> None:
        if hasattr(self, "kept"):
            return
        if self.what == "thread":
            self.event = threading.Event()
            self.kept: Any = threading.Thread(target=self.event.wait, daemon=True)
            self.kept.start()
        elif self.what == "child":
            self.kept = subprocess.Popen(["sleep", "600"])
        elif self.what == "shared memory":
            self.kept = mmap.mmap(-1, 4096)
        elif self.what == "socket":
            self.kept = socket.socketpair()
        elif self.what == "pipe":
            self.kept = os.pipe()
        elif self.what == "java":
            with open(Path(self.place) / "libjvm.so", "w+b") as file:
                file.write(bytes(4096))
                file.flush()
                self.kept = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)

    def close(self) -> None:
        if self.what == "child" and hasattr(self, "kept"):
            self.kept.kill()
            self.kept.wait()


class Writing(Base):
    """Writes a save file (kind B9) with every step from the ``late``-th on; in a directory of its own."""

    def __init__(self, late: int = 0, declares: bool = False) -> None:
        self.folder = tempfile.mkdtemp(prefix="rir_writing")
        self.late = late
        if declares:
            self.workdir = self.folder

    def begin(self) -> None:
        (Path(self.folder) / "save").write_text("0")

    def hidden(self, action: int) -> int:
        place = Path(self.folder) / "save"
        if self.t > self.late:
            place.write_text(str(int(place.read_text()) + action))
        return int(place.read_text())

    def close(self) -> None:
        place = Path(self.folder)
        if place.exists():
            (place / "save").unlink(missing_ok=True)
            place.rmdir()


class Owner:
    """As a C object is: two copies of it believe to own the same memory, and the process ends of that."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p(1)

    def __deepcopy__(self, memo: Any) -> Owner:
        os.abort()

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


class Fragile(Base):
    """Kind A19."""

    def begin(self) -> None:
        self.owner = Owner()


class Hidden(Base):
    """Holds a C object that Python cannot look into."""

    def __init__(self) -> None:
        self.held = (n for n in itertools.count())


class Printing(Base):
    """Prints; that is no file that would have to be put back."""

    def hidden(self, action: int) -> int:
        print("step", action)  # noqa: T201
        return 0


class Counting(Base):
    """Long episodes without an end, for counting what is left behind; a temporary file for each instance."""

    def __init__(self) -> None:
        descriptor, self.place = tempfile.mkstemp(prefix="rir_counting")
        os.close(descriptor)

    def close(self) -> None:
        if os.path.exists(self.place):
            os.unlink(self.place)


def tiny_fork(**settings: Any) -> Any:
    """A forked world of the simplest kind."""
    from rir_gym import RollbackWrapper

    return RollbackWrapper.from_factory(Counting, snapshot="fork", **settings)
