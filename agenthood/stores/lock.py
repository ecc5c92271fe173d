"""The write lock of an embedded store: one holder among all processes, threads and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.errors import StoreUnavailableError
from agenthood.stores.reentrant import ReentrantLock, polled

if TYPE_CHECKING:
    from pathlib import Path

    from filelock import BaseFileLock

    from agenthood.stores.reentrant import Release

_LONGEST_WAIT = 0.02
# Whoever is next polls alone, and others wait for it.
_LONGEST_WAIT_AS_NEXT = 0.005


class StoreLock(ReentrantLock):
    """A file lock that tasks wait for without blocking the event loop; it has one scope.

    The operating system releases it when its holder dies, so a killed process never leaves it held.

    A second file beside the first is held by whoever is next: who gives the lock back and wants it again at once
    has to wait there, so that one process that writes without a pause does not keep out the others.
    """

    def __init__(self, path: Path, *, timeout: float = 30.0) -> None:
        """Args: `path` of the lock file, made on first use; `timeout` in seconds before giving up."""
        super().__init__(timeout=timeout)
        self._path = path

    def what(self, scope: str) -> str:  # noqa: ARG002  there is one
        """See `ReentrantLock.what`."""
        return repr(str(self._path))

    async def acquire(self, scope: str, deadline: float) -> Release:
        """See `ReentrantLock.acquire`; also fails if the file cannot be written."""
        queue = self._path.with_name(self._path.name + ".next")
        next_ = await self._locked(queue, scope, deadline, _LONGEST_WAIT)
        try:
            file = await self._locked(self._path, scope, deadline, _LONGEST_WAIT_AS_NEXT)
        finally:
            next_.release()

        async def release() -> None:
            file.release()

        return release

    async def _locked(self, path: Path, scope: str, deadline: float, longest: float) -> BaseFileLock:
        from filelock import FileLock, Timeout  # noqa: PLC0415

        lock = FileLock(path, thread_local=False)

        async def attempt() -> bool:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                return False
            except OSError as exc:
                raise StoreUnavailableError(
                    f"cannot lock {str(path)!r} ({exc.strerror or exc}): check the permissions and free space"
                ) from exc
            return True

        if not await polled(attempt, deadline, longest=longest):
            raise self.busy(scope)
        return lock
