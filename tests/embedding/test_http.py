"""The HTTP embedder against a real server that misbehaves."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood.embedding.base import Embedder, unit_rows
from agenthood.embedding.http import HttpEmbedder
from agenthood.embedding.wire import Address, retry_wait
from agenthood.errors import ConfigError, EmbedderUnavailableError, EmbeddingError, EmbeddingResponseError
from embedding.fake_endpoint import (
    DIMENSION,
    Server,
    cut,
    data_of,
    drip,
    encoded,
    hang,
    raw,
    serve,
    shuffled,
    status,
    vectors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-secret-1234567890abcdef"
TEXTS = ["mock the clock", "pin the parser version", "close the cursor"]


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as state:
        yield state


def make(server: Server, **options: Any) -> HttpEmbedder:
    defaults = {"base_url": server.base_url, "api_key": KEY, "dimension": DIMENSION, "backoff": 0.01}
    return HttpEmbedder("some-model", **{**defaults, **options})


def embed(embedder: HttpEmbedder, texts: list[str] = TEXTS, **options: Any) -> np.ndarray:
    async def run() -> np.ndarray:
        try:
            return await embedder.embed(texts, **options)
        finally:
            await embedder.aclose()

    return asyncio.run(run())


def expected(texts: list[str]) -> np.ndarray:
    return unit_rows(vectors(texts), count=len(texts), dimension=DIMENSION)


def test_sends_the_wire_format_and_scales_to_unit_length(server: Server):
    """A plain call posts model, texts and key, and its rows have unit length."""
    embedder = make(server)
    assert isinstance(embedder, Embedder)
    out = embed(embedder)
    assert out.dtype == np.float32
    assert np.allclose(out, expected(TEXTS))
    assert server.requests == [{"model": "some-model", "input": TEXTS, "encoding_format": "float"}]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.paths == ["/v1/embeddings"]


@pytest.mark.parametrize(
    "fault", [shuffled, encoded, data_of(lambda d: [{"embedding": r["embedding"]} for r in d])]
)
def test_accepts_every_known_form_of_a_good_answer(server: Server, fault):
    """Rows out of order, base64 rows and rows without an index all come out in the order of the texts."""
    server.faults = [fault]
    assert np.allclose(embed(make(server)), expected(TEXTS))


def test_batches_keep_their_order_and_the_bound_on_concurrency(server: Server):
    """Many batches at once arrive in order, never more requests at a time than allowed."""
    server.delay = 0.03
    texts = [f"text number {i}" for i in range(40)]
    out = embed(make(server, batch_size=3, concurrency=3), texts)
    assert np.allclose(out, expected(texts))
    assert len(server.requests) == 14
    assert server.most_active == 3


def test_blank_texts_are_not_sent_and_give_zero_rows(server: Server):
    """Endpoints refuse empty strings, so blank texts stay at home."""
    out = embed(make(server), ["", "mock the clock", " \n"])
    assert server.requests[0]["input"] == ["mock the clock"]
    assert out[[0, 2]].any() == np.False_
    assert np.allclose(out[1], expected(["mock the clock"])[0])
    assert embed(make(server), []).shape == (0, DIMENSION)


def test_prefixes_follow_the_role_and_belong_to_the_space(server: Server):
    """E5-like prefixes are sent by role, and change the fingerprint."""
    embedder = make(server, query_prefix="query: ", document_prefix="passage: ")
    assert embedder.space.fingerprint != make(server).space.fingerprint
    embed(embedder, ["a text"], role="query")
    embed(make(server, query_prefix="query: ", document_prefix="passage: "), ["a text"])
    assert [r["input"] for r in server.requests] == [["query: a text"], ["passage: a text"]]


def test_long_texts_are_cut_and_surrogates_replaced(server: Server):
    """What no tokenizer takes is cleaned before it is sent."""
    embed(make(server), ["x" * 9_000, "half \ud83d emoji"])
    assert server.requests[0]["input"] == ["x" * 4_000, "half \ufffd emoji"]
    embed(make(server, document_prefix="passage: "), ["x" * 9_000])
    assert server.requests[1]["input"] == ["passage: " + "x" * 4_000]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (data_of(lambda d: d[:-1]), "3 texts were sent and 2 vectors"),
        (data_of(lambda d: [*d, d[0]]), "3 texts were sent and 4 vectors"),
        (data_of(lambda d: [{**r, "index": 0} for r in d]), "indexes"),
        (data_of(lambda d: [{**r, "index": r["index"] + 1} for r in d]), "indexes"),
        (data_of(lambda d: [{**r, "index": "0"} for r in d]), "indexes"),
        (data_of(lambda d: [{**r, "embedding": r["embedding"][:8]} for r in d]), "8 dimensions"),
        (data_of(lambda d: [{**d[0], "embedding": [1.0]}, *d[1:]]), "lengths differ"),
        (data_of(lambda d: [{**r, "embedding": []} for r in d]), "zero"),
        (data_of(lambda d: [{**r, "embedding": [[1.0]]} for r in d]), "flat"),
        (data_of(lambda d: [{**r, "embedding": ["x"]} for r in d]), "list of numbers"),
        (data_of(lambda d: [{**r, "embedding": "%%%"} for r in d]), "base64"),
        (data_of(lambda d: [{**r, "embedding": [float("nan")] * DIMENSION} for r in d]), "NaN"),
        (data_of(lambda d: [{**r, "embedding": [None, *r["embedding"][1:]]} for r in d]), "NaN"),
        (data_of(lambda d: [{**r, "embedding": [1e308] * DIMENSION} for r in d]), "large"),
        (data_of(lambda _: [1, 2, 3]), "not the JSON"),
        (data_of(lambda _: None), "not the JSON"),
        (raw(b"<html>welcome</html>"), "not the JSON"),
        (raw(b'{"data": ['), "not the JSON"),
        (raw(b"[" * 50_000), "not the JSON"),
        (raw(b"\xff\xfe"), "not the JSON"),
        (status(400, {"error": {"message": "too\nlong"}}), "status 400 too long"),
    ],
)
def test_an_unusable_answer_is_refused_at_once(server: Server, fault, message: str):
    """A wrong answer raises EmbeddingResponseError in one line that names model and address, unrepeated."""
    server.faults = [fault]
    with pytest.raises(EmbeddingResponseError, match=message) as caught:
        embed(make(server))
    assert len(server.requests) == 1
    assert "\n" not in str(caught.value)
    assert "'some-model'" in str(caught.value)
    assert server.base_url in str(caught.value)


@pytest.mark.parametrize(
    "fault", [status(500), status(503, b"busy"), status(408), status(409), status(429), cut]
)
def test_what_may_pass_is_tried_again(server: Server, fault):
    """Two failures that may pass are followed by a good answer."""
    server.faults = [fault, fault]
    assert np.allclose(embed(make(server)), expected(TEXTS))
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", [status(500), status(429), cut])
def test_retries_are_bounded(server: Server, fault):
    """After max_retries further attempts the embedder gives up and says how often it tried."""
    server.faults = [fault] * 9
    with pytest.raises(EmbedderUnavailableError, match="attempt 3 of 3"):
        embed(make(server, max_retries=2))
    assert len(server.requests) == 3


def test_retry_after_is_honoured(server: Server):
    """The server's own pause is kept, though the backoff alone would be shorter."""
    server.faults = [status(429, Retry_After="1")]
    start = time.monotonic()
    embed(make(server))
    assert time.monotonic() - start >= 1.0


