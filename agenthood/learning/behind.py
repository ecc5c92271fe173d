"""Doing one thing while the next is being prepared."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class OneBehind:
    """Pieces of work, done in order, each while the caller prepares the next one.

    None is begun before the one before it is done, and none after one that failed. The block ends when all are done;
    if it fails, what is under way is cancelled.
    """

    def __init__(self) -> None:
        self._under_way: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        if kind is None:
            await self._wait()
        elif (task := self._under_way) is not None:
            task.cancel()
            # Also how it ends: the block fails with what it failed with first, and nothing goes on after it.
            await asyncio.gather(task, return_exceptions=True)

    async def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin a piece of work, once the one before it is done.

        Raises:
            Exception: whatever that one raised.
        """
        await self._wait()
        self._under_way = asyncio.create_task(work())
        await asyncio.sleep(0)  # so that it is under way when the caller goes on

    async def _wait(self) -> None:
        task, self._under_way = self._under_way, None
        if task is not None:
            await task
