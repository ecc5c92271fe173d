"""Real stores with one fault each, such as a server may have that is not the one we tested."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agenthood.stores.base import UpsertResult
from agenthood.stores.filters import Equals
from agenthood.stores.testing import FaultyStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from agenthood.stores.base import Collection, Hit, Record


class KeepsOldMetadata(FaultyStore):
    """Metadata of the record before shine through."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for the fault."""
        known = await self.inner.get(collection, [row.id for row in records])
        merged = [
            replace(row, metadata={**known[row.id].metadata, **row.metadata}) if row.id in known else row
            for row in records
        ]
        return await self.inner.upsert(collection, merged)


class ForgetsTerms(FaultyStore):
    """Terms are not written."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for the fault."""
        return await self.inner.upsert(collection, [replace(row, terms=None) for row in records])


class RoundsVectors(FaultyStore):
    """Vectors have half the precision."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for the fault."""
        rounded = [
            row if row.vector is None else replace(row, vector=row.vector.astype("float16").astype("float32"))
            for row in records
        ]
        return await self.inner.upsert(collection, rounded)


class LosesOneOfMany(FaultyStore):
    """The last record of a batch is not written."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for the fault."""
        await self.inner.upsert(collection, records[:-1])
        return UpsertResult(len(records))


class RefusesTheWholeBatch(FaultyStore):
    """One bad record keeps its neighbours out."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for the fault."""
        probe = await self.inner.upsert(collection, records)
        if probe.rejected:
            await self.inner.delete(collection, [row.id for row in records])
            return UpsertResult(0, probe.rejected)
        return probe


class NoCombiningMarks(FaultyStore):
    """Joiners are normalised away."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for the fault."""
        plain = [replace(row, content=row.content.replace("\u200d", "")) for row in records]
        return await self.inner.upsert(collection, plain)


class IgnoresCase(FaultyStore):
    """A filter compares without case."""

    async def ids(self, collection: Collection, **options: Any) -> set[str]:
        """See `VectorStore`, but for the fault."""
        condition = options.get("condition")
        if isinstance(condition, Equals):
            condition = replace(condition, value=condition.value.lower())
        return await self.inner.ids(collection, condition=condition)


class Distances(FaultyStore):
    """A score is a distance."""

    async def query(self, *args: Any, **options: Any) -> list[list[Hit]]:
        """See `VectorStore`, but for the fault."""
        found = await self.inner.query(*args, **options)
        return [[replace(hit, score=1 - hit.score) for hit in hits] for hits in found]


class TiesAsTheyCome(FaultyStore):
    """Equal scores are ordered backwards."""

    async def query(self, *args: Any, **options: Any) -> list[list[Hit]]:
        """See `VectorStore`, but for the fault."""
        found = await self.inner.query(*args, **options)
        return [sorted(hits, key=lambda hit: (hit.score, hit.record.id), reverse=True) for hits in found]


class MissesTheNearest(FaultyStore):
    """The best hit is missing."""

    async def query(self, *args: Any, **options: Any) -> list[list[Hit]]:
        """See `VectorStore`, but for the fault."""
        if options.get("condition") is None:
            options["limit"] = options.get("limit", 10) + 1
            return [hits[1:] for hits in await self.inner.query(*args, **options)]
        return await self.inner.query(*args, **options)


class DeletesTooLittle(FaultyStore):
    """The first of the ids stays."""

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore`, but for the fault."""
        await self.inner.delete(collection, list(ids)[1:])
        return len(set(ids)) - 1


class SeesEveryScope(FaultyStore):
    """A scope's filter counts everyone's records."""

    async def count(self, collection: Collection, condition: Any = None) -> int:
        """See `VectorStore`, but for the fault."""
        return await self.inner.count(collection, None if collection.scoped else condition)


class NoLock(FaultyStore):
    """The lock keeps nobody out."""

    @asynccontextmanager
    async def exclusive(self, scope: str = "") -> AsyncIterator[None]:
        """See `VectorStore`, but for the fault."""
        del scope
        yield


class WritesInTwoSteps(FaultyStore):
    """Looking and writing are two steps, so writers at once duplicate."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore`, but for the fault."""
        if "by" not in records[0].metadata:
            return await self.inner.upsert(collection, records)
        known = await self.inner.get(collection, [row.id for row in records])
        await asyncio.sleep(0.01)
        mixed = [
            replace(row, id=row.id + (f" {row.metadata['by']}" if row.id not in known else ""))
            for row in records
        ]
        return await self.inner.upsert(collection, mixed)


class WholeWordsOnlyAtTheStart(FaultyStore):
    """Only the first term of a record is found."""

    async def search_terms(self, *args: Any, **options: Any) -> list[Record]:
        """See `VectorStore`, but for the fault."""
        found = await self.inner.search_terms(*args, **options)
        return [row for row in found if (row.terms or "").split()[0] in args[1]]


class DropsNothing(FaultyStore):
    """Collections are not dropped."""

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore`, but for the fault."""
        del name
