"""The write lock of an embedded store: one holder among all processes, threads and tasks."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from agenthood.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from filelock import BaseFileLock

_FIRST_WAIT = 0.002
_LONGEST_WAIT = 0.02
# Whoever is next polls alone, and others wait for it.
_LONGEST_WAIT_AS_NEXT = 0.005


@dataclass(slots=True)
class _Hold:
    """The lock while it is held: given back when the last of those who entered has left."""

    file: BaseFileLock
    turn: asyncio.Lock
    loop: asyncio.AbstractEventLoop
    inside: int = 0

    def leave(self) -> None:
        self.inside -= 1
        if not self.inside:
            self.file.release()
            self.turn.release()


class StoreLock:
    """A file lock that tasks wait for without blocking the event loop.

    The operating system releases it when its holder dies, so a killed process never leaves it held. A task
    that already holds it may enter again, and so may the tasks it started meanwhile: they are part of its
    work, and the lock stays held until the last of them has left.

    A second file beside the first is held by whoever is next: who gives the lock back and wants it again at once
    has to wait there, so that one process that writes without a pause does not keep out the others.
    """

    def __init__(self, path: Path, *, timeout: float = 30.0) -> None:
        """Args: `path` of the lock file, made on first use; `timeout` in seconds before giving up."""
        self._path = path
        self._timeout = timeout
        # Tasks of one event loop queue up here, in order; an asyncio.Lock belongs to one loop.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._held: ContextVar[_Hold | None] = ContextVar("held", default=None)

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        """Hold the lock.

        Raises:
            StoreUnavailableError: it could not be had within the timeout, or its file cannot be written.
        """
        before = hold = self._held.get()
        # A task may outlive the block it was started in, and threads inherit the context of their starter.
        if hold is None or not hold.inside or hold.loop is not asyncio.get_running_loop():
            hold = await self._take()
            self._held.set(hold)
        hold.inside += 1
        try:
            yield
        finally:
            self._held.set(before)
            hold.leave()

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

    async def _acquire(self, deadline: float) -> BaseFileLock:
        queue = self._path.with_name(self._path.name + ".next")
        next_ = await self._locked(queue, deadline, _LONGEST_WAIT)
        try:
            return await self._locked(self._path, deadline, _LONGEST_WAIT_AS_NEXT)
        finally:
            next_.release()

    async def _locked(self, path: Path, deadline: float, longest: float) -> BaseFileLock:
        from filelock import FileLock, Timeout  # noqa: PLC0415

        lock = FileLock(path, thread_local=False)
        wait = _FIRST_WAIT
        while True:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                if asyncio.get_running_loop().time() > deadline:
                    raise self._busy() from None
            except OSError as exc:
                raise StoreUnavailableError(
                    f"cannot lock {str(path)!r} ({exc.strerror or exc}): check the permissions and free space"
                ) from exc
            else:
                return lock
            # Jitter keeps many waiters from polling in step.
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
            wait = min(wait * 1.5, longest)

    def _busy(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"another process or task has held {str(self._path)!r} for {self._timeout:g} s: "
            "wait for it to finish, or end it"
        )
