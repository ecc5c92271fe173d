"""The write lock of an embedded store: one holder among all processes, threads and tasks."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from agenthood.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_FIRST_WAIT = 0.002
_LONGEST_WAIT = 0.05


class StoreLock:
    """A file lock that tasks wait for without blocking the event loop.

    The operating system releases it when its holder dies, so a killed process never leaves it held. A task
    that already holds it may enter again.
    """

    def __init__(self, path: Path, *, timeout: float = 30.0) -> None:
        """Args: `path` of the lock file, made on first use; `timeout` in seconds before giving up."""
        self._path = path
        self._timeout = timeout
        self._tasks: asyncio.Lock | None = None
        self._held: ContextVar[bool] = ContextVar("held", default=False)

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        """Hold the lock.

        Raises:
            StoreUnavailableError: it could not be had within the timeout, or its file cannot be written.
        """
        if self._held.get():
            yield
            return
        from filelock import FileLock  # noqa: PLC0415

        if self._tasks is None:
            self._tasks = asyncio.Lock()
        async with self._tasks:
            lock = FileLock(self._path, thread_local=False)
            await self._acquire(lock)
            token = self._held.set(True)
            try:
                yield
            finally:
                self._held.reset(token)
                lock.release()

    async def _acquire(self, lock: object) -> None:
        from filelock import FileLock, Timeout  # noqa: PLC0415

        assert isinstance(lock, FileLock)  # noqa: S101  for the type checker
        deadline = asyncio.get_running_loop().time() + self._timeout
        wait = _FIRST_WAIT
        while True:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                if asyncio.get_running_loop().time() > deadline:
                    raise StoreUnavailableError(
                        f"another process has held {str(self._path)!r} for {self._timeout:g} s: "
                        "wait for it to finish, or end it"
                    ) from None
            except OSError as exc:
                raise StoreUnavailableError(
                    f"cannot lock {str(self._path)!r} ({exc.strerror or exc}): check the permissions and free space"
                ) from exc
            else:
                return
            # Jitter keeps many waiters from polling in step.
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
            wait = min(wait * 1.5, _LONGEST_WAIT)
