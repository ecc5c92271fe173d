"""Scopes: whatever is done through one view, no other scope's rows are seen, counted or changed. On every backend."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from agenthood.errors import ConfigError
from agenthood.learning.labels import labels
from agenthood.scope import Scope
from agenthood.stores.base import LEXICAL_DIMENSION, SCOPE_FIELDS
from agenthood.stores.filters import AllOf, AnyOf, AtLeast, Equals, Not, OneOf, StartsWith, matches, where
from agenthood.stores.scoped import ScopedStore, scoped
from stores.backends import ON_SERVERS, SHARED, TYPED, WHOLE, everything, fields, full, record, unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agenthood.stores.base import Collection, Record, VectorStore
    from agenthood.stores.filters import Filter
    from stores.backends import Backend

NAMES = (
    "a",
    "A",
    "b",
    "a/b",
    "b/c",
    "c",
    "a%2Fb",
    "%",
    "_",
    "it's",
    "北京",
    "a\n",
    "é",
    "e\u0301",
    "x" * 200,
)
IDS = (
    "x",
    "X",
    "x/y",
    "/x",
    "a/b//x",
    "a%2Fb/c//x",
    "ltm:learnings/v1:k",
    "ep:1-abcdef",
    "pattern:v1:k",
    "\U0010ffff",
)
LABELS = ("record_type", "tier", "salience")

scopes = st.builds(
    Scope, st.sampled_from(NAMES), st.sampled_from(("", *NAMES)), st.sampled_from(("", *NAMES))
)
some_ids = st.lists(st.sampled_from(IDS), min_size=1, max_size=5, unique=True)
operations = st.tuples(
    st.sampled_from(("upsert", "upsert", "upsert", "delete", "purge", "drop")),
    st.integers(0, 3),
    st.sampled_from((TYPED, SHARED)),
    some_ids,
    st.integers(0, 9),
)


def row(id_: str, number: int, collection: Collection) -> Record:
    """A record that says which writing it is from."""
    changes: dict[str, Any] = {"vector": unit(number + 1)} if number % 4 else {}
    if collection.typed:
        changes |= {"lexical": unit(number, LEXICAL_DIMENSION), "terms": f"all word{number % 3}"}
    metadata = {"type": "t", "kind": ("learned", "antipattern")[number % 2], "n": number}
    return record(id_, f"{id_} {number}", metadata=metadata, **changes)


def told(records: Iterable[Record]) -> list[tuple[object, ...]]:
    """Records as something that `==` compares, the order of their metadata included."""
    return sorted(((*fields(one), list(one.metadata)) for one in records), key=repr)


@dataclass
class World:
    """A store, views of it, and what each should show."""

    store: VectorStore
    scopes: Sequence[Scope]
    rows: dict[tuple[Scope, str], dict[str, Record]] = field(default_factory=lambda: defaultdict(dict))

    def view(self, scope: Scope) -> ScopedStore:
        """The store as `scope` sees it."""
        return ScopedStore(self.store, scope, labels=labels)

    async def raw(self, *, but: Scope | None = None) -> list[tuple[object, ...]]:
        """Every row as it is stored, but those of the scope `but`."""
        found = []
        for collection in (TYPED, SHARED):
            found += await everything(self.store, scoped(collection))
        return told(one for one in found if but is None or not one.id.startswith(but.prefix))

    async def clear(self) -> None:
        """Remove what an earlier example left."""
        for collection in map(scoped, (TYPED, SHARED)):
            await self.store.ensure_collection(collection)
            await self.store.delete(collection, sorted(await self.store.ids(collection)))

    async def do(self, what: str, scope: Scope, collection: Collection, ids: list[str], number: int) -> None:
        """Do one thing through the view of `scope`, in the store and in the model."""
        view, mine = self.view(scope), self.rows[scope, collection.name]
        others = await self.raw(but=scope)
        if what == "upsert":
            new = [row(id_, number, collection) for id_ in ids]
            assert (await view.upsert(collection, new)).written == len(new)
            mine |= {one.id: one for one in new}
        elif what == "drop":
            await view.drop_collection(collection.name)
            mine.clear()
        else:
            gone = [id_ for id_ in ids if mine.pop(id_, None)]
            assert await getattr(view, what)(collection, ids) == len(gone)
        assert await self.raw(but=scope) == others
        assert await view.ids(collection) == set(mine)

    async def check(self, scope: Scope, collection: Collection) -> None:
        """Every reader of the view shows the scope's records and nothing else."""
        view, mine = self.view(scope), self.rows[scope, collection.name]
        assert told((await view.get(collection, IDS, vectors=True)).values()) == told(mine.values())
        for condition in CONDITIONS:
            chosen = [one for one in mine.values() if condition is None or matches(one, condition)]
            ids = {one.id for one in chosen}
            with_vector = {one.id for one in chosen if one.vector is not None}
            assert await view.ids(collection, condition=condition) == ids, condition
            assert await view.count(collection, condition) == len(ids), condition
            assert told(await everything(view, collection, condition)) == told(chosen), condition
            matrix = await view.matrix(collection, condition=condition)
            assert sorted(matrix.ids) == sorted(with_vector), condition
            (hits,) = await view.query(collection, unit(1)[None], condition=condition, limit=50)
            assert {hit.record.id for hit in hits} == with_vector, condition
            assert told(hit.record for hit in hits) == told(mine[id_] for id_ in with_vector), condition
            if collection.typed:
                held = {one.id for one in chosen if "word1" in (one.terms or "")}
                found = await view.search_terms(collection, ["word1"], condition=condition)
                assert {one.id for one in found} == held, condition
        detail = (await view.health()).detail
        assert detail[collection.name]["rows"] == len(mine)


