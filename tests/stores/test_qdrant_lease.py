"""The write lock of the Qdrant store: a lease, renewed while its holder lives, worthless once it may be lost."""

from __future__ import annotations

import asyncio
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreUnavailableError
from agenthood.stores.qdrant.lease import LeaseRules
from agenthood.stores.qdrant.store import QdrantStore
from agenthood.stores.settings import StoreSettings
from stores.backends import TYPED, full
from stores.qdrant_local import NOWHERE, local_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# As long as a busy machine may stall: a holder that is stopped for longer does lose it.
SHORT = LeaseRules(seconds=1.2, wait=20)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., QdrantStore]:
    """A function: opens a store on the database of this test."""

    def make(lease: LeaseRules = SHORT) -> QdrantStore:
        return QdrantStore(
            StoreSettings(backend="qdrant", url=NOWHERE), client=local_client(tmp_path), lease=lease
        )

    return make


async def apart(work: Awaitable[object]) -> object:
    """`work` as a stranger's: a task that is no part of what is done here."""

    async def run() -> object:
        return await work

    return await asyncio.create_task(run(), context=Context())


async def test_a_holder_that_lives_keeps_it(opened: Callable[..., QdrantStore]):
    """However many times the lease would have run out, nobody else gets in."""
    holder, other = opened(), opened(LeaseRules(seconds=1.2, wait=2.6))
    async with holder.exclusive("s"):
        with pytest.raises(StoreUnavailableError, match="has held the lock of 's'"):
            await apart(other.exclusive("s").__aenter__())
        await holder.upsert(TYPED, [full(1)])


async def test_scopes_do_not_wait_for_each_other(opened: Callable[..., QdrantStore]):
    """Each scope has a lock of its own, also within one task."""
    store, other = opened(), opened()
    async with asyncio.timeout(2), store.exclusive("a"), other.exclusive("b"), store.exclusive("c"):
        pass


async def test_a_dead_holder_is_waited_for_one_lease(opened: Callable[..., QdrantStore]):
    """Its lease runs out by the clock of who waits; then the waiting one holds it, and gives it back."""
    dead, store = opened(), opened()
    await dead._leases.put("s", "of the dead", 7, None)
    clock = asyncio.get_running_loop().time
    started = clock()
    async with store.exclusive("s"):
        assert clock() - started >= SHORT.seconds
        assert await dead._leases.read("s") != ("of the dead", 7)
    assert await dead._leases.read("s") is None


async def test_who_lost_the_lease_writes_no_more(opened: Callable[..., QdrantStore]):
    """A successor took it: the former holder's writes are refused, and its end leaves the successor's lease."""
    store, successor = opened(), opened()
    async with store.exclusive("s"):
        seen = await store._leases.read("s")
        await successor._leases.put("s", "of another", 0, seen)
        await asyncio.sleep(SHORT.seconds)
        for write in (
            lambda: store.upsert(TYPED, [full(1)]),
            lambda: store.delete(TYPED, [full(1).id]),
            lambda: store.drop_collection(TYPED.name),
        ):
            await successor.ensure_collection(TYPED)
            with pytest.raises(StoreUnavailableError, match="another may hold it"):
                await write()
        # A stranger's write on the same store is none of this holder's.
        await apart(store.upsert(TYPED, [full(2)]))
    assert await successor._leases.read("s") == ("of another", 0)
    assert await successor.ids(TYPED) == {full(2).id}


async def test_a_conditional_take_loses_to_what_came_between(opened: Callable[..., QdrantStore]):
    """What was seen has changed meanwhile: the write of who saw it changes nothing."""
    table = opened()._leases
    await table.put("s", "first", 0, None)
    await table.put("s", "second", 0, None)
    assert await table.read("s") == ("first", 0)
    assert await table.renew("s", "first", 1)
    await table.put("s", "third", 0, ("first", 0))
    assert await table.read("s") == ("first", 1)
    assert not await table.renew("s", "third", 2)
    await table.give_back("s", "third")
    assert await table.read("s") == ("first", 1)
    await table.put("s", "third", 0, ("first", 1))
    assert await table.read("s") == ("third", 0)


async def test_no_task_is_left_behind(opened: Callable[..., QdrantStore]):
    """Leaving the block, by its end, an error or a cancellation, ends the renewal."""
    store = opened()
    before = asyncio.all_tasks()
    async with store.exclusive("s"):
        assert len(asyncio.all_tasks()) == len(before) + 1

    async def stopped() -> None:
        async with store.exclusive("s"):
            await asyncio.sleep(60)

    task = asyncio.create_task(stopped())
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before
    assert await store._leases.read("s") is None


async def test_who_takes_it_again_at_once_keeps_nobody_out(opened: Callable[..., QdrantStore]):
    """Of two that want it without a pause, as processes that write in a loop do, each gets a fair share."""
    entered = [0, 0]

    async def greedy(number: int) -> None:
        store = opened()  # one of its own, as in another process
        while sum(entered) < 12:
            async with store.exclusive("s"):
                entered[number] += 1
                await asyncio.sleep(0.005)

    await asyncio.gather(*map(greedy, range(2)))
    assert min(entered) >= 3, entered
