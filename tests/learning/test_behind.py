"""Doing one thing while the next is prepared."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from agenthood.learning.behind import OneBehind


class Log:
    """What happened, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def work(self, name: str, error: Exception | None = None) -> None:
        """Take a moment."""
        self.said.append(f"{name} begins")
        await asyncio.sleep(0.01)
        if error is not None:
            raise error
        self.said.append(f"{name} is done")


async def test_each_is_done_while_the_next_is_prepared() -> None:
    """They never overlap, and the block ends with the last."""
    log = Log()
    async with OneBehind() as behind:
        for name in "ab":
            log.said.append(f"{name} is prepared")
            await behind.begin(partial(log.work, name))
    assert log.said == [
        "a is prepared", "a begins", "b is prepared", "a is done", "b begins", "b is done"
    ]  # fmt: skip


async def test_nothing_is_begun_after_one_that_failed() -> None:
    """Whoever begins the next is told, and so is whoever comes to the end."""
    log = Log()
    with pytest.raises(ValueError, match="a broke"):  # noqa: PT012  the block is what is tested
        async with OneBehind() as behind:
            await behind.begin(partial(log.work, "a", ValueError("a broke")))
            await behind.begin(partial(log.work, "b"))
    with pytest.raises(ValueError, match="c broke"):
        async with OneBehind() as behind:
            await behind.begin(partial(log.work, "c", ValueError("c broke")))
    assert log.said == ["a begins", "c begins"]


async def test_a_block_that_fails_leaves_nothing_running() -> None:
    """It fails with its own error, also where what is under way would fail too; so it does when it is cancelled."""
    log, before = Log(), asyncio.all_tasks()

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.01)
            log.said.append("c has ended")

    with pytest.raises(KeyError, match="c"):  # noqa: PT012  the block is what is tested
        async with OneBehind() as behind:
            await behind.begin(slow_to_end)
            raise KeyError("c")
    assert log.said.pop() == "c has ended", "whoever comes after the block finds nothing under way"
    with pytest.raises(ValueError, match="preparing"):  # noqa: PT012  the block is what is tested
        async with OneBehind() as behind:
            await behind.begin(partial(log.work, "a", KeyError("a")))
            raise ValueError("preparing")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.005), OneBehind() as behind:
            await behind.begin(partial(log.work, "b"))
    assert asyncio.all_tasks() == before
    assert log.said == ["a begins", "b begins"]