CONDITIONS: tuple[Filter | None, ...] = (
    None,
    Equals("id", "x"),
    OneOf("id", ("x", "a/b//x", "nobody")),
    AnyOf((StartsWith("id", "a"), AtLeast("id", "x/"))),
    AllOf((where(kind="learned"), Not(Equals("id", "x")))),
    Not(AnyOf((where(tenant_id="a"), Not(StartsWith("id", ""))))),
)


@pytest.mark.parametrize("backend", WHOLE, indirect=True)
def test_a_view_is_a_store_of_its_own(backend: Backend):
    """Interleaved writes through different views: each shows a model's records, every other row stays byte for byte."""
    with asyncio.Runner() as runner:
        store = backend.open()

        @settings(
            max_examples=5, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
        )
        @example(
            [Scope("a", "b/c"), Scope("a/b", "c"), Scope("a", "b", "c"), Scope("a", "", "b")],
            [("upsert", n, collection, list(IDS), n) for n in range(4) for collection in (TYPED, SHARED)]
            + [("purge", 0, TYPED, ["x"], 0), ("drop", 1, TYPED, ["x"], 0), ("delete", 3, SHARED, ["x"], 0)],
        )
        @given(
            st.lists(scopes, min_size=2, max_size=4, unique=True),
            st.lists(operations, min_size=3, max_size=10),
        )
        def run(chosen: list[Scope], steps: list[tuple[Any, ...]]) -> None:
            runner.run(_played(World(store, chosen), steps))

        try:
            run()
        finally:
            runner.run(store.close())


async def _played(world: World, steps: list[tuple[Any, ...]]) -> None:
    await world.clear()
    for what, number, collection, ids, content in steps:
        await world.do(what, world.scopes[number % len(world.scopes)], collection, ids, content)
    for scope in world.scopes:
        for collection in (TYPED, SHARED):
            await world.check(scope, collection)
    for collection in (TYPED, SHARED):
        for one in await everything(world.store, scoped(collection)):
            assert set(SCOPE_FIELDS + LABELS) <= set(one.metadata), one.metadata


@example(Scope("a/b", "c"), Scope("a", "b/c"), "x", "x")
@example(Scope("a", "b"), Scope("a", "b", "c"), "c/x", "x")
@given(scopes, scopes, st.sampled_from(IDS), st.sampled_from(IDS))
def test_no_two_scopes_share_an_id(one: Scope, other: Scope, this: str, that: str):
    """Ids of different scopes differ, whatever is in their names, and are told apart by their prefixes."""
    if one != other:
        assert one.prefix + this != other.prefix + that
        assert not (one.prefix + this).startswith(other.prefix)


@pytest.mark.parametrize("name", ["tenant", "project", "agent"])
@pytest.mark.parametrize("value", [5, None, b"a", "a\0b", "lone \ud800", "x" * 201, "北" * 67], ids=ascii)
def test_a_name_that_cannot_be_used(name: str, value: Any):
    """What is no text, cannot be stored or is too long for a key is refused by name, with what to do."""
    with pytest.raises(ConfigError, match=f"{name} .* cannot be used: .*(remove|give)"):
        Scope(**{name: value})


