"""The write locks of a Postgres store: advisory locks, one for each scope, given back when their holder dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.stores.postgres.advisory import give_back, taken
from agenthood.stores.postgres.errors import translated
from agenthood.stores.reentrant import ReentrantLock, polled

if TYPE_CHECKING:
    from agenthood.stores.postgres.connections import Connection
    from agenthood.stores.postgres.database import Database
    from agenthood.stores.reentrant import Release

_LONGEST_WAIT = 0.05
# Whoever is next polls alone, and others wait for it.
_LONGEST_WAIT_AS_NEXT = 0.01


class PostgresLock(ReentrantLock):
    """Advisory locks, each in a connection of its own, polled.

    A statement that waits for a lock would keep `create index concurrently` waiting, and with it perhaps the
    holder. As with the lock file of an embedded store, a second lock is held by whoever is next.
    """

    def __init__(self, database: Database) -> None:
        """Args: `database` whose locks they are; its timeout is how long is waited for one."""
        super().__init__(timeout=database.address.timeout)
        self._database = database

    def what(self, scope: str) -> str:
        """See `ReentrantLock.what`."""
        return f"the write lock {'agenthood:' + self._name(scope)!r} of Postgres at {self._database.address}"

    def _name(self, scope: str) -> str:
        return f"write:{self._database.schema}:{scope}"

    async def acquire(self, scope: str, deadline: float) -> Release:
        """See `ReentrantLock.acquire`."""
        with translated("taking the write lock", self._database.address):
            connection = await self._database.connections.connect()
            try:
                await self._polled(connection, self._name(scope) + ":next", scope, deadline, _LONGEST_WAIT)
                await self._polled(connection, self._name(scope), scope, deadline, _LONGEST_WAIT_AS_NEXT)
                await give_back(connection, self._name(scope) + ":next")
            except BaseException:  # also a cancellation: nobody else would give it back
                connection.drop()
                raise

        async def release() -> None:
            # Without asking for it: the server gives up the lock as soon as it sees the connection closed, and a
            # task that is being cancelled must not wait.
            connection.drop()

        return release

    async def _polled(
        self, connection: Connection, name: str, scope: str, deadline: float, longest: float
    ) -> None:
        if not await polled(lambda: taken(connection, name), deadline, longest=longest):
            raise self.busy(scope)
