"""What every backend keeps: upsert, get, scan, count, delete and collections. Asserted on a reopened store."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreError
from agenthood.stores.base import LEXICAL_DIMENSION, Collection
from agenthood.stores.filters import Equals, StartsWith
from agenthood.stores.scoped import ScopedStore
from stores.backends import SHARED, TYPED, VIEWS, everything, fields, full, record, unit

if TYPE_CHECKING:
    from agenthood.stores.base import VectorStore
    from stores.backends import Backend


async def test_a_record_comes_back_as_it_was(store: VectorStore, backend: Backend):
    """Every field of a record survives, with and without vectors, read by id and by scan."""
    rows = [full(1), full(2, vector=None, lexical=None, terms=None), record("bare", metadata={})]
    assert (await store.upsert(TYPED, rows)).written == 3
    async with backend.reopened() as again:
        found = await again.get(TYPED, [row.id for row in rows], vectors=True)
        assert [fields(found[row.id]) for row in rows] == [fields(row) for row in rows]
        assert sorted(map(fields, await everything(again, TYPED))) == sorted(map(fields, rows))


async def test_vectors_are_read_only_when_asked_for(store: VectorStore):
    """`get` and `scan` leave vectors out unless told."""
    await store.upsert(TYPED, [full(1)])
    found = (await store.get(TYPED, [full(1).id]))[full(1).id]
    assert found.vector is None
    assert found.lexical is None
    assert [row.vector async for batch in store.scan(TYPED) for row in batch] == [None]


async def test_metadata_keep_order_and_kinds_of_values(
    store: VectorStore, backend: Backend, collection: Collection
):
    """Flat JSON values come back equal, of the same kind and in the order given."""
    metadata = {"type": "t", "z": 1, "a": 1.5, "none": None, "yes": True, "text": "1", "big": 2**70}
    await store.upsert(collection, [record("r", metadata=metadata)])
    async with backend.reopened() as again:
        found = (await again.get(collection, ["r"]))["r"].metadata
    assert list(found.items()) == list(metadata.items())
    assert list(map(type, found.values())) == list(map(type, metadata.values()))


async def test_upsert_replaces_the_whole_record(store: VectorStore, backend: Backend, collection: Collection):
    """Nothing of the old record shines through: no metadata, no vector, no terms."""
    await store.upsert(collection, [full(1)])
    bare = record(full(1).id, "new", metadata={"type": "other"}, created_at="2020-01-01T00:00:00.000Z")
    await store.upsert(collection, [bare])
    async with backend.reopened() as again:
        assert [fields(row) for row in await everything(again, collection)] == [fields(bare)]
        assert await again.count(collection, Equals("kind", "learned")) == 0
        assert await again.query(collection, unit(1)[None]) == [[]]


async def test_the_last_of_a_batch_wins(store: VectorStore, backend: Backend, collection: Collection):
    """Of several records with one id in a batch the last is kept, new or not."""
    for _ in ("new", "known"):
        result = await store.upsert(
            collection, [record("a", "1"), record("b", "2"), record("a", "3"), record("a", "4")]
        )
        assert result.written == 2
        async with backend.reopened() as again:
            found = await again.get(collection, ["a", "b"])
            assert {id_: row.content for id_, row in found.items()} == {"a": "4", "b": "2"}
            assert await again.count(collection) == 2


async def test_the_same_upsert_twice_changes_nothing(
    store: VectorStore, backend: Backend, collection: Collection
):
    """An upsert is idempotent."""
    rows = [full(number) for number in range(20)]
    await store.upsert(collection, rows)
    async with backend.reopened() as again:
        first = sorted(map(fields, await everything(again, collection)))
        await again.upsert(collection, rows)
    async with backend.reopened() as again:
        assert sorted(map(fields, await everything(again, collection))) == first


async def test_an_empty_upsert_is_fine(store: VectorStore, collection: Collection):
    """No records, no ids, no harm: also on a collection that did not exist."""
    assert (await store.upsert(collection, [])).written == 0
    assert await store.get(collection, []) == {}
    assert await store.delete(collection, []) == 0
    assert await store.purge(collection, []) == 0
    assert await store.count(collection) == 0
    assert await everything(store, collection) == []


async def test_unknown_ids_are_absent(store: VectorStore, collection: Collection):
    """Ids that nobody stored, or could store, are left out by get and count nothing in delete and purge."""
    await store.upsert(collection, [record("known")])
    ids = ["known", "unknown", "", "with\0nul", "lone \ud800", "known'", "Known"]
    assert list(await store.get(collection, ids)) == ["known"]
    assert await store.delete(collection, ids[1:]) == 0
    assert await store.purge(collection, ids[1:]) == 0
    assert await store.delete(collection, ids) == 1


async def test_more_ids_than_one_condition_holds(
    store: VectorStore, backend: Backend, collection: Collection
):
    """Thousands of records are written, read, counted and deleted in one call each."""
    rows = [record(f"row {number}") for number in range(5_000)]
    assert (await store.upsert(collection, rows)).written == 5_000
    async with backend.reopened() as again:
        assert len(await again.get(collection, [row.id for row in rows])) == 5_000
        assert len({row.id for row in await everything(again, collection)}) == 5_000
        assert await again.ids(collection) == {row.id for row in rows}
        assert await again.delete(collection, [row.id for row in rows[:4_500]] * 2) == 4_500
    async with backend.reopened() as again:
        assert await again.ids(collection) == {row.id for row in rows[4_500:]}


async def test_delete_leaves_the_others(store: VectorStore, backend: Backend, collection: Collection):
    """Only the records named go, and a deleted id can be stored again."""
    await store.upsert(collection, [record("a"), record("b"), record("a_"), record("A")])
    assert await store.delete(collection, ["a", "nobody"]) == 1
    async with backend.reopened() as again:
        assert await again.ids(collection) == {"b", "a_", "A"}
        await again.upsert(collection, [record("a", "again")])
    async with backend.reopened() as again:
        assert (await again.get(collection, ["a"]))["a"].content == "again"


async def test_collections_are_listed_and_dropped(store: VectorStore, backend: Backend):
    """A collection is there from its creation to its drop, with what is known of it; dropping twice is fine.

    A view of one scope drops its own records: the tables are everyone's.
    """
    plain = Collection("plain", 4)
    for wanted in (TYPED, plain, SHARED):
        assert await store.ensure_collection(wanted) == wanted
    await store.upsert(TYPED, [full(1)])
    async with backend.reopened() as again:
        assert await again.collections() == (TYPED, plain, SHARED)
        await again.drop_collection(TYPED.name)
        await again.drop_collection(TYPED.name)
    async with backend.reopened() as again:
        kept = (TYPED,) if backend.name in VIEWS else ()
        assert await again.collections() == (*kept, plain, SHARED)
        assert await again.count(TYPED) == 0


async def test_a_dropped_collection_is_empty_for_another_store(store: VectorStore, backend: Backend):
    """A store that had the collection open goes on after another one dropped it."""
    await store.upsert(TYPED, [full(1)])
    async with backend.reopened() as other:
        await other.drop_collection(TYPED.name)
    assert await store.get(TYPED, [full(1).id]) == {}
    assert (await store.upsert(TYPED, [full(2)])).written == 1
    async with backend.reopened() as again:
        assert await again.ids(TYPED) == {full(2).id}


async def test_a_typed_collection_has_one_dimension(store: VectorStore, backend: Backend):
    """Another dimension is refused, by the store that made the collection and by others."""
    other = Collection(TYPED.name, 16, typed=True, lexical=True)
    await store.ensure_collection(TYPED)
    async with backend.reopened() as again:
        for opened in (store, again):
            with pytest.raises(StoreError, match=r"8 dimensions, not 16.*new revision"):
                await opened.ensure_collection(other)


async def test_a_table_made_otherwise_is_refused(store: VectorStore):
    """A typed collection cannot use the columns of an untyped one, nor the other way round."""
    await store.ensure_collection(SHARED)
    with pytest.raises(StoreError, match="other columns"):
        await store.ensure_collection(Collection(SHARED.name, 8, typed=True))


async def test_the_shared_table_keeps_the_dimension_it_was_made_with(store: VectorStore, backend: Backend):
    """Asked for with another dimension it is accepted, and used with its own."""
    made = Collection("vectors", 12)
    await store.ensure_collection(made)
    async with backend.reopened() as again:
        assert await again.ensure_collection(SHARED) == made
        result = await again.upsert(SHARED, [record("12", vector=unit(1, 12)), record("8", vector=unit(1))])
        assert [rejection.id for rejection in result.rejected] == ["8"]
        assert [hit.record.id for hit in (await again.query(SHARED, unit(1, 12)[None]))[0]] == ["12"]


async def test_ensuring_again_keeps_the_records(store: VectorStore, backend: Backend, collection: Collection):
    """`ensure_collection` never empties what is there."""
    await store.upsert(collection, [record("a")])
    async with backend.reopened() as again:
        await again.ensure_collection(collection)
        await again.ensure_collection(collection)
        assert await again.ids(collection) == {"a"}


async def test_another_store_sees_every_change_at_once(store: VectorStore, backend: Backend):
    """Two store objects on the same data never show an old state, whichever method reads."""
    async with backend.reopened() as other:
        for number in range(5):
            await store.upsert(TYPED, [full(number)])
            assert await other.count(TYPED) == number + 1
            assert full(number).id in await other.get(TYPED, [full(number).id])
            assert len((await other.query(TYPED, unit(0)[None]))[0]) == number + 1
            assert [row.id for row in await other.search_terms(TYPED, [f"word{number}"])] == [full(number).id]
            assert len(await everything(other, TYPED)) == number + 1
        await store.delete(TYPED, [full(0).id])
        assert await other.ids(TYPED) == {full(number).id for number in range(1, 5)}


async def test_the_version_tells_of_every_commit(store: VectorStore, backend: Backend):
    """It grows with every commit, whoever makes it, and an upsert gives it; reading leaves it. Or there is none."""
    assert await store.version(TYPED) is None
    await store.upsert(TYPED, [full(1)])
    before = await store.version(TYPED)
    if before is None:
        pytest.skip(f"{backend.name} keeps no version")
    assert len(await everything(store, TYPED)) == await store.count(TYPED) == 1
    assert await store.version(TYPED) == before
    async with backend.reopened() as other:
        for opened in (store, other):
            result = await opened.upsert(TYPED, [full(1), full(2)])
            after = await store.version(TYPED)
            assert after is not None
            assert after > before
            assert result.version in {None, after}
            before = after
        await other.delete(TYPED, [full(1).id])
        assert (await store.version(TYPED) or 0) > before


async def test_closing_twice_is_fine(backend: Backend):
    """A store can be closed twice, unused or used."""
    unused = backend.open()
    await unused.close()
    store = backend.open()
    await store.upsert(TYPED, [full(1)])
    await store.close()
    await store.close()


async def test_health_of_a_working_store(store: VectorStore):
    """A healthy store says so, and how many rows it has."""
    await store.upsert(TYPED, [full(1), full(2)])
    health = await store.health()
    assert health.ok, health.problem
    (told,) = health.collections.values()
    assert told["rows"] == 2


TENANTS = replace(TYPED, name="tenants", scoped=True)


async def test_health_describes_every_collection_alike(store: VectorStore):
    """Where the store is and what it runs on; for each collection its rows, indices and, where shared, tenants."""
    for collection in (TYPED, SHARED):
        await store.upsert(collection, [full(1), full(2)])
    for number, tenant in enumerate(("b", "acme", "acme")):
        whose = {"tenant_id": tenant, "project": "p", "agent_id": ""}
        await store.upsert(TENANTS, [full(number, metadata={"type": "t", **whose})])
    health = await store.health()
    assert health.ok, health.problem
    assert not health.problem
    place = {"path", "address"} & health.detail.keys()
    assert len(place) == 1
    assert re.search(r"\d+\.\d+|^[a-z]+$", health.detail["version"])
    assert health.detail.keys() - health.collections.keys() <= {*place, "version", "row_level_security"}
    assert len(health.collections) == len(await store.collections())
    for name, told in health.collections.items():
        assert type(told["rows"]) is int, name
        assert type(told["unindexed_rows"]) is int
        assert 0 <= told["unindexed_rows"] <= told["rows"]
        assert told["quantization"] is None or isinstance(told["quantization"], str)
        for index in told["indices"].values():
            assert isinstance(index["type"], str)
            assert type(index["unindexed_rows"]) is int
    told = next(told for name, told in health.collections.items() if name.endswith(TENANTS.name))
    if isinstance(store, ScopedStore):
        assert told.get("tenants", {}).keys() <= {store.scope.tenant}
        return
    assert told["tenants"] == {"acme": 2, "b": 1}
    assert list(told["tenants"]) == ["acme", "b"]
    assert told["rows"] == 3
    assert "tenants" not in health.collections[TYPED.name]


async def test_health_makes_nothing(backend: Backend):
    """A store that is not there yet is well, and is not there afterwards either."""
    async with backend.reopened() as store:
        health = await store.health()
        assert health.ok, health.problem
        assert health.collections == {}
        assert await store.collections() == ()
    async with backend.reopened() as again:
        await again.health()
    assert not (backend.folder / "memory.sqlite").exists()


async def test_maintain_reports_and_changes_no_record(store: VectorStore, backend: Backend):
    """Maintenance says how many rows there are and leaves them alone."""
    for number in range(6):
        await store.upsert(TYPED, [full(number)])
    before = sorted(map(fields, await everything(store, TYPED)))
    assert (await store.maintain(TYPED))["rows"] == 6
    async with backend.reopened() as again:
        assert sorted(map(fields, await everything(again, TYPED))) == before
        assert await again.ids(TYPED, condition=StartsWith("id", "row-0000")) == {row[0] for row in before}


async def test_lexical_vectors_stay_where_they_belong(store: VectorStore):
    """A collection without lexical vectors takes records that have one, and drops it."""
    await store.upsert(SHARED, [record("a", lexical=unit(1, LEXICAL_DIMENSION), terms="x")])
    found = (await store.get(SHARED, ["a"], vectors=True))["a"]
    assert found.lexical is None
    assert found.terms is None
