"""Several processes on one store, started fresh and killed at any moment."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from stores.backends import TYPED, WHOLE, everything, fields, full
from stores.processes import workers

if TYPE_CHECKING:
    from agenthood.stores.base import VectorStore
    from stores.backends import Backend

TESTED = WHOLE  # a view hands all this on as it is


async def test_two_processes_upserting_the_same_new_ids(store: VectorStore, backend: Backend):
    """Two processes inserting the same 40 ids at once, and making the collection, leave one record of each."""
    with workers(backend, ("upsert", 0)) as (other,):
        other.go()
        async with backend.reopened() as second:
            for number in range(40):
                await asyncio.gather(*(opened.upsert(TYPED, [full(number)]) for opened in (store, second)))
        await asyncio.to_thread(other.finished)  # its upkeep may hold the lock meanwhile
    assert await store.ids(TYPED) == {full(number).id for number in range(40)}
    async with backend.reopened() as again:
        rows = await everything(again, TYPED)
        assert sorted(map(fields, rows)) == sorted(fields(full(number)) for number in range(40))
        assert await again.count(TYPED) == 40
        assert len((await again.query(TYPED, full(1).vector[None], limit=100))[0]) == 40


async def test_many_writers_of_the_same_ids_leave_one_record_each(store: VectorStore, backend: Backend):
    """Tasks, threads and a process that upsert the same ids over and over leave each id once, whole and searchable."""
    rows = [full(number) for number in range(40)]

    async def again_and_again() -> None:
        async with backend.reopened() as own:
            for start in (0, 20, 0, 10):
                await own.upsert(TYPED, rows[start : start + 20])

    threads = [threading.Thread(target=lambda: asyncio.run(again_and_again())) for _ in range(2)]
    with workers(backend, ("upsert", 0)) as (other,):
        other.go()
        for thread in threads:
            thread.start()
        await asyncio.gather(*(store.upsert(TYPED, rows[start : start + 20]) for start in (0, 20, 10, 0)))
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(other.finished)  # its upkeep may hold the lock meanwhile
    async with backend.reopened() as again:
        assert sorted(map(fields, await everything(again, TYPED))) == sorted(map(fields, rows))
        assert await again.count(TYPED) == 40
        for field, vector in (("vector", rows[1].vector), ("lexical", rows[1].lexical)):
            (hits,) = await again.query(TYPED, vector[None], field=field, limit=100)
            assert sorted(hit.record.id for hit in hits) == [row.id for row in rows]
        assert [row.id for row in await again.search_terms(TYPED, ["all"])] == [row.id for row in rows]


async def test_a_killed_writer_loses_nothing_it_acknowledged(store: VectorStore, backend: Backend):
    """After kill -9 at two different moments every acknowledged record is there, once, and writing goes on."""
    await store.ensure_collection(TYPED)
    acknowledged = 0
    with workers(backend, *[("endless",)] * 2) as started:
        for number, worker in enumerate(started):
            worker.go()
            assert worker.line() == "3"
            await asyncio.sleep(0.1 + 0.4 * number)
            acknowledged = max(acknowledged, 3, *map(int, worker.kill()))
            async with backend.reopened() as again:
                rows = await everything(again, TYPED)
                found = {row.id: row for row in rows}
                assert len(found) == len(rows) == await again.count(TYPED)
                expected = [full(n) for n in range(acknowledged)]
                assert [fields(found[row.id]) for row in expected] == list(map(fields, expected))
                await again.upsert(TYPED, [full(99_999)])
    assert acknowledged > 6


async def test_purging_leaves_readers_of_other_processes_at_work(store: VectorStore, backend: Backend):
    """A process that reads all the time notices nothing while records are replaced, purged and compacted."""
    await store.upsert(TYPED, [full(number) for number in range(40)])
    with workers(backend, ("read", 3)) as (reader,):
        reader.go()
        until = time.monotonic() + 2.5
        number = 20
        while time.monotonic() < until and number < 40:
            await store.upsert(TYPED, [full(2, content=f"changed {number}")])
            assert await store.purge(TYPED, [full(number).id]) == 1
            number += 1
        rounds = int((await asyncio.to_thread(reader.finished))[0])
    assert rounds >= 1
    assert number > 20
    async with backend.reopened() as again:
        assert await again.ids(TYPED) == {full(n).id for n in range(40) if not 20 <= n < number}
