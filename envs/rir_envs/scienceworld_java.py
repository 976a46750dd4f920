"""ScienceWorld's Java processes: how one is started, spoken to, shared in this process, and ended.

A ``Link`` is one Java process with one simulator. Its random generator and its counter of object numbers belong to the
whole process, so one process plays one episode at a time. Two options make what it does a function of its seed: all
identity hashes are equal (the order of sets is that of insertion), and its output goes nowhere (a full pipe would stop
it). Links are lent and given back; when the last user is gone, every process is ended. This module knows the
simulator's calls, and nothing of tasks, episodes or Gymnasium.
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rir_gym.errors import MissingDependency, RirError, UsageError, WorldDied

__all__ = ["START_TIMEOUT_S", "JavaMissing", "Link", "Pool", "give_back", "idle", "leave", "lend", "use"]

_SCRAMBLER = 0x5DEECE66D  # of java.util.Random
_STATE = ("seed", "nextNextGaussian", "haveNextNextGaussian")
START_TIMEOUT_S = 60.0
_CALL_TIMEOUT_S = 600.0
_TOGETHER = 20  # commands of at most 1,000 characters: far below what a socket holds
_OPTIONS = (
    *("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-XX:+UseSerialGC", "-Xmx1g"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED"),  # where the generator stands can be read and put back
)


class JavaMissing(RirError):
    """There is no Java to be run, or it does not start; the message says what to install."""


@dataclass(frozen=True, slots=True)
class _Randomness:
    """The generator of a Java process: Scala's, the ``java.util.Random`` in it, and the fields of that one's state."""

    generator: Any
    inner: Any
    seed: Any
    gaussian: Any
    has_gaussian: Any

    def state(self) -> tuple[int, float, bool]:
        """All that can change."""
        return self.seed.get(self.inner), self.gaussian.get(self.inner), self.has_gaussian.get(self.inner)

    def put(self, state: tuple[int, float, bool]) -> None:
        """The state again; ``setSeed`` scrambles what it is given with a constant of its own."""
        self.generator.setSeed(state[0] ^ _SCRAMBLER)
        self.gaussian.setDouble(self.inner, state[1])
        self.has_gaussian.setBoolean(self.inner, state[2])


@dataclass(eq=False)
class Link:
    """One Java process and the simulator in it. ``died`` says how it ended, None while it lives."""

    process: subprocess.Popen[bytes]
    gateway: Any
    server: Any
    randomness: _Randomness
    numbers: Any
    owner: int = field(default_factory=os.getpid)
    died: str | None = None

    @property
    def alive(self) -> bool:
        """Whether it can be spoken to, from this process."""
        return self.died is None and self.owner == os.getpid() and self.process.poll() is None

    def load(self, task: str, variation: int, simplifications: str, *, seed: int, gold: bool = False) -> None:
        """Begin a task, with its gold path where asked; all randomness follows from ``seed``.

        Raises:
            WorldDied: the process died.
            UsageError: the simulator does not know the task or the variation.
        """
        doing = f"load({task!r}, {variation})"
        self._do(doing, self.numbers.reset)
        self._do(doing, self.randomness.generator.setSeed, seed)
        said = str(self._do(doing, self.server.load, task, variation, simplifications, gold) or "")
        if said:
            raise UsageError(f"task={task!r}, variation={variation!r}: {said}")
        self._do(doing, self.randomness.generator.setSeed, seed)

    def step(self, command: str) -> tuple[str, int, bool]:
        """One command: what is said, the score from -100 to 100, and whether the game says that it is over.

        Raises:
            WorldDied: the process died, or the game broke down.
        """
        return self.play([command])[0]

    def play(self, commands: Sequence[str]) -> list[tuple[str, int, bool]]:
        """Some commands, each as by ``step``, without waiting for one answer before the next is asked for."""
        server, told = self.server, list[tuple[str, int, bool]]()
        for first in range(0, len(commands), _TOGETHER):
            some = commands[first : first + _TOGETHER]
            doing = f"step({some[0][:80]!r})" + (f" and {len(some) - 1} more" if len(some) > 1 else "")
            calls = [
                each for text in some for each in ((server.step, text), (server.getScore,), (server.getCompleted,))
            ]
            answers = self._do(doing, _together, self.gateway, calls)
            for said, score, over in zip(answers[::3], answers[1::3], answers[2::3], strict=True):
                told.append((str(said), round(100 * float(score)), bool(over)))
        return told

    def valid(self) -> list[str]:
        """The commands that can be done now, sorted: some thousands, joined in Java since each call takes its time.

        The game draws from its generator to list them; that is put back, so that looking changes nothing.
        """
        doing = "listing commands"
        state = self._do(doing, self.randomness.state)
        found = self._do(doing, self.server.getValidActionObjectCombinations)
        joined = self._do(doing, self.gateway.jvm.java.lang.String.join, "\n", found)
        self._do(doing, self.randomness.put, state)
        self._do(doing, self.gateway.detach, found)
        return sorted(set(str(joined).split("\n"))) if joined else []

    def look(self) -> tuple[str, str]:
        """What is around and what is carried; takes no time in the game."""
        calls = ((self.server.freeActionLook,), (self.server.freeActionInventory,))
        around, carried = self._do("look", _together, self.gateway, calls)
        return str(around), str(carried)

    def objective(self) -> str:
        """The description of the task."""
        return str(self._do("objective", self.server.getTaskDescription))

    def gold(self) -> list[str]:
        """The gold path of a task that was loaded with it."""
        return [str(command) for command in self._do("gold path", self.server.getGoldActionSequence)]

    def end(self) -> None:
        """End the process and wait until it is gone. A process that was forked from ours ends nothing."""
        self.died = self.died or "ended"
        if self.owner != os.getpid():
            return
        with suppress(Exception):
            self.gateway.close()
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _do(self, doing: str, call: Any, *arguments: Any) -> Any:
        from py4j.protocol import Py4JError, Py4JJavaError

        if self.owner != os.getpid():
            raise UsageError("env: made in another process; make a new one in this one")
        if self.died is not None:
            raise WorldDied(f"ScienceWorld: the Java process is gone ({self.died}); asked for {doing}")
        try:
            return call(*arguments)
        except Py4JJavaError as error:
            why = f"the game broke down: {str(error.java_exception)[:200]}"
        except (Py4JError, OSError) as error:
            status = self.process.poll()
            why = f"{type(error).__name__}" if status is None else f"exit status {status}"
        self.end()
        self.died = f"{why}, in {doing}"
        raise WorldDied(f"ScienceWorld: the Java process died in {doing}: {why}; reset or roll back to go on")


def _together(gateway: Any, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Calls of Java methods in turn, all sent before the first answer is read: one wait instead of one a call.

    What is sent must fit the buffers of a socket. The protocol is py4j's: a line an answer.
    """
    from py4j import protocol
    from py4j.java_gateway import get_return_value

    client = gateway._gateway_client
    sent = [
        protocol.CALL_COMMAND_NAME + method.command_header + method._build_args(*given)[0] + protocol.END_COMMAND_PART
        for method, *given in calls
    ]
    connection = client._get_connection()
    try:
        connection.socket.sendall("".join(sent).encode("utf-8"))
        lines = [_line(connection) for _ in sent]
        if not all(line.endswith(b"\n") for line in lines):
            raise protocol.Py4JNetworkError("no answer")
    except BaseException:
        connection.close()
        raise
    client._give_back_connection(connection)
    answers = [line[:-1].decode("utf-8").removeprefix(protocol.RETURN_MESSAGE) for line in lines]
    return [get_return_value(answer, client) for answer in answers]


