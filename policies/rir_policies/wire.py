"""JSON over HTTP to a model server: one request, one reply, and never an endless wait.

A request has one time limit for everything after the connection stands, however slowly the server sends. What may
pass (refused or broken connections, time-outs, 429, 5xx, a reply that is no JSON) is tried again with growing waits, a
bounded number of times; what will not (any other status) is one error at once. Redirections are not followed and
proxies not used, so the key goes to the given host alone. This module knows no endpoint, prompt or option.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rir_gym.errors import ModelError, UsageError

__all__ = ["Refused", "Wire"]

_MAX_BYTES = 64 * 2**20
_CHUNK = 2**16
_SAID = 300


class Refused(ModelError):
    """The server answered that it will not do this request: a status from 300 to 499 that may not be tried again."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Passing(Exception):
    """What may be gone at the next try, and how long the server asks to wait."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True)
class Wire:
    """Posts JSON to the endpoints below one URL. Safe to use from several threads.

    Args:
        url: "http://host:port/v1" or the like, without user, query or fragment.
        name: the model's, for errors.
        api_key_env: name of the environment variable that holds the key; "" sends none. The key itself stands in no
            field, error or record.
        timeout_s: for connecting, and then for the whole reply; more than 0.
        retries: how often a request is tried again, 0 or more.
        first_wait_s: before the first new try; it doubles each time. A Retry-After of the server goes before it.
        longest_wait_s: bound on each wait.
        sleep: waits that many seconds.

    Raises:
        UsageError: a bad argument, or a variable that is not set.
    """

    url: str
    name: str
    api_key_env: str = ""
    timeout_s: float = 60.0
    retries: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 20.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        try:
            parts = urlsplit(self.url)
            odd = parts.username or parts.password or parts.query or parts.fragment or parts.port == 0
        except ValueError:
            odd, parts = True, urlsplit("")
        if odd or parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"url={self.url!r}: http(s)://host[:port][/path], such as http://127.0.0.1:8000/v1")
        for label, value, least, most in (
            ("timeout_s", self.timeout_s, 0.001, 86_400),
            ("retries", self.retries, 0, 100),
            ("first_wait_s", self.first_wait_s, 0, 86_400),
            ("longest_wait_s", self.longest_wait_s, 0, 86_400),
        ):
            if not least <= value <= most:
                raise UsageError(f"{label}={value!r}: {least} to {most}")
        if self.api_key_env and not (self._key().isascii() and self._key().isprintable() and self._key()):
            raise UsageError(f"api_key_env={self.api_key_env!r}: an environment variable that holds a key, on one line")

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a JSON object: another one.

        Raises:
            Refused: the server will not do it.
            ModelError: every try failed; names the model, the URL and the last reason.
        """
        data = json.dumps(body).encode("utf-8")
        reason = ""
        for tried in range(self.retries + 1):
            try:
                return self._once(path, data)
            except _Passing as passing:
                reason = str(passing)
                if tried < self.retries:
                    wait = passing.wait_s or self.first_wait_s * 2**tried
                    self.sleep(min(wait, self.longest_wait_s))
        tries = f"{self.retries + 1} tries" if self.retries else "one try"
        raise ModelError(
            f"model={self.name!r}: {self.url}{path} gave no reply in {tries} ({reason}); is the server up, and is "
            f"timeout_s={self.timeout_s:g} enough?"
        )

    def _once(self, path: str, data: bytes) -> dict[str, Any]:
        try:
            status, headers, body = self._exchange(path, data)
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(self._safe(f"{type(error).__name__}: {error}")) from error
        if status == 200:
            return self._parsed(body)
        said = self._safe(f"status {status}: {_message(body)}")
        if status in (408, 425, 429) or status >= 500:
            raise _Passing(said, _asked_wait(headers.get("Retry-After")))
        raise Refused(f"model={self.name!r}: {self.url}{path} refuses the request ({said})", status)

    def _exchange(self, path: str, data: bytes) -> tuple[int, http.client.HTTPMessage, bytes]:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        assert parts.hostname
        connection = kind(parts.hostname, parts.port, timeout=self.timeout_s)
        late = threading.Event()
        watch: threading.Timer | None = None
        try:
            connection.connect()
            watch = threading.Timer(self.timeout_s, _end, (connection.sock, late))
            watch.daemon = True
            watch.start()
            connection.request("POST", parts.path.rstrip("/") + path, data, self._headers())
            with connection.getresponse() as response:
                body = bytearray()
                while piece := response.read(_CHUNK):
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise http.client.HTTPException(f"a reply of more than {_MAX_BYTES} bytes")
                if late.is_set():
                    raise TimeoutError
                if response.length:
                    raise http.client.IncompleteRead(bytes(body), response.length)
                return response.status, response.headers, bytes(body)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise TimeoutError(f"no whole reply within {self.timeout_s:g} s") from error
            if isinstance(error, (ValueError, AttributeError)):  # a malformed reply inside http.client
                raise http.client.HTTPException(str(error)) from error
            raise
        finally:
            if watch is not None:
                watch.cancel()
            connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        if self.api_key_env:
            headers["Authorization"] = f"Bearer {self._key()}"
        return headers

    def _parsed(self, body: bytes) -> dict[str, Any]:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _Passing(self._safe(f"the reply is no JSON: {_message(body)!r}")) from error
        if not isinstance(value, dict):
            raise _Passing(self._safe(f"the reply is no JSON object: {_message(body)!r}"))
        return value

    def _safe(self, text: str) -> str:
        """One line, without the key where a server repeats it."""
        key = self._key()
        text = " ".join(text.split())
        return (text.replace(key, "[key]") if key else text)[:_SAID]

    def _key(self) -> str:
        return os.environ.get(self.api_key_env, "").strip() if self.api_key_env else ""


def _end(sock: socket.socket, late: threading.Event) -> None:
    """Break a connection off, so that whoever reads from it stops waiting."""
    late.set()
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _message(body: bytes) -> str:
    """What an error reply says: OpenAI's, FastAPI's and llama.cpp's places for it, else the text itself."""
    text = body[:4_000].decode("utf-8", "replace")
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(body)
        for name in ("error", "message", "detail"):
            if isinstance(value, dict) and value.get(name):
                value = value[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[: 4 * _SAID]


def _asked_wait(value: str | None) -> float:
    """Seconds of a Retry-After, given as such or as a date; 0 where there is none that can be read."""
    if value is None:
        return 0.0
    with contextlib.suppress(ValueError):
        seconds = float(value)
        return seconds if 0 < seconds < float("inf") else 0.0
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return 0.0
