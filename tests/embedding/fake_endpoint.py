"""A real HTTP server on loopback that speaks the embeddings wire format, and breaks it on request."""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.embedding.lexical import lexical_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIMENSION = 32


def vectors(texts: list[str]) -> list[list[float]]:
    """What the server answers: true vectors, not of unit length."""
    return (lexical_vectors(texts, dimension=DIMENSION) * 3).astype(float).tolist()


class Server:
    """The requests seen, and what to do with the next ones.

    Attributes:
        faults: one per request, in order; each gets the handler and the request's JSON. When they are used
            up, requests are answered well.
    """

    def __init__(self) -> None:
        self.faults: list[Callable[[Any, dict[str, Any]], None]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.released = threading.Event()
        self.active = 0
        self.most_active = 0
        self.delay = 0.0
        self.lock = threading.Lock()
        self.base_url = ""


def answer(handler: Any, status: int, body: object, **headers: str) -> None:
    """Send one complete answer; bytes are sent as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def rows(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the `data` of a good answer."""
    return [{"index": i, "embedding": v} for i, v in enumerate(vectors(request["input"]))]


def good(handler: Any, request: dict[str, Any]) -> None:
    answer(handler, 200, {"data": rows(request)})


def shuffled(handler: Any, request: dict[str, Any]) -> None:
    answer(handler, 200, {"data": rows(request)[::-1]})


def encoded(handler: Any, request: dict[str, Any]) -> None:
    data = rows(request)
    for row in data:
        row["embedding"] = base64.b64encode(np.array(row["embedding"], dtype="<f4").tobytes()).decode()
    answer(handler, 200, {"data": data})


def data_of(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Any, dict[str, Any]], None]:
    """Answer 200 with changed `data`."""
    return lambda handler, request: answer(handler, 200, {"data": change(rows(request))})


def status(code: int, body: object = b"", **headers: str) -> Callable[[Any, dict[str, Any]], None]:
    """Answer with a status."""
    return lambda handler, _: answer(handler, code, body, **headers)


def raw(body: bytes) -> Callable[[Any, dict[str, Any]], None]:
    """Answer 200 with these bytes."""
    return lambda handler, _: answer(handler, 200, body)


def hang(handler: Any, request: dict[str, Any]) -> None:
    handler.server.state.released.wait(20)
    handler.close_connection = True


def drip(handler: Any, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.close_connection = True
    while not handler.server.state.released.wait(0.05):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return


def cut(handler: Any, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        state: Server = self.server.state  # type: ignore[attr-defined]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with state.lock:
            state.requests.append(request)
            state.headers.append(dict(self.headers))
            state.paths.append(self.path)
            fault = state.faults.pop(0) if state.faults else good
            state.active += 1
            state.most_active = max(state.most_active, state.active)
        try:
            time.sleep(state.delay)
            fault(self, request)
        finally:
            with state.lock:
                state.active -= 1

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server on a free loopback port."""
    state = Server()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.state = state  # type: ignore[attr-defined]
    state.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
