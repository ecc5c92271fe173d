"""What a Qdrant server is sent: recorded by a small server that answers as one would."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.errors import ConfigError, StoreError, StoreUnavailableError
from agenthood.stores.base import Collection, Record
from agenthood.stores.filters import where
from agenthood.stores.qdrant.store import QdrantStore
from agenthood.stores.qdrant.writes import MOST_BYTES
from agenthood.stores.settings import StoreSettings
from stores.backends import CREATED, record, unit
from stores.http_servers import Answer, Request, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

SCOPED = Collection("lessons", 8, typed=True, lexical=True, scoped=True)
STORED = "/collections/fleet_lessons"
MISSING, NONE = object(), object()
KEY = "key-that-nobody-may-see"


class Recorder:
    """Answers plausibly, and keeps what it was asked."""

    def __init__(self, version: str = "1.20.0") -> None:
        self.requests: list[Request] = []
        self.version = version
        self.made: dict[str, dict[str, Any]] = {}
        self.indices: dict[str, dict[str, Any]] = {}
        self.points: dict[str, dict[str, Any]] = {}
        self.full_after: int | None = None

    def __call__(self, request: Request) -> Answer:
        """Answer one request."""
        self.requests.append(request)
        if request.path == "/":
            return _json({"title": "qdrant", "version": self.version})
        if len(self.points) == self.full_after and request.body and "points" in request.body:
            return Answer(507, b"no space left")
        result = self._result(request)
        if result is MISSING:
            text = json.dumps({"status": {"error": "Not found: Collection doesn't exist!"}, "time": 0})
            return Answer(404, text.encode(), {"content-type": "application/json"})
        return _json({"result": [] if result is NONE else result, "status": "ok", "time": 0.0})

    def _result(self, request: Request) -> Any:
        name = request.path.split("/")[2] if request.path.count("/") > 1 else ""
        kind = request.method, request.path.removeprefix(f"/collections/{name}")
        done = {"operation_id": 1, "status": "completed"}
        return self._of_collection(name, kind, request.body) or self._of_points(kind, request.body) or done

    def _of_collection(self, name: str, kind: tuple[str, str], body: Any) -> Any:
        match kind:
            case "GET", "/exists":
                return {"exists": name in self.made}
            case "GET", "":
                return self._info(name) if name in self.made else MISSING
            case "PUT", "":
                self.made[name] = body
                return True
            case "PUT", "/index":
                self.indices.setdefault(name, {})[body["field_name"]] = body["field_schema"]
        return None

    def _of_points(self, kind: tuple[str, str], body: Any) -> Any:
        match kind:
            case "PUT", "/points":
                self.points |= {one["id"]: one for one in body["points"]}
            case "POST", "/points/scroll":
                return {"points": [], "next_page_offset": None}
            case "POST", "/points/count":
                return {"count": 0}
            case "POST", "/points/query/batch":
                return [{"points": []} for _ in body["searches"]]
            case "POST", "/points":
                return [self.points[id_] for id_ in body["ids"] if id_ in self.points] or NONE
        return None

    def _info(self, name: str) -> dict[str, Any]:
        made = self.made[name]
        schema = {field: {"data_type": "keyword", "points": 0} for field in self.indices.get(name, {})}
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": 0,
            "indexed_vectors_count": 0,
            "segments_count": 1,
            "payload_schema": schema,
            "config": {
                "params": {"vectors": made.get("vectors") or {}},
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
                "optimizer_config": {
                    "deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
                "metadata": made.get("metadata"),
            },
        }  # fmt: skip

    def sent(self, method: str, path: str) -> list[Request]:
        """The requests of that kind."""
        return [one for one in self.requests if (one.method, one.path) == (method, path)]


def _json(body: Any) -> Answer:
    return Answer(200, json.dumps(body).encode(), {"content-type": "application/json"})


@pytest.fixture
def recorder() -> Recorder:
    """What records."""
    return Recorder()


@pytest.fixture
def url(recorder: Recorder) -> Iterator[str]:
    """The recorder's address."""
    with serving(recorder) as address:
        yield address


