"""The write lock of an embedded store: one holder among all processes, threads and tasks."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agenthood.errors import StoreUnavailableError
from agenthood.stores.reentrant import ReentrantLock

if TYPE_CHECKING:
    from pathlib import Path

    from filelock import BaseFileLock

_FIRST_WAIT = 0.002
_LONGEST_WAIT = 0.02
# Whoever is next polls alone, and others wait for it.
_LONGEST_WAIT_AS_NEXT = 0.005


@dataclass(frozen=True, slots=True)
class _HeldFile:
    file: BaseFileLock

    async def release(self) -> None:
        self.file.release()


class StoreLock(ReentrantLock):
    """A file lock.

    The operating system releases it when its holder dies, so a killed process never leaves it held.

    A second file beside the first is held by whoever is next: who gives the lock back and wants it again at once
    has to wait there, so that one process that writes without a pause does not keep out the others.
    """

    def __init__(self, path: Path, *, timeout: float = 30.0) -> None:
        """Args: `path` of the lock file, made on first use; `timeout` in seconds before giving up."""
        super().__init__(timeout=timeout)
        self._path = path

    async def _acquire(self, deadline: float) -> _HeldFile:
        queue = self._path.with_name(self._path.name + ".next")
        next_ = await self._locked(queue, deadline, _LONGEST_WAIT)
        try:
            return _HeldFile(await self._locked(self._path, deadline, _LONGEST_WAIT_AS_NEXT))
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
