"""The SQLite backend: embedded, one file, used by several processes at once.

SQLite orders writers itself (`begin immediate` in its write-ahead log), so the write lock is only for those who read,
decide and write. Every call runs in a thread of the store's own, see `worker`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agenthood.errors import AgenthoodError
from agenthood.formats import unstorable_reason
from agenthood.stores.base import LEXICAL_DIMENSION, Health, Hit, Matrix, UpsertResult
from agenthood.stores.lock import StoreLock
from agenthood.stores.places import check_parts_writable
from agenthood.stores.sqlite import reads, schema, upkeep, writes
from agenthood.stores.sqlite.connection import reading, writing
from agenthood.stores.sqlite.errors import load_apsw, translated
from agenthood.stores.sqlite.search import Asked, search
from agenthood.stores.sqlite.worker import Workers
from agenthood.stores.validation import check_queries, partition, storable_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    import apsw

    from agenthood.stores.base import Collection, Record, Vector, VectorField
    from agenthood.stores.filters import Filter
    from agenthood.stores.sqlite.schema import Tables
    from agenthood.stores.sqlite.worker import Job

T = TypeVar("T")


class SqliteStore:
    """A `VectorStore` in a file. Opening it is free: nothing is imported or created before first use."""

    def __init__(self, path: Path, *, lock_timeout: float = 30.0) -> None:
        """Open the store at `path`.

        Args:
            path: the file; others of its name with an ending are made beside it.
            lock_timeout: how long to wait for the write lock, or for another process, in seconds.
        """
        self.path = path
        self._lock = StoreLock(path.with_name(path.name + ".lock"), timeout=lock_timeout)
        self._workers = Workers(path, patience=lock_timeout)

    # -- collections --------------------------------------------------------------------------------------

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        return await self._read("opening", collection, _as_it_is, lambda: None)

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        if (found := await self.find(collection)) is not None:
            return found
        return await self._write("making", collection, _as_it_is)

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""

        def read(connection: apsw.Connection, _: Job) -> tuple[Collection, ...]:
            return tuple(tables.collection for tables in schema.every(connection))

        return await self._workers.run(f"listing {str(self.path)!r}", read, tuple)

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`."""

        def write(connection: apsw.Connection, _: Job) -> None:
            with writing(connection):
                schema.drop(connection, name)

        await self._workers.run(self._doing("dropping", name), write, lambda: None, writing=True)

    # -- writing ------------------------------------------------------------------------------------------

    def exclusive(self, scope: str = "") -> AbstractAsyncContextManager[None]:  # noqa: ARG002  one lock for all
        """See `VectorStore.exclusive`."""
        return self._exclusive()

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        with translated(f"making {str(self.path.parent)!r}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        async with self._lock():
            yield

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`."""

        def write(connection: apsw.Connection, tables: Tables, job: Job) -> UpsertResult:
            valid, rejected = partition(records, tables.collection)
            if not valid:
                return UpsertResult(0, rejected)
            writes.upsert(connection, tables, valid, job)
            return UpsertResult(len(valid), rejected, schema.raise_version(connection, tables))

        return await self._write("writing to", collection, write)

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        doomed = storable_ids(ids)

        def write(connection: apsw.Connection, job: Job) -> int:
            with writing(connection):
                tables = schema.find(connection, collection)
                removed = writes.delete(connection, tables, doomed, job) if tables is not None else 0
                if tables is not None and removed:
                    schema.raise_version(connection, tables)
                return removed

        return await self._workers.run(
            self._doing("deleting from", collection.name), write, int, writing=True
        )

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`."""
        if await self.find(collection) is None:
            return 0

        def clean(connection: apsw.Connection, _: Job) -> None:
            upkeep.leave_nothing(connection, collection.name)

        async with self.exclusive():
            removed = await self.delete(collection, ids)
            doing = self._doing("purging", collection.name)
            await self._workers.run(doing, clean, lambda: None, writing=True)
        return removed

    # -- reading ------------------------------------------------------------------------------------------

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        wanted = storable_ids(ids)

        def read(connection: apsw.Connection, tables: Tables, _: Job) -> dict[str, Record]:
            return reads.by_ids(connection, tables, wanted, tables.fields if vectors else ())

        return await self._read("reading", collection, read, dict)

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`."""
        after = ""

        def read(connection: apsw.Connection, tables: Tables, _: Job) -> list[Record]:
            return reads.page(connection, tables, condition, tables.fields if vectors else (), after)

        more = True
        while more:
            records: list[Record] = await self._read("scanning", collection, read, list)
            if records:
                yield records
                after = records[-1].id
            more = len(records) == reads.PAGE

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""

        def read(connection: apsw.Connection, tables: Tables, _: Job) -> set[str]:
            return reads.ids(connection, tables, condition)

        return await self._read("reading", collection, read, set)

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""

        def read(connection: apsw.Connection, tables: Tables, _: Job) -> int:
            return reads.count(connection, tables, condition)

        return await self._read("counting", collection, read, int)

    async def version(self, collection: Collection) -> int | None:
        """See `VectorStore.version`."""

        def read(connection: apsw.Connection, tables: Tables, _: Job) -> int | None:
            return schema.version(connection, tables)

        return await self._read("reading", collection, read, lambda: None)

    async def query(  # noqa: PLR0913  one for each thing that can be asked
        self,
        collection: Collection,
        vectors: Vector,
        *,
        field: VectorField = "vector",
        condition: Filter | None = None,
        limit: int = 10,
        unit: bool = False,  # noqa: ARG002  every search is exact
        with_vectors: bool = True,
    ) -> list[list[Hit]]:
        """See `VectorStore.query`."""
        asked = Asked(field, condition, limit, with_vectors)

        def nothing(dimension: int) -> list[list[Hit]]:
            return [
                [] for _ in check_queries(vectors, LEXICAL_DIMENSION if field == "lexical" else dimension)
            ]

        def read(connection: apsw.Connection, tables: Tables, job: Job) -> list[list[Hit]]:
            tables.vectors(field)
            queries = check_queries(vectors, tables.width(field))
            if limit <= 0 or not len(queries):
                return [[] for _ in queries]
            return search(connection, tables, queries, asked, job)

        return await self._read("searching", collection, read, partial(nothing, collection.dimension))

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> Matrix:
        """See `VectorStore.matrix`."""

        def nothing() -> Matrix:
            width = LEXICAL_DIMENSION if field == "lexical" else collection.dimension
            return Matrix([], np.zeros((0, width), dtype=np.float32), [])

        def read(connection: apsw.Connection, tables: Tables, job: Job) -> Matrix:
            return reads.matrix(connection, tables, field, condition, job)

        return await self._read("reading", collection, read, nothing)

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """See `VectorStore.search_terms`."""
        # Records hold terms between spaces, so none holds one with a space in it.
        wanted = [
            term
            for term in dict.fromkeys(terms)
            if unstorable_reason(term) is None and term.split() == [term]
        ]

        def read(connection: apsw.Connection, tables: Tables, _: Job) -> list[Record]:
            if limit <= 0 or not wanted or not tables.collection.typed:
                return []
            return reads.holders(connection, tables, wanted, condition, limit)

        return await self._read("searching", collection, read, list)

    # -- upkeep -------------------------------------------------------------------------------------------

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`."""
        if await self.find(collection) is None:
            return {"rows": 0}

        def tend(connection: apsw.Connection, job: Job) -> dict[str, Any]:
            tables = schema.find(connection, collection)
            return upkeep.maintain(connection, tables, job) if tables is not None else {"rows": 0}

        async with self.exclusive():
            doing = self._doing("maintaining", collection.name)
            return await self._workers.run(doing, tend, lambda: {"rows": 0}, writing=True)

    async def health(self) -> Health:
        """See `VectorStore.health`."""
        detail: dict[str, Any] = {"path": str(self.path)}
        try:
            doing = f"checking {str(self.path)!r}"
            check_parts_writable(self.path)  # first: SQLite leaves files beside one that it may not write
            detail |= await self._workers.run(doing, _described, _version, writing=True)
        except AgenthoodError as exc:
            return Health("sqlite", ok=False, detail=detail, problem=str(exc))
        return Health("sqlite", ok=True, detail=detail)

    async def close(self) -> None:
        """See `VectorStore.close`."""
        await self._workers.close()

    # -- running ------------------------------------------------------------------------------------------

    def _doing(self, doing: str, name: str) -> str:
        return f"{doing} {name!r} in {str(self.path)!r}"

    async def _read(
        self,
        doing: str,
        collection: Collection,
        work: Callable[[apsw.Connection, Tables, Job], T],
        default: Callable[[], T],
    ) -> T:
        """What `work` gives on one state of the collection, or `default` where there is none."""

        def read(connection: apsw.Connection, job: Job) -> T:
            with reading(connection):
                tables = schema.find(connection, collection)
                return default() if tables is None else work(connection, tables, job)

        return await self._workers.run(self._doing(doing, collection.name), read, default)

    async def _write(
        self, doing: str, collection: Collection, work: Callable[[apsw.Connection, Tables, Job], T]
    ) -> T:
        """What `work` gives in one commit, on the collection, which is made first if there is none."""

        def write(connection: apsw.Connection, job: Job) -> T:
            with writing(connection):
                return work(connection, schema.ensure(connection, collection), job)

        return await self._workers.make(self._doing(doing, collection.name), write)


def _as_it_is(_: apsw.Connection, tables: Tables, __: Job) -> Collection:
    return tables.collection


def _version() -> dict[str, Any]:
    """What is known before there is a database."""
    return {"version": f"SQLite {load_apsw().sqlite_lib_version()}"}


def _described(connection: apsw.Connection, _: Job) -> dict[str, Any]:
    vectors: str = connection.execute("select vec_version()").get
    version = f"SQLite {load_apsw().sqlite_lib_version()}, sqlite-vec {vectors}"
    if connection.readonly("main"):
        raise load_apsw().ReadOnlyError("attempt to write a readonly database")
    with writing(connection):  # it can be written to
        every = schema.every(connection)
        return {"version": version} | {
            tables.collection.name: upkeep.describe(connection, tables) for tables in every
        }
