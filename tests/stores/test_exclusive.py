"""The write lock: one holder among all processes, tasks and threads."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import Context
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreUnavailableError
from agenthood.stores.lock import StoreLock
from stores.backends import SHARED, TYPED, WHOLE, full
from stores.processes import workers

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.stores.base import VectorStore
    from stores.backends import Backend

TESTED = WHOLE  # a view hands all this on as it is


class Counter:
    """A number that is lost count of when two add to it at once."""

    def __init__(self) -> None:
        self.number = 0
        self.inside = 0
        self.most = 0

    async def add(self, store: VectorStore, times: int) -> None:
        """Add one `times` times, each inside the lock of `store`."""
        for _ in range(times):
            async with store.exclusive():
                self.inside += 1
                self.most = max(self.most, self.inside)
                number = self.number
                await asyncio.sleep(0.001)
                self.number = number + 1
                self.inside -= 1


async def test_tasks_enter_one_by_one(store: VectorStore, backend: Backend):
    """Tasks on one store object, and on two, never are inside at once."""
    counter = Counter()
    async with backend.reopened() as other:
        await asyncio.gather(*(counter.add(opened, 5) for opened in (store, store, store, other, other)))
    assert (counter.number, counter.most) == (25, 1)


@pytest.mark.parametrize("one_store", [True, False], ids=["one store", "a store each"])
def test_threads_enter_one_by_one(backend: Backend, one_store: bool):
    """Threads with event loops of their own never are inside at once."""
    counter = Counter()
    shared = backend.open()

    def run() -> None:
        asyncio.run(counter.add(shared if one_store else backend.open(), 8))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counter.number, counter.most) == (24, 1)


async def test_a_thread_started_inside_is_no_holder(store: VectorStore):
    """A thread inherits the context of the task that starts it, but not its hold on the lock."""
    order: list[str] = []

    async def inside() -> None:
        async with store.exclusive():
            order.append("thread")

    async with store.exclusive():
        running = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(inside())))
        await asyncio.sleep(0.2)
        order.append("holder")
    await running
    assert order == ["holder", "thread"]


async def test_processes_enter_one_by_one(store: VectorStore, backend: Backend, tmp_path: Path):
    """Two processes and this one, adding to a number in a file, lose no count."""
    file = tmp_path / "number"
    file.write_text("0", encoding="utf-8")
    with workers(backend, ("alone", file, 20), ("alone", file, 20)) as started:
        for worker in started:
            worker.go()
        for _ in range(20):
            async with store.exclusive():
                number = int(file.read_text(encoding="utf-8"))
                await asyncio.sleep(0.005)
                file.write_text(str(number + 1), encoding="utf-8")
        for worker in started:
            await asyncio.to_thread(worker.finished)
    assert file.read_text(encoding="utf-8") == "60"


async def test_a_holder_may_enter_again(store: VectorStore):
    """Entering again does not wait, nor does a task that the holder starts and waits for."""
    counter = Counter()
    async with asyncio.timeout(2), store.exclusive():
        async with store.exclusive(), store.exclusive():
            pass
        await asyncio.gather(counter.add(store, 1))
    assert counter.number == 1


async def test_others_wait_until_the_outer_block_is_left(store: VectorStore):
    """A task that was there before waits for the end of the outermost block."""
    order: list[str] = []
    begin = asyncio.Event()

    async def other() -> None:
        await begin.wait()
        async with store.exclusive():
            order.append("other")

    waiting = asyncio.create_task(other())
    async with store.exclusive():
        begin.set()
        async with store.exclusive():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        order.append("holder")
    await waiting
    assert order == ["holder", "other"]


async def test_a_task_started_inside_holds_it_only_while_inside(store: VectorStore):
    """A task that outlives the block it was started in has to take the lock like any other."""
    counter = Counter()
    released = asyncio.Event()

    async def later() -> None:
        await released.wait()
        await counter.add(store, 10)

    async with store.exclusive():
        tasks = [asyncio.create_task(later()) for _ in range(3)]
    released.set()
    await asyncio.gather(*tasks, counter.add(store, 10))
    assert (counter.number, counter.most) == (40, 1)


async def test_the_lock_stays_held_for_a_task_that_stays_inside(store: VectorStore, backend: Backend):
    """If a task started inside is inside still, leaving the outer block lets nobody else in."""
    entered, leave = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def child() -> None:
        async with store.exclusive():
            entered.set()
            await leave.wait()
            order.append("child")

    async def stranger(other: VectorStore) -> None:
        async with other.exclusive():
            order.append("stranger")

    async with backend.reopened() as other:
        async with store.exclusive():
            task = asyncio.create_task(child())
            await entered.wait()
        waiting = asyncio.create_task(stranger(other))
        await asyncio.sleep(0.15)
        leave.set()
        await asyncio.gather(task, waiting)
    assert order == ["child", "stranger"]


async def test_an_error_or_a_cancellation_releases_it(store: VectorStore, backend: Backend):
    """However a block ends, and whoever gives up waiting, the next one gets in."""
    with pytest.raises(RuntimeError, match="inside"):
        async with store.exclusive():
            raise RuntimeError("inside")
    counter = Counter()
    async with backend.reopened() as other:
        async with store.exclusive():
            for opened in (store, other):
                # A context of its own: a stranger, not a part of what is done here.
                waiting = asyncio.create_task(counter.add(opened, 1), context=Context())
                await asyncio.sleep(0.05)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(2), store.exclusive():
            pass
        async with asyncio.timeout(2), other.exclusive():
            pass
    assert counter.number == 0


async def test_a_killed_holder_releases_it(store: VectorStore, backend: Backend):
    """The lock of a process that was killed is free at once."""
    with workers(backend, ("hold", 60)) as (holder,):
        holder.go()
        assert holder.line() == "holding"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), store.exclusive():
                pytest.fail("two holders")
        holder.kill()
        async with asyncio.timeout(2), store.exclusive():
            pass


async def test_who_takes_it_again_at_once_keeps_nobody_out(tmp_path: Path):
    """Of two that want it without a pause, as processes that write in a loop do, each gets a fair share."""
    entered = [0, 0]

    async def greedy(number: int) -> None:
        lock = StoreLock(tmp_path / "lock")  # one of its own, as in another process
        while sum(entered) < 40:
            async with lock():
                entered[number] += 1
                await asyncio.sleep(0.005)

    await asyncio.gather(*map(greedy, range(2)))
    assert min(entered) >= 8, entered


async def test_waiting_ends_with_an_error_that_names_the_file(tmp_path: Path):
    """Whoever waits too long, for another process, store or task, learns for what, in one line."""
    path = tmp_path / "some.lock"
    holder, other = StoreLock(path, timeout=0.1), StoreLock(path, timeout=0.1)
    ready = asyncio.Event()

    async def wait(lock: StoreLock) -> str:
        await ready.wait()
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError) as caught:
            async with lock():
                pytest.fail("two holders")
        assert 0.05 < time.monotonic() - started < 5
        return str(caught.value)

    waiting = [asyncio.create_task(wait(lock)) for lock in (holder, other)]
    async with holder():
        ready.set()
        for message in await asyncio.gather(*waiting):
            assert repr(str(path)) in message
            assert "0.1 s" in message
            assert "\n" not in message
    async with other():
        pass


async def test_a_holder_reads_while_others_wait_to_create(store: VectorStore, backend: Backend):
    """Whoever holds the lock can open and read collections, though another task waits for it to make one."""
    await store.ensure_collection(SHARED)
    async with backend.reopened() as fresh, asyncio.timeout(5):
        async with fresh.exclusive():
            waiting = asyncio.create_task(fresh.ensure_collection(TYPED), context=Context())
            await asyncio.sleep(0.1)
            assert await fresh.count(SHARED) == 0
            assert await fresh.ids(SHARED) == set()
        assert await waiting == TYPED


async def test_tasks_of_one_holder_create_a_collection_together(store: VectorStore):
    """Tasks that hold the lock together may all be the first to use a collection."""
    async with store.exclusive():
        results = await asyncio.gather(*(store.upsert(TYPED, [full(number)]) for number in range(4)))
    assert [result.written for result in results] == [1] * 4
    assert await store.count(TYPED) == 4