def _line(connection: Any) -> bytes:
    """One answer. Java sends the next one only when this one is acknowledged, which the system may delay by 40 ms."""
    if hasattr(socket, "TCP_QUICKACK"):
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    return bytes(connection.stream.readline())


# --- lending --------------------------------------------------------------------------------------------------------


class Pool:
    """The processes of this process that live, and who may want one again."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.idle: list[Link] = []
        self.lent: set[Link] = set()
        self.users: set[int] = set()

    def trim(self) -> None:
        """End what is more than there are users."""
        while len(self.idle) > len(self.users):
            self.idle.pop(0).end()


_pool = Pool()


def use(user: int) -> None:
    """Somebody, by a number of their own, will want links again: keep idle ones."""
    with _pool.lock:
        _pool.users.add(user)


def leave(user: int, link: Link | None, *, owner: int) -> None:
    """A user is gone, and gives back its link, if any; with the last one every idle process is ended."""
    if owner != os.getpid():
        return
    with _pool.lock:
        _pool.users.discard(user)
        if link is not None:
            give_back(link)
        _pool.trim()


def lend(*, start_timeout_s: float = START_TIMEOUT_S) -> Link:
    """A living link that nobody else has: an idle one, or a new one.

    Raises:
        MissingDependency: the extra is not installed.
        JavaMissing: there is no Java, it cannot run the game, or it did not answer in time.
    """
    with _pool.lock:
        while _pool.idle:
            link = _pool.idle.pop()
            if link.alive:
                _pool.lent.add(link)
                return link
            link.end()
    link = _started(start_timeout_s)
    with _pool.lock:
        _pool.lent.add(link)
    return link


def give_back(link: Link) -> None:
    """The link is free again; a dead one, and more than there are users, is ended."""
    with _pool.lock:
        _pool.lent.discard(link)
        if link.alive:
            _pool.idle.append(link)
        else:
            link.end()
        _pool.trim()


def idle() -> int:
    """How many living processes wait for a user."""
    with _pool.lock:
        return sum(link.alive for link in _pool.idle)


@atexit.register
def _end_all() -> None:
    """Java ends by itself when its input is closed; this only makes it certain that it is gone before we are."""
    for link in (*_pool.idle, *_pool.lent):
        link.end()


# --- starting -------------------------------------------------------------------------------------------------------


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME={home!r}" if home else "PATH"
        raise JavaMissing(
            f"java: not found ({where}); ScienceWorld runs in Java 11 or later, tested with 17: "
            "install one (apt-get install default-jre-headless, or conda install openjdk), or set JAVA_HOME"
        )
    return found


def _started(timeout_s: float) -> Link:
    if importlib.util.find_spec("scienceworld") is None or importlib.util.find_spec("py4j") is None:
        raise MissingDependency("rir_gym/ScienceWorld-v0", "scienceworld")
    from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
    from scienceworld.constants import JAR_PATH

    if (logger := logging.getLogger("py4j")).level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)  # what goes wrong is told by errors, once
    java, began = _java(), time.monotonic()
    classes = os.pathsep.join((find_jar_path(), JAR_PATH))
    command = [java, *_OPTIONS, "-cp", classes, "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=tempfile.gettempdir()
            )
        except OSError as error:
            raise JavaMissing(f"java={java!r}: cannot be run ({error.strerror})") from error
        try:
            port, token = _said(process, 2, began + timeout_s)
            gateway = JavaGateway(
                gateway_parameters=GatewayParameters(
                    port=int(port),
                    auth_token=token,
                    auto_field=True,
                    read_timeout=_CALL_TIMEOUT_S,
                    enable_memory_management=False,  # else our garbage collector speaks to Java, even to a dead one
                )
            )
            _silence(gateway)
            server = gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
            return Link(process, gateway, server, _randomness(gateway), _single(gateway, "util.UniqueIdentifier$"))
        except BaseException as error:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            if not isinstance(error, Exception):
                raise
            errors.seek(0)
            told = errors.read(2000).decode("utf-8", "replace").strip().splitlines()
            if isinstance(error, TimeoutError):
                raise JavaMissing(f"java={java!r}: no answer in start_timeout={timeout_s!r} seconds") from error
            raise JavaMissing(
                f"java={java!r}: does not run the game ({'; '.join(told[:3]) or error}); Java 17 does"
            ) from error


def _said(process: subprocess.Popen[bytes], count: int, deadline: float) -> list[str]:
    """So many lines of its output, without waiting for ever."""
    assert process.stdout is not None
    descriptor, said = process.stdout.fileno(), b""
    while said.count(b"\n") < count:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError("java is silent")
        if not (more := os.read(descriptor, 4096)):
            raise RirError("it ended at once")
        said += more
    return said.decode("utf-8", "replace").split("\n")[:count]


def _silence(gateway: Any) -> None:
    """Nobody reads what the game prints, and a full pipe would stop it."""
    java = gateway.jvm.java
    nowhere = java.io.PrintStream(java.io.OutputStream.nullOutputStream())
    java.lang.System.setOut(nowhere)
    java.lang.System.setErr(nowhere)


def _single(gateway: Any, name: str) -> Any:
    """The one instance of a Scala object."""
    return gateway.jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)


def _randomness(gateway: Any) -> _Randomness:
    generator = _single(gateway, "scala.util.Random$")
    find = gateway.jvm.java.lang.Class.forName
    places = [find("scala.util.Random").getDeclaredField("self")]
    places += [find("java.util.Random").getDeclaredField(name) for name in _STATE]
    for place in places:
        place.setAccessible(True)
    return _Randomness(generator, places[0].get(generator), *places[1:])
