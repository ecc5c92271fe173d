"""What other programs leave in a LanceDB table: several rows under one id, odd cells, columns of their own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import lancedb
import pyarrow as pa
import pytest
from lancedb.index import BTree

from agenthood.formats import INDEX_VERSION_KEY
from agenthood.stores.filters import AllOf, AtLeast, Equals, Not, StartsWith, where
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.lance.writes import MERGE
from stores.backends import CREATED, SHARED, TYPED, axis, everything, full, record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OLD, NEW, NEWEST = (f"2026-06-0{day}T00:00:00.000Z" for day in (1, 2, 3))
SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False),
        pa.field("vector", pa.list_(pa.float32(), 8)),
        pa.field("content", pa.utf8()),
        pa.field("metadata", pa.utf8()),
        pa.field("created_at", pa.utf8()),
    ]
)


def row(id_: str, content: str | None, created: str | None = OLD, **changes: Any) -> dict[str, Any]:
    """A row as another program writes it, without a vector unless given."""
    values = {
        "id": id_,
        "content": content,
        "metadata": '{"type":"t"}',
        "created_at": created,
        "vector": [0.0] * 8,
    }
    return values | changes


def add(folder: Path, *batches: list[dict[str, Any]]) -> None:
    """Add rows past our own code, one commit per batch, making the table as the TypeScript program does."""
    database = lancedb.connect(folder)
    known = "vectors" in database.list_tables().tables
    table = database.open_table("vectors") if known else database.create_table("vectors", schema=SCHEMA)
    for batch in batches:
        table.add(pa.Table.from_pylist(batch, schema=table.schema))


def raw(folder: Path) -> list[dict[str, Any]]:
    """Every row as it is."""
    rows: list[dict[str, Any]] = lancedb.connect(folder).open_table("vectors").to_arrow().to_pylist()
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A LanceDB folder with duplicates: `a` three times, the newest in the middle; `_b_` twice, equally new."""
    path = tmp_path / "memory"
    add(
        path,
        [row("a", "a old", vector=axis(0).tolist()), row("_b_", "b first", NEW), row("xbx", "like b")],
        [row("a", "a newest", NEWEST, metadata='{"type":"u"}', vector=axis(1).tolist()), row("c", "c")],
        [row("a", "a middle", NEW, vector=axis(0).tolist()), row("_b_", "b later", NEW)],
    )
    return path


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[LanceStore]:
    """A store on `folder`."""
    store = LanceStore(folder)
    yield store
    await store.close()


async def test_the_newest_row_of_an_id_is_read(folder: Path):
    """Get and scan give one record per id: the newest, or the one added later; counts count it once."""
    expected = {"a": "a newest", "_b_": "b later", "xbx": "like b", "c": "c"}
    async with opened(folder) as store:
        found = await store.get(SHARED, list(expected))
        assert {id_: found[id_].content for id_ in expected} == expected
        rows = await everything(store, SHARED)
        assert sorted((r.id, r.content) for r in rows) == sorted(expected.items())
        assert await store.count(SHARED) == len(await store.ids(SHARED)) == 4
        assert len(raw(folder)) == 7


async def test_filters_see_only_the_newest_row(folder: Path):
    """A row that a newer one replaces satisfies no filter, and is no hit."""
    cases = [
        (Equals("content", "a old"), set()),
        (Equals("content", "a middle"), set()),
        (StartsWith("content", "b"), {"_b_"}),
        (where(type="u"), {"a"}),
        (where(type="t"), {"_b_", "xbx", "c"}),
        (Not(where(type="u")), {"_b_", "xbx", "c"}),
        (AtLeast("created_at", NEWEST), {"a"}),
        (AllOf((StartsWith("id", "a"), Equals("type", "t"))), set()),
    ]
    async with opened(folder) as store:
        for condition, expected in cases:
            assert await store.ids(SHARED, condition=condition) == expected, condition
            assert await store.count(SHARED, condition) == len(expected)
            assert {r.id for r in await everything(store, SHARED, condition)} == expected
        (hits,) = await store.query(SHARED, axis(0)[None])
        assert [(hit.record.content, round(hit.score, 6)) for hit in hits] == [("a newest", 0.0)]
        assert await store.query(SHARED, axis(0)[None], condition=where(type="t")) == [[]]


async def test_duplicates_added_while_the_store_is_open(folder: Path):
    """Another program's later rows count at once."""
    async with opened(folder) as store:
        assert await store.count(SHARED, Equals("content", "c")) == 1
        add(folder, [row("c", "c newer", NEW)])
        assert await store.count(SHARED, Equals("content", "c")) == 0
        assert (await store.get(SHARED, ["c"]))["c"].content == "c newer"


async def test_upsert_collapses_what_is_there(folder: Path):
    """After an upsert its ids have one row each; other ids keep theirs."""
    async with opened(folder) as store:
        result = await store.upsert(SHARED, [record("a", "mine"), record("new", "new")])
        assert result.written == 2
    rows = [(r["id"], r["content"]) for r in raw(folder)]
    assert sorted(rows) == [
        ("_b_", "b first"), ("_b_", "b later"), ("a", "mine"), ("c", "c"), ("new", "new"), ("xbx", "like b"),
    ]  # fmt: skip