def opened(url: str, **changes: Any) -> QdrantStore:
    """A store at `url`."""
    values: dict[str, Any] = {"api_key": KEY, "namespace": "fleet", "timeout": 5} | changes
    return QdrantStore(StoreSettings(backend="qdrant", url=url, **values))


async def test_a_scoped_collection_is_made_for_tenants(recorder: Recorder, url: str):
    """No graph over all, one per tenant, int8 in memory, and an index that knows the tenant."""
    store = opened(url)
    assert await store.ensure_collection(SCOPED) == SCOPED
    await store.close()
    (made,) = recorder.sent("PUT", STORED)
    assert made.body["hnsw_config"] == {"m": 0, "payload_m": 16}
    assert made.body["quantization_config"] == {
        "scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}
    }
    assert {name: one["size"] for name, one in made.body["vectors"].items()} == {"vector": 8, "lexical": 256}
    indices = recorder.indices["fleet_lessons"]
    assert indices["tenant_id"] == {"type": "keyword", "is_tenant": True, "enable_hnsw": True}
    assert {"project", "agent_id", "kind", "member", "skill", "type", "terms", "heads"} <= indices.keys()
    assert [name for name, one in indices.items() if one.get("is_tenant")] == ["tenant_id"]
    assert all(one.query["wait"] == ["true"] for one in recorder.sent("PUT", f"{STORED}/index"))


async def test_a_plain_collection_has_the_usual_graph(recorder: Recorder, url: str):
    """Without tenants nothing is said of the graph, and no field is a tenant's."""
    store = opened(url)
    await store.ensure_collection(Collection("plain", 8))
    await store.close()
    (made,) = recorder.sent("PUT", "/collections/fleet_plain")
    assert "hnsw_config" not in made.body or made.body["hnsw_config"] is None
    assert not any(one.get("is_tenant") for one in recorder.indices["fleet_plain"].values())


async def test_another_process_finds_its_shape(recorder: Recorder, url: str):
    """What a collection is can be told from what the server knows."""
    first, second = opened(url), opened(url)
    await first.ensure_collection(SCOPED)
    assert await second.find(Collection("lessons", 8, typed=True, scoped=True)) == SCOPED
    recorder.requests.clear()
    await second.count(SCOPED)
    assert not recorder.sent("GET", STORED), "it was asked again for what it knows"
    other = opened(url, namespace="fleet_b")
    assert await other.find(SCOPED) is None
    for store in (first, second, other):
        await store.close()


async def test_every_write_waits_and_ids_are_uuids(recorder: Recorder, url: str):
    """Upserts and deletions are acknowledged once they are applied; our ids are in the payload."""
    store = opened(url)
    await store.upsert(SCOPED, [record("ltm:learnings/a'b", vector=unit(1), metadata={"tenant_id": "t1"})])
    await store.delete(SCOPED, ["ltm:learnings/a'b"])
    await store.close()
    (upsert,) = recorder.sent("PUT", f"{STORED}/points")
    (delete,) = recorder.sent("POST", f"{STORED}/points/delete")
    (point,) = upsert.body["points"]
    assert uuid.UUID(point["id"]).version == 5
    assert delete.body["points"] == [point["id"]]
    assert point["payload"]["id"] == "ltm:learnings/a'b"
    assert point["payload"]["tenant_id"] == "t1"
    assert point["payload"]["heads"] == ["ltm:", "ltm:learnings/"]
    assert upsert.query["wait"] == delete.query["wait"] == ["true"]


async def test_a_search_names_its_tenant_and_rescores(recorder: Recorder, url: str):
    """The filter, the exact distances and the oversampling reach the server, for all queries in one request."""
    store = opened(url)
    await store.ensure_collection(SCOPED)
    await store.query(SCOPED, [unit(1), unit(2)], condition=where(tenant_id="t1", kind="learned"), limit=5)
    await store.close()
    (sent,) = recorder.sent("POST", f"{STORED}/points/query/batch")
    searches = sent.body["searches"]
    assert len(searches) == 2
    for one in searches:
        assert one["using"] == "vector"
        assert one["limit"] > 5
        assert one["params"]["quantization"]["rescore"] is True
        assert one["params"]["quantization"]["oversampling"] >= 2
        text = json.dumps(one["filter"])
        assert '{"key": "tenant_id", "match": {"value": "t1"}}' in text
        assert '{"key": "kind", "match": {"value": "learned"}}' in text


