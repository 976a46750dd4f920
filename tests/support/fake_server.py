"""A model server on loopback, made of one function: (path, body, headers) -> what it answers, or does to the socket."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Misdeed = Callable[[BaseHTTPRequestHandler], None]
Answer = dict[str, Any] | tuple[int, Mapping[str, str], bytes] | Misdeed


@dataclass
class Asked:
    """Every request, and how many were served at once at most."""

    url: str = ""
    requests: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    at_once: int = 0
    now: int = 0
    lock: Any = field(default_factory=threading.Lock)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body, _ in self.requests]


@contextlib.contextmanager
def serving(answer: Callable[[str, dict[str, Any], dict[str, str]], Answer]) -> Iterator[Asked]:
    """A server for the time of the block. A dict is answered as JSON with status 200; a function gets the handler."""
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with asked.lock:
                asked.requests.append((self.path, body, headers))
                asked.now += 1
                asked.at_once = max(asked.at_once, asked.now)
            with contextlib.suppress(OSError):  # the other side may have hung up
                found = answer(self.path, body, headers)
                if callable(found):
                    found(self)
                    self.close_connection = True
                else:
                    status, more, data = (200, {}, json.dumps(found).encode()) if isinstance(found, dict) else found
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(data)), **more}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)
            with asked.lock:
                asked.now -= 1

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    asked.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chat_reply(text: str | None, *, finish: str = "stop", prompt: int = 7, generated: int = 3, **more: Any) -> Any:
    """A chat completion."""
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish, **more}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": generated},
    }