def test_a_pause_beyond_the_deadline_fails_now(server: Server):
    """Waiting for longer than the deadline is pointless, so it is not begun."""
    server.faults = [status(429, {"error": {"message": "slow down"}}, Retry_After="3600")]
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailableError, match="status 429 slow down"):
        embed(make(server, deadline=5))
    assert time.monotonic() - start < 2


def test_no_pause_follows_the_last_attempt(server: Server):
    """When no further attempt is allowed the failure is reported at once."""
    server.faults = [status(503, Retry_After="2")]
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailableError, match="attempt 1 of 1"):
        embed(make(server, max_retries=0))
    assert time.monotonic() - start < 1.5


def test_pauses_grow_with_jitter_and_a_cap():
    """Own pauses double and vary; the server may lengthen them to 20 s, in seconds or by date."""
    for attempt, most in ((1, 0.5), (2, 1.0), (3, 2.0)):
        waits = {retry_wait(attempt, backoff=0.5) for _ in range(50)}
        assert len(waits) > 1
        assert all(most / 2 <= wait <= most for wait in waits)
    assert retry_wait(1, backoff=0.5, asked="3") == 3
    assert retry_wait(99, backoff=0.5, asked="Wed, 21 Oct 2099 07:28:00 GMT") == 20
    for nonsense in ("nan", "-5", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "inf and more", ""):
        assert retry_wait(1, backoff=0.5, asked=nonsense) <= 0.5
    assert retry_wait(1, backoff=0, asked="inf") == 20


