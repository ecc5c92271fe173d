"""Scoped collections: many tenants share one, and none is touched by what is done to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreError
from agenthood.stores.base import SCOPE_FIELDS, Collection
from agenthood.stores.filters import AllOf, AnyOf, Equals, Not, OneOf, StartsWith, matches, where
from stores.backends import WHOLE, axis, everything, fields, full, record, unit

if TYPE_CHECKING:
    from agenthood.stores.base import Record, VectorStore
    from agenthood.stores.filters import Filter
    from stores.backends import Backend

pytestmark = pytest.mark.parametrize("backend", WHOLE, indirect=True)

SCOPED = Collection("everyones", 8, typed=True, scoped=True)
PLAIN = Collection("everyones_rows", 8, scoped=True)
TENANTS = ("acme", "globex", "it's", "北京", "a_b", "axb", "")


@pytest.fixture(params=[SCOPED, PLAIN], ids=["typed", "plain"])
def scoped(request: pytest.FixtureRequest) -> Collection:
    """A scoped collection with and without the typed columns."""
    found: Collection = request.param
    return found


def owned(number: int) -> Record:
    """A record of one of `TENANTS`, or of none, in one of two projects, of one of three agents, or of none."""
    metadata = {"type": "t", "kind": ("learned", "antipattern")[number % 2], "member": f"m{number % 5}"}
    scope = {
        "tenant_id": (*TENANTS, None)[number % 8],
        "project": f"p{number // 8 % 2}",
        "agent_id": (None, "a1", "a2")[number // 16 % 3],
    }
    known = {key: value for key, value in scope.items() if value is not None}
    return full(number, metadata=metadata | known, lexical=None)


ROWS = [owned(number) for number in range(120)]


CONDITIONS: tuple[Filter, ...] = (
    *(where(tenant_id=tenant) for tenant in TENANTS),
    where(tenant_id="nobody"),
    where(tenant_id="acme", project="p1"),
    where(tenant_id="acme", project="p1", agent_id="a2", kind="learned"),
    AnyOf((where(tenant_id="acme"), where(tenant_id="globex", project="p0"))),
    AllOf((where(tenant_id="acme"), where(tenant_id="globex"))),
    AllOf((where(tenant_id="acme"), Not(Equals("agent_id", "a1")))),
    AllOf((where(tenant_id="acme"), OneOf("agent_id", ("a1", "a2")), StartsWith("id", "row-0000"))),
    OneOf("tenant_id", ("acme", "globex", "a_b")),
    Not(Equals("tenant_id", "acme")),
    Not(OneOf("project", ("p0",))),
)


async def test_a_filter_on_the_scope_is_brute_force(store: VectorStore, backend: Backend, scoped: Collection):
    """Every reader gives exactly the records of the scope that is asked for, also beside other filters."""
    await store.upsert(scoped, ROWS)
    async with backend.reopened() as again:
        for condition in CONDITIONS:
            expected = {row.id for row in ROWS if matches(row, condition)}
            assert await again.ids(scoped, condition=condition) == expected, condition
            assert await again.count(scoped, condition) == len(expected), condition
            assert {row.id for row in await everything(again, scoped, condition)} == expected, condition
            assert set((await again.matrix(scoped, condition=condition)).ids) == expected, condition
            (hits,) = await again.query(scoped, unit(5)[None], condition=condition, limit=200)
            assert {hit.record.id for hit in hits} == expected, condition
            (few,) = await again.query(scoped, unit(5)[None], condition=condition, limit=3)
            assert [hit.record.id for hit in few] == [hit.record.id for hit in hits[:3]], condition
            if scoped.typed:
                rows = await again.search_terms(scoped, ["all"], condition=condition)
                assert {row.id for row in rows} == expected, condition


@pytest.mark.parametrize("how", ["delete", "purge"])
async def test_what_one_tenant_deletes_is_nobody_elses(
    store: VectorStore, backend: Backend, scoped: Collection, how: str
):
    """After deleting all of one tenant every other tenant's records are as they were, each field of them."""
    await store.upsert(scoped, ROWS)
    before = sorted(map(fields, await everything(store, scoped, Not(Equals("tenant_id", "acme")))))
    doomed = await store.ids(scoped, condition=where(tenant_id="acme"))
    assert await getattr(store, how)(scoped, sorted(doomed)) == len(doomed) == 15
    async with backend.reopened() as again:
        assert await everything(again, scoped, where(tenant_id="acme")) == []
        assert sorted(map(fields, await everything(again, scoped))) == before
        for number, tenant in enumerate(TENANTS[1:], start=1):
            rows = await everything(again, scoped, where(tenant_id=tenant))
            assert {row.id for row in rows} == {row.id for row in ROWS[number::8]}


async def test_a_record_moves_to_another_tenant(store: VectorStore, backend: Backend, scoped: Collection):
    """Upserted with another scope a record is found there and no longer where it was."""
    await store.upsert(scoped, ROWS)
    moved = record(ROWS[0].id, metadata={"type": "t", "tenant_id": "globex"}, vector=axis(0))
    await store.upsert(scoped, [moved])
    async with backend.reopened() as again:
        for tenant, there in (("acme", False), ("globex", True)):
            condition = where(tenant_id=tenant)
            (hits,) = await again.query(scoped, axis(0)[None], condition=condition, limit=200)
            assert (moved.id in {hit.record.id for hit in hits}) is there
            assert (moved.id in await again.ids(scoped, condition=condition)) is there
        assert (hits[0].record.id, hits[0].score) == (moved.id, 1.0)


async def test_a_scoped_collection_keeps_its_shape(store: VectorStore, backend: Backend):
    """It is listed as scoped, has the scope's columns, and one without them cannot serve instead."""
    await store.ensure_collection(SCOPED)
    async with backend.reopened() as again:
        assert await again.collections() == (SCOPED,)
        assert await again.find(SCOPED) == SCOPED
        assert set(SCOPE_FIELDS) <= set(SCOPED.columns)
        with pytest.raises(StoreError, match="other columns"):
            await again.ensure_collection(Collection(SCOPED.name, 8, typed=True))
