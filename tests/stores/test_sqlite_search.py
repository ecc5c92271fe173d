"""How the SQLite backend searches: both its ways give the same hits, whatever was written, moved and removed before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.stores.base import Collection
from agenthood.stores.filters import AllOf, Equals, Not, OneOf, StartsWith, matches, where
from agenthood.stores.sqlite import schema
from agenthood.stores.sqlite.connection import open_connection
from agenthood.stores.sqlite.errors import Trouble
from agenthood.stores.sqlite.rows import words
from agenthood.stores.sqlite.search import Asked, Best, Search
from agenthood.stores.sqlite.store import SqliteStore
from agenthood.stores.sqlite.worker import Job
from stores.backends import TYPED, everything, fields, full, record, unit
from stores.hostile import texts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agenthood.stores.base import Hit, Record
    from agenthood.stores.filters import Filter

MANY = Collection("many", 24, typed=True, scoped=True)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store."""
    opened = SqliteStore(tmp_path / "memory.sqlite")
    yield opened
    await opened.close()


def owned(number: int, **changes: Any) -> Record:
    """A record of one of three tenants, one of them with few; two in three are of the kind `learned`."""
    metadata = {
        "type": "t",
        "kind": "learned" if number % 3 else "antipattern",
        "member": f"a-member-with-a-long-name-{number % 5}",
        "tenant_id": "few" if number % 50 == 0 else f"tenant{number % 2}",
        "note": f"n{number % 7}",
    }
    values: dict[str, Any] = {"metadata": metadata, "vector": unit(number, MANY.dimension)} | changes
    return record(f"r{number:05d}", **values)


def told(hits: list[Hit]) -> list[tuple[str, float]]:
    """Ids and scores, as far as the order of additions does not show."""
    return [(hit.record.id, round(hit.score, 12)) for hit in hits]


CONDITIONS: tuple[Filter | None, ...] = (
    None,
    where(tenant_id="few"),
    where(tenant_id="tenant1", kind="learned"),
    where(kind="learned", member="a-member-with-a-long-name-3"),
    AllOf((where(tenant_id="tenant1"), where(tenant_id="few"))),
    AllOf((where(tenant_id="tenant1"), Not(Equals("kind", "learned")))),
    OneOf("tenant_id", ("few", "tenant0")),
    Equals("note", "n3"),
    Not(Equals("note", "n3")),
    AllOf((StartsWith("id", "r01"), Equals("tenant_id", "tenant0"))),
    where(tenant_id="nobody"),
)


async def test_both_ways_find_the_same(store: SqliteStore):
    """What sqlite-vec finds, by partition and by mark, is what comparing all in NumPy finds."""
    await store.upsert(MANY, [owned(number) for number in range(2_000)])
    moved = {"type": "t", "kind": "learned", "tenant_id": "few"}
    changed = [owned(number, metadata=moved) for number in range(1, 400, 7)]
    changed += [owned(number, vector=unit(number + 9_000, MANY.dimension)) for number in range(3, 400, 9)]
    changed += [owned(number, vector=None) for number in range(5, 400, 11)]
    await store.upsert(MANY, changed)
    await store.delete(MANY, [owned(number).id for number in range(700, 900)])
    now = {row.id: row for row in await everything(store, MANY) if row.vector is not None}

    opened = open_connection(store.path, create=False, wait=lambda _: False, trouble=Trouble())
    assert opened is not None
    tables = schema.find(opened.connection, MANY)
    assert tables is not None
    queries = np.stack([unit(n, MANY.dimension) for n in (4, 1_500, 50_000)])
    used = set()
    for condition in CONDITIONS:
        expected = {id_ for id_, row in now.items() if condition is None or matches(row, condition)}
        for limit in (1, 10, 500):
            search = Search(opened.connection, tables, Asked("vector", condition, limit, True), Job(1.0))
            read = search.exhaustive(queries)
            one_by_one = search.suits_sqlite_vec(1)
            used.add(one_by_one)
            found = [search.nearest(q) if one_by_one else search.exhaustive(q[None])[0] for q in queries]
            for one, other in zip(read, found, strict=True):
                assert told(one) == told(other)
                assert len(one) == min(limit, len(expected)), condition
                assert {hit.record.id for hit in one} <= expected
    assert used == {True, False}
    opened.connection.close()