@pytest.mark.parametrize("fault", [hang, drip])
def test_a_slow_server_cannot_hold_a_call(server: Server, fault):
    """Hanging and dripping servers are left at the deadline."""
    server.faults = [fault] * 9
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailableError, match="no complete answer in time"):
        embed(make(server, timeout=0.3, deadline=0.8))
    assert time.monotonic() - start < 2.5


@pytest.mark.parametrize("fault", [hang, drip])
def test_a_slow_attempt_is_followed_by_a_good_one(server: Server, fault):
    """The timeout is per attempt, so one stuck request does not lose the batch."""
    server.faults = [fault]
    assert np.allclose(embed(make(server, timeout=0.3, deadline=5)), expected(TEXTS))


def test_nobody_listening_is_unavailable_and_says_what_to_do():
    """A refused connection names the address and the next step, for Ollama its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    options: dict[str, Any] = {"base_url": url, "dimension": 8, "max_retries": 1, "backoff": 0.01}
    with pytest.raises(EmbedderUnavailableError, match=r"not reached .*attempt 2 of 2.*base_url"):
        embed(HttpEmbedder("m", **options))
    with pytest.raises(EmbedderUnavailableError, match="ollama serve"):
        embed(HttpEmbedder("m", backend="ollama", **options))


@pytest.mark.parametrize(
    ("code", "body", "options", "message"),
    [
        (
            401,
            {"error": {"message": f"bad key {KEY}"}},
            {"key_variable": "OPENAI_API_KEY"},
            "set OPENAI_API_KEY",
        ),
        (403, b"", {}, "valid api_key"),
        (404, {"error": "model not found"}, {"backend": "ollama"}, "ollama pull some-model"),
        (404, b"nothing here", {}, "nothing here: check the model's name and base_url"),
        (429, {"error": {"code": "insufficient_quota", "message": "pay"}}, {}, "quota"),
        (302, b"", {}, "set base_url"),
    ],
)
def test_refusals_name_the_next_step_and_are_final(server: Server, code: int, body, options, message: str):
    """A refusal that another attempt would not change raises at once, with advice and without the key."""
    server.faults = [status(code, body)] * 3
    with pytest.raises(EmbedderUnavailableError, match=message) as caught:
        embed(make(server, **options))
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "fault",
    [
        status(401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
        status(400, {"error": {"message": f"got header Bearer {KEY}"}}),
        status(500, f"debug: Authorization: Bearer {KEY}, password pa%ss".encode()),
        raw(KEY.encode()),
        cut,
    ],
)
def test_the_key_is_never_shown(server: Server, fault, caplog: pytest.LogCaptureFixture):
    """Neither error, its causes, repr nor any log line at any level holds key or password."""
    caplog.set_level(logging.DEBUG)
    server.faults = [fault] * 9
    url = server.base_url.replace("http://", "http://ada:pa%25ss@")
    embedder = make(server, max_retries=1, base_url=url)
    with pytest.raises(EmbeddingError) as caught:
        embed(embedder)
    shown = [repr(embedder), str(embedder), caplog.text, *(repr(r.__dict__) for r in caplog.records)]
    error: BaseException | None = caught.value
    while error is not None:
        shown += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    assert len(shown) > 4
    for secret in (KEY, "pa%ss", "pa%25ss", "ada:"):
        assert not any(secret in text for text in shown), secret


@pytest.mark.parametrize("key", ["sk-\u00fcmlaut-secret", "sk-secret\nX-Injected: 1"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(server: Server, key: str):
    """Such a key is a ConfigError that does not quote it."""
    with pytest.raises(ConfigError) as caught:
        make(server, api_key=key)
    assert "secret" not in str(caught.value)


def test_an_unknown_dimension_is_found_by_probe(server: Server):
    """Before the probe the space is an error that says so; afterwards it is known."""

    async def run() -> None:
        embedder = make(server, dimension=None)
        with pytest.raises(ConfigError, match="probe"):
            _ = embedder.space
        assert await embedder.probe() == DIMENSION
        assert embedder.space.dimension == DIMENSION
        await embedder.aclose()
        with pytest.raises(EmbedderUnavailableError, match="closed"):
            await embedder.embed(["late"])

    asyncio.run(run())
    assert np.allclose(embed(make(server, dimension=None)), expected(TEXTS))
    assert HttpEmbedder("nomic-embed-text:latest", base_url=server.base_url).space.dimension == 768


def test_dimensions_are_sent_on_request_only(server: Server):
    """`dimensions` is for endpoints that shorten their vectors."""
    embed(make(server, send_dimensions=True))
    assert server.requests[0]["dimensions"] == DIMENSION


def test_one_embedder_serves_several_event_loops(server: Server):
    """Each event loop has its own connections."""
    embedder = make(server)

    async def once(*, last: bool) -> None:
        out = await asyncio.gather(*(embedder.embed([text]) for text in TEXTS))
        assert np.allclose(np.concatenate(out), expected(TEXTS))
        client = next(iter(embedder._client._connections.values()))
        if last:
            await embedder.aclose()
        else:  # what a loop that ends without aclose should have done
            await client.client.aclose()

    asyncio.run(once(last=False))
    asyncio.run(once(last=True))


def test_cancelling_a_call_cancels_its_requests(server: Server):
    """A caller that gives up does not wait for the server."""
    server.faults = [hang] * 9

    async def run() -> None:
        embedder = make(server)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(embedder.embed(TEXTS), 0.2)
        await embedder.aclose()

    start = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"batch_size": 0}, "batch_size"),
        ({"concurrency": 0}, "concurrency"),
        ({"max_retries": -1}, "max_retries"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": None, "send_dimensions": True}, "send_dimensions"),
        ({"base_url": "ftp://host/v1"}, "base_url 'ftp://host/v1'"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"base_url": "http://host:port/v1"}, "base_url"),
    ],
)
def test_options_that_cannot_work_are_refused(server: Server, options, message: str):
    """Each wrong option raises a ConfigError that names it."""
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        make(server, **options)


def test_addresses_are_read_without_their_secrets():
    """User name, password and query are used and never shown."""
    address = Address.parse("https://ada:p%40ss@example.test:8443/openai/v1/?api-version=1")
    assert address.url == "https://example.test:8443/openai/v1/embeddings?api-version=1"
    assert address.shown == "https://example.test:8443/openai/v1"
    assert address.login == ("ada", "p@ss")
    assert not address.local
    assert Address.parse("http://[::1]:11434/v1/embeddings").url == "http://[::1]:11434/v1/embeddings"
    assert Address.parse("http://localhost/v1").local
    assert "p@ss" not in repr(address)
    with pytest.raises(ConfigError) as caught:
        Address.parse("ada:geheim@host/v1?key=geheim")
    assert "geheim" not in str(caught.value)
