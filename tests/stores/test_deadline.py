"""What counts as a store's time, and what its lateness leads to."""

from __future__ import annotations

import asyncio
import time
from contextvars import Context
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreError, StoreUnavailableError
from agenthood.stores.base import SHARED
from agenthood.stores.deadline import Section, uncounted, within
from agenthood.stores.guarded import GuardedStore
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.testing import FaultyStore

if TYPE_CHECKING:
    from pathlib import Path


async def test_only_the_time_of_calls_counts() -> None:
    """What happens between two calls is free; two calls at once count once."""
    async with within(Section(0.4)) as section:
        async with section.call():
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.3)

        async def one() -> None:
            async with section.call():
                await asyncio.sleep(0.1)

        await asyncio.gather(one(), one(), one())
        assert 0.19 < section.spent < 0.35
        with pytest.raises(StoreUnavailableError, match=r"within 0\.4 s"):
            async with section.call():
                await asyncio.sleep(5)
        assert section.up
        with pytest.raises(StoreUnavailableError):
            await one()


async def test_loading_packages_is_free() -> None:
    """Whoever waits for it meanwhile is not charged either."""
    async with within(Section(0.2)) as section:

        async def loads() -> None:
            async with section.call(), uncounted():
                await asyncio.sleep(0.5)

        async def waits() -> None:
            async with section.call():
                await asyncio.sleep(0.5)

        await asyncio.gather(loads(), waits())
        assert section.spent < 0.15


async def test_the_timeouts_of_others_stay_theirs() -> None:
    """A caller's own timeout, and one that a store raises by itself, are not taken for the deadline."""
    async with within(Section(5)) as section:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), section.call():
                await asyncio.sleep(5)
        with pytest.raises(TimeoutError, match="its own"):
            async with section.call():
                raise TimeoutError("its own")


async def test_whatever_a_store_raises_is_an_error_of_ours(tmp_path: Path) -> None:
    """In a section, so that recalls and learning know what to do with it; the cause is chained."""
    store = GuardedStore(FaultyStore(LanceStore(tmp_path)), deadline=5)
    store.inner.plan = lambda _: 1 / 0  # type: ignore[attr-defined, return-value]
    with pytest.raises(StoreUnavailableError, match="ZeroDivisionError") as caught:
        async with store.section("reading"):
            await store.get(SHARED, ["x"])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    await store.close()


async def test_a_circuit_lets_one_try(tmp_path: Path) -> None:
    """After the pause one section may go in; while it is there the others are refused, and its success opens all."""
    store = GuardedStore(LanceStore(tmp_path))

    async def fails() -> None:
        async with store.section("reading"):
            raise StoreError("odd")

    with pytest.raises(StoreError):
        await fails()
    assert store.failing == "odd"
    await asyncio.sleep(store.opens_in("reading") + 0.01)
    async with store.section("reading"):
        with pytest.raises(StoreUnavailableError, match="odd; it is asked again"):
            await asyncio.create_task(_enters(store), context=Context())
    assert not store.failing
    await asyncio.create_task(_enters(store))
    await store.close()


async def _enters(store: GuardedStore) -> None:
    async with store.section("reading"):
        pass


async def test_closing_lets_a_store_that_answers_finish(tmp_path: Path) -> None:
    """What it has begun may take longer than the deadline, as long as it can be read."""

    class Slow(LanceStore):
        async def close(self) -> None:
            await asyncio.sleep(0.5)
            await super().close()
            self.closed = True

    inner = Slow(tmp_path)
    start = time.monotonic()
    await GuardedStore(inner, deadline=0.1).close()
    assert inner.closed
    assert time.monotonic() - start > 0.4
