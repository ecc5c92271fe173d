"""Copies from one backend to another hold everything, go on after a kill, and are not believed without a look."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.errors import StoreError
from agenthood.scope import Scope
from agenthood.stores.base import SHARED as REAL_SHARED
from agenthood.stores.base import Collection, UpsertResult
from agenthood.stores.copying import copy_store
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.relocation import Relocation
from agenthood.stores.scoped import ScopedStore, scoped
from agenthood.stores.sqlite.store import SqliteStore
from agenthood.stores.testing import FaultyStore
from stores.backends import SHARED, TYPED, everything, fields, full, record, unit
from stores.hostile import HOSTILE
from stores.postgres_server import postgres_store
from stores.qdrant_local import open_qdrant, remove_qdrant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from agenthood.stores.base import Record, VectorStore
    from conftest import GoldenStore

HOME = Scope("local", "shop")
AGENT, OTHER = Scope(agent="agent 7"), Scope("globex", "it's / 北京", "a")
OUT, BACK = Relocation("to a server", HOME), Relocation("from a server", HOME)
OWN = 50 + len(HOSTILE)
TYPED_ROWS = [full(number) for number in range(40)] + [full(40, vector=None, lexical=None, terms=None)]


async def fill(store: VectorStore) -> None:
    """What a directory may hold: keys and values, mirrored patterns, a table of a space, an agent, another tenant."""
    odd = {"type": "t", "z": 1, "a": 1.5, "none": None, "yes": True, "big": 2**70, "text": "1"}
    shared = [record(f"ltm:{n}", f"{{'{n}': 'naïve 北京 👩‍💻\r\n'}}", metadata=odd) for n in range(30)]
    shared += [
        record(f"pattern:{n}", metadata={"type": "learned_pattern"}, vector=unit(n)) for n in range(20)
    ]
    shared += [record(f"hostile {text}", text, metadata={"type": "t", "text": text}) for text in HOSTILE]
    await store.upsert(SHARED, shared)
    await store.upsert(TYPED, TYPED_ROWS)
    for scope in (AGENT, OTHER):
        one = ScopedStore(store, scope)
        await one.upsert(TYPED, [full(n, content=f"{scope} {n}") for n in range(10)])
        await one.upsert(SHARED, [record(f"ltm:{n}", f"{scope} {n}") for n in range(5)])


async def contents(store: VectorStore) -> dict[str, list[tuple[object, ...]]]:
    """Every field of every record, by collection."""
    found = {}
    for collection in await store.collections():
        rows = await everything(store, collection)
        if rows:
            listed = [(*fields(row), list(row.metadata), *map(type, row.metadata.values())) for row in rows]
            found[collection.name] = sorted(listed, key=repr)
    return found


async def test_all_backends_round_and_back(tmp_path: Path):
    """LanceDB to SQLite to Postgres to Qdrant to LanceDB: the end is the beginning, and no copy found a fault."""
    first, last = LanceStore(tmp_path / "first"), LanceStore(tmp_path / "last")
    await fill(first)
    steps: list[tuple[VectorStore, Relocation | None]] = [
        (SqliteStore(tmp_path / "memory.sqlite"), None),
        (postgres_store(tmp_path), OUT),
        (open_qdrant(tmp_path), None),
        (last, BACK),
    ]
    source: VectorStore = first
    try:
        for target, relocation in steps:
            report = await copy_store(source, target, relocation=relocation)
            assert report.ok, report
            assert not report.changed
            assert sum(layer.written for layer in report.layers) == OWN + 41 + 30
            assert all(layer.source == layer.target and not layer.extra for layer in report.layers)
            source = target
        assert await contents(last) == await contents(first)
    finally:
        for store in (first, *(store for store, _ in steps)):
            await store.close()
        remove_qdrant(tmp_path)


async def test_on_a_server_the_engine_of_the_project_finds_it(tmp_path: Path):
    """The directory's own records are those of its project there, its agents' those of the project's agents."""
    source, target = LanceStore(tmp_path / "memory"), postgres_store(tmp_path)
    await fill(source)
    await copy_store(source, target, relocation=OUT)
    for here, there in (
        (source, HOME),
        (ScopedStore(source, AGENT), Scope("local", "shop", "agent 7")),
        (ScopedStore(source, OTHER), OTHER),
    ):
        seen = ScopedStore(target, there)
        for collection in (SHARED, TYPED):
            expected = sorted(map(fields, await everything(here, collection)), key=repr)
            assert sorted(map(fields, await everything(seen, collection)), key=repr) == expected
    assert [one.name for one in await target.collections() if not one.scoped] == []
    for store in (source, target):
        await store.close()


