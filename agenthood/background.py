"""An event loop in a background thread, for calling asynchronous code from any thread."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")

_LAST_SECONDS = 2.0
"""How long is waited for the thread when the loop ends: the process may be at its end."""


class BackgroundLoop:
    """Runs coroutines on one event loop, in one thread of its own.

    The thread is a daemon, since the interpreter waits for any other kind at exit, and nobody may have called
    `close` by then.
    """

    def __init__(self) -> None:
        """Start the thread."""
        loop = asyncio.new_event_loop()
        self._loop = loop
        self._calls: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=_serve, args=(loop,), name="agenthood", daemon=True)
        self._thread.start()
        # Also when it is dropped, or the process ends, without `close`.
        self._stop = weakref.finalize(self, _stop, loop, self._thread)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and return its result; whatever interrupts the waiting thread cancels it.

        Raises:
            RuntimeError: called from the loop's own thread, where waiting would never end.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a callback cannot wait for the store that called it: call it afterwards")
        future = asyncio.run_coroutine_threadsafe(self._run(work), self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # does nothing unless the waiting was interrupted

    def settle(self, worth_it: Callable[[], Awaitable[bool]], patience: float) -> None:
        """Wait until the calls of other threads, and those that were cancelled, have ended.

        Args:
            worth_it: asked again and again whether to wait on; where it is not, the calls are cancelled.
            patience: seconds after which it is asked.
        """
        self.call(self._settled(worth_it, patience))

    def close(self) -> None:
        """End the loop; closing twice is fine."""
        self._stop()

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine that runs is in a task
        self._calls.add(task)
        try:
            return await work
        finally:
            self._calls.discard(task)

    async def _settled(self, worth_it: Callable[[], Awaitable[bool]], patience: float) -> None:
        while others := self._calls - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=patience)
            if self._calls - {asyncio.current_task()} and not await worth_it():
                for task in others:
                    task.cancel()
                await asyncio.wait(others, timeout=patience)
                return


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():  # the last reference may be dropped there
        thread.join(_LAST_SECONDS)
