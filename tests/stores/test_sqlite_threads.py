"""The threads of the SQLite backend: a caller who gives up stops the work, and a closed store has none."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import apsw
import pytest

from agenthood.stores.base import Collection
from agenthood.stores.sqlite.store import SqliteStore
from agenthood.stores.sqlite.worker import Workers
from stores.backends import TYPED, full, record, unit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agenthood.stores.sqlite.worker import Job

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
"""A query that has no end of its own."""


def threads() -> list[str]:
    """The names of the store's threads."""
    return [one.name for one in threading.enumerate() if one.name.startswith("agenthood-sqlite")]


def _is_free(connection: apsw.Connection) -> bool:
    """Whether nobody is writing."""
    try:
        connection.execute("begin immediate")
    except apsw.BusyError:
        return False
    connection.execute("rollback")
    return True


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    """The threads of a store that has a file."""
    made = Workers(tmp_path / "memory.sqlite", patience=30)
    await made.make("making", lambda *_: None)
    yield made
    await made.close()
    assert threads() == []


@pytest.mark.parametrize("writing", [True, False])
async def test_giving_up_interrupts_the_query(workers: Workers, writing: bool):
    """A cancelled call ends at once though its query would not, and the thread goes on with the next."""
    running = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(connection: apsw.Connection, _: Job) -> int:
        loop.call_soon_threadsafe(running.set)
        found: int = connection.execute(ENDLESS).get
        return found

    task = asyncio.create_task(workers.run("counting", endless, int, writing=writing))
    await running.wait()
    await asyncio.sleep(0.05)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 5
    assert await workers.run("asking", lambda c, _: c.execute("select 7").get, int, writing=writing) == 7


async def test_giving_up_between_two_statements_counts(workers: Workers):
    """Work that never is inside a statement when it is interrupted ends as well."""
    running = asyncio.Event()
    loop = asyncio.get_running_loop()
    rounds = 0

    def many(connection: apsw.Connection, job: Job) -> None:
        nonlocal rounds
        while True:
            loop.call_soon_threadsafe(running.set)
            job.check()
            connection.execute("select 1").get  # noqa: B018  runs it
            rounds += 1

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await workers.run("looping", many, lambda: None)
    ended = rounds
    await asyncio.sleep(0.05)
    assert rounds == ended


async def test_who_waits_for_another_process_can_give_up(tmp_path: Path):
    """A writer that waits for a locked file ends at once when it is cancelled, and wrote nothing."""
    store = SqliteStore(tmp_path / "memory.sqlite")
    await store.ensure_collection(TYPED)
    other = apsw.Connection(str(store.path))
    other.execute("begin immediate")
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await store.upsert(TYPED, [full(1)])
    assert time.monotonic() - started < 5
    other.execute("rollback")
    other.close()
    assert await store.count(TYPED) == 0
    await store.close()


async def test_a_write_given_up_half_way_leaves_nothing(tmp_path: Path):
    """Of a cancelled upsert no record stays, and the next write works."""
    store = SqliteStore(tmp_path / "memory.sqlite")
    large = Collection("large", 64, typed=True)
    await store.upsert(large, [record("kept", vector=unit(1, 64))])
    rows = [record(f"r{number}", vector=unit(number, 64), terms=f"word{number}") for number in range(6_000)]
    task = asyncio.create_task(store.upsert(large, rows))
    other = apsw.Connection(str(store.path))
    async with asyncio.timeout(30):
        while _is_free(other) and not task.done():  # noqa: ASYNC110  SQLite sets no event
            await asyncio.sleep(0.001)
    other.close()
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.ids(large) == {"kept"}
    assert [hit.record.id for hit in (await store.query(large, unit(1, 64)[None]))[0]] == ["kept"]
    assert await store.search_terms(large, ["word1"]) == []
    await store.upsert(large, rows[:10])
    assert await store.count(large) == 11
    await store.close()


async def test_closing_ends_every_thread_and_begins_anew(tmp_path: Path):
    """After `close` no thread is left, what was asked before is answered, and the store can be used again."""
    store = SqliteStore(tmp_path / "memory.sqlite")
    await store.upsert(TYPED, [full(number) for number in range(50)])
    asked = [asyncio.create_task(store.count(TYPED)) for _ in range(20)]
    await asyncio.sleep(0)
    assert threads()
    await store.close()
    assert threads() == []
    assert [await one for one in asked] == [50] * 20
    assert await store.count(TYPED) == 50
    await store.close()
    assert threads() == []


async def test_what_waits_when_the_store_is_closed_leaves_no_connection_open(tmp_path: Path):
    """It is done first, by the threads that end then; no log of open connections stays beside the file."""
    store = SqliteStore(tmp_path / "memory.sqlite")
    await store.upsert(TYPED, [record("first")])
    writes = [
        asyncio.create_task(store.upsert(TYPED, [record(f"{n}-{m}") for m in range(200)])) for n in range(4)
    ]
    await asyncio.sleep(0.01)
    await store.close()
    assert sum(result.written for result in await asyncio.gather(*writes)) == 800
    assert not (tmp_path / "memory.sqlite-wal").exists()
    assert threads() == []


def test_several_loops_share_a_store(tmp_path: Path):
    """A store that one event loop used serves another in another thread, at the same time."""
    store = SqliteStore(tmp_path / "memory.sqlite")

    async def use(start: int) -> int:
        for number in range(start, start + 10):
            await store.upsert(TYPED, [full(number)])
            await store.count(TYPED)
        return await store.count(TYPED)

    started = [
        threading.Thread(target=lambda start=start: asyncio.run(use(start)))  # type: ignore[misc]
        for start in (0, 100, 200)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert asyncio.run(store.count(TYPED)) == 30
    asyncio.run(store.close())
    assert threads() == []