def test_no_tenant_is_no_scope():
    """An empty tenant sees nothing, so it is refused; absent it is the local one."""
    with pytest.raises(ConfigError, match="without a tenant sees nothing"):
        Scope("")
    assert Scope() == Scope("local", "", "")


@pytest.mark.parametrize("backend", ["lance"], indirect=True)
async def test_keys_of_the_view_are_its_own(store: VectorStore):
    """What a record says of scopes itself does not count, and metadata of any form never get around the scope."""
    view, other = (ScopedStore(store, Scope(tenant), labels=labels) for tenant in ("a", "b"))
    forged = {"type": "t", "tenant_id": "b", "agent_id": "x", "tier": "short", "record_type": "mine"}
    pairs: Any = [("type", "t"), ("tenant_id", "b")]
    result = await view.upsert(
        SHARED, [record("one", metadata=forged), record("two", metadata=pairs), record("bad", metadata=5)]
    )
    assert (result.written, [one.id for one in result.rejected]) == (2, ["bad"])
    assert await other.ids(SHARED) == set()
    found = await view.get(SHARED, ["one", "two"])
    assert list(found["one"].metadata.items()) == [("type", "t"), ("tier", "short"), ("record_type", "mine")]
    assert found["two"].metadata == {"type": "t"}
    assert await view.count(SHARED, where(tier="short")) == 1
    foreign = record(view.scope.prefix + "three", metadata={"type": "t", **other.scope.fields})
    await store.upsert(scoped(SHARED), [foreign])  # as no view writes it
    assert await view.get(SHARED, ["three"]) == await other.get(SHARED, ["three"]) == {}


@pytest.mark.parametrize("backend", WHOLE, indirect=True)
async def test_health_and_upkeep_tell_nothing_of_others(store: VectorStore):
    """Neither names another tenant nor counts its rows; a table of nobody's scope is none of a view's."""
    mine, others = ScopedStore(store, Scope("me")), ScopedStore(store, Scope("somebody"))
    await store.upsert(replace(SHARED, name="plain"), [record("p")])
    await others.upsert(TYPED, [full(number) for number in range(5)])
    await mine.upsert(TYPED, [full(1)])
    found = [await mine.maintain(TYPED), dict((await mine.health()).detail)]
    assert found[0]["rows"] == found[1][TYPED.name]["rows"] == 1
    assert "somebody" not in str(found)
    indices = [told for one in (found[0], found[1][TYPED.name]) for told in one.get("indices", {}).values()]
    assert not any({"rows", "blocks"} & set(told) for told in indices)
    assert not {"plain", "scoped_patterns"} & set(found[1])
    assert await mine.collections() == (TYPED,)


def test_labels_of_each_kind_of_record():
    """Whatever a row is, it says what; a lesson that cannot be read counts nothing."""
    told = {
        id_: labels(record(id_, "{}"))
        for id_ in ("ep:1-abcdef", "pattern:k", "ltm:notes/x", "ltm:learnings/k")
    }
    assert [one["record_type"] for one in told.values()] == ["episode", "pattern", "state", "lesson"]
    assert [(one["tier"], one["salience"]) for one in told.values()] == [("long", 1.0)] * 3 + [
        ("working", 0.0)
    ]
    lesson = record(
        "ltm:learnings/k", '{"pattern":"learned:m:s:t","mean":0.9,"tier":"short"}', created_at="no time"
    )
    assert labels(lesson) == {"record_type": "lesson", "tier": "short", "salience": pytest.approx(0.45)}
    assert np.isfinite(labels(record("ltm:antipatterns/k", '{"pattern":"x","mean":1e999}'))["salience"])


@pytest.mark.parametrize("backend", [name for name in WHOLE if name in ON_SERVERS], indirect=True)
async def test_writers_of_different_scopes_do_not_wait_for_each_other(store: VectorStore):
    """On a server each scope has a lock of its own, however long its names are; one scope has one lock."""
    one, other = (ScopedStore(store, Scope("北" * 66, "é" * 100, end * 200)) for end in "ab")
    async with one.exclusive():
        # In a context of its own, or it would be part of who holds the lock.
        async def enter(view: ScopedStore) -> bool:
            async with view.exclusive():
                return True

        waiting = [asyncio.create_task(enter(view), context=Context()) for view in (one, other)]
        async with asyncio.timeout(20):
            assert await waiting[1]
        assert not waiting[0].done()
    assert await waiting[0]
