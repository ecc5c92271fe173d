"""The LanceDB backend: embedded, one directory, shared with the TypeScript program.

LanceDB's traps, all measured on 0.40 and handled here and in the `lance_*` modules beside: two concurrent upserts
of a new id both insert unless `id` is declared the primary key *and* the merge skips the scalar index; `_distance`
changes scale with the state of the index, so cosines are computed from the vectors themselves; a handle does not
see other processes' commits unless its read consistency interval is zero; every small write adds a fragment.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agenthood.errors import AgenthoodError, StoreError
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
from agenthood.stores.lance_rows import TEXT_COLUMNS, collection_of, newest, schema_of, to_records, to_table
from agenthood.stores.lance_sql import compile_filter, one_of
from agenthood.stores.lock import StoreLock
from agenthood.stores.validation import check_queries, partition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from agenthood.stores.filters import Filter

T = TypeVar("T")

# Extra hits read beyond the limit, so that ties at the cut are ordered by id and not by chance.
_TIE_MARGIN = 8
_PROBES = 32
_REFINE = 5
_SCAN_ROWS = 4_096
_IDS_PER_LOOKUP = 2_000


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
        self._commits: dict[str, int] = {}

    # -- collections ------------------------------------------------------------------------------------

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        if (known := self._shapes.get(collection.name)) is not None:
            return known
        with translated(f"opening {collection.name!r} in {str(self.path)!r}"):
            table = await self._open_table(collection.name)
            if table is None:
                async with self.exclusive():
                    table = await self._open_table(collection.name) or await self._create(collection)
            if not collection.typed:
                await self._declare_key(table)
            found = await self._shape(collection, table)
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

    async def _create(self, collection: Collection) -> AsyncTable:
        db = await self._connection()
        table = await db.create_table(collection.name, schema=schema_of(collection))
        if collection.typed:
            await upkeep.create_scalar_indices(table)
        return table

    async def _declare_key(self, table: AsyncTable) -> None:
        """Declare `id` the primary key on a table the TypeScript program made; Node honours it too."""
        field = (await table.schema()).field("id")
        if not field.metadata:
            async with self.exclusive():
                await table.checkout_latest()
                if not (await table.schema()).field("id").metadata:
                    await table.set_unenforced_primary_key("id")

    async def _shape(self, collection: Collection, table: AsyncTable) -> Collection:
        dimension = (await table.schema()).field("vector").type.list_size
        if dimension == collection.dimension:
            return collection
        if collection.typed:
            raise StoreError(
                f"collection {collection.name!r} holds vectors of {dimension} dimensions, not {collection.dimension}: "
                "give the changed model a new revision, so that it gets a collection of its own"
            )
        return Collection(collection.name, dimension)

    async def _table(self, collection: Collection) -> AsyncTable:
        if collection.name not in self._tables:
            await self.ensure_collection(collection)
        return self._tables[collection.name]

    async def _reading(self, collection: Collection, read: Callable[[AsyncTable], Awaitable[T]]) -> T:
        """Run `read`; if another process cleaned up the version it stood on, move to the latest and run it again."""
        with translated(f"reading {collection.name!r} in {str(self.path)!r}"):
            table = await self._table(collection)
            try:
                return await read(table)
            except (RuntimeError, ValueError, OSError) as exc:
                if isinstance(exc, AgenthoodError) or not is_stale(exc):
                    raise
                await table.checkout_latest()
                return await read(table)

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
        if valid:
            table = await self._table(collection)
            with translated(f"writing to {collection.name!r} in {str(self.path)!r}"):
                await self._merge(
                    table, to_table(valid, await table.schema()), [record.id for record in valid]
                )
                await self._after_commit(collection.name, table)
        return UpsertResult(len(valid), rejected)

    async def _merge(self, table: AsyncTable, rows: Any, ids: list[str]) -> None:  # noqa: ANN401  a pyarrow.Table
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        # A row without a vector is null in our tables, which counts as bad there unless null is allowed.
        result = await merge.use_index(False).execute(rows, on_bad_vectors="null")
        if result.num_updated_rows + result.num_inserted_rows > len(ids):
            # The TypeScript program adds rows without looking: now all copies are equal, keep one of each.
            await self._collapse(table, ids)

    async def _collapse(self, table: AsyncTable, ids: list[str]) -> None:
        seen: set[str] = set()
        extra: list[int] = []
        for start in range(0, len(ids), _IDS_PER_LOOKUP):
            condition = one_of("id", ids[start : start + _IDS_PER_LOOKUP])
            found = await table.query().where(condition).select(["id"]).with_row_id().to_arrow()
            for id_, row in zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True):
                if id_ in seen:
                    extra.append(row)
                seen.add(id_)
        if extra:
            await table.delete(f"_rowid IN ({', '.join(map(str, extra))})")

    async def _after_commit(self, name: str, table: AsyncTable) -> None:
        commits = self._commits[name] = self._commits.get(name, 0) + 1
        if commits % upkeep.COMMITS_BETWEEN_CHECKS == 1:
            await upkeep.compact_if_fragmented(table)

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        table = await self._table(collection)
        with translated(f"deleting from {collection.name!r}"):
            removed = 0
            for start in range(0, len(ids), _IDS_PER_LOOKUP):
                result: Any = await table.delete(one_of("id", ids[start : start + _IDS_PER_LOOKUP]))
                removed += result.num_deleted_rows  # its type stub lacks the field
        return removed

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`."""
        table = await self._table(collection)
        async with self.exclusive():
            with translated(f"purging {collection.name!r}"):
                return await upkeep.purge(table, ids, collection)

    # -- reading ----------------------------------------------------------------------------------------

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        found: list[Record] = []
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), _IDS_PER_LOOKUP):
            condition = one_of("id", wanted[start : start + _IDS_PER_LOOKUP])
            found += await self._rows(collection, condition, vectors=vectors)
        return newest(found)

    async def _rows(self, collection: Collection, condition: str | None, *, vectors: bool) -> list[Record]:
        async def read(table: AsyncTable) -> list[Record]:
            query = table.query().select(_columns(collection, vectors=vectors))
            return to_records(await (query.where(condition) if condition else query).to_arrow())

        return await self._reading(collection, read)

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`."""
        collection = await self.ensure_collection(collection)
        compiled = compile_filter(condition, collection) if condition else None
        repeated = set() if collection.typed else await self._repeated(collection, compiled)
        held: list[Record] = []
        with translated(f"scanning {collection.name!r}"):
            query = (await self._table(collection)).query().select(_columns(collection, vectors=vectors))
            batches = await (query.where(compiled) if compiled else query).to_batches(
                max_batch_length=_SCAN_ROWS
            )
            async for batch in batches:
                records = to_records(_as_table(batch))
                held += [record for record in records if record.id in repeated]
                yield [record for record in records if record.id not in repeated]
        if held:
            yield list(newest(held).values())

    async def _repeated(self, collection: Collection, compiled: str | None) -> set[str]:
        seen: set[str] = set()
        return {id_ for id_ in await self._id_list(collection, compiled) if id_ in seen or seen.add(id_)}  # type: ignore[func-returns-value]

    async def _id_list(self, collection: Collection, compiled: str | None) -> list[str]:
        async def read(table: AsyncTable) -> list[str]:
            query = table.query().select(["id"])
            ids: list[str] = (await (query.where(compiled) if compiled else query).to_arrow())[
                "id"
            ].to_pylist()
            return ids

        return await self._reading(collection, read)

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""
        compiled = compile_filter(condition, collection) if condition else None
        return set(await self._id_list(collection, compiled))

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""
        if not collection.typed:
            return len(await self.ids(collection, condition=condition))
        compiled = compile_filter(condition, collection) if condition else None
        return await self._reading(collection, lambda table: table.count_rows(compiled))

    async def query(
        self,
        collection: Collection,
        vectors: Vector,
        *,
        field: VectorField = "vector",
        condition: Filter | None = None,
        limit: int = 10,
    ) -> list[list[Hit]]:
        """See `VectorStore.query`."""
        collection = await self.ensure_collection(collection)
        queries = check_queries(vectors, LEXICAL_DIMENSION if field == "lexical" else collection.dimension)
        if limit <= 0 or not len(queries):
            return [[] for _ in queries]
        compiled = compile_filter(condition, collection) if condition else None

        async def read(table: AsyncTable) -> Any:  # noqa: ANN401  a pyarrow.Table
            # The shared table's index, if any, is l2: the TypeScript program scores in l2 there.
            search = (
                table.query()
                .nearest_to(list(queries))
                .column(field)
                .distance_type("cosine" if collection.typed else "l2")
                .refine_factor(_REFINE)
                .maximum_nprobes(0)  # a selective filter would else leave too few rows
                .minimum_nprobes(_PROBES)
                .select([*_columns(collection, vectors=True), "_distance"])
                .limit(limit + _TIE_MARGIN)
            )
            return await (search.where(compiled) if compiled else search).to_arrow()

        return _ranked(await self._reading(collection, read), queries, field, limit)

    async def match_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 1000,
    ) -> dict[str, list[str]]:
        """See `VectorStore.match_terms`."""
        compiled = compile_filter(condition, collection) if condition else None

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

            return await self._reading(collection, read)

        wanted = list(dict.fromkeys(terms))
        return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))

    # -- upkeep -----------------------------------------------------------------------------------------

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`."""
        table = await self._table(collection)
        async with self.exclusive():
            with translated(f"maintaining {collection.name!r}"):
                return await upkeep.maintain(table)

    async def health(self) -> Health:
        """See `VectorStore.health`."""
        detail: dict[str, Any] = {"path": str(self.path)}
        try:
            async with self.exclusive():
                await self.ensure_collection(SHARED)
            for collection in await self.collections():
                detail[collection.name] = await upkeep.describe(await self._table(collection))
        except AgenthoodError as exc:
            return Health("lancedb", ok=False, detail=detail, problem=str(exc))
        return Health("lancedb", ok=True, detail=detail)

    async def close(self) -> None:
        """See `VectorStore.close`."""
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


def _columns(collection: Collection, *, vectors: bool) -> list[str]:
    columns = [*TEXT_COLUMNS]
    if collection.typed:
        columns.append("terms")
    if vectors:
        columns += ["vector", "lexical"] if collection.lexical else ["vector"]
    return columns


def _as_table(batch: Any) -> Any:  # noqa: ANN401  pyarrow types
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_batches([batch])


def _ranked(found: Any, queries: Vector, field: VectorField, limit: int) -> list[list[Hit]]:  # noqa: ANN401
    """Hits per query with exact cosines, best first, ties by id, cut at `limit`."""
    records = to_records(found)
    positions = (
        found["query_index"].to_pylist() if "query_index" in found.column_names else [0] * len(records)
    )
    hits: list[list[Hit]] = [[] for _ in queries]
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    for position, record in zip(positions, records, strict=True):
        vector = record.lexical if field == "lexical" else record.vector
        if vector is not None:
            exact = vector.astype(np.float64)
            cosine = float(exact @ queries[position] / (np.linalg.norm(exact) * lengths[position]))
            hits[position].append(Hit(record, max(-1.0, min(1.0, cosine))))
    for row in hits:
        row.sort(key=lambda hit: (-round(hit.score, 6), hit.record.id))
    return [row[:limit] for row in hits]
