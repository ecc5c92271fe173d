"""The write lock of a scope as a lease: a point on the server, taken, renewed and given back by conditional writes.

A point with the id of the scope says who holds it. It is written only under a condition that the server checks as it
applies the write (`update_filter`): nobody holds it, or the holder seen has not renewed it for a whole lease *by the
clock of who waits*, so that clocks need not agree. Then it is read back: who finds its own token holds the lock.

What this guarantees: on a collection whose writes are applied in one order (one replica, or several with strong
ordering) two never hold it as long as the holder renews in time. A holder that was stopped for longer than a
lease may meet a successor: it finds out before its next write, which is refused. A write that was on its way when it
was stopped may still arrive; it replaces whole records by id, and evidence of the successor on the same record can be
lost then. One that dies is waited for one lease.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agenthood.errors import StoreError, StoreUnavailableError
from agenthood.stores.reentrant import ReentrantLock

if TYPE_CHECKING:
    from agenthood.stores.qdrant.lease_table import LeaseTable

_FIRST_WAIT = 0.01
_LONGEST_WAIT = 0.1
_COURTESY = 0.2
"""Seconds for which who gave it back to one that waits does not take it again: longer than any pause in waiting."""
_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """How long a lease holds.

    Attributes:
        seconds: after so long without renewal it may be taken; a third of it is the pause between two renewals.
        wait: how many seconds to wait for it; more than a lease, or that of a dead holder is never had.
    """

    seconds: float = 10.0
    wait: float = 30.0


DEFAULT_LEASE = LeaseRules()


@dataclass(slots=True)
class Lease:
    """A lease while it is held."""

    table: LeaseTable
    scope: str
    token: str
    rules: LeaseRules
    confirmed: float
    yielding: set[str]
    renewing: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Refuse to go on with a lease that may be another's by now.

        Raises:
            StoreUnavailableError: it was not renewed in time.
        """
        if asyncio.get_running_loop().time() - self.confirmed >= self.rules.seconds:
            raise StoreUnavailableError(
                f"the lock of {self.scope!r:.80} at {self.table.connection.address.shown!r} was not renewed for "
                f"{self.rules.seconds:g} s, so that another may hold it: nothing more was written, try again"
            )

    async def keep(self) -> None:
        """Renew it until cancelled or lost."""
        clock = asyncio.get_running_loop().time
        beat, pause = 0, self.rules.seconds / 3
        while True:
            await asyncio.sleep(pause)
            beat += 1
            asked = clock()
            try:
                async with asyncio.timeout(pause):  # a request may be given longer than a lease lasts
                    alive = await self.table.renew(self.scope, self.token, beat)
            except (StoreError, TimeoutError) as exc:  # tried again; `check` tells when the lease is over
                _log.debug("the lock of %.80r was not renewed: %s", self.scope, exc or "no answer in time")
                continue
            if not alive:
                self.confirmed = float("-inf")
                return
            self.confirmed = asked

    async def __call__(self) -> None:
        """Give it back; where that fails it runs out by itself."""
        if self.renewing is not None:
            self.renewing.cancel()
            await asyncio.gather(self.renewing, return_exceptions=True)
        try:
            if await self.table.is_wanted(self.scope):
                self.yielding.add(self.scope)
            await self.table.give_back(self.scope, self.token)
        except StoreError as exc:
            _log.warning("%s; it runs out in %g s", exc, self.rules.seconds)


class LeaseLock(ReentrantLock):
    """The locks of all scopes among all machines, processes, threads and tasks.

    Who waits says so on the holder's point, and who gave it back to one that waits lets it come first: one process
    that writes without a pause does not keep out the others.
    """

    def __init__(self, table: LeaseTable, rules: LeaseRules) -> None:
        """Args: `table` of leases; `rules` of how long."""
        super().__init__(timeout=rules.wait)
        self._table = table
        self._rules = rules
        self._yielding: set[str] = set()

    def check(self) -> None:
        """See `Lease.check`; nothing happens if the running task is no holder."""
        loop = asyncio.get_running_loop()
        for hold in self._held.get().values():
            if hold.inside and hold.loop is loop and isinstance(hold.release, Lease):
                hold.release.check()

    def what(self, scope: str) -> str:
        """The lock, as an error names it."""
        return f"the lock of {scope!r:.80} at {self._table.connection.address.shown!r}"

    async def acquire(self, scope: str, deadline: float) -> Lease:
        """Take the lease of `scope` from all others, and begin to renew it."""
        token = uuid.uuid4().hex
        await self._let_others_first(scope)
        try:
            confirmed = await self._taken(scope, token, deadline)
        except BaseException:  # also a cancellation: what may have been taken is given back, or runs out
            await self._quietly_give_back(scope, token)
            raise
        lease = Lease(self._table, scope, token, self._rules, confirmed, self._yielding)
        # In a context of its own: it belongs to the lock, not to what is done under it.
        loop = asyncio.get_running_loop()
        lease.renewing = loop.create_task(lease.keep(), context=Context())
        return lease

    async def _let_others_first(self, scope: str) -> None:
        """Wait until who waited when it was given back has it, or a moment if it does not come."""
        if scope not in self._yielding:
            return
        self._yielding.discard(scope)
        clock = asyncio.get_running_loop().time
        until = clock() + _COURTESY
        # What it waits for happens on the server.
        while clock() < until and await self._table.read(scope) is None:  # noqa: ASYNC110
            await asyncio.sleep(_FIRST_WAIT)

    async def _taken(self, scope: str, token: str, deadline: float) -> float:
        """Take the lock; when that was asked for, by the loop's clock."""
        clock = asyncio.get_running_loop().time
        seen: tuple[str, int] | None = None
        asked_of = ""
        since, wait = clock(), _FIRST_WAIT
        while True:
            stale = seen is not None and clock() - since >= self._rules.seconds
            asked = clock()
            if seen is None or stale:
                await self._table.put(scope, token, 0, seen)
            holder = await self._table.read(scope)
            if holder is not None and holder[0] == token:
                return asked
            if holder != seen:
                seen, since = holder, clock()
            if clock() > deadline:
                raise self.busy(scope)
            if holder is None:  # just given back
                wait = _FIRST_WAIT
            elif holder[0] != asked_of:
                asked_of = holder[0]
                await self._table.ask(scope, asked_of, token)
            # Jitter keeps many waiters from polling in step.
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311
            wait = min(wait * 1.5, _LONGEST_WAIT)

    async def _quietly_give_back(self, scope: str, token: str) -> None:
        try:
            await self._table.give_back(scope, token)
        except StoreError as exc:
            _log.debug("%s", exc)
