"""The LanceDB backend: embedded, one directory, shared with the TypeScript program.

LanceDB's traps, all measured on 0.40 and handled here and in the `lance_*` modules beside: two concurrent upserts
of a new id both insert unless `id` is declared the primary key *and* the merge skips the scalar index; `_distance`
changes scale with the state of the index, so cosines are computed from the vectors themselves; a handle does not
see other processes' commits unless its read consistency interval is zero; every small write adds a fragment.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from contextvars import Context
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agenthood.errors import AgenthoodError, StoreError
from agenthood.formats import unstorable_reason
from agenthood.stores import lance_upkeep as upkeep
from agenthood.stores.base import (
    LEXICAL_DIMENSION,
    SHARED,
    Collection,
    Health,
    Hit,
    Record,
    UpsertResult,
    Vector,
    VectorField,
)
from agenthood.stores.lance_errors import is_stale, translated
from agenthood.stores.lance_index import create_scalar_indices, has_indices, keep_indexed
from agenthood.stores.lance_rows import collection_of, matrix_of, newest, schema_of, to_records, to_table
from agenthood.stores.lance_search import columns_of, search
from agenthood.stores.lance_sql import compile_filter, one_of, only_ids
from agenthood.stores.lance_writes import chunks, delete_ids, merge, superseded
from agenthood.stores.lock import StoreLock
from agenthood.stores.validation import check_queries, partition, storable_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from agenthood.stores.filters import Filter

T = TypeVar("T")

_log = logging.getLogger("agenthood")

_SCAN_ROWS = 4_096
# How often an operation is begun anew after another process removed the version it stood on.
_ATTEMPTS = 5


class LanceStore:
    """A `VectorStore` in a directory. Opening it is free: nothing is imported or created before first use."""

    def __init__(self, path: Path, *, lock_timeout: float = 30.0) -> None:
        """Args: `path` of the database directory; `lock_timeout` in seconds for the write lock."""
        self.path = path
        self._lock = StoreLock(path / ".agenthood.lock", timeout=lock_timeout)
        self._db: AsyncConnection | None = None
        self._tables: dict[str, AsyncTable] = {}
        self._shapes: dict[str, Collection] = {}
        self._opening = asyncio.Lock()
        self._ensuring = asyncio.Lock()
        self._commits: dict[str, int] = {}
        self._upkeep: dict[str, asyncio.Task[None]] = {}
        self._old_rows: dict[str, tuple[int, str]] = {}

    # -- collections ------------------------------------------------------------------------------------

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        if (known := self._shapes.get(collection.name)) is not None:
            return _fitting(collection, known)
        with translated(f"opening {collection.name!r} in {str(self.path)!r}"):
            table = await self._open_table(collection.name)
            if table is None:
                async with self._making():
                    table = await self._open_table(collection.name) or await self._create(collection)
            found = _fitting(collection, collection_of(collection.name, await table.schema()))
            await self._complete(found, table)
        self._tables[collection.name] = table
        self._shapes[collection.name] = found
        return found

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""
        with translated(f"listing {str(self.path)!r}"):
            names = sorted((await (await self._connection()).list_tables()).tables)
            tables = {name: await self._open_table(name) for name in names}
            found = [
                collection_of(name, await table.schema())
                for name, table in tables.items()
                if table is not None
            ]
        # Another program's tables in the same directory are none of ours.
        return tuple(collection for collection in found if collection is not None)

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`."""
        async with self.exclusive():
            self._tables.pop(name, None)
            self._shapes.pop(name, None)
            with translated(f"dropping {name!r}"):
                db = await self._connection()
                await db.drop_table(name, ignore_missing=True)

    async def _connection(self) -> AsyncConnection:
        async with self._opening:
            if self._db is None:
                # Read at import by LanceDB's native part; it would warn on stderr of things we handle.
                os.environ.setdefault("LANCEDB_LOG", "error")
                self.path.mkdir(parents=True, exist_ok=True)
                lancedb = await asyncio.to_thread(_import_lancedb)
                self._db = await lancedb.connect_async(
                    self.path.resolve(),
                    read_consistency_interval=timedelta(0),
                    # The file format that every version of the TypeScript program reads.
                    storage_options={"new_table_data_storage_version": "2.1"},
                )
            return self._db

    async def _open_table(self, name: str) -> AsyncTable | None:
        db = await self._connection()
        try:
            return await db.open_table(name)
        except ValueError as exc:
            if "was not found" in str(exc):
                return None
            raise

    @asynccontextmanager
    async def _making(self) -> AsyncIterator[None]:
        # Tasks that hold the write lock together may all want to create; only one does. In this order: a task
        # that waits for the write lock keeps nobody waiting who has it.
        async with self.exclusive(), self._ensuring:
            yield

    async def _create(self, collection: Collection) -> AsyncTable:
        db = await self._connection()
        return await db.create_table(collection.name, schema=schema_of(collection))

    async def _complete(self, collection: Collection, table: AsyncTable) -> None:
        """Do what is missing: the key, where the TypeScript program made the table, and indices after a kill."""
        if not (await table.schema()).field("id").metadata:
            async with self._making():
                await table.checkout_latest()
                if not (await table.schema()).field("id").metadata:
                    await table.set_unenforced_primary_key("id")  # Node honours it too
        if collection.typed and not await has_indices(table):
            async with self._making():
                await table.checkout_latest()
                if not await has_indices(table):
                    await create_scalar_indices(table)

    async def _table(self, collection: Collection) -> AsyncTable:
        if collection.name not in self._tables:
            await self.ensure_collection(collection)
        return self._tables[collection.name]

    async def _on_table(
        self, doing: str, collection: Collection, work: Callable[[AsyncTable], Awaitable[T]]
    ) -> T:
        """Run `work`; if another process removed the version it stood on, begin anew on the latest."""
        with translated(f"{doing} {collection.name!r} in {str(self.path)!r}"):
            for _ in range(_ATTEMPTS - 1):
                table = await self._table(collection)
                try:
                    return await work(table)
                except (RuntimeError, ValueError, OSError) as exc:
                    if isinstance(exc, AgenthoodError) or not is_stale(exc):
                        raise
                    await self._refresh(collection.name, table)
            return await work(await self._table(collection))

    async def _refresh(self, name: str, table: AsyncTable) -> None:
        try:
            await table.checkout_latest()
        except (RuntimeError, ValueError, OSError) as exc:
            if not is_stale(exc):
                raise
            # Another process dropped the table.
            self._tables.pop(name, None)
            self._shapes.pop(name, None)

    async def _selection(
        self, collection: Collection, table: AsyncTable, condition: Filter | None
    ) -> str | None:
        """`condition` as SQL that also leaves out the rows that a newer one with the same id replaces."""
        compiled = compile_filter(condition, collection) if condition else None
        if collection.typed:  # nobody else writes there
            return compiled
        version = await table.version()
        known, old = self._old_rows.get(collection.name, (-1, ""))
        if known != version:
            old = ", ".join(map(str, await superseded(table)))
            self._old_rows[collection.name] = (version, old)
        if not old:
            return compiled
        return f"NOT (_rowid IN ({old}))" + (f" AND {compiled}" if compiled else "")

    # -- writing ----------------------------------------------------------------------------------------

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """See `VectorStore.exclusive`."""
        return self._exclusively()

    @asynccontextmanager
    async def _exclusively(self) -> AsyncIterator[None]:
        with translated(f"making {str(self.path)!r}"):
            self.path.mkdir(parents=True, exist_ok=True)
        async with self._lock():
            yield

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`."""
        collection = await self.ensure_collection(collection)
        valid, rejected = partition(records, collection)

        async def write(table: AsyncTable) -> None:
            ids = [record.id for record in valid]
            version = await merge(table, to_table(valid, await table.schema()), ids)
            # A commit of ours leaves no id with several rows, so what was known of the version before still holds.
            if version is not None and self._old_rows.get(collection.name) == (version - 1, ""):
                self._old_rows[collection.name] = (version, "")

        if valid:
            # Under the lock, so that a compaction beside it is not for nothing.
            async with self.exclusive():
                await self._on_table("writing to", collection, write)
            self._after_commit(collection)
        return UpsertResult(len(valid), rejected)

    def _after_commit(self, collection: Collection) -> None:
        """See to the table now and then, beside whatever comes next."""
        name = collection.name
        commits = self._commits[name] = self._commits.get(name, 0) + 1
        running = self._upkeep.get(name)
        if commits % upkeep.COMMITS_BETWEEN_CHECKS == 1 and (running is None or running.done()):
            # In a context of its own: the caller may hold the write lock, which this must wait for.
            loop = asyncio.get_running_loop()
            self._upkeep[name] = loop.create_task(self._keep_up(collection), context=Context())

    async def _keep_up(self, collection: Collection) -> None:
        async def compact(table: AsyncTable) -> None:
            await upkeep.compact_if_fragmented(table)

        async def index(table: AsyncTable) -> None:
            await keep_indexed(table, collection)

        try:
            async with self.exclusive():  # a compaction that loses to a writer was for nothing
                await self._on_table("compacting", collection, compact)
            await self._on_table("indexing", collection, index)
        except StoreError as exc:  # what was to be written is written, and the next commit tries again
            _log.warning("%s", exc)

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        doomed = storable_ids(ids)
        return await self._on_table("deleting from", collection, lambda table: delete_ids(table, doomed))

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`."""
        collection = await self.ensure_collection(collection)
        table, doomed = await self._table(collection), storable_ids(ids)
        async with self.exclusive():
            with translated(f"purging {collection.name!r}"):
                folder = self.path / f"{collection.name}.lance"
                return await upkeep.purge(table, collection, doomed, folder)

    # -- reading ----------------------------------------------------------------------------------------

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        collection = await self.ensure_collection(collection)
        columns = columns_of(collection, vectors=vectors)
        found: list[Record] = []
        for part in chunks(storable_ids(ids)):
            condition = one_of("id", part)
            found += await self._on_table(
                "reading",
                collection,
                lambda table, condition=condition: _rows(table, columns, condition),  # type: ignore[misc]
            )
        return newest(found)

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`."""
        collection = await self.ensure_collection(collection)
        columns = columns_of(collection, vectors=vectors)
        given: set[str] = set()
        with translated(f"scanning {collection.name!r} in {str(self.path)!r}"):
            for attempt in range(_ATTEMPTS):
                table = await self._table(collection)
                try:
                    selected = await self._selection(collection, table, condition)
                    async for records in _batches(table, columns, selected):
                        yield [record for record in records if record.id not in given]
                        given.update(record.id for record in records)
                except (RuntimeError, ValueError, OSError) as exc:
                    if isinstance(exc, AgenthoodError) or not is_stale(exc) or attempt == _ATTEMPTS - 1:
                        raise
                    await self._refresh(collection.name, table)
                else:
                    return

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""
        collection = await self.ensure_collection(collection)

        async def read(table: AsyncTable) -> set[str]:
            if only_ids(condition):  # true or false for all rows of an id alike
                selected = compile_filter(condition, collection) if condition else None
            else:
                selected = await self._selection(collection, table, condition)
            query = table.query().select(["id"])
            return set((await (query.where(selected) if selected else query).to_arrow())["id"].to_pylist())

        return await self._on_table("reading", collection, read)

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""
        collection = await self.ensure_collection(collection)

        async def read(table: AsyncTable) -> int:
            return await table.count_rows(await self._selection(collection, table, condition))

        return await self._on_table("reading", collection, read)

    async def query(  # noqa: PLR0913  one for each thing that can be asked
        self,
        collection: Collection,
        vectors: Vector,
        *,
        field: VectorField = "vector",
        condition: Filter | None = None,
        limit: int = 10,
        unit: bool = False,
    ) -> list[list[Hit]]:
        """See `VectorStore.query`."""
        collection = await self.ensure_collection(collection)
        queries = check_queries(vectors, LEXICAL_DIMENSION if field == "lexical" else collection.dimension)
        if limit <= 0 or not len(queries):
            return [[] for _ in queries]

        async def read(table: AsyncTable) -> list[list[Hit]]:
            selected = await self._selection(collection, table, condition)
            return await search(
                table, collection, queries, field=field, condition=selected, limit=limit, unit=unit
            )

        return await self._on_table("searching", collection, read)

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> tuple[list[str], Vector]:
        """See `VectorStore.matrix`."""
        collection = await self.ensure_collection(collection)

        async def read(table: AsyncTable) -> tuple[list[str], Vector]:
            selected = await self._selection(collection, table, condition)
            query = table.query().select(["id", field])
            found = await (query.where(selected) if selected else query).to_arrow()
            vectors = matrix_of(found[field])
            there = np.flatnonzero(np.any(vectors, axis=1))
            ids = found["id"].take(there).to_pylist()
            return ids, vectors if len(there) == len(vectors) else vectors[there]

        return await self._on_table("reading", collection, read)

    async def match_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 1000,
    ) -> dict[str, list[str]]:
        """See `VectorStore.match_terms`."""
        collection = await self.ensure_collection(collection)
        compiled = compile_filter(condition, collection) if condition else None
        wanted = list(dict.fromkeys(terms))
        if limit <= 0:
            return {term: [] for term in wanted}

        async def one(term: str) -> list[str]:
            async def read(table: AsyncTable) -> list[str]:
                search = (
                    table.query()
                    .nearest_to_text(term, columns=["terms"])
                    .select(["id", "_score"])
                    .limit(limit)
                )
                found = await (search.where(compiled) if compiled else search).to_arrow()
                return sorted(found["id"].to_pylist())

            return (
                await self._on_table("searching", collection, read) if unstorable_reason(term) is None else []
            )

        return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """See `VectorStore.search_terms`."""
        collection = await self.ensure_collection(collection)
        compiled = compile_filter(condition, collection) if condition else None
        wanted = [term for term in dict.fromkeys(terms) if unstorable_reason(term) is None]
        if limit <= 0 or not wanted:
            return []

        async def read(table: AsyncTable) -> list[Record]:
            search = table.query().nearest_to_text(" ".join(wanted), columns=["terms"])
            search = search.select([*columns_of(collection, vectors=False), "_score"]).limit(limit)
            found = await (search.where(compiled) if compiled else search).to_arrow()
            return sorted(to_records(found.drop_columns(["_score"])), key=lambda record: record.id)

        return await self._on_table("searching", collection, read)

    # -- upkeep -----------------------------------------------------------------------------------------

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`."""
        table = await self._table(collection)
        async with self.exclusive():
            with translated(f"maintaining {collection.name!r}"):
                return await upkeep.maintain(table, collection)

    async def health(self) -> Health:
        """See `VectorStore.health`."""
        detail: dict[str, Any] = {"path": str(self.path)}
        try:
            async with self.exclusive():
                await self.ensure_collection(SHARED)
            for collection in await self.collections():
                detail[collection.name] = await self._on_table("reading", collection, upkeep.describe)
        except AgenthoodError as exc:
            return Health("lancedb", ok=False, detail=detail, problem=str(exc))
        return Health("lancedb", ok=True, detail=detail)

    async def close(self) -> None:
        """See `VectorStore.close`."""
        await asyncio.gather(*self._upkeep.values())
        self._upkeep.clear()
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        self._shapes.clear()
        if self._db is not None:
            self._db.close()
            self._db = None


def _import_lancedb() -> Any:  # noqa: ANN401  a module
    import lancedb  # noqa: PLC0415  1 s of CPU, so only when a store is used

    return lancedb


def _fitting(wanted: Collection, found: Collection | None) -> Collection:
    """The collection as it is, if it can serve as `wanted`; the shared table may have any dimension."""
    if found is None or wanted.typed != found.typed:
        raise StoreError(
            f"table {wanted.name!r} has other columns: it was not made for this, choose another name"
        )
    if wanted.typed and wanted.dimension != found.dimension:
        raise StoreError(
            f"collection {wanted.name!r} holds vectors of {found.dimension} dimensions, not {wanted.dimension}: "
            "give the changed model a new revision, so that it gets a collection of its own"
        )
    return found


async def _rows(table: AsyncTable, columns: list[str], condition: str) -> list[Record]:
    return to_records(await table.query().select(columns).where(condition).to_arrow())


async def _batches(
    table: AsyncTable, columns: list[str], condition: str | None
) -> AsyncIterator[list[Record]]:
    import pyarrow as pa  # noqa: PLC0415

    query = table.query().select(columns)
    batches = await (query.where(condition) if condition else query).to_batches(max_batch_length=_SCAN_ROWS)
    async for batch in batches:
        yield to_records(pa.Table.from_batches([batch]))
