"""Upkeep beside the work: it disturbs nobody, ends before the store is closed, and gets its turn."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agenthood.stores.lance.index import IndexRules
from agenthood.stores.lance.store import LanceStore
from stores.backends import SHARED, TYPED, everything, full, record, unit

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.stores.base import Collection

RULES = IndexRules(vectors_from=300, shared_from=300)


async def is_indexed(folder: Path, collection: Collection) -> bool:
    """Whether a store of its own sees the index on the vectors."""
    store = LanceStore(folder)
    found = (await store.health()).detail[collection.name]["indices"]
    await store.close()
    return "vector_idx" in found


async def test_it_is_waited_for_on_close(tmp_path: Path):
    """What the last write made due is done when `close` returns."""
    store = LanceStore(tmp_path, index_rules=RULES)
    await store.upsert(TYPED, [full(number) for number in range(300)])
    await store.close()
    assert await is_indexed(tmp_path, TYPED)


async def test_its_failure_is_nobody_elses(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """An index that cannot be built is a warning: the write, the reads and the closing go through."""
    store = LanceStore(tmp_path, index_rules=RULES)
    await store.ensure_collection(SHARED)
    (tmp_path / "vectors.lance" / "_indices").write_text("in the way", encoding="utf-8")
    rows = [record(f"pattern:{number}", vector=unit(number)) for number in range(300)]
    with caplog.at_level(logging.WARNING, "agenthood"):
        assert (await store.upsert(SHARED, rows)).written == 300
        (hits,) = await store.query(SHARED, unit(7)[None], limit=1)
        assert hits[0].record.id == "pattern:7"
        await store.close()
    assert [message.partition(" in ")[0] for message in caplog.messages] == ["indexing 'vectors'"]


async def test_it_does_not_share_the_writers_lock(tmp_path: Path):
    """A holder of the write lock who writes finds nothing changed by the upkeep until the lock is given back."""
    store = LanceStore(tmp_path, index_rules=RULES)
    await store.ensure_collection(TYPED)
    async with store.exclusive():
        await store.upsert(TYPED, [full(number) for number in range(300)])
        await asyncio.sleep(0.5)
        detail = (await store.health()).detail[TYPED.name]
        assert "vector_idx" not in detail["indices"]
    await store.close()
    assert await is_indexed(tmp_path, TYPED)


async def test_it_gets_its_turn_among_writers(tmp_path: Path):
    """Two stores that write without a pause do not keep the index from being built."""
    stores = [LanceStore(tmp_path, index_rules=RULES) for _ in range(2)]
    await stores[0].upsert(TYPED, [full(number) for number in range(300)])
    writing = True

    async def write(store: LanceStore, start: int) -> int:
        number = start
        while writing:
            await store.upsert(TYPED, [full(number)])
            number += 1
        return number - start

    writers = [asyncio.create_task(write(store, 1_000 * n)) for n, store in enumerate(stores, start=1)]
    async with asyncio.timeout(30):
        while not await is_indexed(tmp_path, TYPED):  # noqa: ASYNC110  what others see on the disk sets no event
            await asyncio.sleep(0.05)
    writing = False
    written = await asyncio.gather(*writers)
    assert min(written) > 0
    assert await stores[0].count(TYPED) == 300 + sum(written)
    for store in stores:
        await store.close()


@pytest.mark.parametrize("heavy_from_mb", [0, 300])
async def test_small_fragments_are_merged_beside_the_work(tmp_path: Path, heavy_from_mb: float):
    """Under the lock or, where that would take long, beside the writers: nothing is lost and no index left behind."""
    rules = replace(RULES, heavy_from_mb=heavy_from_mb)
    store = LanceStore(tmp_path, index_rules=rules)
    await store.upsert(TYPED, [full(number) for number in range(300)])
    for number in range(250, 400):
        await store.upsert(TYPED, [full(number, content="changed")])
    await store.close()
    again = LanceStore(tmp_path, index_rules=rules)
    detail = (await again.health()).detail[TYPED.name]
    assert detail["rows"] == 400
    assert detail["fragments"] < 80  # of 151 commits
    found = await everything(again, TYPED)
    assert {row.id for row in found if row.content == "changed"} == {
        full(number).id for number in range(250, 400)
    }
    (hits,) = await again.query(TYPED, unit(399)[None], limit=1)
    assert (hits[0].record.id, hits[0].score) == (full(399).id, 1.0)
    await again.close()
