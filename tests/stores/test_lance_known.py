"""What a LanceDB store knows without reading is what reading would say, whoever wrote in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import lancedb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenthood.errors import StoreError
from agenthood.stores.lance import known, reads
from agenthood.stores.lance.store import LanceStore
from stores.backends import SHARED, TYPED, fields, full, record, unit

if TYPE_CHECKING:
    from agenthood.stores.base import Collection, Record

NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True)
MANY = st.integers(0, 3).map(lambda start: list(range(start, start + 220)))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("get"), NUMBERS),
        st.tuples(st.just("get"), NUMBERS),
        st.tuples(st.sampled_from(["get", "mine beside a get"]), MANY),
        st.tuples(st.sampled_from(["mine", "theirs"]), NUMBERS | MANY),
        st.tuples(st.sampled_from(["mine", "mine", "delete", "purge", "without a lock"]), NUMBERS),
        st.tuples(st.sampled_from(["maintain", "drop"]), NUMBERS),
    ),
    min_size=10,
    max_size=30,
)


async def _without_a_lock(folder: Path, ids: list[str]) -> None:
    """Replace rows of the shared table as a program does that only knows the table."""
    if not (folder / f"{SHARED.name}.lance").exists():
        return
    table = await (await lancedb.connect_async(folder)).open_table(SHARED.name)
    rows = [
        {"id": id_, "vector": unit(1), "content": "theirs", "metadata": "{}", "created_at": "2030"}
        for id_ in ids
    ]
    await table.delete(f"id IN ({', '.join(map(repr, ids))})")
    await table.add(pa.Table.from_pylist(rows, schema=await table.schema()))


def _row(collection: Collection, number: int, content: str) -> Record:
    if collection.typed:
        return replace(full(number), content=content)
    return record(f"r{number}", content=content, metadata={"n": content}, vector=unit(number))


async def _step(
    stores: tuple[LanceStore, LanceStore], step: str, collection: Collection, rows: list[Record]
) -> None:
    store, other = stores
    ids = [row.id for row in rows]
    match step:
        case "mine":
            await store.upsert(collection, rows)
        case "mine beside a get":
            await asyncio.gather(store.get(collection, ids), store.upsert(collection, rows))
        case "theirs":
            await other.upsert(collection, rows)
        case "delete":
            await store.delete(collection, ids)
        case "purge":
            with suppress(StoreError):  # the table was dropped while it was open
                await store.purge(collection, ids)
        case "without a lock" if not collection.ours:
            await _without_a_lock(store.path, ids)
        case "maintain":
            with suppress(StoreError):
                await store.maintain(collection)
        case "drop":
            await other.drop_collection(collection.name)


async def _agree(folder: Path, collection: Collection, steps: list[tuple[str, list[int]]]) -> None:
    store, other = LanceStore(folder), LanceStore(folder)
    for number, (step, numbers) in enumerate(steps):
        rows = [_row(collection, n, f"text {number}") for n in numbers]
        if step != "get":
            await _step((store, other), step, collection, rows)
            continue
        ids = [row.id for row in rows]
        for vectors in (False, True):
            fresh = LanceStore(folder)
            expected = await fresh.get(collection, ids, vectors=vectors)
            await fresh.close()
            for _ in range(3):
                found = await store.get(collection, ids, vectors=vectors)
                assert {id_: fields(row) for id_, row in found.items()} == {
                    id_: fields(row) for id_, row in expected.items()
                }
    assert await store.count(collection) == len(await store.ids(collection))
    await store.close()
    await other.close()


@settings(max_examples=12)
@given(st.sampled_from([SHARED, TYPED]), STEPS)
def test_rows_are_found_as_by_a_store_just_opened(
    collection: Collection, steps: list[tuple[str, list[int]]]
) -> None:
    """Whatever this store, another, or a program without a lock writes, removes, tidies up or begins anew."""
    with TemporaryDirectory() as folder:
        asyncio.run(_agree(Path(folder), collection, steps))


@pytest.mark.parametrize("collection", [SHARED, TYPED], ids=["shared", "typed"])
async def test_what_is_written_while_the_ids_are_read_is_found(
    tmp_path: Path, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task has read all ids and is not done with that when another writes: nothing is hidden, nor doubled."""
    store = LanceStore(tmp_path)
    await store.upsert(collection, [_row(collection, number, "old") for number in range(300)])
    read, go, really = asyncio.Event(), asyncio.Event(), reads.ids

    async def slowly(table: Any, condition: str | None) -> set[str]:
        ids = await really(table, condition)
        read.set()
        await go.wait()
        return ids

    monkeypatch.setattr(reads, "ids", slowly)
    reader = asyncio.create_task(store.get(collection, [f"no {number}" for number in range(300)]))
    await read.wait()
    monkeypatch.undo()
    rows = [_row(collection, number, "new") for number in range(1_000, 1_020)]
    await store.upsert(collection, rows)
    go.set()
    assert await reader == {}
    assert (await store.get(collection, [row.id for row in rows])).keys() == {row.id for row in rows}
    await store.upsert(collection, rows)
    assert await store.count(collection) == 320
    await store.close()


