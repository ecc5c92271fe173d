"""The Qdrant backend: a server for many, whose collections tenants share.

Qdrant's traps, measured on qdrant-client 1.20, are handled in the modules beside: its timeout is one between two reads;
ids are UUIDs; cosine distance changes the vectors it stores; filters know neither prefixes nor the order of
texts; errors come in four families, some with no common root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.errors import AgenthoodError, StoreError
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
from agenthood.stores.filters import matches
from agenthood.stores.qdrant.catalog import Catalog
from agenthood.stores.qdrant.conditions import compile_filter
from agenthood.stores.qdrant.connection import Connection
from agenthood.stores.qdrant.lease import DEFAULT_LEASE, LeaseLock, LeaseRules
from agenthood.stores.qdrant.lease_table import LeaseTable
from agenthood.stores.qdrant.payload import TEXTS, to_record
from agenthood.stores.qdrant.reads import Reader
from agenthood.stores.qdrant.search import Asked, search
from agenthood.stores.qdrant.upkeep import described, report
from agenthood.stores.qdrant.writes import delete_points, upsert_points
from agenthood.stores.validation import check_queries, partition, storable_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from qdrant_client import AsyncQdrantClient

    from agenthood.stores.filters import Filter
    from agenthood.stores.settings import StoreSettings

_NO_WALL = (
    "Qdrant has none: only the filters of agenthood keep tenants apart; give those that must not rely on that a "
    "store.namespace and a key, or a server, of their own"
)


class QdrantStore:
    """A `VectorStore` on a Qdrant server (1.16 or later). Nothing is imported or reached before first use."""

    def __init__(
        self,
        settings: StoreSettings,
        *,
        client: AsyncQdrantClient | None = None,
        lease: LeaseRules = DEFAULT_LEASE,
    ) -> None:
        """Describe the store.

        Args:
            settings: address, key, namespace and the seconds that one request may take.
            client: a client to use instead of one for that address; who gives it closes it.
            lease: how long the write lock outlives its holder, and how long it is waited for.

        Raises:
            ConfigError: the address or the namespace cannot be used.
        """
        self._connection = Connection(settings, client)
        self._catalog = Catalog(self._connection, settings.namespace)
        self._leases = LeaseTable(self._connection, self._catalog.stored_name("locks"))
        self._lock = LeaseLock(self._leases, lease)

    # -- collections ------------------------------------------------------------------------------------

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        return await self._catalog.find(collection)

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        return await self._catalog.ensure(collection)

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""
        return await self._catalog.list()

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`."""
        self._lock.check()
        await self._catalog.drop(name)

    # -- writing ----------------------------------------------------------------------------------------

    def exclusive(self, scope: str = "") -> AbstractAsyncContextManager[None]:
        """See `VectorStore.exclusive`; what the lease guarantees is said in `stores.qdrant.lease`."""
        return self._lock(scope)

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`.

        A large batch takes several requests. If one of them fails, those before it are written: the same
        batch can simply be given again.
        """
        collection = await self.ensure_collection(collection)
        valid, rejected = partition(records, collection)

        async def write(there: Collection) -> None:
            await upsert_points(self._reader(there), valid, self._lock.check)

        if valid:
            await self._catalog.write(collection, write)
        return UpsertResult(len(valid), rejected)

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        doomed = storable_ids(ids)

        async def write(there: Collection) -> int:
            return await delete_points(self._reader(there), doomed, self._lock.check)

        return await self._catalog.read(collection, write, 0)

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`, as far as a server can.

        Afterwards nobody finds them through the server. Its files keep the bytes until its optimizer rewrites the
        segments they lie in, its write-ahead log until that is cut, and snapshots for as long as they are kept:
        remove those made before by hand.
        """
        return await self.delete(collection, ids)

    # -- reading ----------------------------------------------------------------------------------------

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        wanted = storable_ids(ids)

        async def read(there: Collection) -> dict[str, Record]:
            found = await self._reader(there).by_id(wanted, vectors=vectors)
            return {record.id: record for record in found}

        return await self._catalog.read(collection, read, {})

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`."""
        if (there := await self.find(collection)) is None:
            return
        pages = self._reader(there).scan(condition, vectors=vectors)
        while (page := await self._catalog.read(collection, lambda _: anext(pages, None), None)) is not None:
            yield page

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""
        return await self._catalog.read(collection, lambda there: self._reader(there).ids(condition), set())

    async def version(self, collection: Collection) -> int | None:  # noqa: ARG002  none is kept
        """See `VectorStore.version`."""
        return None

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""

        async def read(there: Collection) -> int:
            compiled = compile_filter(condition, there)
            if not compiled.exact:
                return len(await self._reader(there).ids(condition))
            return await self._reader(there).count(compiled)

        return await self._catalog.read(collection, read, 0)

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
        """See `VectorStore.query`; the index is by dot product of unit vectors, so that `unit` changes nothing."""
        del unit
        there = await self.find(collection)
        shape = there or collection
        queries = check_queries(vectors, LEXICAL_DIMENSION if field == "lexical" else shape.dimension)
        nothing: list[list[Hit]] = [[] for _ in queries]
        if limit <= 0 or not len(queries):
            return nothing
        asked = Asked(field, condition, limit, with_vectors=with_vectors)

        async def read(there: Collection) -> list[list[Hit]]:
            self._check_field(there, field)
            return await search(self._reader(there), queries, asked)

        return await self._catalog.read(collection, read, nothing)

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> Matrix:
        """See `VectorStore.matrix`."""
        width = LEXICAL_DIMENSION if field == "lexical" else collection.dimension
        nothing = Matrix([], np.zeros((0, width), dtype=np.float32), [])

        async def read(there: Collection) -> Matrix:
            self._check_field(there, field)
            return await self._matrix(there, field, condition)

        return await self._catalog.read(collection, read, nothing)

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """See `VectorStore.search_terms`; the best are those whose terms are rarest, summed."""
        wanted = [term for term in dict.fromkeys(terms) if term and unstorable_reason(term) is None]
        if limit <= 0 or not wanted:
            return []
        return await self._catalog.read(
            collection, lambda there: self._reader(there).holders(wanted, condition, limit), []
        )

    async def _matrix(self, there: Collection, field: VectorField, condition: Filter | None) -> Matrix:
        compiled = compile_filter(condition, there)
        width = LEXICAL_DIMENSION if field == "lexical" else there.dimension
        ids: list[str] = []
        rows: list[Vector] = []
        owners: list[tuple[str | None, ...]] = []
        payload = [*(["id", "metadata"] if compiled.exact else TEXTS), f"{field}_bytes"]
        clause = compiled.with_({"has_vector": field})
        async for points in self._reader(there).pages(clause, payload=payload, vectors=[field]):
            for point in points:
                record = to_record(point.payload, point.vector)
                vector = record.lexical if field == "lexical" else record.vector
                wanted = compiled.exact or condition is None or matches(record, condition)
                if vector is None or not wanted or compiled.nothing:
                    continue
                ids.append(record.id)
                rows.append(vector)
                body = loads_object(point.payload["metadata"])
                owners.append(tuple(body.get(name) for name in TYPED_FIELDS))
        vectors = np.stack(rows) if rows else np.zeros((0, width), dtype=np.float32)
        return Matrix(ids, vectors, owners)

    # -- upkeep -----------------------------------------------------------------------------------------

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`: the server optimizes by itself; missing indices are made, the rest is told."""

        async def see_to(there: Collection) -> dict[str, Any]:
            info = await self._catalog.info(there.name)
            indexed = await self._catalog.index(there, info) if info is not None else []
            return {**await report(self._reader(there), info), "indexed": indexed}

        return await self._catalog.read(collection, see_to, {"rows": 0})

    async def health(self) -> Health:
        """See `VectorStore.health`."""
        detail: dict[str, Any] = {"address": self._connection.address.shown}
        try:
            detail["version"] = await self._connection.require_version()
            detail["row_level_security"] = _NO_WALL
            for collection in await self.collections():
                if (info := await self._catalog.info(collection.name)) is not None:
                    detail[collection.name] = await described(self._reader(collection), info)
        except AgenthoodError as exc:
            return Health("qdrant", ok=False, detail=detail, problem=str(exc))
        return Health("qdrant", ok=True, detail=detail)

    async def close(self) -> None:
        """See `VectorStore.close`."""
        await self._connection.close()

    # -- inside -----------------------------------------------------------------------------------------

    def _reader(self, collection: Collection) -> Reader:
        return Reader(self._connection, self._catalog.stored_name(collection.name), collection)

    @staticmethod
    def _check_field(collection: Collection, field: VectorField) -> None:
        if field == "lexical" and not collection.lexical:
            raise StoreError(
                f"collection {collection.name!r} has no lexical vectors: search its field 'vector'"
            )
