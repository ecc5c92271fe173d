"""Coming back after an outage, beside the calls: looking now and then whether the store answers again."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
_log = logging.getLogger("agenthood")


class Healing:
    """Tries, with growing pauses, until everything is as it should be; then it rests until it is started again."""

    def __init__(self, heal: Callable[[], Awaitable[bool]]) -> None:
        """Args: `heal`, which does what can be done now, and says whether that was all."""
        self._heal = heal
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Begin, unless it is at work already."""
        if not self._closed and (self._task is None or self._task.done()):
            # In a context of its own: it is no part of the call that met the outage.
            self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    async def aclose(self) -> None:
        """Stop for good."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                if await self._heal():
                    return
            except Exception:  # noqa: BLE001  nobody waits for this task, and the next attempt may do better
                _log.debug("memory could not be brought back", exc_info=True)
