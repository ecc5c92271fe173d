"""Postgres at 50,000 rows and 20 tenants: under a filter, and behind the tenants' wall, a search misses nothing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest

from agenthood.stores.base import Collection
from agenthood.stores.filters import where
from agenthood.stores.postgres.search import (
    FEW,
    Asked,
    _through_index,
    indexed_distance,
    statement,
    use_index,
)
from agenthood.stores.postgres.sql import TRUE
from stores.backends import record
from stores.postgres_server import postgres_store, schema_of, shared_url, sql

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.stores.base import Hit, Vector, VectorStore
    from agenthood.stores.filters import Filter
    from agenthood.stores.postgres.tables import OpenTable

ROWS, DIMENSION = 50_000, 16
COLLECTION = Collection("many", DIMENSION, typed=True, scoped=True)
LIMIT = 10


def _tenants() -> np.ndarray:
    """For each row its tenant: one of 1 %, one of half of them all, eighteen of the rest."""
    numbers = np.random.default_rng(1).random(ROWS)
    rest = 2 + (np.arange(ROWS) % 18)
    return np.where(numbers < 0.01, 0, np.where(numbers < 0.51, 1, rest))


def _points(count: int, seed: int) -> Vector:
    """Float32 (count, DIMENSION) around 400 centres, as texts of few subjects are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((400, DIMENSION))
    return (centres[rng.integers(0, 400, count)] + rng.standard_normal((count, DIMENSION)) * 0.7).astype(
        np.float32
    )


TENANTS, VECTORS = _tenants(), _points(ROWS, 2)
KINDS = np.arange(ROWS) % 2
QUERIES = _points(12, 3)


@pytest.fixture(scope="module")
async def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with `ROWS` rows and a finished index; the rows come in past our code, for speed."""
    folder = tmp_path_factory.mktemp("large")
    store = postgres_store(folder)
    await store.ensure_collection(COLLECTION)
    await store.close()
    schema = schema_of(folder)
    table = f'"{schema}".rows_1'
    columns = "id, tenant_id, content, metadata, attributes, created_at, kind, member, vector"
    with (
        psycopg.connect(shared_url(), autocommit=True) as connection,
        connection.cursor().copy(f"copy {table} ({columns}) from stdin") as copy,
    ):
        for number in range(ROWS):
            tenant, kind = f"t{TENANTS[number]}", "ab"[KINDS[number]]
            body = f'{{"type":"t","tenant_id":"{tenant}","kind":"{kind}","member":"m{number % 5}"}}'
            vector = "[" + ",".join(map(repr, VECTORS[number].tolist())) + "]"
            copy.write_row((f"r{number:05d}", tenant, "c", body, body, "", kind, f"m{number % 5}", vector))
    store = postgres_store(folder)
    report = await store.maintain(COLLECTION)
    assert (report["rows"], report["indexed"], report["unindexed_rows"]) == (ROWS, ["vector"], 0)
    await store.close()
    return folder


def _brute_force(chosen: np.ndarray, query: Vector) -> list[str]:
    """The ids of the nearest of the chosen rows by exact cosine."""
    numbers = np.flatnonzero(chosen)
    matrix = VECTORS[numbers].astype(np.float64)
    scores = matrix @ query.astype(np.float64) / np.linalg.norm(matrix, axis=1)
    return [f"r{numbers[at]:05d}" for at in np.argsort(-scores, kind="stable")[:LIMIT]]


def _recall(found: list[list[Hit]], chosen: np.ndarray) -> float:
    """Of the nearest ten of each query, how many were found; every query gives ten rows."""
    shares = []
    for query, hits in zip(QUERIES, found, strict=True):
        assert len(hits) == LIMIT
        wanted = set(_brute_force(chosen, query))
        shares.append(len(wanted & {hit.record.id for hit in hits}) / LIMIT)
    return float(np.mean(shares))


def _scans(folder: Path) -> int:
    """How often the index was used so far."""
    ((count,),) = sql(
        "select idx_scan from pg_stat_user_indexes where schemaname = %s and indexrelname = 'rows_1_vector_hnsw'",
        [schema_of(folder)],
    )
    return int(count)


async def _plan(store: VectorStore, condition: Filter | None) -> str:
    """How the server would run the search through the index."""

    async def explained(table: OpenTable) -> str:
        asked = Asked("vector", store._selection(condition, COLLECTION), LIMIT, with_vectors=True)
        order = indexed_distance(COLLECTION, "vector")
        await use_index(table.connection, 28)
        rows = await table.run(
            "explain " + statement(table, asked, order, 28), [list(QUERIES), *asked.condition.parameters]
        )
        return "\n".join(row[0] for row in rows)

    return await store._tables.run("explaining", COLLECTION, explained)


@pytest.mark.parametrize(
    ("tenant", "condition", "least"),
    [
        (None, None, 0.97),
        (None, where(kind="a"), 0.97),
        (None, where(tenant_id="t1"), 0.97),
        ("t1", None, 0.97),
        (None, where(tenant_id="t1", kind="a"), 1.0),
        (None, where(tenant_id="t0"), 1.0),
        (None, where(tenant_id="t5", member="m3"), 1.0),
        ("t0", None, 1.0),
        ("t0", where(kind="b"), 1.0),
        ("t7", where(tenant_id="t7"), 1.0),
    ],
)
async def test_a_search_under_a_filter_finds_what_there_is(
    large: Path, tenant: str | None, condition: Filter | None, least: float
):
    """Ten rows for each query, all of them the tenant's: the nearest, or where many match nearly all of the nearest."""
    chosen = np.ones(ROWS, dtype=bool)
    fields = {part.field: part.value for part in condition.parts} if condition else {}
    if owner := tenant or fields.get("tenant_id"):
        chosen &= np.array([f"t{number}" == owner for number in range(20)])[TENANTS]
    if "kind" in fields:
        chosen &= np.array(["ab"[kind] == fields["kind"] for kind in (0, 1)])[KINDS]
    if "member" in fields:
        chosen &= np.array([f"m{number}" == fields["member"] for number in range(5)])[np.arange(ROWS) % 5]
    store = postgres_store(large, tenant=tenant)
    before = _scans(large)
    found = await store.query(COLLECTION, QUERIES, condition=condition, limit=LIMIT)
    await store.close()
    assert _recall(found, chosen) >= least
    assert (least < 1) == (chosen.sum() > FEW)
    if least < 1:
        assert "_vector_hnsw" in await _plan(store, condition)
        until = time.monotonic() + 5  # the server counts once the connection has ended
        while _scans(large) < before + len(QUERIES):
            assert time.monotonic() < until, "the index was not used"
            await asyncio.sleep(0.05)
    await store.close()


