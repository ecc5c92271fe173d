"""The LanceDB backend: embedded, one directory, shared with the TypeScript program.

LanceDB's traps, all measured on 0.40, are handled in the modules beside: two concurrent upserts of a new
id both insert unless `id` is declared the primary key *and* the merge skips the scalar index; `_distance` changes
scale with the state of the index, so cosines are computed from the vectors themselves; a handle does not see other
processes' commits unless its read consistency interval is zero; every small write adds a fragment.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.errors import AgenthoodError
from agenthood.formats import unstorable_reason
from agenthood.stores.base import (
    LEXICAL_DIMENSION,
    Collection,
    Health,
    Hit,
    Matrix,
    Record,
    UpsertResult,
    Vector,
    VectorField,
)
from agenthood.stores.lance import reads, upkeep
from agenthood.stores.lance.background import BackgroundUpkeep
from agenthood.stores.lance.errors import is_stale, translated
from agenthood.stores.lance.health import told
from agenthood.stores.lance.index import DEFAULT_RULES, IndexRules
from agenthood.stores.lance.known import KnownRows
from agenthood.stores.lance.purge import purge
from agenthood.stores.lance.rows import newest, to_table
from agenthood.stores.lance.search import Asked, SearchExperience, columns_of, search
from agenthood.stores.lance.sql import compile_filter, only_ids
from agenthood.stores.lance.tables import ATTEMPTS, LanceTables
from agenthood.stores.lance.versions import Versions
from agenthood.stores.lance.writes import Superseded, add, delete_ids, have_rows, merge
from agenthood.stores.places import check_parts_writable
from agenthood.stores.validation import check_queries, partition, storable_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from lancedb.table import AsyncTable

    from agenthood.stores.filters import Filter


class LanceStore:
    """A `VectorStore` in a directory. Opening it is free: nothing is imported or created before first use."""

    def __init__(
        self, path: Path, *, lock_timeout: float = 30.0, index_rules: IndexRules = DEFAULT_RULES
    ) -> None:
        """Open the store at `path`.

        Args:
            path: the database directory.
            lock_timeout: how long to wait for the write lock, in seconds.
            index_rules: from which sizes on tables are indexed.
        """
        self.path = path
        self._tables = LanceTables(path, lock_timeout=lock_timeout)
        self._rules = index_rules
        self._background = BackgroundUpkeep(self._tables, index_rules, rewrote=self._rewrote)
        self._superseded = Superseded()
        self._versions = Versions()
        self._experience = SearchExperience()
        self._known = KnownRows(self._tables.folder)

    # -- collections ------------------------------------------------------------------------------------

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        return await self._tables.find(collection)

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        return await self._tables.ensure(collection)

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""
        return await self._tables.list()

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`."""
        await self._tables.drop(name)
        self._versions.dropped(name)
        self._experience.forget(name)
        self._known.forget(name)

    # -- writing ----------------------------------------------------------------------------------------

    def exclusive(self, scope: str = "") -> AbstractAsyncContextManager[None]:  # noqa: ARG002  one lock for all
        """See `VectorStore.exclusive`."""
        return self._tables.exclusive()

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`."""
        collection = await self.ensure_collection(collection)
        valid, rejected = partition(records, collection)

        async def write(table: AsyncTable) -> int | None:
            ids = [record.id for record in valid]
            rows = to_table(valid, await table.schema())
            version = None
            if collection.typed and not await self._there(collection, table, ids):
                version = await add(table, rows)
            version = version or await merge(table, rows, ids)
            self._known.wrote(collection, version, rows)
            if version is not None:
                self._superseded.none_added(collection, version)
            return version

        version = None
        if valid:
            # Under the lock, so that a compaction beside it is not for nothing.
            async with self.exclusive():
                version = await self._tables.run("writing to", collection, write)
                if version is not None:
                    version = self._versions.told(collection, version)
            self._background.after_commit(collection)
        return UpsertResult(len(valid), rejected, version)

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        doomed = storable_ids(ids)
        if await self.find(collection) is None:
            return 0
        async with self.exclusive():
            self._known.forget(collection.name)
            return await self._tables.run(
                "deleting from", collection, lambda table: delete_ids(table, doomed)
            )

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`."""
        if (found := await self.find(collection)) is None:
            return 0
        collection = found
        table, doomed = await self._tables.open(collection), storable_ids(ids)
        # Nobody of ours is writing then, neither rows nor indices.
        folder = self._tables.folder(collection)
        async with self.exclusive(), self._tables.indexing():
            self._known.forget(collection.name)
            with translated(f"purging {collection.name!r}"):
                return await purge(table, collection, doomed, folder, self._rules)

    async def _there(self, collection: Collection, table: AsyncTable, ids: Sequence[str]) -> bool:
        """Whether a row has one of `ids`."""
        known, asked = await self._known.look(collection, table, ids)
        there = bool(asked) and await have_rows(table, asked)
        self._known.found(collection, len(asked), int(there) * len(asked))
        return there or bool(known)

    # -- reading ----------------------------------------------------------------------------------------

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        if (there := await self.find(collection)) is None:
            return {}
        collection = there
        columns, wanted = columns_of(collection, vectors=vectors), storable_ids(ids)

        async def read(table: AsyncTable) -> list[Record]:
            known, asked = await self._known.look(collection, table, wanted)
            if vectors:
                known, asked = {}, [*known, *asked]
            found = await reads.with_ids(table, columns, asked) if asked else []
            self._known.found(collection, len(asked), len(found))
            return [*known.values(), *found]

        return newest(await self._tables.run("reading", collection, read))

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`."""
        if (there := await self.find(collection)) is None:
            return
        collection = there
        columns = columns_of(collection, vectors=vectors)
        given: set[str] = set()
        with translated(f"scanning {collection.name!r} in {str(self.path)!r}"):
            for attempt in range(ATTEMPTS):
                table = await self._tables.open(collection)
                try:
                    selected = await self._selection(collection, table, condition)
                    async for records in reads.batches(table, columns, selected):
                        yield [record for record in records if record.id not in given]
                        given.update(record.id for record in records)
                except (RuntimeError, ValueError, OSError) as exc:
                    if isinstance(exc, AgenthoodError) or not is_stale(exc) or attempt == ATTEMPTS - 1:
                        raise
                    await self._tables.refresh(collection, table)
                else:
                    return

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""
        if (there := await self.find(collection)) is None:
            return set()
        collection = there

        async def read(table: AsyncTable) -> set[str]:
            if only_ids(condition):  # true or false for all rows of an id alike
                return await reads.ids(table, compile_filter(condition, collection) if condition else None)
            return await reads.ids(table, await self._selection(collection, table, condition))

        return await self._tables.run("reading", collection, read)

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""
        if (there := await self.find(collection)) is None:
            return 0
        collection = there

        async def read(table: AsyncTable) -> int:
            return await table.count_rows(await self._selection(collection, table, condition))

        return await self._tables.run("reading", collection, read)

    async def query(  # noqa: PLR0913  one for each thing that can be asked
        self,
        collection: Collection,
        vectors: Vector,
        *,
        field: VectorField = "vector",
        condition: Filter | None = None,
        limit: int = 10,
        unit: bool = False,
        with_vectors: bool = True,
    ) -> list[list[Hit]]:
        """See `VectorStore.query`."""
        there = await self.find(collection)
        collection = there or collection
        queries = check_queries(vectors, LEXICAL_DIMENSION if field == "lexical" else collection.dimension)
        if there is None or limit <= 0 or not len(queries):
            return [[] for _ in queries]

        async def read(table: AsyncTable) -> list[list[Hit]]:
            selected = await self._selection(collection, table, condition)
            asked = Asked(field, condition, selected, limit, unit=unit, with_vectors=with_vectors)
            return await search(table, collection, queries, asked, self._experience)

        return await self._tables.run("searching", collection, read)

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> Matrix:
        """See `VectorStore.matrix`."""
        if (there := await self.find(collection)) is None:
            width = LEXICAL_DIMENSION if field == "lexical" else collection.dimension
            return Matrix([], np.zeros((0, width), dtype=np.float32), [])
        collection = there

        async def read(table: AsyncTable) -> Matrix:
            selected = await self._selection(collection, table, condition)
            return await reads.matrix(table, field, selected, typed=collection.typed)

        return await self._tables.run("reading", collection, read)

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """See `VectorStore.search_terms`."""
        if (there := await self.find(collection)) is None:
            return []
        collection = there
        compiled = compile_filter(condition, collection) if condition else None
        wanted = [term for term in dict.fromkeys(terms) if unstorable_reason(term) is None]
        if limit <= 0 or not wanted:
            return []
        columns = columns_of(collection, vectors=False)

        async def read(table: AsyncTable) -> list[Record]:
            return await reads.holders(table, columns, wanted, compiled, limit)

        return await self._tables.run("searching", collection, read)

    async def _selection(
        self, collection: Collection, table: AsyncTable, condition: Filter | None
    ) -> str | None:
        """`condition` as SQL that also leaves out the rows that a newer one with the same id replaces."""
        compiled = compile_filter(condition, collection) if condition else None
        parts = [part for part in (await self._superseded.left_out(collection, table), compiled) if part]
        return " AND ".join(parts) or None

    async def version(self, collection: Collection) -> int | None:
        """See `VectorStore.version`."""
        if await self.find(collection) is None:
            return None

        async def read(table: AsyncTable) -> int:
            return self._versions.told(collection, await table.version())

        return await self._tables.run("reading", collection, read)

    def _rewrote(self, collection: Collection, before: int, after: int) -> None:
        """Upkeep under the write lock led from one version to another, and nothing else."""
        self._versions.rewritten(collection, before, after)
        self._known.rewritten(collection, before, after)
        self._superseded.none_added(collection, after)

    # -- upkeep -----------------------------------------------------------------------------------------

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`."""
        if await self.find(collection) is None:
            return {"rows": 0}
        table = await self._tables.open(collection)
        async with self.exclusive(), self._tables.indexing():
            with translated(f"maintaining {collection.name!r}"):
                before = await table.version()
                report = await upkeep.maintain(table, collection, self._rules)
                if collection.ours:  # else it may have been another program, which takes no lock
                    self._rewrote(collection, before, await table.version())
                return report

    async def health(self) -> Health:
        """See `VectorStore.health`."""
        detail: dict[str, Any] = {"path": str(self.path)}
        try:
            detail["version"] = f"LanceDB {version('lancedb')}"
            for collection in await self._tables.list() if self.path.is_dir() else ():
                found = await self._tables.look(collection, partial(told, collection=collection))
                if found is not None:
                    detail[collection.name] = found
            check_parts_writable(self.path)
        except AgenthoodError as exc:
            return Health("lancedb", ok=False, detail=detail, problem=str(exc))
        return Health("lancedb", ok=True, detail=detail)

    async def close(self) -> None:
        """See `VectorStore.close`."""
        await self._background.finish()
        self._tables.close()