async def test_a_second_copy_writes_nothing(tmp_path: Path):
    """What is there and identical is left alone; what differs is overwritten; what only the target has stays."""
    source, target = SqliteStore(tmp_path / "a.sqlite"), SqliteStore(tmp_path / "b.sqlite")
    await fill(source)
    await copy_store(source, target)
    counted = FaultyStore(target)
    report = await copy_store(source, counted)
    assert report.ok
    assert "upsert" not in counted.calls
    assert {layer.unchanged for layer in report.layers} == {OWN, 41, 10, 5}
    await target.upsert(TYPED, [full(3, vector=unit(99)), full(4, content="older"), full(900)])
    await target.upsert(Collection("patterns_old", 8, typed=True), [full(1), full(2)])
    report = await copy_store(source, target)
    (typed,) = (layer for layer in report.layers if (layer.collection, layer.scope) == (TYPED.name, ""))
    assert (typed.records, typed.written, typed.replaced, typed.unchanged, typed.extra) == (41, 0, 2, 39, 1)
    assert [(one.collection, one.extra) for one in report.layers if not one.records] == [("patterns_old", 2)]
    assert report.ok
    assert (await target.get(TYPED, [full(900).id])).keys() == {full(900).id}
    await target.delete(TYPED, [full(900).id])
    await target.drop_collection("patterns_old")
    assert await contents(target) == await contents(source)
    await source.close()
    await target.close()


async def test_batches_are_neither_tiny_nor_huge(tmp_path: Path):
    """Rows of many small commits are written in one, large ones in several, so that memory stays bounded."""
    source, target = LanceStore(tmp_path / "memory"), FaultyStore(SqliteStore(tmp_path / "b.sqlite"))
    for number in range(12):
        await source.upsert(TYPED, [full(number)])
    assert (await copy_store(source, target)).ok
    assert target.calls.count("upsert") == 1
    await source.upsert(SHARED, [record(f"large {n}", "x" * 6_000_000) for n in range(5)])
    assert (await copy_store(source, target)).ok
    assert target.calls.count("upsert") == 3
    await source.close()
    await target.close()


async def test_a_killed_copy_goes_on(tmp_path: Path):
    """Killed after its third commit, a copy has that much; the next one writes only the rest."""
    source = LanceStore(tmp_path / "memory")
    rows = [full(number, lexical=None) for number in range(5_500)]
    await source.upsert(TYPED, rows)
    process = await asyncio.create_subprocess_exec(
        sys.executable, Path(__file__).with_name("copy_worker.py"), tmp_path, "3"
    )
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL
    target = SqliteStore(tmp_path / "memory.sqlite")
    there = await target.count(TYPED)
    assert there == 3_000
    steps: list[tuple[int, int]] = []
    report = await copy_store(source, target, on_progress=lambda done, total: steps.append((done, total)))
    (typed,) = report.layers
    assert (typed.written, typed.unchanged, typed.replaced) == (2_500, 3_000, 0)
    assert report.ok
    assert steps[-1] == (11_000, 11_000)
    assert steps == sorted(steps)
    assert await contents(target) == await contents(source)
    await source.close()
    await target.close()


