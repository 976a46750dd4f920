"""Messages between two processes over a socket pair: Python values, and file descriptors that go with them.

Only processes that this package started are at the other end; what they send is trusted as much as this process is.
Every wait may have a limit. This module knows no environment and no message.
"""

from __future__ import annotations

import array
import io
import os
import pickle
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle

__all__ = ["Closed", "Late", "Link", "pair"]

_HEAD = struct.Struct("=QI")
_MOST_DESCRIPTORS = 4
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Closed(Exception):
    """The other end is gone."""


class Late(Exception):
    """Nothing came in time."""


class _Socket(socket.socket):
    """One that closes in silence when nobody holds it any more: whoever forgets a world may forget it as a whole."""

    def __del__(self) -> None:
        self.close()


class Link:
    """One end, by its open descriptor, which belongs to the link from now on."""

    __slots__ = ("sock",)

    def __init__(self, descriptor: int) -> None:
        self.sock = _Socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """The message as a pickle, with copies of open descriptors.

        Raises:
            Closed: nobody is there.
        """
        payload = _packed(message)
        head = _HEAD.pack(len(payload), len(descriptors))
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        data = memoryview(head + payload)
        try:
            sent = self.sock.sendmsg([data], ancillary)
            while sent < len(data):
                sent += self.sock.sendmsg([data[sent:]])
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> tuple[Any, list[int]]:
        """The next message and the descriptors that came with it, which belong to the caller.

        Raises:
            Closed: nobody is there any more.
            Late: it was not whole in time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._wait(deadline)
        try:
            head, ancillary, _, _ = self.sock.recvmsg(
                _HEAD.size, socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize), _CLOEXEC
            )
        except OSError as error:
            raise Closed(str(error)) from error
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        try:
            if not head:
                raise Closed("closed")
            head += self._exactly(_HEAD.size - len(head), deadline)
            length, count = _HEAD.unpack(head)
            if count != len(descriptors):
                raise Closed(f"{count} descriptors were sent, {len(descriptors)} came: too many are open")
            return pickle.loads(self._exactly(length, deadline)), list(descriptors)
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise

    def close(self) -> None:
        """Close this end; the other one sees it."""
        self.sock.close()

    def fileno(self) -> int:
        """The descriptor."""
        return self.sock.fileno()

    def _exactly(self, length: int, deadline: float | None) -> bytearray:
        data = bytearray(length)
        view, got = memoryview(data), 0
        while got < length:
            self._wait(deadline)
            try:
                more = self.sock.recv_into(view[got:])
            except OSError as error:
                raise Closed(str(error)) from error
            if more == 0:
                raise Closed("closed in the middle of a message")
            got += more
        return data

    def _wait(self, deadline: float | None) -> None:
        if deadline is None:
            return
        if self.sock.fileno() < 0:
            raise Closed("closed here")
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise Late


def pair() -> tuple[Link, Link]:
    """Two ends that are connected."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Link(ours.detach()), Link(theirs.detach())


def _packed(message: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        pickle.Pickler(buffer, protocol=5).dump(message)
    except Exception:  # any class may raise anything; cloudpickle takes more
        buffer = io.BytesIO()
        cloudpickle.Pickler(buffer, protocol=5).dump(message)
    return buffer.getvalue()