async def test_more_hits_than_sqlite_vec_gives(store: SqliteStore):
    """Beyond 4,096 hits, and where thousands tie at the cut, the answer is complete and in order."""
    plain = Collection("plain", 4)
    same = np.eye(4, dtype=np.float32)[0]
    rows = [record(f"r{number:05d}", vector=same * (1 + number % 3)) for number in range(5_000)]
    await store.upsert(plain, rows)
    for limit in (3, 4_090, 4_500, 6_000):
        (hits,) = await store.query(plain, same[None], limit=limit, with_vectors=False)
        assert [hit.record.id for hit in hits] == [row.id for row in rows[:limit]]
        assert {round(hit.score, 12) for hit in hits} == {1.0}


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=8), min_size=1, max_size=8),
    st.integers(1, 5),
)
def test_whoever_may_be_among_the_best_is_kept(batches: list[list[int]], limit: int):
    """Scores come in batches; none is dropped that rounding alone may have put below the last of the best."""
    slack, step = 1e-5, 1e-6
    best, number = Best(limit, slack), 0
    every: list[float] = []
    for batch in batches:
        scores = np.array([1 - place * step for place in batch], dtype=np.float32)
        best.add(np.arange(number, number + len(batch)), scores)
        number += len(batch)
        every += scores.tolist()
    last = sorted(every, reverse=True)[:limit][-1]
    needed = {n for n, score in enumerate(every) if score >= last - slack * 0.9}
    assert needed <= set(best.rids().tolist())
    assert len(best.rids()) <= max(limit, sum(score >= last - slack * 1.1 for score in every))


async def test_gaps_are_closed_and_the_file_shrinks(store: SqliteStore):
    """After most of a collection went, maintenance fills blocks anew and gives space back; no answer changes."""
    wide = Collection("wide", 64, typed=True, scoped=True)
    rows = [owned(number, vector=unit(number, 64)) for number in range(3_000)]
    await store.upsert(wide, rows)
    gone = [row.id for number, row in enumerate(rows) if number % 8]
    await store.delete(wide, gone)
    before = (await store.health()).detail["wide"]
    kept = sorted(map(fields, await everything(store, wide)))
    (hits,) = await store.query(wide, unit(8, 64)[None], limit=20)
    report = await store.maintain(wide)
    assert report["refilled"] == ["vector"]
    assert report["vacuumed"]
    assert report["log_emptied"]
    assert report["bytes_after"] < report["bytes_before"] / 2
    assert report["indices"]["vector"]["blocks"] < before["indices"]["vector"]["blocks"] / 2
    assert sorted(map(fields, await everything(store, wide))) == kept
    (again,) = await store.query(wide, unit(8, 64)[None], limit=20)
    assert told(again) == told(hits)
    assert (await store.maintain(wide))["refilled"] == []


async def test_vectors_stay_with_their_records_when_the_file_is_written_anew(store: SqliteStore):
    """Whole blocks that went leave gaps in numbers which a rewritten file might close: each vector is still its own."""
    await store.upsert(TYPED, [full(number) for number in range(2_000)])
    await store.delete(TYPED, [full(number).id for number in range(1_500)])
    await store.purge(TYPED, [full(1_999).id])
    await store.upsert(TYPED, [full(number) for number in range(5_000, 5_100)])
    expected = {full(n).id: full(n) for n in (*range(1_500, 1_999), *range(5_000, 5_100))}
    found = await everything(store, TYPED)
    assert sorted(map(fields, found)) == sorted(map(fields, expected.values()))
    for number in (1_500, 1_800, 5_050):
        (hits,) = await store.query(TYPED, unit(number)[None], limit=1)
        assert told(hits) == [(full(number).id, 1.0)]


async def test_health_counts_tenants(store: SqliteStore):
    """Each tenant of a scoped collection with its rows, versions, and what is indexed."""
    await store.upsert(MANY, [owned(number) for number in range(100)])
    detail = (await store.health()).detail
    assert detail["many"]["tenants"] == {"few": 2, "tenant0": 48, "tenant1": 50}
    assert detail["many"]["rows"] == detail["many"]["indices"]["vector"]["rows"] == 100
    assert "SQLite 3." in detail["version"]
    assert "sqlite-vec v0." in detail["version"]
    assert detail["path"] == str(store.path)


@given(one=texts, other=texts)
def test_words_are_as_different_as_terms(one: str, other: str):
    """No two terms become one word, and a word has only characters that full-text search keeps together."""
    first, second = words([one, other])
    assert (first == second) is (one == other)
    assert all(char in "0123456789abcdefghijklmnopqrstuvwxyz" or ord(char) > 127 for char in first)


async def test_as_many_values_and_parts_as_one_likes(store: SqliteStore):
    """Filters of thousands of values or parts meet none of SQLite's limits."""
    await store.upsert(TYPED, [full(number) for number in range(50)])
    ids = tuple(f"row-{number:05d}" for number in range(40, 40_000))
    notes = tuple(f"member-{number}" for number in range(1, 5_000))
    assert await store.count(TYPED, OneOf("id", ids)) == 10
    assert await store.count(TYPED, OneOf("other", ids)) == 0
    assert await store.count(TYPED, AllOf(tuple(Not(Equals("id", id_)) for id_ in ids[:3_000]))) == 40
    assert await store.count(TYPED, OneOf("member", notes)) == 33
    terms = [f"word{number}" for number in range(30, 20_000)]
    assert len(await store.search_terms(TYPED, terms)) == 20
