"""Indexing, beside the calls, the lessons that were learned while the embedder did not work."""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context
from typing import TYPE_CHECKING

from agenthood.errors import AgenthoodError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agenthood.learning.spaces import ActiveSpace
    from agenthood.records import MigrationReport

SOON = 1.0
"""Seconds that the call which finds the embedder working again waits for the lessons left behind."""
PAUSE = 10.0
"""Seconds before an attempt that did not get to the end is followed by another."""

_log = logging.getLogger("agenthood")


class CatchUp:
    """Runs the migration as soon as an embedder that had failed answers again.

    Attributes:
        report: of the last migration, here or elsewhere; None before the first.
    """

    def __init__(self, space: ActiveSpace, migrate: Callable[[], Awaitable[MigrationReport]]) -> None:
        """Args: the `space` to listen to, and what indexes the missing lessons."""
        self.report: MigrationReport | None = None
        self._space = space
        self._migrate = migrate
        self._task: asyncio.Task[None] | None = None
        self._fresh = False
        self._not_before = 0.0
        space.on_recovery = self._start

    @property
    def missing(self) -> str:
        """Why a recall by meaning may miss lessons; empty if it does not."""
        if not self._space.behind:
            return ""
        remaining = self.report.remaining if self.report is not None else 0
        if (
            self.report is not None and self.report.reason and not remaining
        ):  # it did not even come to count them
            return f"some lessons may not be found by meaning: {self.report.reason}"
        return f"{remaining or 'some'} lessons cannot be found by meaning yet: run agenthood migrate"

    async def run(self, migrate: Awaitable[MigrationReport]) -> MigrationReport:
        """Await a migration and remember what came of it."""
        # Before it looks for what is missing: what fails after that is behind again.
        self._space.behind = False
        try:
            report = self.report = await migrate
        except BaseException:  # also a cancellation: the rest is still to be done
            self._space.behind = True
            raise
        self._space.behind = self._space.behind or not report.complete
        return report

    async def just_done(self) -> bool:
        """Wait a moment if catching up has just begun; whether it has come to its end since it was last asked."""
        if not self._fresh or self._task is None:
            return False
        self._fresh = False
        await asyncio.wait({self._task}, timeout=SOON)
        return self._task.done() and not self._space.behind

    async def aclose(self) -> None:
        """Stop; what is missing is indexed at the next start."""
        self._space.on_recovery = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        if (self._task is None or self._task.done()) and time.monotonic() >= self._not_before:
            self._fresh = True
            # In a context of its own: the caller may hold the write lock, which this must wait for.
            self._task = asyncio.get_running_loop().create_task(self._attempt(), context=Context())

    async def _attempt(self) -> None:
        try:
            report = await self.run(self._migrate())
        except AgenthoodError as exc:
            _log.warning("lessons left behind could not be indexed: %s", exc)
            complete = False
        else:
            complete = report.complete
        if not complete:
            self._not_before = time.monotonic() + PAUSE