class Lossy(FaultyStore):
    """Says that it wrote everything, and did something else with the record of one id."""

    def __init__(self, inner: VectorStore, id_: str, change: dict[str, Any] | None) -> None:
        super().__init__(inner)
        self.id = id_
        self.change = change

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for one record."""
        kept = [row for row in records if row.id != self.id]
        if self.change is not None:
            kept += [replace(row, **self.change) for row in records if row.id == self.id]
        await self.inner.upsert(collection, kept)
        return UpsertResult(len(records))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "1 of 41 records are missing"),
        ({"content": "something else"}, "1 of 41 records differ"),
        ({"vector": unit(7) * 1.0000002}, "1 of 41 records differ"),
        ({"vector": None}, "1 of 41 records differ"),
        ({"metadata": {"type": "t"}}, "1 of 41 records differ"),
        ({"terms": "other"}, "1 of 41 records differ"),
    ],
    ids=["dropped", "content", "vector", "no vector", "metadata", "terms"],
)
async def test_a_target_that_loses_or_alters_a_record_is_found_out(
    tmp_path: Path, change: dict[str, Any] | None, words: str
):
    """Whatever it said when it was written to; the collection and the record are named."""
    source = SqliteStore(tmp_path / "a.sqlite")
    target = Lossy(SqliteStore(tmp_path / "b.sqlite"), full(7).id, change)
    await source.upsert(TYPED, TYPED_ROWS)
    report = await copy_store(source, target)
    (typed,) = report.layers
    assert not report.ok
    assert not report.changed
    assert typed.collection == TYPED.name
    assert words in typed.problem
    assert repr(full(7).id) in typed.problem
    assert typed.source != typed.target
    await source.close()
    await target.close()


class Written(FaultyStore):
    """Somebody writes to it after it was read for the first time."""

    late: Record | None = None

    async def scan(self, *args: Any, **options: Any) -> AsyncIterator[list[Record]]:
        """See `VectorStore`; the first is followed by a write."""
        async for batch in super().scan(*args, **options):
            yield batch
        if self.late is not None:
            await self.inner.upsert(TYPED, [self.late])
            self.late = None


@pytest.mark.parametrize("late", [full(1, content="newer"), full(77)], ids=["changed", "added"])
async def test_a_source_that_changes_meanwhile_is_noticed(tmp_path: Path, late: Record):
    """The report says so, and the next copy has it."""
    source, target = Written(SqliteStore(tmp_path / "a.sqlite")), SqliteStore(tmp_path / "b.sqlite")
    await source.upsert(TYPED, TYPED_ROWS)
    source.late = late
    report = await copy_store(source, target)
    assert report.changed
    assert not report.ok
    report = await copy_store(source, target)
    assert report.ok
    assert not report.changed
    assert await contents(target) == await contents(source)
    await source.close()
    await target.close()


async def test_what_the_target_refuses_is_named(tmp_path: Path):
    """A vector that does not fit the target's shared table is no copy; the rest of it is there."""
    source, target = SqliteStore(tmp_path / "a.sqlite"), SqliteStore(tmp_path / "b.sqlite")
    await source.upsert(SHARED, [record("fits"), record("too long", vector=unit(1))])
    await target.ensure_collection(REAL_SHARED)
    report = await copy_store(source, target)
    assert not report.ok
    assert [one.id for one in report.rejected] == ["too long"]
    assert report.refused == 1
    assert (await target.get(SHARED, ["fits", "too long"])).keys() == {"fits"}
    await source.close()
    await target.close()


async def test_nothing_is_written_where_two_scopes_would_become_one(tmp_path: Path):
    """The directory's own records and those of a scope with its name."""
    source, target = LanceStore(tmp_path / "memory"), SqliteStore(tmp_path / "b.sqlite")
    await fill(source)
    await ScopedStore(source, HOME).upsert(TYPED, [full(1)])
    with pytest.raises(StoreError, match="directory's own and tenant 'local' project 'shop'"):
        await copy_store(source, target, relocation=OUT)
    assert await target.collections() == ()
    report = await copy_store(source, target, relocation=Relocation("to a server", Scope("local", "other")))
    assert report.ok
    assert await ScopedStore(target, HOME).count(TYPED) == 1
    assert await target.count(scoped(TYPED)) == 41 + 20 + 1
    await source.close()
    await target.close()


async def test_a_store_of_the_typescript_program(golden_store: GoldenStore, tmp_path: Path):
    """Its several rows of one id are copied as the newest, its 1536-dimensional vectors to the last bit."""
    first, last = LanceStore(golden_store("a") / "memory"), LanceStore(tmp_path / "last")
    server = SqliteStore(tmp_path / "memory.sqlite")
    assert (await copy_store(first, server, relocation=OUT)).ok
    assert (await copy_store(server, last, relocation=BACK)).ok
    assert await contents(last) == await contents(first)
    rows = await everything(last, REAL_SHARED)
    assert len(rows) == len({row.id for row in rows}) == 143
    assert any(row.vector is not None for row in rows)
    for store in (first, server, last):
        await store.close()
