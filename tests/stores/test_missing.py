"""What is not there reads as empty, and reading, deleting and tending it makes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from agenthood.stores.base import LEXICAL_DIMENSION, Collection
from agenthood.stores.filters import Equals, where
from stores.backends import SHARED, TYPED, VIEWS, axis, everything, full, record, unit

if TYPE_CHECKING:
    from agenthood.stores.base import Hit, VectorStore
    from stores.backends import Backend

COLLECTIONS = (TYPED, SHARED, Collection("everyones", 8, typed=True, scoped=True))


async def _reads_empty(store: VectorStore, collection: Collection, *others: Collection) -> None:
    """Every reader, and everything that only removes, finds nothing."""
    condition = where(type="t")
    assert await store.find(collection) is None
    assert await store.get(collection, [full(1).id], vectors=True) == {}
    assert await store.query(collection, unit(1)[None], condition=condition) == [[]]
    assert (await store.matrix(collection)).vectors.shape == (0, 8)
    assert await store.search_terms(collection, ["all"]) == []
    assert await everything(store, collection, condition) == []
    assert await store.ids(collection, condition=condition) == set()
    assert await store.count(collection, condition) == 0
    assert await store.delete(collection, [full(1).id]) == 0
    assert await store.purge(collection, [full(1).id]) == 0
    assert (await store.maintain(collection))["rows"] == 0
    await store.drop_collection(collection.name)
    assert await store.collections() == others


@pytest.mark.parametrize("collection", COLLECTIONS, ids=[one.name for one in COLLECTIONS])
async def test_a_missing_collection_reads_as_empty(
    store: VectorStore, backend: Backend, collection: Collection
):
    """Nothing fails, nothing is found, and nothing is made, in a new place and beside another collection."""
    await _reads_empty(store, collection)
    other = Collection("another", 4)
    await store.ensure_collection(other)
    await store.drop_collection(other.name)
    others = (other,) if backend.name in VIEWS else ()
    await _reads_empty(store, collection, *others)
    async with backend.reopened() as again:
        await _reads_empty(again, collection, *others)


async def test_reading_makes_no_file(store: VectorStore, backend: Backend):
    """A place where nothing was ever written stays as it is, whoever reads there."""
    before = sorted(backend.folder.rglob("*"))
    for read in (
        store.find(TYPED),
        store.get(TYPED, ["a"]),
        store.query(TYPED, unit(1)[None]),
        store.matrix(TYPED),
        store.search_terms(TYPED, ["all"]),
        store.ids(TYPED),
        store.count(TYPED),
        store.delete(TYPED, ["a"]),
        everything(store, TYPED),
    ):
        await read
    assert sorted(backend.folder.rglob("*")) == before


async def test_a_deleted_record_is_found_by_nobody(store: VectorStore, backend: Backend):
    """After a delete no reader knows the record, by id, filter, vector, lexical vector or term; its neighbours stay."""
    rows = [full(number) for number in range(30)]
    await store.upsert(TYPED, rows)
    doomed = [row.id for row in rows[::3]]
    assert await store.delete(TYPED, doomed) == 10
    left = {row.id for row in rows} - set(doomed)
    lexical = unit(0, LEXICAL_DIMENSION)[None]

    def ids(hits: list[list[Hit]]) -> set[str]:
        return {hit.record.id for hit in hits[0]}

    async with backend.reopened() as again:
        for opened in (store, again):
            assert await opened.get(TYPED, doomed) == {}
            assert await opened.ids(TYPED) == left
            assert {row.id for row in await everything(opened, TYPED)} == left
            assert await opened.count(TYPED) == 20
            assert await opened.ids(TYPED, condition=Equals("member", "member-0")) == set()
            assert ids(await opened.query(TYPED, unit(0)[None], limit=50)) == left
            assert ids(await opened.query(TYPED, lexical, field="lexical", limit=50)) == left
            for field in ("vector", "lexical"):
                assert set((await opened.matrix(TYPED, field=field)).ids) == left
            assert {row.id for row in await opened.search_terms(TYPED, ["all", "third0"])} == left
            assert await opened.delete(TYPED, doomed) == 0
            assert await opened.purge(TYPED, doomed) == 0


async def test_a_hit_without_vectors_is_otherwise_whole(store: VectorStore, backend: Backend):
    """`with_vectors=False` gives the same hits in the same order; the vectors searched by are left out or given."""
    await store.upsert(TYPED, [*(full(number) for number in range(40)), record("plain", vector=axis(1))])
    queries = np.stack([unit(3), axis(1)])
    async with backend.reopened() as again:
        whole = await again.query(TYPED, queries, limit=7)
        bare = await again.query(TYPED, queries, limit=7, with_vectors=False)

    def told(rows: list[list[Hit]]) -> list[list[tuple[object, ...]]]:
        return [
            [(h.record.id, h.record.content, dict(h.record.metadata), h.record.terms, h.score) for h in row]
            for row in rows
        ]

    assert told(bare) == told(whole)
    assert all(hit.record.vector is not None for row in whole for hit in row)
    assert all(hit.record.lexical is not None for row in whole for hit in row if hit.record.id != "plain")
    assert all(hit.record.lexical is None for row in bare for hit in row)
