"""A store as one scope sees it: nothing of any other scope can be read, written or counted through it.

Records of many scopes share a table. Their ids begin with the scope, so that two scopes may know the same lesson, and
their metadata say whose they are, which every read filters by. A reader through the view sees neither: records come
back as they were given, but for keys of `SCOPE_FIELDS`, which are the view's own. Above this module nobody knows of
scopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from agenthood.errors import StoreError
from agenthood.stores.base import (
    SCOPE_FIELDS,
    Collection,
    Hit,
    Matrix,
    Record,
    Rejection,
    UpsertResult,
)
from agenthood.stores.filters import AllOf, AnyOf, AtLeast, Equals, Filter, Not, OneOf, StartsWith, where

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from agenthood.scope import Scope
    from agenthood.stores.base import Health, Vector, VectorField, VectorStore

    Labels: TypeAlias = Callable[[Record], Mapping[str, str | float]]

_PREFIX = "scoped_"
# Where the keys begin that the view adds: whatever a record had itself comes before it.
_FIRST_ADDED = SCOPE_FIELDS[0]
_NOTHING = AnyOf(())
_OF_ALL = ("rows", "blocks")
"""What an index says of the rows of every scope."""


class ScopedStore:
    """A `VectorStore` that holds one scope's records in another store."""

    def __init__(
        self,
        store: VectorStore,
        scope: Scope,
        *,
        labels: Labels | None = None,
    ) -> None:
        """Put a view together.

        Args:
            store: holds everyone's records.
            scope: whose to see.
            labels: more metadata that a record is to carry there beside the scope, such as `record_type`; where it
                has a key itself, that stays.
        """
        self.inner = store
        self.scope = scope
        self._labels = labels
        self._mine = where(**scope.fields)

    # -- collections ------------------------------------------------------------------------------------

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        found = await self.inner.find(scoped(collection))
        return None if found is None else unscoped(found)

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        return unscoped(await self.inner.ensure_collection(scoped(collection)))

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`: all that scopes share, whether this one has records in them or not.

        One without may still have old versions on disk, which `purge` is for.
        """
        return tuple(unscoped(one) for one in await self.inner.collections() if one.scoped)

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`: the records of this scope go, and the table stays for the others'."""
        for collection in await self.collections():
            if collection.name == name and (ids := await self.ids(collection)):
                await self.purge(collection, sorted(ids))

    # -- writing ----------------------------------------------------------------------------------------

    def exclusive(self, scope: str = "") -> AbstractAsyncContextManager[None]:
        """See `VectorStore.exclusive`: one holder among the writers of this scope."""
        return self.inner.exclusive(self.scope.prefix + scope)

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`."""
        result = await self.inner.upsert(scoped(collection), [self._outward(record) for record in records])
        rejected = tuple(Rejection(self._own(one.id), one.reason) for one in result.rejected)
        return replace(result, rejected=rejected)

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        return await self.inner.delete(scoped(collection), self._all(ids))

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`."""
        return await self.inner.purge(scoped(collection), self._all(ids))

    # -- reading ----------------------------------------------------------------------------------------

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        found = await self.inner.get(scoped(collection), self._all(ids), vectors=vectors)
        records = (self._inward(record) for record in found.values() if self._is_mine(record))
        return {record.id: record for record in records}

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
        found = await self.inner.query(
            scoped(collection),
            vectors,
            field=field,
            condition=self._within(condition),
            limit=limit,
            unit=unit,
            with_vectors=with_vectors,
        )
        return [[Hit(self._inward(hit.record), hit.score) for hit in row] for row in found]

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> Matrix:
        """See `VectorStore.matrix`."""
        found = await self.inner.matrix(scoped(collection), field=field, condition=self._within(condition))
        return replace(found, ids=[self._own(id_) for id_ in found.ids])

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """See `VectorStore.search_terms`."""
        found = await self.inner.search_terms(
            scoped(collection), terms, condition=self._within(condition), limit=limit
        )
        return [self._inward(record) for record in found]

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`."""
        found = self.inner.scan(scoped(collection), condition=self._within(condition), vectors=vectors)
        async for batch in found:
            yield [self._inward(record) for record in batch]

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""
        found = await self.inner.ids(scoped(collection), condition=self._within(condition))
        return {self._own(id_) for id_ in found}

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""
        return await self.inner.count(scoped(collection), self._within(condition))

    async def version(self, collection: Collection) -> int | None:
        """See `VectorStore.version`: other scopes' commits count too."""
        return await self.inner.version(scoped(collection))

    # -- upkeep -----------------------------------------------------------------------------------------

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`: a table is kept up for all scopes at once; `rows` are those of this one."""
        return await self._own_part(collection, await self.inner.maintain(scoped(collection)))

    async def health(self) -> Health:
        """See `VectorStore.health`: of each collection, `rows` are those of this scope, and no other is named."""
        health = await self.inner.health()
        if not health.ok:
            return replace(health, detail=_without_tables(health.detail))
        try:
            tables = {
                one.name: await self._own_part(one, health.detail.get(_PREFIX + one.name, {}))
                for one in await self.collections()
            }
        except StoreError as exc:  # it went down since
            return replace(health, ok=False, detail=_without_tables(health.detail), problem=str(exc))
        return replace(health, detail=_without_tables(health.detail) | tables)

    async def _own_part(self, collection: Collection, found: Mapping[str, Any]) -> dict[str, Any]:
        """What was found about a table, without what it says of other scopes."""
        kept = {name: value for name, value in found.items() if name != "tenants"}
        if indices := found.get("indices"):
            kept["indices"] = {
                name: {key: value for key, value in told.items() if key not in _OF_ALL}
                for name, told in indices.items()
            }
        return kept | {"rows": await self.count(collection)}

    async def close(self) -> None:
        """See `VectorStore.close`: also closes the store that holds everyone's records."""
        await self.inner.close()

    # -- from this scope's records to everyone's, and back ----------------------------------------------

    def _all(self, ids: Sequence[str]) -> list[str]:
        # What is no text is left to the store, which knows what to say of it.
        return [self.scope.prefix + id_ if isinstance(id_, str) else id_ for id_ in ids]

    def _own(self, id_: str) -> str:
        return id_.removeprefix(self.scope.prefix) if isinstance(id_, str) else id_

    def _outward(self, record: Record) -> Record:
        if not isinstance(record.id, str) or not record.id:
            return record  # refused by the store, by name
        return into_scope(record, self.scope, self._labels)

    def _inward(self, record: Record) -> Record:
        return out_of_scope(record, self.scope)

    def _is_mine(self, record: Record) -> bool:
        return all(record.metadata.get(name) == value for name, value in self.scope.fields.items())

    def _within(self, condition: Filter | None) -> Filter:
        return self._mine if condition is None else AllOf((*self._mine.parts, self._translated(condition)))

    def _translated(self, condition: Filter) -> Filter:  # noqa: PLR0911  one line per kind of filter
        """`condition` on everyone's ids."""
        prefix = self.scope.prefix
        match condition:
            case Equals("id", value):
                return Equals("id", prefix + value)
            case OneOf("id", values):
                return OneOf("id", tuple(prefix + value for value in values))
            case StartsWith("id", start):
                return StartsWith("id", prefix + start)
            case AtLeast("id", value):
                return AtLeast("id", prefix + value)
            case Equals(field, _) | OneOf(field, _) if field in SCOPE_FIELDS:
                return _NOTHING  # no record seen through the view has it
            case AllOf(parts):
                return AllOf(tuple(map(self._translated, parts)))
            case AnyOf(parts):
                return AnyOf(tuple(map(self._translated, parts)))
            case Not(part):
                return Not(self._translated(part))
            case _:
                return condition


def scoped(collection: Collection) -> Collection:
    """The table in which all scopes keep what one keeps in `collection`.

    Keys and values have one too: the shared table is a promise to the TypeScript program, which knows no scopes.
    """
    return replace(collection, name=_PREFIX + collection.name, scoped=True)


def _more(labels: Mapping[str, str | float], metadata: Mapping[Any, Any]) -> dict[str, str | float]:
    return {name: value for name, value in labels.items() if name not in metadata}


def _without_tables(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in detail.items() if not isinstance(value, Mapping)}


def unscoped(collection: Collection) -> Collection:
    """The collection that one scope sees in a table that all share."""
    return replace(collection, name=collection.name.removeprefix(_PREFIX), scoped=False)


def into_scope(record: Record, scope: Scope, labels: Labels | None = None) -> Record:
    """A record of one scope as it lies where all scopes' records do.

    Args:
        record: the record as the scope sees it; what the store will refuse is left for it to refuse.
        scope: the scope.
        labels: what more its metadata are to say there; where a record says it itself, that stays.
    """
    moved = replace(record, id=scope.prefix + record.id)
    try:
        given = dict(record.metadata)
    except (TypeError, ValueError):
        return moved
    metadata = {name: value for name, value in given.items() if name not in SCOPE_FIELDS}
    readable = isinstance(record.content, str) and isinstance(record.created_at, str)
    more = labels(record) if labels is not None and readable else {}
    return replace(moved, metadata={**metadata, **scope.fields, **_more(more, metadata)})


def out_of_scope(record: Record, scope: Scope) -> Record:
    """A record from where all scopes' records lie as its scope sees it."""
    metadata = dict(takewhile(lambda entry: entry[0] != _FIRST_ADDED, record.metadata.items()))
    return replace(record, id=record.id.removeprefix(scope.prefix), metadata=metadata)
