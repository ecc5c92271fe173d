"""Small servers on loopback: one that records what it is sent, and ones that fail in every way a server can."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Request:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """What to answer; `drip` seconds pass between its bytes, `hang` before the first."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0
    hang: float = 0.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answer: Callable[[Request], Answer]
    stopped: threading.Event

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        text = self.rfile.read(length)
        parts = urlsplit(self.path)
        answer = self.server.answer(
            Request(
                self.command,
                parts.path,
                parse_qs(parts.query),
                {name.lower(): value for name, value in self.headers.items()},
                json.loads(text) if text else None,
            )
        )
        if self.server.stopped.wait(answer.hang):
            return
        self.send_response(answer.status)
        for name, value in (answer.headers | {"content-length": str(len(answer.body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if not answer.drip:
            self.wfile.write(answer.body)
            return
        for byte in answer.body:
            self.wfile.write(bytes([byte]))
            if self.server.stopped.wait(answer.drip):
                return

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _serve  # noqa: N815  named by the standard library

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  named by the standard library
        """Say nothing."""


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[str]:
    """A server that answers so, as its address; no thread of it outlives the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.answer = answer
    server.stopped = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def threads() -> set[threading.Thread]:
    """The threads there are, without the idle ones of an event loop's own pool."""
    return {one for one in threading.enumerate() if one.is_alive() and not one.name.startswith("asyncio_")}


def left_behind(before: set[threading.Thread], seconds: float = 3.0) -> set[threading.Thread]:
    """The threads that are still there after a while beyond those of `before`."""
    until = time.monotonic() + seconds
    while (more := threads() - before) and time.monotonic() < until:
        time.sleep(0.02)
    return more
