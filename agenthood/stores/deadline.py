"""How much of a store's time one piece of work may take, whatever else it waits for meanwhile."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agenthood.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LOADING: Final = 15.0
"""Seconds that loading a store's packages may take in all; LanceDB takes one or two, more on a busy machine."""

_section: ContextVar[Section | None] = ContextVar("section", default=None)


@dataclass(slots=True)
class Section:
    """A piece of work and the store's time that it has left.

    Only the time is counted during which at least one call to the store is on its way.

    Attributes:
        seconds: how much it may take.
        over: whether the work has ended; what it may have left running gets nothing any more.
    """

    seconds: float
    over: bool = False
    _spent: float = 0.0
    _since: float = 0.0
    _paused: int = 0
    _running: set[asyncio.Timeout] = field(default_factory=set)

    @property
    def spent(self) -> float:
        """Seconds of the store's time so far."""
        ticking = self._running and not self._paused
        return self._spent + (time.monotonic() - self._since if ticking else 0.0)

    @property
    def up(self) -> bool:
        """Whether its time is up or the work over, so that every further call fails."""
        return self.over or self.spent >= self.seconds

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """One call to the store, which is cancelled once the time is up.

        Raises:
            StoreUnavailableError: the time is up.
        """
        if self.up:
            raise self._late()
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                self._count(timeout)
                try:
                    yield
                finally:
                    self._spent = self.spent
                    self._since = time.monotonic()
                    self._running.discard(timeout)
        except TimeoutError:
            if timeout.expired():
                raise self._late() from None
            raise

    def _count(self, timeout: asyncio.Timeout) -> None:
        if not self._running:
            self._since = time.monotonic()
        self._running.add(timeout)
        self._schedule()

    def pause(self) -> None:
        """Let the time stand still, for `LOADING` seconds at most."""
        self._spent = self.spent
        self._paused += 1
        self._schedule()

    def resume(self) -> None:
        """Go on counting."""
        self._paused -= 1
        self._since = time.monotonic()
        self._schedule()

    def _schedule(self) -> None:
        left = self.seconds - self.spent + (LOADING if self._paused else 0.0)
        when = asyncio.get_running_loop().time() + left
        for timeout in self._running:
            if not timeout.expired():
                timeout.reschedule(when)

    def _late(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the store did not answer within {self.seconds:g} s: is it overloaded, or held by another process? "
            "Setting deadline waits longer"
        )


def current_section() -> Section | None:
    """The section this task works in or was started in, if there is one."""
    return _section.get()


@asynccontextmanager
async def within(section: Section) -> AsyncIterator[Section]:
    """Make `section` the current one, also of the tasks that are started in the block."""
    token = _section.set(section)
    try:
        yield section
    finally:
        section.over = True
        _section.reset(token)


@asynccontextmanager
async def uncounted() -> AsyncIterator[None]:
    """Keep what happens in the block from counting: loading packages takes CPU time once, and says nothing."""
    section = current_section()
    if section is None:
        yield
        return
    section.pause()
    try:
        yield
    finally:
        section.resume()