async def test_marker_like_ids_are_no_patterns(tmp_path: Path):
    """Ids with underscores are found and deleted exactly, with all their rows."""
    folder = tmp_path / "memory"
    like = INDEX_VERSION_KEY.replace("_", "x")
    add(folder, [row(INDEX_VERSION_KEY, "1"), row(like, "like")], [row(INDEX_VERSION_KEY, "2", NEW)])
    async with opened(folder) as store:
        assert (await store.get(SHARED, [INDEX_VERSION_KEY]))[INDEX_VERSION_KEY].content == "2"
        assert await store.ids(SHARED, condition=StartsWith("id", "__index")) == {INDEX_VERSION_KEY}
        assert await store.delete(SHARED, [INDEX_VERSION_KEY]) == 1
    assert [r["id"] for r in raw(folder)] == [like]


async def test_purge_keeps_the_newest_of_other_duplicates(folder: Path):
    """Removing one id never brings back an older row of another."""
    async with opened(folder) as store:
        assert await store.purge(SHARED, ["xbx"]) == 1
    async with opened(folder) as store:
        found = await store.get(SHARED, ["a", "_b_", "c"])
        assert {id_: r.content for id_, r in found.items()} == {"a": "a newest", "_b_": "b later", "c": "c"}


async def test_odd_cells_are_read_and_kept(tmp_path: Path):
    """Missing cells read as empty, metadata that is no object as none, and a purge next to them changes nothing."""
    folder = tmp_path / "memory"
    odd = [
        row("null", None, None, metadata=None, vector=None),
        row("text", "x", metadata="no JSON"),
        row("list", "x", metadata="[1]"),
        row("spaced", "x", metadata='{"type": "t", "who": {"a": [1]}}'),
        row("denormal", "x", vector=[1e-40] * 8),
        row("infinite", "x", vector=[float("inf")] * 8),
        row("good", "x", vector=axis(0).tolist()),
        row("gone", "x"),
    ]
    add(folder, odd)
    async with opened(folder) as store:
        found = await store.get(SHARED, [r["id"] for r in odd], vectors=True)
        null = found["null"]
        assert (null.content, null.created_at, null.metadata, null.vector) == ("", "", {}, None)
        assert [found[id_].metadata for id_ in ("text", "list")] == [{}, {}]
        assert await store.ids(SHARED, condition=Not(where(type="t"))) >= {"null", "text", "list"}
        (hits,) = await store.query(SHARED, axis(0)[None], limit=1)
        assert [hit.record.id for hit in hits] == ["good"]
        assert await store.purge(SHARED, ["gone"]) == 1
    kept = {r["id"]: r for r in raw(folder)}
    expected = pa.Table.from_pylist(odd[:-1], schema=SCHEMA).to_pylist()
    assert kept == {r["id"]: r for r in expected}


async def test_columns_of_other_programs_are_left_alone(folder: Path):
    """An upsert, a purge and maintenance work on a table with a further column, and keep its values."""
    table = lancedb.connect(folder).open_table("vectors")
    table.add_columns([pa.field("extra", pa.int64())])
    table.update(where="id = 'xbx'", values={"extra": 7})
    async with opened(folder) as store:
        await store.upsert(SHARED, [record("xbx", "mine"), record("new")])
        assert await store.purge(SHARED, ["c"]) == 1
        await store.maintain(SHARED)
    assert {r["id"]: r["extra"] for r in raw(folder)} == {"a": None, "_b_": None, "xbx": 7, "new": None}


async def test_other_tables_are_none_of_ours(tmp_path: Path):
    """A table with other columns is not listed, and refused as a collection."""
    folder = tmp_path / "memory"
    lancedb.connect(folder).create_table("other", [{"x": 1}])
    async with opened(folder) as store:
        await store.upsert(TYPED, [full(1)])
        assert await store.collections() == (TYPED,)
        assert (await store.health()).ok


@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed ids"])
def test_a_table_made_by_another_program_gets_its_key(tmp_path: Path, indexed: bool):
    """On a table made without a key, with or without an index on the ids, upserts of the same new ids leave one row."""
    folder = tmp_path / "memory"
    add(folder, [row("old", "x", CREATED)])
    if indexed:
        lancedb.connect(folder).open_table("vectors").create_index("id", config=BTree())
    together = threading.Barrier(4)

    async def write() -> None:
        async with opened(folder) as store:
            await store.ensure_collection(SHARED)
            for number in range(12):
                together.wait()  # threads of their own, so that nobody waits for whom they hold up
                await store.upsert(SHARED, [record(f"new {number}")])

    threads = [threading.Thread(target=lambda: asyncio.run(write())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r["id"] for r in raw(folder)) == sorted(["old", *(f"new {number}" for number in range(12))])


async def test_a_collection_whose_making_was_cut_short_is_completed(tmp_path: Path):
    """A typed table left without its indices by a kill gets them when it is opened next."""
    folder = tmp_path / "memory"
    async with opened(folder) as store:
        await store.upsert(TYPED, [full(1)])
    table = lancedb.connect(folder).open_table(TYPED.name)
    for index in table.list_indices():
        table.drop_index(index.name)
    async with opened(folder) as store:
        assert [row.id for row in await store.search_terms(TYPED, ["word1"])] == [full(1).id]
        assert await store.ids(TYPED, condition=Equals("kind", "learned")) == {full(1).id}


async def test_a_merge_says_what_lancedbs_own_builder_says(tmp_path: Path):
    """Another LanceDB may know more of it than is handed on past that builder."""
    store = LanceStore(tmp_path)
    await store.ensure_collection(TYPED)
    await store.close()
    table = await (await lancedb.connect_async(tmp_path)).open_table(TYPED.name)
    builder = table.merge_insert("id").when_matched_update_all().use_index(False)
    known = {name.removeprefix("_"): value for name, value in vars(builder).items() if name != "_table"}
    assert known == MERGE
