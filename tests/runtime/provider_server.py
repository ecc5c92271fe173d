"""A real HTTP server on loopback that speaks the providers' wire formats, and breaks them on request.

    with provider_server([say("hello"), status(500)]) as server:
        ...  # server.base_url for OpenAI-compatible clients and embedders, server.url for Anthropic's

The path of a request picks the format: `/v1/messages` is Anthropic's, `/v1/chat/completions` is OpenAI's,
streamed if the request asks for it. `/v1/embeddings` is always answered, and uses up no answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from agenthood.embedding.lexical import lexical_vectors
from runtime.provider_formats import ANTHROPIC, OPENAI


@dataclass(frozen=True)
class Request:
    """One request as it came in; names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    json: Mapping[str, Any]

    @property
    def anthropic(self) -> bool:
        """Whether it is in Anthropic's format."""
        return self.path.endswith("/messages")

    @property
    def stream(self) -> bool:
        """Whether it asks for a stream."""
        return bool(self.json.get("stream"))

    def header_values(self) -> str:
        """Everything in its headers, to look for secrets in."""
        return "\n".join(self.headers.values())


Answer: TypeAlias = Callable[[Any, Request], None]
Script: TypeAlias = Sequence[Answer] | Callable[[Request], Answer]


@dataclass
class Server:
    """What was asked, and where to ask.

    Attributes:
        url: the address without a path, as Anthropic's client wants it.
        requests: chat requests in order; those for vectors are in `embedding_requests`.
        released: set when the server ends, so that hanging answers end with it.
    """

    script: Script
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    embedding_requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def base_url(self) -> str:
        """The address as OpenAI-compatible clients want it."""
        return f"{self.url}/v1"

    def next_answer(self, request: Request) -> Answer:
        """Note the request; returns what the script answers to it."""
        with self.lock:
            position = len(self.requests)
            self.requests.append(request)
        if callable(self.script):
            return self.script(request)
        if position < len(self.script):
            return self.script[position]
        return status(400, {"error": {"message": "the script of this test has no answer left"}})


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` may be any text, such as JSON that breaks off."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""

    @property
    def text(self) -> str:
        """The arguments as they are written."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Spoken:
    """A good answer, whatever the format.

    Attributes:
        stop: the finish reason as the provider words it; None for the usual one.
        cut_after: cut the connection after so many streamed events.
        pause: seconds between streamed events.
    """

    text: str
    calls: Sequence[Call] = ()
    stop: str | None = None
    tokens: tuple[int, int] = (11, 7)
    thinking: str = ""
    cut_after: int | None = None
    pause: float = 0.0

    def call_id(self, i: int) -> str:
        """The id of call `i`."""
        return self.calls[i].id or f"call_{i}"

    def __call__(self, handler: Any, request: Request) -> None:
        """Send it in the format of the request."""
        wire = ANTHROPIC if request.anthropic else OPENAI
        if not request.stream:
            send(handler, 200, wire.whole(self, request))
            return
        events = list(wire.events(self, request))
        send_events(handler, events, cut_after=self.cut_after, pause=self.pause)


say = Spoken


def send(
    handler: Any, code: int, body: object, content_type: str = "application/json", **headers: str
) -> None:
    """Send one complete answer; bytes are sent as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(code)
    handler.send_header("Content-Type", content_type)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def send_events(handler: Any, events: Sequence[bytes], *, cut_after: int | None, pause: float) -> None:
    """Send server-sent events, in chunks, so that a cut is seen as one."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for event in events[:cut_after]:
        if pause and handler.server.state.released.wait(pause):
            break
        try:
            handler.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        except OSError:
            return
    if cut_after is not None:
        handler.close_connection = True
        return
    handler.wfile.write(b"0\r\n\r\n")


def status(code: int, body: object = b"", **headers: str) -> Answer:
    """Answer with a status; `Retry_After="2"` sets a header."""
    return lambda handler, _: send(handler, code, body, **headers)


def refuse(code: int, message: str, kind: str = "invalid_request_error", **headers: str) -> Answer:
    """Answer with a status and an error in the format of the request."""

    def answer(handler: Any, request: Request) -> None:
        error = {"type": kind, "message": message}
        body = {"type": "error", "error": error} if request.anthropic else {"error": error | {"code": kind}}
        send(handler, code, body, **headers)

    return answer


def raw(body: bytes, content_type: str = "application/json") -> Answer:
    """Answer 200 with these bytes."""
    return lambda handler, _: send(handler, 200, body, content_type)


def stream_of(*events: bytes) -> Answer:
    """Answer 200 with these events and end well."""
    return lambda handler, _: send_events(handler, events, cut_after=None, pause=0.0)


def hang(handler: Any, request: Request) -> None:
    """Say nothing until the server ends."""
    handler.server.state.released.wait(20)
    handler.close_connection = True


def drip(handler: Any, request: Request) -> None:
    """Send the body a byte at a time, so that no single read takes long and the whole never ends."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream" if request.stream else "application/json")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.close_connection = True
    while not handler.server.state.released.wait(0.05):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return


def cut(handler: Any, request: Request) -> None:
    """Close the connection in the middle of the body."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def no_answer(handler: Any, request: Request) -> None:
    """Close the connection without a word."""
    handler.close_connection = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        state: Server = self.server.state  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        if self.path.endswith("/embeddings"):
            with state.lock:
                state.embedding_requests.append(request)
            send(self, 200, _embedded(request))
            return
        state.next_answer(request)(self, request)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def _embedded(request: Request) -> dict[str, Any]:
    texts = request.json["input"]
    texts = [texts] if isinstance(texts, str) else list(texts)
    vectors = lexical_vectors(texts, dimension=int(request.json.get("dimensions", 64)))
    data = [{"object": "embedding", "index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)]
    return {"object": "list", "data": data, "model": request.json.get("model", "")}


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up, which is what many tests make them do."""


@contextmanager
def provider_server(script: Script = ()) -> Iterator[Server]:
    """Run a server on a free loopback port.

    Args:
        script: the answers in order, or a function from request to answer.
    """
    state = Server(script)
    server = _HttpServer(("127.0.0.1", 0), _Handler)
    server.state = state  # type: ignore[attr-defined]
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
