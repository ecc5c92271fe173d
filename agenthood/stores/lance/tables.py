"""The tables of a LanceDB directory: connecting, making, opening, completing and reopening them.

A handle sees other processes' commits only with a read consistency interval of zero, and fails once another
process has removed the version it stands on; `LanceTables.run` then begins anew on the latest.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from agenthood.errors import AgenthoodError, StoreError
from agenthood.stores.deadline import uncounted
from agenthood.stores.fitting import fitting
from agenthood.stores.lance.errors import is_stale, translated
from agenthood.stores.lance.index import create_scalar_indices, has_indices
from agenthood.stores.lance.rows import collection_of, schema_of
from agenthood.stores.lock import StoreLock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection

T = TypeVar("T")

_log = logging.getLogger("agenthood")
ATTEMPTS = 5
"""How often an operation is begun in all, after another process removed the version it stood on."""


class LanceTables:
    """The tables below one path, and the locks for changing them. Nothing is opened before first use."""

    def __init__(self, path: Path, *, lock_timeout: float) -> None:
        """Args: `path` of the database directory; `lock_timeout` in seconds for either lock."""
        self.path = path
        self._write_lock = StoreLock(path / ".agenthood.lock", timeout=lock_timeout)
        self._index_lock = StoreLock(path / ".agenthood.index.lock", timeout=lock_timeout)
        self._db: AsyncConnection | None = None
        self._tables: dict[str, AsyncTable] = {}
        self._shapes: dict[str, Collection] = {}
        self._opening = asyncio.Lock()
        self._ensuring = asyncio.Lock()

    def folder(self, collection: Collection) -> Path:
        """Where the table's files lie."""
        return self.path / f"{collection.name}.lance"

    # -- locks ------------------------------------------------------------------------------------------

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Hold the write lock: see `VectorStore.exclusive`."""
        return self._held(self._write_lock)

    def indexing(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock of whoever builds indices beside the writers.

        Who needs both takes the write lock first.
        """
        return self._held(self._index_lock)

    @asynccontextmanager
    async def _held(self, lock: StoreLock) -> AsyncIterator[None]:
        with translated(f"making {str(self.path)!r}"):
            self.path.mkdir(parents=True, exist_ok=True)
        async with lock():
            yield

    @asynccontextmanager
    async def _making(self) -> AsyncIterator[None]:
        # Tasks that hold the write lock together may all want to create; only one does. In this order: a task
        # that waits for the write lock keeps nobody waiting who has it.
        async with self.exclusive(), self._ensuring:
            yield

    # -- tables -----------------------------------------------------------------------------------------

    async def find(self, collection: Collection) -> Collection | None:
        """The table as it is, or None: see `VectorStore.find`."""
        if (known := self._shapes.get(collection.name)) is not None:
            return fitting(collection, known)
        with translated(f"opening {collection.name!r} in {str(self.path)!r}"):
            try:
                self.folder(collection).stat()
            except FileNotFoundError:  # known without loading LanceDB
                return None
            if (table := await self._open(collection.name)) is None:
                self._check_absent(collection)
                return None
            return fitting(collection, collection_of(collection.name, await table.schema()))

    def _check_absent(self, collection: Collection) -> None:
        """Tell a table whose versions are gone from none: LanceDB finds neither, and the rows would seem to be none."""
        folder = self.folder(collection)
        if any((folder / "data").glob("*.lance")):
            raise StoreError(
                f"{str(folder)!r} holds rows, but none of its versions can be read: restore its _versions folder from "
                "a backup, or move the table away and import an export"
            )

    async def ensure(self, collection: Collection) -> Collection:
        """Create and complete the table unless it is there: see `VectorStore.ensure_collection`."""
        if (known := self._shapes.get(collection.name)) is not None:
            return fitting(collection, known)
        with translated(f"opening {collection.name!r} in {str(self.path)!r}"):
            table = await self._open(collection.name)
            if table is None:
                async with self._making():
                    table = await self._open(collection.name) or await self._create(collection)
            found = fitting(collection, collection_of(collection.name, await table.schema()))
            await self._complete(found, table)
        self._tables[collection.name] = table
        self._shapes[collection.name] = found
        return found

    async def list(self) -> tuple[Collection, ...]:
        """The collections that exist; another program's tables in the same directory are none of ours."""
        with translated(f"listing {str(self.path)!r}"):
            names = sorted((await (await self._connection()).list_tables()).tables)
            tables = {name: await self._open(name) for name in names}
            found = [
                collection_of(name, await table.schema())
                for name, table in tables.items()
                if table is not None
            ]
        return tuple(collection for collection in found if collection is not None)

    async def drop(self, name: str) -> None:
        """Remove a table; nothing happens if there is none."""
        async with self.exclusive():
            self._forget(name)
            with translated(f"dropping {name!r}"):
                db = await self._connection()
                await db.drop_table(name, ignore_missing=True)

    async def open(self, collection: Collection) -> AsyncTable:
        """The open table of `collection`, made first if need be."""
        if collection.name not in self._tables:
            await self.ensure(collection)
        return self._tables[collection.name]

    async def run(self, doing: str, collection: Collection, work: Callable[[AsyncTable], Awaitable[T]]) -> T:
        """Run `work`; if another process removed the version it stood on, begin anew on the latest."""
        with translated(f"{doing} {collection.name!r} in {str(self.path)!r}"):
            for _ in range(ATTEMPTS - 1):
                table = await self.open(collection)
                try:
                    return await work(table)
                except (RuntimeError, ValueError, OSError) as exc:
                    if isinstance(exc, AgenthoodError) or not is_stale(exc):
                        raise
                    await self.refresh(collection, table)
            return await work(await self.open(collection))

    async def look(self, collection: Collection, work: Callable[[AsyncTable], Awaitable[T]]) -> T | None:
        """As `run`, on the table as it is: nothing is made or completed. None if another process drops it."""
        with translated(f"reading {collection.name!r} in {str(self.path)!r}"):
            for attempt in range(ATTEMPTS):
                if (table := await self._open(collection.name)) is None:
                    return None
                try:
                    return await work(table)
                except (RuntimeError, ValueError, OSError) as exc:
                    if isinstance(exc, AgenthoodError) or not is_stale(exc) or attempt == ATTEMPTS - 1:
                        raise
                finally:
                    table.close()
        raise AssertionError  # pragma: no cover  the loop returns or raises

    async def refresh(self, collection: Collection, table: AsyncTable) -> None:
        """Let `table` stand on the latest version; if it was dropped, the next `open` makes it anew."""
        try:
            await table.checkout_latest()
        except (RuntimeError, ValueError, OSError) as exc:
            if not is_stale(exc):
                raise
            if collection.name in self._tables:  # of several calls that meet this one tells
                _log.warning(
                    "the table %r in %r was removed while it was open: an empty one is begun",
                    collection.name,
                    str(self.path),
                )
            self._forget(collection.name)

    def close(self) -> None:
        """Close every handle; what is used again is opened again."""
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        self._shapes.clear()
        if self._db is not None:
            self._db.close()
            self._db = None

    def _forget(self, name: str) -> None:
        self._tables.pop(name, None)
        self._shapes.pop(name, None)

    async def _connection(self) -> AsyncConnection:
        if self._db is not None:
            return self._db
        async with uncounted(), self._opening:
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

    async def _open(self, name: str) -> AsyncTable | None:
        db = await self._connection()
        try:
            return await db.open_table(name)
        except ValueError as exc:
            if "was not found" in str(exc):
                return None
            raise

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
        if not await has_indices(table, collection):
            async with self._making():
                await table.checkout_latest()
                if not await has_indices(table, collection):
                    await create_scalar_indices(table, collection)


def _import_lancedb() -> Any:  # noqa: ANN401  a module
    import lancedb  # noqa: PLC0415  1 s of CPU, so only when a store is used

    return lancedb
