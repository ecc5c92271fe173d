"""Joining the small fragments at the end of a LanceDB table: fewer fragments, the same rows."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import lancedb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenthood.stores.lance.store import LanceStore
from agenthood.stores.lance.tail import FRAGMENT_BITS, join_tail
from stores.backends import SHARED, TYPED, everything, fields, full, record, unit

if TYPE_CHECKING:
    from agenthood.stores.base import Collection

ROW = 1_000.0  # bytes


async def _table(folder: Path, name: str = TYPED.name) -> Any:
    return await (await lancedb.connect_async(folder)).open_table(name)


async def _fragments(table: Any) -> list[int]:
    rows = (await table.query().select(["id"]).with_row_id().to_arrow())["_rowid"].to_pylist()
    return sorted({row >> FRAGMENT_BITS for row in rows})


async def _filled(folder: Path, sizes: list[int]) -> None:
    """A table with one fragment of each of these sizes."""
    table = await _made(folder)
    number = 0
    for size in sizes:
        rows = [full(number + offset) for offset in range(size)]
        number += size
        await table.add(pa.Table.from_pylist([_plain(row) for row in rows], schema=await table.schema()))


def _plain(row: Any) -> dict[str, Any]:
    owner = {name: row.metadata[name] for name in ("kind", "member", "skill")}
    metadata = '{"type":"t","kind":"learned"}'
    return {
        "id": row.id, "vector": row.vector, "content": row.content, "metadata": metadata,
        "created_at": row.created_at, **owner, "terms": row.terms, "lexical": row.lexical,
    }  # fmt: skip


async def _made(folder: Path) -> Any:
    store = LanceStore(folder)
    await store.ensure_collection(TYPED)
    await store.close()
    return await _table(folder)


async def test_only_the_last_small_fragments_are_written_anew(tmp_path: Path):
    """A large fragment before them stays as it is, and so does every row."""
    await _filled(tmp_path, [300, *[1] * 7])
    table, store = await _table(tmp_path), LanceStore(tmp_path)
    before, rows = await _fragments(table), await everything(store, TYPED)
    version = await table.version()
    assert await join_tail(table, ROW) == version + 1
    after = await _fragments(table)
    assert len(before) == 8
    assert len(after) == 2
    assert after[0] == before[0]
    assert sorted(map(fields, await everything(store, TYPED))) == sorted(map(fields, rows))
    (hits,) = await store.query(TYPED, unit(305)[None], limit=1)
    assert [hit.record.id for hit in hits] == [full(305).id]
    assert await join_tail(table, ROW) is None  # nothing is left to do
    await store.close()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=14))
@settings(max_examples=15, deadline=None)
def test_rows_stay_and_fragments_grow_like_a_logarithm(sizes: list[int]):
    """Whatever the sizes, no row is lost, doubled or changed; a fragment is at least twice those after it."""

    async def run(folder: Path) -> None:
        await _filled(folder, sizes)
        table, store = await _table(folder), LanceStore(folder)
        rows = await everything(store, TYPED)
        await join_tail(table, ROW)
        assert sorted(map(fields, await everything(store, TYPED))) == sorted(map(fields, rows))
        assert len(await _fragments(table)) <= len(sizes)
        await store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


async def test_a_cut_fragment_is_left_alone(tmp_path: Path):
    """Where only a part of a fragment is looked at, it is not among those that are joined."""
    await _filled(tmp_path, [20, *[1] * 6])
    table = await _table(tmp_path)
    before = await _fragments(table)
    await join_tail(table, 4_000_000 / 10)  # ten rows are looked at: six of one row, and four of the twenty
    after = await _fragments(table)
    assert after[0] == before[0]
    assert len(after) == 2
    first = f"_rowid < {(after[0] + 1) << FRAGMENT_BITS}"
    assert await table.count_rows(first) == 20


async def test_several_rows_of_an_id_are_not_joined(tmp_path: Path):
    """Another program adds to the shared table without looking: which row is read stays, and what follows is joined."""
    store = LanceStore(tmp_path)
    await store.upsert(SHARED, [record("r1", vector=unit(1))])
    table = await _table(tmp_path, SHARED.name)
    for text in ("first", "second"):
        row = {"id": "r1", "vector": unit(1), "content": text, "metadata": "{}", "created_at": "2030"}
        await table.add(pa.Table.from_pylist([row], schema=await table.schema()))
    for number in range(2, 5):
        await store.upsert(SHARED, [record(f"r{number}", vector=unit(number))])
    await table.checkout_latest()
    before = await _fragments(table)
    assert len(before) == 6
    assert await join_tail(table, ROW) is not None
    after = await _fragments(table)
    assert len(after) == 3
    assert after[:2] == before[:2]
    assert (await store.get(SHARED, ["r1"]))["r1"].content == "second"
    await store.close()


@pytest.mark.parametrize("collection", [SHARED, TYPED], ids=["shared", "typed"])
async def test_joining_changes_no_version_that_is_told(tmp_path: Path, collection: Collection):
    """Upkeep joins the fragments of any table while single rows are written; each write raises the version by one."""
    store = LanceStore(tmp_path)
    versions = []
    for number in range(40):
        row = full(number) if collection.typed else record(f"r{number}", vector=unit(number))
        versions.append((await store.upsert(collection, [row])).version)
        if number % 16 == 15:
            await store._background._joined(collection)
    assert [later - earlier for earlier, later in pairwise(versions)] == [1] * 39
    table = await _table(tmp_path, collection.name)
    assert len(await _fragments(table)) < 16
    assert await store.count(collection) == 40
    await store.close()


async def test_single_writes_leave_few_fragments(tmp_path: Path):
    """Upkeep beside the writes joins them; the version that is told does not change with that."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(number) for number in range(200)])
    versions = []
    for number in range(200, 275):
        result = await store.upsert(TYPED, [full(number)])
        versions.append(result.version)
    assert [later - earlier for earlier, later in pairwise(versions)] == [1] * 74
    await store.close()
    table = await _table(tmp_path)
    assert len(await _fragments(table)) < 40
    again = LanceStore(tmp_path)
    assert await again.ids(TYPED) == {full(number).id for number in range(275)}
    await again.close()


async def test_upkeep_changes_no_version(tmp_path: Path):
    """`maintain` leaves the version as it is, a write raises it by one, and a new table never has an old one's."""
    store = LanceStore(tmp_path)
    for number in range(5):
        await store.upsert(TYPED, [full(number)])
    before = await store.version(TYPED)
    await store.maintain(TYPED)
    assert await store.version(TYPED) == before
    assert before is not None
    assert (await store.upsert(TYPED, [full(6)])).version == before + 1
    await store.drop_collection(TYPED.name)
    await store.upsert(TYPED, [full(1)])
    assert (await store.version(TYPED) or 0) > before + 1
    other = LanceStore(tmp_path)
    last = await store.version(TYPED)
    await other.upsert(TYPED, [full(2)])
    assert await store.version(TYPED) == (last or 0) + 1
    await other.close()
    await store.close()
