"""A lock that whoever holds it may enter again: what the write locks of all backends have in common."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agenthood.errors import StoreUnavailableError


class Held(Protocol):
    """A lock that was taken."""

    async def release(self) -> None:
        """Give it back."""
        ...


@dataclass(slots=True)
class _Hold:
    """The lock while it is held: given back when the last of those who entered has left."""

    held: Held
    turn: asyncio.Lock
    loop: asyncio.AbstractEventLoop
    inside: int = 0

    async def leave(self) -> None:
        self.inside -= 1
        if not self.inside:
            try:
                await self.held.release()
            finally:
                self.turn.release()


class ReentrantLock(ABC):
    """A lock that tasks wait for without blocking the event loop.

    A task that already holds it may enter again, and so may the tasks it started meanwhile: they are part of its
    work, and the lock stays held until the last of them has left. Tasks of one event loop queue up in order.
    """

    def __init__(self, *, timeout: float) -> None:
        """Args: `timeout` in seconds before giving up."""
        self._timeout = timeout
        # Tasks of one event loop queue up here, in order; an asyncio.Lock belongs to one loop.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._current: ContextVar[_Hold | None] = ContextVar("current", default=None)

    @property
    def held(self) -> Held | None:
        """What the running task holds, or None if it is no holder."""
        hold = self._current.get()
        # A task may outlive the block it was started in, and threads inherit the context of their starter.
        if hold is None or not hold.inside or hold.loop is not asyncio.get_running_loop():
            return None
        return hold.held

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        """Hold the lock.

        Raises:
            StoreUnavailableError: it could not be had within the timeout.
        """
        before = hold = self._current.get()
        if hold is None or self.held is None:
            hold = await self._take()
            self._current.set(hold)
        hold.inside += 1
        try:
            yield
        finally:
            self._current.set(before)
            await hold.leave()

    async def _take(self) -> _Hold:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        turn = self._turns.setdefault(loop, asyncio.Lock())
        try:
            async with asyncio.timeout_at(deadline):
                await turn.acquire()
        except TimeoutError:
            raise self._busy() from None
        try:
            return _Hold(await self._acquire(deadline), turn, loop)
        except BaseException:  # also a cancellation: the next task must get its turn
            turn.release()
            raise

    @abstractmethod
    async def _acquire(self, deadline: float) -> Held:
        """Take the lock from all others, until `deadline` by the loop's clock."""

    @abstractmethod
    def _busy(self) -> StoreUnavailableError:
        """The error of who waited too long."""