async def test_no_more_ids_are_kept_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that writes on and on lets them go; what it finds stays right."""
    monkeypatch.setattr(known, "MOST_IDS", 40)
    store = LanceStore(tmp_path)
    for number in range(80):
        await store.upsert(TYPED, [full(number)])
        assert await store.get(TYPED, [full(number + 1).id, full(number + 2).id]) == {}
        kept = store._known._kept[TYPED.name].ids
        assert kept is None or len(kept) <= 40
    assert kept is None
    assert len(await store.get(TYPED, [full(number).id for number in range(90)])) == 80
    await store.close()


def _take_rows_away(folder: Path, name: str) -> None:
    """Remove the data files of a table; its versions stay."""
    for file in (folder / f"{name}.lance" / "data").iterdir():
        file.unlink()


async def test_ids_without_a_row_and_rows_just_written_need_no_reading(tmp_path: Path):
    """After some look-ups in vain the data files are not needed any more to tell what is new, nor for the last row."""
    store = LanceStore(tmp_path)
    await store.upsert(SHARED, [record(f"r{number}", vector=unit(number)) for number in range(20)])
    for number in range(6):
        assert await store.get(SHARED, [f"no {number}", "r3", "nor this"], vectors=True)
    await store.upsert(SHARED, [record("last", content="as written", vector=unit(1))])
    _take_rows_away(tmp_path, SHARED.name)
    assert await store.get(SHARED, ["one", "another"]) == {}
    assert (await store.get(SHARED, ["one", "last"]))["last"].content == "as written"
    for ids, vectors in ((["r3"], False), (["last"], True)):
        with pytest.raises(StoreError):
            await store.get(SHARED, ids, vectors=vectors)


async def test_what_another_writes_between_two_writes_of_ours_is_seen(tmp_path: Path):
    """A row of ours that it replaces, and one that it adds, once we have written again ourselves."""
    store, other = LanceStore(tmp_path), LanceStore(tmp_path)
    await store.upsert(SHARED, [record("old", vector=unit(1))])
    for number in range(6):
        await store.get(SHARED, [f"no {number}", "nor this"])
    await store.upsert(SHARED, [record("ours", content="first", vector=unit(1))])
    await other.upsert(
        SHARED, [record("ours", content="theirs", vector=unit(1)), record("new", vector=unit(2))]
    )
    await store.upsert(SHARED, [record("last", vector=unit(3))])
    found = await store.get(SHARED, ["ours", "new", "last"])
    assert {id_: row.content for id_, row in found.items()} == {
        "ours": "theirs", "new": record("new").content, "last": record("last").content,
    }  # fmt: skip
    await store.close()
    await other.close()


async def test_what_is_got_can_be_changed_without_harm(tmp_path: Path):
    """A row that is known belongs to whoever asked for it."""
    store = LanceStore(tmp_path)
    for _ in range(2):
        await store.upsert(SHARED, [record("r", metadata={"kind": "learned"}, vector=unit(1))])
        await store.get(SHARED, ["another"])
    await store.upsert(SHARED, [record("r", metadata={"kind": "learned"}, vector=unit(1))])
    first: Any = (await store.get(SHARED, ["r"]))["r"]
    first.metadata["kind"] = "changed"
    assert (await store.get(SHARED, ["r"]))["r"].metadata == {"kind": "learned"}
    await store.close()


async def test_a_table_made_anew_is_not_taken_for_the_old_one(tmp_path: Path):
    """Another process removes the table and brings the next one to the same version: its rows are found."""
    store, other = LanceStore(tmp_path), LanceStore(tmp_path)
    for number in range(6):
        await store.upsert(TYPED, [full(number)])
        await store.get(TYPED, [full(20 + number).id, full(40 + number).id])
    await other.drop_collection(TYPED.name)
    for number in range(6):
        await other.upsert(TYPED, [full(20 + number)])
    found = await store.get(TYPED, [full(number).id for number in range(40)])
    assert sorted(found) == sorted(full(20 + number).id for number in range(6))
    await store.upsert(TYPED, [full(25), full(26)])
    assert await store.count(TYPED) == 7
    await store.close()
    await other.close()
