"""Advisory locks of Postgres, taken by name and held by a connection: the server gives them up with it.

They are polled, never waited for: a statement that waits keeps `create index concurrently` waiting, and with it perhaps
the holder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenthood.stores.postgres.connections import Connection


async def taken(connection: Connection, name: str) -> bool:
    """Take the lock `agenthood:{name}` if nobody else has it; whether that is so."""
    rows = await connection.run("select pg_try_advisory_lock(hashtextextended(%s, 0))", [f"agenthood:{name}"])
    return bool(rows[0][0])


async def give_back(connection: Connection, name: str) -> None:
    """Give back the lock `agenthood:{name}`."""
    await connection.run("select pg_advisory_unlock(hashtextextended(%s, 0))", [f"agenthood:{name}"])
