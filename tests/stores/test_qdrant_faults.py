"""A Qdrant server that fails, in every way one can: the right error, in time, and nothing left behind."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.errors import StoreError, StoreUnavailableError
from agenthood.stores.base import Collection
from agenthood.stores.qdrant.store import QdrantStore
from agenthood.stores.settings import StoreSettings
from stores.backends import record, unit
from stores.http_servers import Answer, Request, left_behind, serving, threads, unused_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PLAIN = Collection("plain", 8)
DEADLINE = 0.6
"""For what does not answer; all others get so long that a busy machine makes no difference."""
AMPLE = 20.0
KEY = "key-that-nobody-may-see"
JSON = {"content-type": "application/json"}
ERROR = json.dumps({"status": {"error": f"Wrong input: sent with {KEY}"}, "time": 0.0}).encode()

FAULTS: dict[str, tuple[Answer, type[StoreError], str]] = {
    "hangs": (Answer(hang=30), StoreUnavailableError, "no answer within 0.6 s"),
    "drips": (Answer(body=b" " * 100, drip=0.1), StoreUnavailableError, "no answer within 0.6 s"),
    "500": (Answer(500, ERROR, JSON), StoreUnavailableError, "answered 500"),
    "503": (Answer(503, b"", {}), StoreUnavailableError, "answered 503"),
    "400": (Answer(400, ERROR, JSON), StoreError, "answered 400.*Wrong input"),
    "401": (Answer(401, b"Must provide an API key", {}), StoreError, "AGENTHOOD_STORE_API_KEY"),
    "403": (Answer(403, ERROR, JSON), StoreError, "may not do this"),
    "413": (Answer(413, b"", {}), StoreError, "max_request_size_mb"),
    "429": (Answer(429, ERROR, JSON), StoreUnavailableError, "too much at once"),
    "429, later": (Answer(429, ERROR, JSON | {"retry-after": "60"}), StoreUnavailableError, "retry after 60 s"),
    "429, some day": (Answer(429, ERROR, JSON | {"retry-after": "Wed, 21 Oct"}), StoreUnavailableError, "Retry-After"),
    "garbage": (Answer(200, b"\xff\xfe{", JSON), StoreUnavailableError, "no Qdrant server"),
    "html": (Answer(200, b"<html>Welcome</html>", {}), StoreUnavailableError, "no Qdrant server"),
    "other json": (Answer(200, b'{"result": 5}', JSON), StoreUnavailableError, "no Qdrant server"),
    "a list": (Answer(200, b"[1]", JSON), StoreUnavailableError, "no Qdrant server"),
    "no result": (Answer(200, b"{}", JSON), StoreUnavailableError, "no Qdrant server"),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Load the client, which takes a second or more and is no part of any time measured here."""
    importlib.import_module("qdrant_client")


def opened(url: str, timeout: float = AMPLE) -> QdrantStore:
    """A store at `url`."""
    return QdrantStore(StoreSettings(backend="qdrant", url=url, api_key=KEY, timeout=timeout))


async def _scanned(store: QdrantStore) -> list[Any]:
    return [batch async for batch in store.scan(PLAIN)]


CALLS: dict[str, Callable[[QdrantStore], Awaitable[Any]]] = {
    "find": lambda store: store.find(PLAIN),
    "ensure": lambda store: store.ensure_collection(PLAIN),
    "collections": lambda store: store.collections(),
    "upsert": lambda store: store.upsert(PLAIN, [record("a")]),
    "get": lambda store: store.get(PLAIN, ["a"]),
    "query": lambda store: store.query(PLAIN, unit(1)[None]),
    "scan": _scanned,
    "count": lambda store: store.count(PLAIN),
    "delete": lambda store: store.delete(PLAIN, ["a"]),
    "maintain": lambda store: store.maintain(PLAIN),
}


async def refused(store: QdrantStore, call: Callable[[QdrantStore], Awaitable[Any]]) -> StoreError:
    """The error of `call`, which must come within the deadline, beside no task that outlives it."""
    before = asyncio.all_tasks()
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        await call(store)
    assert time.monotonic() - started < DEADLINE + 5  # and what a busy machine adds
    assert asyncio.all_tasks() == before
    return caught.value


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_an_error_that_names_the_address(name: str):
    """Of the right class, in one line, with the next step, without the key the server sent back."""
    answer, kind, text = FAULTS[name]
    before = threads()
    with serving(lambda _: answer) as url:
        store = opened(url, DEADLINE if answer.hang or answer.drip else AMPLE)
        error = await refused(store, CALLS["find"])
        await store.close()
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error
    assert repr(url) in str(error)
    assert "\n" not in str(error)
    assert KEY not in str(error)
    assert left_behind(before) == set()


@pytest.mark.parametrize("name", CALLS)
async def test_every_method_says_that_the_server_is_down(name: str):
    """Refused at once, whatever is asked."""
    store = opened(f"http://127.0.0.1:{unused_port()}")
    error = await refused(store, CALLS[name])
    assert type(error) is StoreUnavailableError
    assert "cannot be reached" in str(error)
    await store.close()


async def test_the_lock_and_health_of_a_server_that_is_down():
    """The lock is an error, health says what is wrong and raises nothing."""
    store = opened(f"http://127.0.0.1:{unused_port()}")
    before = asyncio.all_tasks()
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        async with store.exclusive():
            pytest.fail("it held a lock of nobody")
    health = await store.health()
    assert not health.ok
    assert "cannot be reached" in health.problem
    assert asyncio.all_tasks() == before
    await store.close()


async def test_a_refusal_that_says_when_is_waited_for():
    """429 with Retry-After is tried again within the deadline, and then answered."""
    asked: list[float] = []

    def answer(_: Request) -> Answer:
        asked.append(time.monotonic())
        if len(asked) < 3:
            return Answer(429, ERROR, JSON | {"retry-after": "0" if len(asked) == 1 else "1"})
        return Answer(200, b'{"result":{"collections":[]},"status":"ok","time":0}', JSON)

    with serving(answer) as url:
        store = opened(url)
        assert await store.collections() == ()
        await store.close()
    assert len(asked) == 3
    assert asked[2] - asked[1] >= 1 > asked[1] - asked[0]


async def test_a_cancelled_call_ends_at_once():
    """A caller that gives up does not wait for the server."""
    with serving(lambda _: Answer(hang=30)) as url:
        store = opened(url)
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await store.collections()
        assert time.monotonic() - started < 10
        await store.close()


def test_each_event_loop_has_a_client_of_its_own():
    """A store used by one loop after the other works in both: a client belongs to a loop."""
    body = b'{"result":{"collections":[]},"status":"ok","time":0}'
    with serving(lambda _: Answer(200, body, JSON)) as url:
        store = opened(url)
        for _ in range(2):
            assert asyncio.run(store.collections()) == ()
        asyncio.run(store.close())
