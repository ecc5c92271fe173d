"""The Postgres backend: a schema of a database that many hoods and tenants share, searched with pgvector."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.errors import AgenthoodError, MissingExtraError, StoreError, StoreUnavailableError
from agenthood.formats import loads_object, unstorable_reason
from agenthood.stores.base import (
    LEXICAL_DIMENSION,
    TYPED_FIELDS,
    Collection,
    Health,
    Hit,
    Matrix,
    Record,
    UpsertResult,
    Vector,
    VectorField,
)
from agenthood.stores.postgres import reads, writes
from agenthood.stores.postgres.database import Database
from agenthood.stores.postgres.index import Indices
from agenthood.stores.postgres.keys import key
from agenthood.stores.postgres.lock import PostgresLock
from agenthood.stores.postgres.rows import of_tenant
from agenthood.stores.postgres.search import Asked, ManyMatches, search
from agenthood.stores.postgres.sql import TENANT, TRUE, Clause, compile_filter, joined
from agenthood.stores.postgres.tables import Tables
from agenthood.stores.validation import check_queries, partition, storable_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from agenthood.stores.filters import Filter
    from agenthood.stores.postgres.tables import OpenTable
    from agenthood.stores.settings import StoreSettings


class PostgresStore:
    """A `VectorStore` in a schema of a Postgres database. Opening it is free: nothing is reached before first use."""

    def __init__(self, settings: StoreSettings, *, tenant: str | None = None) -> None:
        """Open the store that `settings` name.

        Args:
            settings: the address; `namespace` is the schema, made on first use by `ensure_collection` or `upsert`.
            tenant: whose records can be read and written at all, also where a filter is forgotten: here, and by row
                level security on the server. None sees everyone's, as maintenance and copying must.

        Raises:
            MissingExtraError: psycopg or pgvector is not installed.
            ConfigError: the address cannot be read.
            StoreError: the namespace cannot name a schema.
        """
        for package in ("psycopg", "pgvector"):
            if find_spec(package) is None:
                raise MissingExtraError(package, "postgres")
        self.tenant = tenant
        self._database = Database(settings, tenant)
        self._tables = Tables(self._database)
        self._indices = Indices(self._database)
        self._lock = PostgresLock(self._database)
        self._many = ManyMatches()

    # -- collections ------------------------------------------------------------------------------------

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        found = await self._tables.find(collection)
        return found and found[0]

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        return (await self._tables.ensure(collection))[0]

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""
        return tuple(found for found, _ in (await self._tables.all()).values())

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`; with the records of every tenant."""
        await self._tables.drop(name)

    # -- writing ----------------------------------------------------------------------------------------

    def exclusive(self, scope: str = "") -> AbstractAsyncContextManager[None]:
        """See `VectorStore.exclusive`; scopes do not keep each other out."""
        return self._lock(scope)

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`; of a store opened for a tenant, records of another are rejected."""
        collection = await self.ensure_collection(collection)
        valid, rejected = partition(records, collection)
        valid, foreign = of_tenant(valid, self.tenant)

        async def write(table: OpenTable) -> str:
            await writes.upsert(table, valid, self.tenant)
            return table.name

        if valid:
            table = await self._tables.run("writing to", collection, write, make=True)
            self._indices.after_commit(collection, str(table), len(valid))
        return UpsertResult(len(valid), rejected + foreign)

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        doomed = storable_ids(ids)

        async def write(table: OpenTable) -> int:
            return await writes.delete(table, doomed, self._own)

        return await self._tables.run("deleting from", collection, write) or 0

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`: a deletion and a vacuum.

        Afterwards no statement finds the records, and the space of their bytes in table and indices is free to be
        written over. Postgres keeps more than it can be told to forget here: the write-ahead log has the records until
        its segments are recycled (and in archives and replicas as long as those are kept), pages keep freed bytes
        until they are used again, and backups are backups. `vacuum full` by an administrator rewrites the files.
        """
        removed = await self.delete(collection, ids)
        if (there := await self._tables.find(collection)) is not None:
            await self._vacuum("purging", collection, f"vacuum (index_cleanup on) {there[1]}")
        return removed

    async def _vacuum(self, doing: str, collection: Collection, statement: str) -> None:
        async with self._database.own(f"{doing} {collection.name!r}") as connection:
            await connection.script(
                f"set search_path = {self._database.quoted_schema}, {connection.extension or 'public'}; "
                "set statement_timeout = 0"
            )
            await connection.unbounded(statement)

    # -- reading ----------------------------------------------------------------------------------------

    @property
    def _own(self) -> Clause:
        """The rows that may be seen, said once more: so an index on the tenant serves, and where the wall is down."""
        return TRUE if self.tenant is None else Clause(f"{TENANT} = %s", (key(self.tenant),))

    def _selection(self, condition: Filter | None, collection: Collection) -> Clause:
        parts = [] if self.tenant is None else [self._own]
        if condition is not None:
            parts.append(compile_filter(condition, collection))
        return joined(" and ", parts, TRUE)

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        wanted = storable_ids(ids)

        async def read(table: OpenTable) -> dict[str, Record]:
            return await reads.by_id(table, wanted, self._own, vectors=vectors)

        return await self._tables.run("reading", collection, read) or {}

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`; each batch is read when it is asked for, and nothing is held in between."""
        after = ""

        async def read(table: OpenTable) -> tuple[list[Record], str]:
            selection = self._selection(condition, table.collection)
            return await reads.page(table, selection, after, vectors=vectors)

        while (page := await self._tables.run("scanning", collection, read)) is not None and page[0]:
            yield page[0]
            after = page[1]

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""

        async def read(table: OpenTable) -> set[str]:
            return await reads.ids(table, self._selection(condition, table.collection))

        return await self._tables.run("reading", collection, read) or set()

    async def version(self, collection: Collection) -> int | None:  # noqa: ARG002  none is kept
        """See `VectorStore.version`."""
        return None

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""

        async def read(table: OpenTable) -> int:
            return await reads.count(table, self._selection(condition, table.collection))

        return await self._tables.run("reading", collection, read) or 0

    async def query(  # noqa: PLR0913  one for each thing that can be asked
        self,
        collection: Collection,
        vectors: Vector,
        *,
        field: VectorField = "vector",
        condition: Filter | None = None,
        limit: int = 10,
        unit: bool = False,  # noqa: ARG002  cosine is as fast
        with_vectors: bool = True,
    ) -> list[list[Hit]]:
        """See `VectorStore.query`."""
        collection = await self.find(collection) or collection
        queries = check_queries(vectors, LEXICAL_DIMENSION if field == "lexical" else collection.dimension)
        if limit <= 0 or not len(queries):
            return [[] for _ in queries]

        async def read(table: OpenTable) -> list[list[Hit]]:
            if field == "lexical" and not table.collection.lexical:
                raise StoreError(
                    f"collection {table.collection.name!r} has no lexical vectors: search its 'vector'"
                )
            asked = Asked(field, self._selection(condition, table.collection), limit, with_vectors)
            index = await self._indices.there(table, field) and await self._many.check(table, asked)
            return await search(table, queries, asked, index=index)

        hits = await self._tables.run("searching", collection, read)
        return [[] for _ in queries] if hits is None else hits

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> Matrix:
        """See `VectorStore.matrix`."""

        async def read(table: OpenTable) -> list[tuple[Any, ...]]:
            return await reads.vectors(table, field, self._selection(condition, table.collection))

        rows = await self._tables.run("reading", collection, read) or []
        collection = await self.find(collection) or collection
        width = LEXICAL_DIMENSION if field == "lexical" else collection.dimension
        bodies = [loads_object(metadata) for _, metadata, _ in rows]
        return Matrix(
            [id_ for id_, _, _ in rows],
            np.stack([vector for _, _, vector in rows]) if rows else np.zeros((0, width), dtype=np.float32),
            [tuple(body.get(name) for name in TYPED_FIELDS) for body in bodies],
        )

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """See `VectorStore.search_terms`."""
        wanted = [key(term) for term in dict.fromkeys(terms) if term and unstorable_reason(term) is None]
        if limit <= 0 or not wanted:
            return []

        async def read(table: OpenTable) -> list[Record]:
            selection = self._selection(condition, table.collection)
            return await reads.holders(table, wanted, selection, limit)

        return await self._tables.run("searching", collection, read) or []

    # -- upkeep -----------------------------------------------------------------------------------------

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`: frees what deleted rows held, refreshes statistics, builds missing indices."""
        if (there := await self._tables.find(collection)) is None:
            return {"rows": 0}
        found, table = there
        before = await self._described(found) or {}
        await self._vacuum("maintaining", found, f"vacuum (analyze) {table}")
        indexed = await self._indices.build(found, table)
        after = await self._described(found) or {"rows": 0}
        freed = before.get("bytes", 0) - after.get("bytes", 0)
        return {
            **after,
            "dead_rows_before": before.get("dead_rows", 0),
            "bytes_freed": 0 if indexed else max(0, freed),
            "indexed": indexed,
        }

    async def _described(self, collection: Collection) -> dict[str, Any] | None:
        return await self._tables.run("describing", collection, self._indices.describe)

    async def health(self) -> Health:
        """See `VectorStore.health`; also says whether row level security holds, and of how many rows each tenant is."""
        detail: dict[str, Any] = {"address": str(self._database.address)}
        try:
            async with self._database.transaction("asking for its version", rows=False) as connection:
                detail["version"] = await reads.version(connection)
                read_only = await reads.read_only(connection)
            ready = await self._database.ready(make=False)
            if ready:
                detail["row_level_security"] = self._database.wall or "in force"
            for collection in await self.collections():
                if (found := await self._described(collection)) is not None:
                    detail[collection.name] = found
            if read_only:
                raise StoreUnavailableError(
                    f"Postgres at {self._database.address} is read-only, such as a standby: "
                    "give the address of the primary server"
                )
            await (self._database.check_writable() if ready else self._database.check_makeable())
        except AgenthoodError as exc:
            return Health("postgres", ok=False, detail=detail, problem=str(exc))
        return Health("postgres", ok=True, detail=detail)

    async def close(self) -> None:
        """See `VectorStore.close`."""
        await self._indices.finish()
        self._database.connections.close()
