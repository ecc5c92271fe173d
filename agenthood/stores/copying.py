"""Copies everything from one store to another, batch by batch, and proves it by reading both again.

What is there already and identical is not written, so a copy that was interrupted goes on where it stopped. What is
there and differs is overwritten: the source is right. What only the target has stays, and is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agenthood.stores.checksum import Checksum, digest
from agenthood.stores.copy_report import Copied, CopyReport, Tally
from agenthood.stores.filters import where
from agenthood.stores.naming import is_scratch
from agenthood.stores.relocation import Layer, Origins, Relocation, scope_in
from agenthood.stores.scoped import scoped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from agenthood.stores.base import Collection, Record, Rejection, VectorStore

_RECORDS: Final = 1_000
_BYTES: Final = 16_000_000
_NAMED: Final = 20
"""Refused records that are kept to be named; the others are counted."""


async def copy_store(
    source: VectorStore,
    target: VectorStore,
    *,
    relocation: Relocation | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> CopyReport:
    """Copy every record of `source` into `target`, and compare the two afterwards.

    Memory does not grow with the number of records. The source is not locked: writers go on, and if one wrote
    meanwhile the report says so. Cancelled or killed, it can simply be called again.

    Args:
        source: all of its scopes; not changed.
        target: what it has besides stays as it is.
        relocation: where records belong in the target; where they are in the source unless given.
        on_progress: called with how many records were copied or compared, and how many there are of that to do.

    Raises:
        StoreUnavailableError: one of them cannot be reached.
        StoreError: one of them refuses, or two scopes would become one.
    """
    return await _Copy(source, target, relocation or Relocation(), on_progress).run()


class _Copy:
    def __init__(
        self,
        source: VectorStore,
        target: VectorStore,
        relocation: Relocation,
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._source = source
        self._target = target
        self._relocation = relocation
        self._on_progress = on_progress
        self._tallies: dict[Layer, Tally] = {}
        self._origins = Origins()
        self._refused = 0
        self._rejected: list[Rejection] = []
        self._done = self._total = 0

    async def run(self) -> CopyReport:
        collections = [one for one in await self._source.collections() if not is_scratch(one.name)]
        await self._survey(collections)
        self._total = 2 * sum([await self._source.count(one) for one in collections])
        for collection in collections:
            async for batch in _batches(self._source, collection):
                await self._copy(collection, batch)
        for target in dict.fromkeys(layer.collection for layer in self._tallies):
            await self._target.maintain(target)
        for collection in collections:
            async for batch in _batches(self._source, collection):
                await self._compare(collection, batch)
        layers = [await self._told(layer, tally) for layer, tally in self._tallies.items()]
        changed = any(tally.copied != tally.source for tally in self._tallies.values())
        layers += await self._only_there()
        scopes = tuple(map(str, self._origins.scopes))
        return CopyReport(tuple(layers), self._refused, tuple(self._rejected), changed, scopes)

    async def _survey(self, collections: Iterable[Collection]) -> None:
        """Find scopes that would become one before anything is written; on a server that would take too long."""
        if self._relocation.direction != "to a server":
            return
        for collection in sorted(collections, key=lambda one: one.scoped):
            if collection.scoped:
                async for batch in self._source.scan(collection):
                    self._placed(collection, batch)
            elif await self._source.count(collection):
                self._origins.note(Layer(scoped(collection), self._relocation.home), None)

    def _placed(
        self, collection: Collection, records: Iterable[Record]
    ) -> dict[Collection, list[tuple[Layer, Record]]]:
        """The records as they lie in the target, by its collections."""
        placed: dict[Collection, list[tuple[Layer, Record]]] = {}
        for record in records:
            layer, moved = self._relocation(collection, record)
            self._origins.note(layer, scope_in(record) if collection.scoped else None)
            placed.setdefault(layer.collection, []).append((layer, moved))
        return placed

    async def _copy(self, collection: Collection, batch: list[Record]) -> None:
        """Write what is missing or differs."""
        for place, moved in self._placed(collection, batch).items():
            there = await self._there(place, moved)
            missing = []
            for layer, record in moved:
                tally = self._tallies.setdefault(layer, Tally())
                expected = digest(record)
                tally.copied.add(expected)
                if (found := there.get(record.id)) == expected:
                    tally.unchanged += 1
                    continue
                tally.written += found is None
                tally.replaced += found is not None
                missing.append(record)
            if missing:
                self._refuse((await self._target.upsert(place, missing)).rejected)
        self._advance(len(batch))

    async def _compare(self, collection: Collection, batch: list[Record]) -> None:
        """Read the same records from the target."""
        for place, moved in self._placed(collection, batch).items():
            there = await self._there(place, moved)
            for layer, record in moved:
                tally = self._tallies.setdefault(layer, Tally())
                expected, found = digest(record), there.get(record.id)
                tally.source.add(expected)
                if found is not None:
                    tally.found += 1
                    tally.target.add(found)
                    tally.differing += found != expected
                if found != expected:
                    tally.first = tally.first or record.id
        self._advance(len(batch))

    async def _there(self, place: Collection, moved: list[tuple[Layer, Record]]) -> dict[str, bytes]:
        ids = [record.id for _, record in moved]
        found = await self._target.get(place, ids, vectors=True)
        return {id_: digest(record) for id_, record in found.items()}

    def _refuse(self, rejected: Iterable[Rejection]) -> None:
        for one in rejected:
            self._refused += 1
            if len(self._rejected) < _NAMED:
                self._rejected.append(one)

    def _advance(self, records: int) -> None:
        self._done += records
        self._total = max(self._total, self._done)
        self._on_progress(self._done, self._total)

    async def _told(self, layer: Layer, tally: Tally) -> Copied:
        whose = where(**layer.scope.fields) if layer.scope else None
        extra = await self._target.count(layer.collection, whose) - tally.found
        return Copied(
            collection=layer.collection.name,
            scope=str(layer.scope or ""),
            records=tally.source.count,
            written=tally.written,
            replaced=tally.replaced,
            unchanged=tally.unchanged,
            extra=max(0, extra),
            source=str(tally.source),
            target=str(tally.target),
            problem=tally.problem(extra),
        )

    async def _only_there(self) -> list[Copied]:
        """What a directory has of its own where the source has nothing; other scopes of a server are no concern."""
        known = {layer.collection.name for layer in self._tallies}
        nothing = str(Checksum())
        return [
            Copied(one.name, "", 0, 0, 0, 0, extra, nothing, nothing, "")
            for one in await self._target.collections()
            if not (one.scoped or one.name in known or is_scratch(one.name))
            and (extra := await self._target.count(one))
        ]


async def _batches(store: VectorStore, collection: Collection) -> AsyncIterator[list[Record]]:
    """All records of a collection, some hundreds at a time, however few a scan gives at once."""
    batch: list[Record] = []
    size = 0
    async for found in store.scan(collection, vectors=True):
        for record in found:
            batch.append(record)
            size += _size(record)
            if len(batch) >= _RECORDS or size >= _BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _size(record: Record) -> int:
    vectors = (record.vector, record.lexical)
    return len(record.content) + sum(vector.nbytes for vector in vectors if vector is not None)