async def test_the_index_alone_answers_where_many_match(large: Path):
    """There the search is not made a second time without it."""
    store = postgres_store(large)

    async def through(table: OpenTable) -> list[list[Hit]] | None:
        return await _through_index(table, QUERIES, Asked("vector", TRUE, LIMIT, with_vectors=False))

    found = await store._tables.run("searching", COLLECTION, through)
    assert found is not None
    assert [len(hits) for hits in found] == [LIMIT] * len(QUERIES)
    await store.close()


async def test_without_the_pieces_rows_are_lost(large: Path):
    """What the search guards against is real: the index alone gives a small tenant almost nothing."""
    store = postgres_store(large, tenant="t0")

    async def alone(table: OpenTable) -> int:
        asked = Asked("vector", TRUE, LIMIT, with_vectors=True)
        await table.connection.script("set local enable_sort = off; set local hnsw.iterative_scan = off")
        order = indexed_distance(COLLECTION, "vector")
        return len(await table.run(statement(table, asked, order, LIMIT), [list(QUERIES)]))

    assert await store._tables.run("searching", COLLECTION, alone) < len(QUERIES) * LIMIT / 2
    await store.close()


async def test_writers_go_on_while_an_index_is_built(tmp_path: Path):
    """The background builds an index once a collection is large; upserts and searches go on meanwhile."""
    store = postgres_store(tmp_path)
    store._indices._from = 2_000
    collection = Collection("growing", DIMENSION)
    rows = [record(f"r{number:05d}", vector=VECTORS[number]) for number in range(3_000)]
    await store.upsert(collection, rows)
    building = asyncio.create_task(store._indices.finish())  # without waiting for a lull
    for number in range(30):
        await store.upsert(collection, [record(f"more {number}", vector=VECTORS[4_000 + number])])
        (hits,) = await store.query(collection, VECTORS[4_000 + number][None], limit=1)
        assert hits[0].record.id == f"more {number}"
    await building
    await store._indices.finish()
    health = await store.health()
    assert health.detail["growing"]["indices"]["vector"] == {"type": "hnsw", "unindexed_rows": 0}
    await store.close()


async def test_an_index_that_was_not_finished_is_built_anew(tmp_path: Path):
    """What a killed process left is found invalid, dropped and made again."""
    store = postgres_store(tmp_path)
    store._indices._from = 50
    collection = Collection("some", DIMENSION)
    store._indices._written[f'"{schema_of(tmp_path)}"."rows_1"'] = 1  # no background this time
    await store.upsert(collection, [record(f"r{number}", vector=VECTORS[number]) for number in range(200)])
    schema = schema_of(tmp_path)
    sql(
        f'create index "rows_1_vector_hnsw" on "{schema}".rows_1 using hnsw ((vector::halfvec({DIMENSION})) '
        "halfvec_cosine_ops)"
    )
    sql(
        f"update pg_index set indisvalid = false where indexrelid = '\"{schema}\".rows_1_vector_hnsw'::regclass"
    )
    before = await store.health()
    assert before.detail["some"]["indices"]["vector"]["type"].startswith("being built")
    assert (await store.maintain(collection))["indexed"] == ["vector"]
    assert (await store.maintain(collection))["indexed"] == []
    assert (await store.health()).detail["some"]["indices"]["vector"]["type"] == "hnsw"
    await store.close()