async def test_large_batches_are_cut(recorder: Recorder, url: str):
    """No request is near the server's limit, and every record is sent once, in order."""
    store = opened(url)
    rows = [Record(f"r{n}", "x" * 400_000, {"type": "t"}, CREATED) for n in range(40)]
    assert (await store.upsert(SCOPED, rows)).written == 40
    await store.close()
    sent = recorder.sent("PUT", f"{STORED}/points")
    assert len(sent) > 1
    assert max(int(one.headers["content-length"]) for one in sent) <= MOST_BYTES
    assert [p["payload"]["id"] for one in sent for p in one.body["points"]] == [row.id for row in rows]


async def test_a_batch_that_failed_midway_can_be_given_again(recorder: Recorder, url: str):
    """Some of it is written and the error says so of none; the whole given again leaves each record once."""
    store = opened(url)
    rows = [Record(f"r{n}", "x" * 400_000, {"type": "t"}, CREATED) for n in range(12)]
    await store.ensure_collection(SCOPED)
    recorder.full_after = 4
    with pytest.raises(StoreUnavailableError, match="out of disk"):
        await store.upsert(SCOPED, rows)
    assert len(recorder.points) == 4
    recorder.full_after = None
    assert (await store.upsert(SCOPED, rows)).written == 12
    assert sorted(one["payload"]["id"] for one in recorder.points.values()) == sorted(row.id for row in rows)
    await store.close()


async def test_the_key_is_sent_and_never_told(recorder: Recorder, url: str, caplog: pytest.LogCaptureFixture):
    """The key and a password in the address go into headers, and into no log, error, health or repr."""
    caplog.set_level(logging.DEBUG)
    secret = "pass-that-nobody-may-see"
    address = url.replace("http://", f"http://user:{secret}@")
    store = opened(address)
    await store.upsert(SCOPED, [record("a")])
    health = await store.health()
    assert all(one.headers["api-key"] == KEY for one in recorder.requests)
    assert all(one.headers["authorization"].startswith("Basic ") for one in recorder.requests)
    recorder.version = "1.9.0"
    old = opened(address)
    with pytest.raises(StoreError, match=r"1\.9\.0.*upgrade it to 1\.16") as caught:
        await old.ensure_collection(Collection("new", 8))
    told = f"{health!r} {caught.value} {caplog.text} {store!r} {vars(store)!r} {recorder.requests[0].path}"
    for hidden in (KEY, secret, recorder.requests[0].headers["authorization"]):
        assert hidden not in told
    assert url in told
    for one in (store, old):
        await one.close()


async def test_an_empty_condition_asks_for_nothing(recorder: Recorder, url: str):
    """A filter that nothing can match is answered without a request."""
    store = opened(url)
    await store.ensure_collection(SCOPED)
    recorder.requests.clear()
    nothing = where(tenant_id="lone \ud800")
    assert await store.count(SCOPED, nothing) == 0
    assert await store.ids(SCOPED, condition=nothing) == set()
    assert await store.query(SCOPED, unit(1)[None], condition=nothing) == [[]]
    assert [batch async for batch in store.scan(SCOPED, condition=nothing)] == []
    assert recorder.requests == []
    await store.close()


@pytest.mark.parametrize(
    "url", ["host:6333", "ftp://host", "http://", "http://host:port", "postgresql://u:pw@h/d"]
)
def test_an_address_that_is_none_is_refused(url: str):
    """The error says how to write it, and does not quote what may hold a password."""
    with pytest.raises(ConfigError, match="http://host:6333") as caught:
        opened(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("namespace", ["", "a/b", "..", "ü", "x" * 65, "a b"])
def test_a_namespace_that_names_no_collection_is_refused(namespace: str):
    """The error quotes it."""
    with pytest.raises(ConfigError, match=r"store\.namespace"):
        opened("http://127.0.0.1:1", namespace=namespace)
