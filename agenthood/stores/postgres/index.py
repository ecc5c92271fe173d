"""HNSW indices: built beside the work once a collection is large, and the state of those there are.

They are built concurrently, which lets readers and writers go on; one that was not finished, because its process
died, is invalid, and is dropped and built anew. The index holds half-precision vectors: half the size, and scores are
computed from the exact ones anyway.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

from agenthood.errors import StoreError
from agenthood.stores.places import MOST_TENANTS
from agenthood.stores.postgres.advisory import taken
from agenthood.stores.postgres.rows import vector_columns
from agenthood.stores.postgres.search import dimension_of

if TYPE_CHECKING:
    from agenthood.stores.base import Collection, VectorField
    from agenthood.stores.postgres.connections import Connection
    from agenthood.stores.postgres.database import Database
    from agenthood.stores.postgres.tables import OpenTable

INDEXED_FROM = 10_000
"""A field is indexed once more rows than this have it; below, comparing all is as fast."""
MOST_DIMENSIONS = 4_000
"""What pgvector can index in half precision."""
_WRITES_BETWEEN_CHECKS = 2_000
_STATE_KNOWN_FOR = 10.0
_LULL = 2.0
_LONGEST_LULL = 120.0
_MEMORY = "256MB"
_BUILT = "hnsw"
_log = logging.getLogger("agenthood")


def index_of(table: str, field: str) -> str:
    """The qualified and quoted name of the index on a field of a table, itself so named."""
    return f'{table[:-1]}_{field}_hnsw"'


class Indices:
    """The HNSW indices of one database."""

    def __init__(self, database: Database, *, indexed_from: int = INDEXED_FROM) -> None:
        """Args: `database` they are in; `indexed_from` how many rows a field is indexed."""
        self._database = database
        self._from = indexed_from
        self._written: dict[str, int] = {}
        self._state: dict[str, tuple[float, bool]] = {}
        self._closing = False
        self._running: dict[str, asyncio.Task[None]] = {}

    async def there(self, table: OpenTable, field: str) -> bool:
        """Whether the field has an index that is complete."""
        name = index_of(table.name, field)
        until, known = self._state.get(name, (0.0, False))
        if until < time.monotonic():
            known = await _valid(table.connection, name) is True
            self._state[name] = (time.monotonic() + _STATE_KNOWN_FOR, known)
        return known

    async def missing(self, connection: Connection, collection: Collection, table: str) -> list[VectorField]:
        """The fields that should have an index and have none, or one that was not finished."""
        fields = []
        for field in vector_columns(collection):
            if dimension_of(collection, cast("VectorField", field)) > MOST_DIMENSIONS:
                continue
            if await _valid(connection, index_of(table, field)) is True:
                continue
            ((count,),) = await connection.run(
                f"select count(*) from (select from {table} where {field} is not null "  # noqa: S608  our names
                f"limit {self._from + 1}) as present"
            )
            if count > self._from:
                fields.append(cast("VectorField", field))
        return fields

    async def build(self, collection: Collection, table: str) -> list[str]:
        """Build what is missing; returns the fields indexed. Another process that is at it is left alone."""
        doing = f"indexing {collection.name!r}"
        async with self._database.transaction(doing) as connection:
            missing = await self.missing(connection, collection, table)
        if not missing:
            return []
        async with self._database.own(doing) as connection:
            # Given up with the connection.
            if not await taken(connection, f"index:{self._database.schema}:{table}"):
                return []
            await connection.script(
                f"set search_path = {self._database.quoted_schema}, {connection.extension or 'public'}; "
                f"set maintenance_work_mem = '{_MEMORY}'; "
                # Workers share memory that containers have little of, and the work beside needs processors too.
                "set max_parallel_maintenance_workers = 0; set statement_timeout = 0"
            )
            for field in missing:
                await self._build_one(connection, collection, table, field)
        return list(missing)

    async def _build_one(
        self, connection: Connection, collection: Collection, table: str, field: VectorField
    ) -> None:
        name = index_of(table, field)
        if (valid := await _valid(connection, name)) is True:
            return
        if valid is False:
            await connection.unbounded(f"drop index concurrently if exists {name}")
        dimension = dimension_of(collection, field)
        plain = '"' + name.rpartition('."')[2]  # it is made in the schema of its table
        await connection.unbounded(
            f"create index concurrently if not exists {plain} on {table} "
            f"using hnsw (({field}::halfvec({dimension})) halfvec_cosine_ops)"
        )
        self._state.pop(name, None)

    def after_commit(self, collection: Collection, table: str, written: int) -> None:
        """Count what was written to the collection, and index it beside whatever comes next if it is time."""
        before = self._written.get(table)
        total = self._written[table] = (before or 0) + written
        due = before is None or total // _WRITES_BETWEEN_CHECKS > before // _WRITES_BETWEEN_CHECKS
        running = self._running.get(table)
        if due and (running is None or running.done()):
            # In a context of its own: it is no part of what its starter holds a lock for.
            loop = asyncio.get_running_loop()
            self._running[table] = loop.create_task(self._keep_up(collection, table), context=Context())

    async def _lull(self, table: str) -> None:
        """Wait until no more is written, within reason: a row costs ten times as much once there is an index."""
        loop = asyncio.get_running_loop()
        longest, quiet_since, written = loop.time() + _LONGEST_LULL, loop.time(), self._written[table]
        while not self._closing and loop.time() < min(longest, quiet_since + _LULL):
            await asyncio.sleep(_LULL / 8)
            if self._written[table] != written:
                quiet_since, written = loop.time(), self._written[table]

    async def finish(self) -> None:
        """Wait for what is running, at most as long as a statement may take; then it is left to the next time."""
        self._closing = True
        try:
            loop = asyncio.get_running_loop()
            tasks = {task for task in self._running.values() if task.get_loop() is loop}
            self._running.clear()
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=self._database.address.timeout)
                for task in late:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._closing = False

    async def _keep_up(self, collection: Collection, table: str) -> None:
        try:
            async with self._database.transaction(f"indexing {collection.name!r}") as connection:
                missing = await self.missing(connection, collection, table)
            if missing:
                await self._lull(table)
                await self.build(collection, table)
        except StoreError as exc:  # what was to be written is written, and the next commit tries again
            _log.warning("%s", exc)

    async def describe(self, table: OpenTable) -> dict[str, Any]:
        """Rows, bytes, rows of each tenant, and the state of each index."""
        ((rows, with_bytes, dead),) = await table.run(
            f"select count(*), pg_total_relation_size(%s::regclass), "  # noqa: S608  our names
            f"coalesce((select n_dead_tup from pg_stat_user_tables where relid = %s::regclass), 0) from {table.name}",
            [table.name, table.name],
        )
        indices = {}
        unindexed = 0
        for field in vector_columns(table.collection):
            ((present,),) = await table.run(
                f"select count(*) from {table.name} where {field} is not null"  # noqa: S608  our names
            )
            valid = await _valid(table.connection, index_of(table.name, field))
            state = {None: "none: every row is compared", False: "being built, or not finished", True: _BUILT}
            indices[field] = {"type": state[valid], "unindexed_rows": 0 if valid else present}
            unindexed = max(unindexed, 0 if valid else present)
        found = {
            "rows": rows,
            "bytes": with_bytes,
            "dead_rows": dead,
            "indices": indices,
            "unindexed_rows": unindexed,
            "quantization": "float16" if any(one["type"] == _BUILT for one in indices.values()) else None,
        }
        if table.collection.scoped:
            found["tenants"] = dict(
                await table.run(
                    f"select tenant_id, count(*) from {table.name} "  # noqa: S608  our names
                    f"where tenant_id is not null group by 1 order by 2 desc, 1 limit {MOST_TENANTS}"
                )
            )
        return found


async def _valid(connection: Connection, name: str) -> bool | None:
    """Whether the index is complete; None if there is none."""
    rows = await connection.run(
        "select indisvalid and indisready from pg_index where indexrelid = to_regclass(%s)", [name]
    )
    return bool(rows[0][0]) if rows else None
