"""Keeping a LanceDB table fast: fragments stay few, look-ups stay right, old versions go in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lancedb
import numpy as np
from lancedb.index import IvfFlat

from agenthood.stores.base import Collection
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.lance.upkeep import COMMITS_BETWEEN_CHECKS, MOST_FRAGMENTS
from stores.backends import SHARED, TYPED, everything, fields, full, record, unit

if TYPE_CHECKING:
    from pathlib import Path


async def test_five_hundred_single_upserts(tmp_path: Path):
    """After 500 single writes, half of them updates, every look-up is right and fragments are few."""
    store = LanceStore(tmp_path)
    for number in range(250):
        await store.upsert(TYPED, [full(number, content="first")])
        await store.upsert(TYPED, [full(number // 2)])
    await store.close()
    expected = {full(n).id: full(n) if n < 125 else full(n, content="first") for n in range(250)}
    again = LanceStore(tmp_path)
    detail = (await again.health()).detail[TYPED.name]
    assert detail["rows"] == 250
    assert detail["fragments"] <= MOST_FRAGMENTS + COMMITS_BETWEEN_CHECKS
    rows = await everything(again, TYPED)
    assert sorted(map(fields, rows)) == sorted(map(fields, expected.values()))
    (hits,) = await again.query(TYPED, unit(7)[None], limit=1)
    assert [(hit.record.id, hit.score) for hit in hits] == [(full(7).id, 1.0)]
    assert [row.id for row in await again.search_terms(TYPED, ["word249"])] == [full(249).id]

    before = detail["fragments"]
    report = await again.maintain(TYPED)
    assert (report["rows"], report["fragments_before"]) == (250, before)
    assert report["fragments_after"] <= 3
    assert report["indices"].keys() >= {"terms_idx", "kind_idx"}
    assert {index["unindexed_rows"] for index in report["indices"].values()} == {0}
    assert report["old_versions_removed"] == 0  # none is ten seconds old
    assert sorted(map(fields, await everything(again, TYPED))) == sorted(map(fields, rows))
    await again.close()


async def test_maintenance_beside_a_writer(tmp_path: Path):
    """Maintenance and writes at once disturb neither."""
    writer, keeper = LanceStore(tmp_path), LanceStore(tmp_path)
    await writer.ensure_collection(TYPED)

    async def write() -> None:
        for number in range(60):
            await writer.upsert(TYPED, [full(number)])

    writing = asyncio.create_task(write())
    while not writing.done():
        await keeper.maintain(TYPED)
        await asyncio.sleep(0.01)
    await writing
    assert await keeper.ids(TYPED) == {full(number).id for number in range(60)}
    await writer.close()
    await keeper.close()


async def test_an_index_of_another_program_changes_no_answer(tmp_path: Path):
    """With an l2 index on the shared table the answers are the exact cosines all the same."""
    store = LanceStore(tmp_path)
    rows = [record(f"r{number:03d}", vector=unit(number) * (1 + number % 5)) for number in range(300)]
    await store.upsert(SHARED, [*rows, *(record(f"none {number}") for number in range(50))])
    queries = np.stack([unit(1_000), unit(1_001)])
    before = await store.query(SHARED, queries, limit=300)
    await store.close()
    table = lancedb.connect(tmp_path).open_table("vectors")
    table.create_index("vector", config=IvfFlat(distance_type="l2", num_partitions=4))
    again = LanceStore(tmp_path)
    for limit in (5, 300):
        found = await again.query(SHARED, queries, limit=limit)
        assert [[(hit.record.id, hit.score) for hit in hits] for hits in found] == [
            [(hit.record.id, hit.score) for hit in hits[:limit]] for hits in before
        ]
    await again.close()


async def test_tables_are_of_the_format_that_all_versions_read(tmp_path: Path):
    """The five shared columns come first and in their order, whatever else a table has."""
    store = LanceStore(tmp_path)
    for collection in (SHARED, TYPED, Collection("plain", 3)):
        await store.ensure_collection(collection)
        schema = lancedb.connect(tmp_path).open_table(collection.name).schema
        assert schema.names[:5] == ["id", "vector", "content", "metadata", "created_at"]
        assert not schema.field("id").nullable
    await store.close()
