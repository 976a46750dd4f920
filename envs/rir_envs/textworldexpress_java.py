"""One Java process that answers by py4j: started with a time limit, stopped for good, and seen when it dies.

Nothing is shared: every object has a process of its own, which ends with ``stop``, with the object, and with this
process, however that ends. This module knows no game. py4j is imported when a process is started.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import shutil
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rir_gym.errors import MissingDependency, RirError, WorldDied

__all__ = ["Java", "MissingJava", "java_command"]

# Identity hashes that are the same in every process: sets of objects are gone through in the order of these.
_OPTIONS = ("-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")


class MissingJava(MissingDependency):
    """No Java on this machine; the message names the remedy."""

    def __init__(self, feature: str) -> None:
        RirError.__init__(
            self,
            f"{feature} needs Java, version 8 or later: install a runtime (such as openjdk-17-jre-headless), "
            "so that `java` is on PATH or JAVA_HOME names its folder",
        )


class Java:
    """A running Java process.

    Args:
        feature: what needs it, for messages.
        jar: the jar with the classes.
        start_s, answer_s: seconds that the start and one answer may take.

    Raises:
        MissingJava: there is no Java.
        WorldDied: it does not start in time.
    """

    def __init__(self, feature: str, jar: Path, *, start_s: float = 60.0, answer_s: float = 120.0) -> None:
        gateway = importlib.import_module("py4j.java_gateway")
        self.feature, self._pid = feature, os.getpid()
        classpath = os.pathsep.join((gateway.find_jar_path(), str(jar)))
        command = [java_command(feature), *_OPTIONS, "-classpath", classpath]
        self.process = subprocess.Popen(
            [*command, "py4j.GatewayServer", "--die-on-broken-pipe", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=jar.parent,
        )
        self._finalizer = weakref.finalize(self, _stopped, self.process, None, self._pid)
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_drain, args=(self.process.stdout, lines), daemon=True).start()
        try:
            port = int(lines.get(timeout=start_s))
        except (queue.Empty, ValueError) as error:
            self.stop()
            raise WorldDied(f"{feature}: Java did not start within {start_s:.0f} s ({command[0]})") from error
        parameters = gateway.GatewayParameters(
            port=port, auto_field=True, read_timeout=answer_s, enable_memory_management=False
        )
        self._gateway = gateway.JavaGateway(gateway_parameters=parameters)
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _stopped, self.process, self._gateway, self._pid)
        self._error: type[Exception] = importlib.import_module("py4j.protocol").Py4JError
        self._raised: Any = importlib.import_module("py4j.protocol").Py4JJavaError

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._finalizer.alive and self.process.poll() is None

    def new(self, name: str) -> Any:
        """An object of the class of that qualified name.

        Raises:
            WorldDied: as for ``ask``.
        """
        found: Any = self.ask(lambda: self._gateway.jvm)
        for part in name.split("."):
            found = getattr(found, part)
        return self.ask(found)

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What a Java method answers.

        Raises:
            WorldDied: the process is dead, does not answer in time (it is stopped then), or belongs to another one.
            RuntimeError: the method raised.
        """
        if os.getpid() != self._pid:
            raise WorldDied(f"{self.feature}: its Java belongs to process {self._pid}; make an environment in this one")
        if not self.alive:
            raise WorldDied(f"{self.feature}: its Java process is dead; reset() starts another")
        try:
            with _without_logs():
                return call(*arguments)
        except self._raised as error:
            raise RuntimeError(str(error.java_exception)) from error
        except (self._error, OSError) as error:
            self.stop()
            raise WorldDied(
                f"{self.feature}: its Java process died or did not answer; reset() starts another"
            ) from error

    def stop(self) -> None:
        """End the process and wait for its end; twice is fine."""
        self._finalizer()


def java_command(feature: str) -> str:
    """The Java to run: that of JAVA_HOME, or else the one on PATH.

    Raises:
        MissingJava: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise MissingJava(feature)
    return found


def _stopped(process: subprocess.Popen[bytes], gateway: Any, pid: int) -> None:
    if os.getpid() != pid:  # a fork: the process is not its own
        return
    with suppress(Exception), _without_logs():
        if gateway is not None:
            gateway.close()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)


def _drain(stream: Any, lines: queue.SimpleQueue[bytes]) -> None:
    """Read all that it prints, so that it never waits for a reader; the first line is its port."""
    with suppress(ValueError, OSError), stream:
        lines.put(stream.readline())
        while stream.read1(65536):
            pass


@contextmanager
def _without_logs() -> Iterator[None]:
    """py4j reports a lost connection on the root logger, as well as by an exception."""
    root = logging.getLogger()
    root.addFilter(_refuse)
    had = bool(root.handlers)
    handler = logging.NullHandler()
    if not had:
        root.addHandler(handler)  # or else logging would set itself up
    try:
        yield
    finally:
        root.removeFilter(_refuse)
        if not had:
            root.removeHandler(handler)


def _refuse(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname
