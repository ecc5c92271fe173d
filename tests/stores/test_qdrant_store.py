"""What the Qdrant store adds to the contract: namespaces, tenants, long texts, and what it says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agenthood.errors import StoreError
from agenthood.stores.base import Collection
from agenthood.stores.factory import create_store
from agenthood.stores.filters import AllOf, AtLeast, Equals, Not, OneOf, StartsWith, where
from agenthood.stores.qdrant.payload import DEEPEST_HEAD, LONGEST_KEYWORD
from agenthood.stores.qdrant.store import QdrantStore
from agenthood.stores.settings import StoreSettings
from stores.backends import SHARED, TYPED, full, record, unit
from stores.qdrant_local import NOWHERE, local_client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCOPED = Collection("lessons", 8, typed=True, lexical=True, scoped=True)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., QdrantStore]:
    """A function: opens a store on the database of this test."""

    def make(namespace: str = "a") -> QdrantStore:
        settings = StoreSettings(backend="qdrant", url=NOWHERE, namespace=namespace)
        return QdrantStore(settings, client=local_client(tmp_path))

    return make


async def test_namespaces_do_not_see_each_other(opened: Callable[..., QdrantStore], tmp_path: Path):
    """Not even where one begins with the other, nor beside another program's collections."""
    one, longer = opened("a"), opened("a_b")
    await one.upsert(SHARED, [record("mine")])
    await longer.upsert(SHARED, [record("theirs")])
    await longer.upsert(TYPED, [full(1)])
    await local_client(tmp_path).create_collection("a_other", vectors_config={})
    await one.ensure_collection(Collection("copied", 8))
    await local_client(tmp_path).update_collection(
        "a_copied", metadata={"agenthood": {"name": "original"}}
    )  # as a snapshot restored under another name
    assert await one.collections() == (SHARED,)
    assert await longer.collections() == (TYPED, SHARED)
    assert await one.ids(SHARED) == {"mine"}
    assert await one.find(TYPED) is None
    for name in ("b_vectors", "other", "copied"):  # a name of ours that another namespace or program has
        with pytest.raises(StoreError, match="other columns"):
            await opened("a").upsert(Collection(name, 8), [record("x")])
    await one.drop_collection(SHARED.name)
    assert await longer.ids(SHARED) == {"theirs"}


async def test_a_scoped_collection_keeps_its_shape_and_counts_its_tenants(opened: Callable[..., QdrantStore]):
    """Another store object learns what it is; health says who has how much in it."""
    rows = [
        full(n, metadata={"type": "t", "tenant_id": f"t{n % 3}", "project": "p", "kind": "learned"})
        for n in range(10)
    ]
    await opened().upsert(SCOPED, rows)
    store = opened()
    assert await store.find(SCOPED) == SCOPED
    with pytest.raises(StoreError, match="other columns"):
        await store.find(Collection("lessons", 8, typed=True))
    (hits,) = await store.query(SCOPED, unit(4)[None], condition=where(tenant_id="t1", project="p"))
    assert hits[0].record.id == full(4).id
    assert {hit.record.metadata["tenant_id"] for hit in hits} == {"t1"}
    health = await store.health()
    assert health.ok, health.problem
    assert health.detail["address"] == NOWHERE
    assert health.detail["version"]
    assert health.detail["lessons"]["rows"] == 10
    assert health.detail["lessons"]["tenants"] == {"t0": 4, "t1": 3, "t2": 3}
    told = await store.maintain(SCOPED)
    assert (told["rows"], told["status"], told["optimizer"]) == (10, "green", "ok")
    assert await store.maintain(Collection("none", 8)) == {"rows": 0}


async def test_long_texts_are_compared_in_full(opened: Callable[..., QdrantStore]):
    """Texts too long for an index differ by their last character, in every field."""
    long = "x" * (LONGEST_KEYWORD + 5)
    store = opened()
    rows = [
        record(f"{long}:{end}", long + end, metadata={"type": "t", "kind": long + end, "note": long + end},
               terms=f"{long}{end} short", created_at=long + end)
        for end in "ab"
    ]  # fmt: skip
    await store.upsert(TYPED, rows)
    for field, value in (
        ("id", f"{long}:a"), ("content", long + "a"), ("kind", long + "a"), ("note", long + "a"),
        ("created_at", long + "a"),
    ):  # fmt: skip
        assert await store.ids(TYPED, condition=Equals(field, value)) == {rows[0].id}, field
        assert await store.count(TYPED, Not(OneOf(field, (value, "y")))) == 1, field
    assert await store.count(TYPED, StartsWith("id", f"{long}:")) == 2
    assert await store.count(TYPED, StartsWith("content", long + "b")) == 1
    assert [row.id for row in await store.search_terms(TYPED, [long + "b"])] == [rows[1].id]


async def test_beginnings_deeper_than_the_index(opened: Callable[..., QdrantStore]):
    """Prefixes are exact at any depth, at a separator or not, under `Not` as well."""
    store = opened()
    ids = ["/".join("abcdefghijklm"[: DEEPEST_HEAD + 3]) + end for end in ("", "/", "/x", "x", ":x")]
    await store.upsert(SHARED, [record(id_) for id_ in (*ids, "other")])
    for prefix in {id_[:end] for id_ in ids for end in range(1, len(id_) + 1)}:
        expected = {id_ for id_ in ids if id_.startswith(prefix)}
        assert await store.ids(SHARED, condition=StartsWith("id", prefix)) == expected, prefix
        assert await store.count(SHARED, Not(StartsWith("id", prefix))) == 6 - len(expected), prefix


@pytest.mark.parametrize(
    "since", ["2026-06-03T00:00:00.000Z", "2026-06-03", "2026", "~", "2026-02-30T00:00:00.000Z"]
)
async def test_times_of_any_form_are_in_the_order_of_their_text(
    opened: Callable[..., QdrantStore], since: str
):
    """Times of our form are compared by an index, others by their text: together they are what text says."""
    times = [
        "2026-06-02T23:59:59.999Z", "2026-06-03T00:00:00.000Z", "2026-06-03T00:00:00.001Z", "2026-06-03",
        "2026-06-03T00:00:00Z", "2026-06-03T00:00:00.000+01:00", "1900-01-01T00:00:00.000Z", "soon", "",
        "9999-12-31T23:59:59.999Z", "2026-99-99T00:00:00.000Z", "٢026-06-03T00:00:00.000Z",
    ]  # fmt: skip
    store = opened()
    await store.upsert(SHARED, [record(f"r{n}", created_at=time) for n, time in enumerate(times)])
    expected = {f"r{n}" for n, time in enumerate(times) if time >= since}
    condition = AtLeast("created_at", since)
    assert await store.ids(SHARED, condition=condition) == expected
    assert await store.count(SHARED, Not(condition)) == len(times) - len(expected)
    assert await store.count(SHARED, AllOf((condition, Equals("type", "t")))) == len(expected)


async def test_a_scan_of_a_dropped_collection_ends(opened: Callable[..., QdrantStore]):
    """A reader whose collection is dropped by another process gets no more, and no error."""
    store, other = opened(), opened()
    await store.upsert(SHARED, [record(f"r{n}") for n in range(500)])
    read: list[Any] = []
    async for batch in store.scan(SHARED):
        read += batch
        await other.drop_collection(SHARED.name)
    assert 0 < len(read) < 500
    assert await store.count(SHARED) == 0


def test_the_factory_makes_it(tmp_path: Path):
    """Chosen by its settings, without reaching anything."""
    settings = StoreSettings(backend="qdrant", url="http://127.0.0.1:1", namespace="x")
    assert isinstance(create_store(settings, tmp_path), QdrantStore)
    assert list(tmp_path.iterdir()) == []
