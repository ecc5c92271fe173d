"""What is found out about Qdrant's engine, as a process: prints one JSON object; see `test_qdrant_engine.py`.

Usage: qdrant_engine_worker.py filters|lease|recall
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agenthood.stores.base import Collection, Record
from agenthood.stores.filters import Equals, Filter, matches, where
from agenthood.stores.qdrant.lease import LeaseRules
from agenthood.stores.qdrant.store import QdrantStore
from agenthood.stores.settings import StoreSettings
from stores.backends import CREATED, everything, unit
from stores.qdrant_engine import EngineClient
from stores.qdrant_local import NOWHERE
from stores.test_filters import conditions, records

SCOPED = Collection("many", 64, typed=True, scoped=True)
POINTS, DIMENSION, QUERIES, LIMIT = 50_000, 64, 20, 10


def opened(client: EngineClient, **options: Any) -> QdrantStore:
    """A store on the engine."""
    settings_ = StoreSettings(backend="qdrant", url=NOWHERE, timeout=120)
    return QdrantStore(settings_, client=client, **options)


async def filters(client: EngineClient) -> dict[str, Any]:
    """Random filters over random records: what the engine finds beside what `matches` says."""
    cases: list[tuple[list[Record], list[Filter]]] = []

    @settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(
        records.flatmap(
            lambda rows: st.tuples(st.just(rows), st.lists(conditions(rows), min_size=12, max_size=12))
        )
    )
    def collect(case: tuple[list[Record], list[Filter]]) -> None:
        cases.append(case)

    collect()
    store = opened(client)
    wrong: list[str] = []
    asked = found = 0
    for number, (rows, asking) in enumerate(cases):
        collection = Collection(f"c{number % 2}", 8, typed=bool(number % 2))
        await store.delete(collection, list(await store.ids(collection)))
        await store.upsert(collection, rows)
        with_vector = {row.id for row in rows if row.vector is not None}
        for condition in asking:
            expected = {row.id for row in rows if matches(row, condition)}
            (hits,) = await store.query(collection, unit(0)[None], condition=condition, limit=100)
            answers = [
                {row.id for row in await everything(store, collection, condition)} == expected,
                await store.ids(collection, condition=condition) == expected,
                await store.count(collection, condition) == len(expected),
                {hit.record.id for hit in hits} == expected & with_vector,
            ]
            asked, found = asked + 1, found + len(expected)
            if not all(answers):
                wrong.append(f"{answers}: {condition!r}")
    return {"asked": asked, "found": found, "wrong": wrong[:5]}


async def lease(client: EngineClient) -> dict[str, Any]:
    """Tasks of several stores enter one by one; a lease left behind is had after it ran out, not before."""
    rules = LeaseRules(seconds=0.6, wait=10)
    stores = [opened(client, lease=rules) for _ in range(4)]
    inside = most = 0

    async def enter(store: QdrantStore) -> None:
        nonlocal inside, most
        for _ in range(5):
            async with store.exclusive("scope"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.002)
                inside -= 1

    await asyncio.gather(*map(enter, stores))
    await stores[0]._leases.put("scope", "of the dead", 0, None)
    started = time.monotonic()
    async with stores[1].exclusive("scope"):
        waited = time.monotonic() - started
    return {"most": most, "waited": waited, "left": await stores[0]._leases.read("scope")}


async def recall(client: EngineClient) -> dict[str, Any]:
    """Search within small and large tenants of one collection, before and after it was optimized."""
    rng = np.random.default_rng(11)
    centres = rng.standard_normal((400, DIMENSION))
    points = centres[rng.integers(0, 400, POINTS)] + 0.5 * rng.standard_normal((POINTS, DIMENSION))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    vectors = points.astype(np.float32)
    # One in a hundred belongs to each small tenant, and a fifth of all to the large one.
    tenants = np.where(
        rng.random(POINTS) < 0.2, "large", np.char.add("t", (np.arange(POINTS) % 80).astype(str))
    )
    tenants[:: POINTS // 500] = "one percent"
    store = opened(client)
    started = time.monotonic()
    for start in range(0, POINTS, 10_000):
        rows = [
            Record(
                f"r{n}",
                "x",
                {"type": "t", "tenant_id": str(tenants[n]), "kind": "ab"[n // 100 % 2]},
                CREATED,
                vectors[n],
            )
            for n in range(start, start + 10_000)
        ]
        await store.upsert(SCOPED, rows)
    written = time.monotonic() - started
    stored = "agenthood_many"
    client.shard(stored).optimize()
    optimized = time.monotonic() - started - written
    queries = vectors[rng.integers(0, POINTS, QUERIES)] + 0.1 * rng.standard_normal(
        (QUERIES, DIMENSION)
    ).astype("f4")
    found: dict[str, Any] = {}
    for tenant in ("one percent", "large"):
        condition = where(tenant_id=tenant)
        mine = np.flatnonzero(tenants == tenant)
        exact = np.argsort(-(queries @ vectors[mine].T), axis=1, kind="stable")[:, :LIMIT]
        started = time.monotonic()
        answers = await store.query(SCOPED, queries, condition=condition, limit=LIMIT, with_vectors=False)
        spent = time.monotonic() - started
        right = sum(
            len({f"r{mine[k]}" for k in row} & {hit.record.id for hit in hits})
            for row, hits in zip(exact, answers, strict=True)
        )
        foreign = sum(hit.record.metadata["tenant_id"] != tenant for hits in answers for hit in hits)
        found[tenant] = {
            "rows": len(mine),
            "recall": right / (QUERIES * LIMIT),
            "foreign": foreign,
            "milliseconds": 1000 * spent / QUERIES,
        }
    both = where(tenant_id="one percent", kind="a")
    info = client.shard(stored).info()
    return found | {
        "filtered": await store.count(SCOPED, both),
        "expected": int(np.sum((tenants == "one percent") & (np.arange(POINTS) // 100 % 2 == 0))),
        "without": await store.count(SCOPED, Equals("tenant_id", "nobody")),
        "indexed": info.indexed_vectors_count,
        "is_tenant": info.payload_schema["tenant_id"].params.is_tenant,
        "health": (await store.health()).detail["many"]["tenants"].get("one percent"),
        "seconds": [written, optimized],
    }


async def main(command: str) -> None:
    """Run one of them and print what it found."""
    client = EngineClient()
    try:
        found = await {"filters": filters, "lease": lease, "recall": recall}[command](client)
        sys.stdout.write(json.dumps(found))
    finally:
        client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
