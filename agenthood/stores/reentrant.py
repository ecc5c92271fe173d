"""Entering a lock again: what every write lock does for its tasks, whatever it is made of."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from agenthood.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    Release: TypeAlias = Callable[[], Awaitable[None]]

_FIRST_WAIT = 0.002


@dataclass(slots=True)
class _Hold:
    """The lock of a scope while it is held: given back when the last of those who entered has left."""

    release: Release
    turn: asyncio.Lock
    loop: asyncio.AbstractEventLoop
    inside: int = 0

    async def leave(self) -> None:
        self.inside -= 1
        if not self.inside:
            try:
                await self.release()
            finally:
                self.turn.release()


class ReentrantLock(ABC):
    """A lock between processes, one for each scope, that tasks wait for without blocking the event loop.

    A task that holds it may enter again, and so may the tasks it started meanwhile: they are part of its
    work, and the lock stays held until the last of them has left.
    """

    def __init__(self, *, timeout: float) -> None:
        """Args: `timeout` in seconds before giving up."""
        self._timeout = timeout
        # Tasks of one event loop queue up here, in order; an asyncio.Lock belongs to one loop.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Lock]] = (
            WeakKeyDictionary()
        )
        self._held: ContextVar[Mapping[str, _Hold]] = ContextVar("held", default={})  # noqa: B039  never changed

    @abstractmethod
    async def acquire(self, scope: str, deadline: float) -> Release:
        """Take the lock from other processes; one task of a loop at a time calls this for a scope.

        Args:
            scope: which of the locks.
            deadline: until when to try, in the time of the running loop.

        Returns:
            What gives it back.

        Raises:
            StoreUnavailableError: it could not be had in time, or at all.
        """

    @abstractmethod
    def what(self, scope: str) -> str:
        """What is waited for, as an error names it."""

    @asynccontextmanager
    async def __call__(self, scope: str = "") -> AsyncIterator[None]:
        """Hold the lock of `scope`.

        Raises:
            StoreUnavailableError: it could not be had within the timeout, or at all.
        """
        before = self._held.get()
        hold = before.get(scope)
        # A task may outlive the block it was started in, and threads inherit the context of their starter.
        if hold is None or not hold.inside or hold.loop is not asyncio.get_running_loop():
            hold = await self._take(scope)
            self._held.set({**before, scope: hold})
        hold.inside += 1
        try:
            yield
        finally:
            self._held.set(before)
            await hold.leave()

    async def _take(self, scope: str) -> _Hold:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        turn = self._turns.setdefault(loop, WeakValueDictionary()).setdefault(scope, asyncio.Lock())
        try:
            async with asyncio.timeout_at(deadline):
                await turn.acquire()
        except TimeoutError:
            raise self.busy(scope) from None
        try:
            return _Hold(await self.acquire(scope, deadline), turn, loop)
        except BaseException:  # also a cancellation: the next task must get its turn
            turn.release()
            raise

    def busy(self, scope: str) -> StoreUnavailableError:
        """The error of whoever waited in vain."""
        return StoreUnavailableError(
            f"another process or task has held {self.what(scope)} for {self._timeout:g} s: "
            "wait for it to finish, or end it"
        )


async def polled(attempt: Callable[[], Awaitable[bool]], deadline: float, *, longest: float) -> bool:
    """Try until `attempt` succeeds, less and less often.

    Args:
        attempt: whether it succeeded.
        deadline: when to give up, in the time of the running loop; it is tried once in any case.
        longest: the longest wait between two attempts, in seconds.

    Returns:
        Whether it succeeded in time.
    """
    wait = _FIRST_WAIT
    while not await attempt():
        if asyncio.get_running_loop().time() > deadline:
            return False
        # Jitter keeps many waiters from polling in step.
        await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
        wait = min(wait * 1.5, longest)
    return True
