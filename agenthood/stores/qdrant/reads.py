"""Reading points: by id, by condition in pages, and by terms."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from agenthood.stores.filters import matches
from agenthood.stores.qdrant.conditions import Compiled, compile_filter, matching
from agenthood.stores.qdrant.payload import TEXTS, keyword, point_id, to_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from agenthood.stores.base import Collection, Record
    from agenthood.stores.filters import Filter
    from agenthood.stores.qdrant.connection import Connection

IDS_AT_ONCE = 1_000
_FIRST_PAGE = 64
_LARGEST_PAGE = 4_096
_BYTES_PER_PAGE = 4_000_000
_BYTES_PER_NUMBER = 12
_MOST_CANDIDATES = 20_000
_ENOUGH = 4


def filter_of(clause: dict[str, Any] | None) -> Any:  # noqa: ANN401  a models.Filter or None
    """The JSON of a filter as qdrant-client takes it."""
    from qdrant_client import models  # noqa: PLC0415  loaded by now

    return None if clause is None else models.Filter.model_validate(clause)


def chunks(items: Sequence[str], size: int) -> list[Sequence[str]]:
    """`items` in parts of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


class Reader:
    """Reads one collection, whose shape is known."""

    def __init__(self, connection: Connection, stored_name: str, collection: Collection) -> None:
        """Args: `connection` to the server; `stored_name` of the `collection` there."""
        self.connection = connection
        self.stored_name = stored_name
        self.collection = collection

    @property
    def vectors(self) -> list[str]:
        """The names of the collection's vectors."""
        return ["vector", "lexical"] if self.collection.lexical else ["vector"]

    def payload(self, vectors: Sequence[str]) -> list[str]:
        """The parts of a payload that a record with these vectors takes."""
        return [*TEXTS, *(f"{name}_bytes" for name in vectors)]

    async def by_id(self, ids: Sequence[str], *, vectors: bool) -> list[Record]:
        """The records with these ids."""
        names = self.vectors if vectors else []
        payload, found, size = self.payload(names), [], _FIRST_PAGE
        start = 0
        while start < len(ids):
            part = [point_id(id_) for id_ in ids[start : start + size]]
            points = await self.connection.call(
                f"reading {self.collection.name!r}",
                lambda client, part=part: client.retrieve(  # type: ignore[misc]
                    self.stored_name, part, with_payload=payload, with_vectors=names or False
                ),
            )
            found += [to_record(point.payload, point.vector) for point in points]
            start += len(part)
            size = self._next_size(points, names, size)
        return found

    async def existing(self, ids: Sequence[str]) -> list[str]:
        """Which of these points there are, by point id."""
        found: list[str] = []
        for part in chunks([point_id(id_) for id_ in ids], IDS_AT_ONCE):
            points = await self.connection.call(
                f"reading {self.collection.name!r}",
                lambda client, part=part: client.retrieve(  # type: ignore[misc]
                    self.stored_name, list(part), with_payload=False, with_vectors=False
                ),
            )
            found += [str(point.id) for point in points]
        return found

    async def pages(
        self,
        clause: dict[str, Any] | None,
        *,
        payload: list[str],
        vectors: Sequence[str] = (),
        first: int = _FIRST_PAGE,
    ) -> AsyncIterator[list[Any]]:
        """The points that satisfy `clause`, in pages of some megabytes."""
        scroll_filter = filter_of(clause)
        offset, size = None, first
        while True:
            points, offset = await self.connection.call(
                f"reading {self.collection.name!r}",
                lambda client, offset=offset, size=size: client.scroll(  # type: ignore[misc]
                    self.stored_name,
                    scroll_filter=scroll_filter,
                    limit=size,
                    offset=offset,
                    with_payload=payload,
                    with_vectors=list(vectors) or False,
                ),
            )
            yield points
            if offset is None:
                return
            size = self._next_size(points, vectors, size)

    async def scan(self, condition: Filter | None, *, vectors: bool) -> AsyncIterator[list[Record]]:
        """The records that match, in pages."""
        compiled = compile_filter(condition, self.collection)
        if compiled.nothing:
            return
        names = self.vectors if vectors else []
        async for points in self.pages(compiled.with_(), payload=self.payload(names), vectors=names):
            records = [to_record(point.payload, point.vector) for point in points]
            yield records if compiled.exact else kept(records, condition)

    async def ids(self, condition: Filter | None) -> set[str]:
        """The ids of the records that match."""
        compiled = compile_filter(condition, self.collection)
        found: set[str] = set()
        if compiled.nothing:
            return found
        if not compiled.exact:
            async for records in self.scan(condition, vectors=False):
                found.update(record.id for record in records)
            return found
        async for points in self.pages(compiled.with_(), payload=["id"], first=_LARGEST_PAGE):
            found.update(point.payload["id"] for point in points)
        return found

    async def count(self, compiled: Compiled, *more: dict[str, Any]) -> int:
        """How many points satisfy an exact condition and `more`."""
        if compiled.nothing:
            return 0
        count_filter = filter_of(compiled.with_(*more))
        answer = await self.connection.call(
            f"counting {self.collection.name!r}",
            lambda client: client.count(self.stored_name, count_filter=count_filter, exact=True),
        )
        return int(answer.count)

    async def holders(self, terms: Sequence[str], condition: Filter | None, limit: int) -> list[Record]:
        """The records that hold at least one of `terms`, by id; if there are more than `limit`, the best."""
        compiled = compile_filter(condition, self.collection)
        if compiled.nothing or not self.collection.typed:
            return []
        held = await self._holding(terms, compiled, condition, at_most=limit)
        if held is None:
            held = await self._best(terms, compiled, condition, limit)
        return sorted(held, key=lambda record: record.id)

    async def _holding(
        self, terms: Sequence[str], compiled: Compiled, condition: Filter | None, *, at_most: int
    ) -> list[Record] | None:
        """All records that hold one of `terms`, or None if they are more than `at_most`."""
        found: list[Record] = []
        clause = compiled.with_(matching("terms", [keyword(term) for term in terms]))
        async for points in self.pages(clause, payload=TEXTS):
            records = [to_record(point.payload) for point in points]
            found += records if compiled.exact else kept(records, condition)
            if len(found) > at_most:
                return None
        return found

    async def _best(
        self, terms: Sequence[str], compiled: Compiled, condition: Filter | None, limit: int
    ) -> list[Record]:
        """The `limit` records whose terms are rarest, summed: what common terms alone would find is left out."""
        total, *counts = await asyncio.gather(
            self.count(compiled),
            *(self.count(compiled, matching("terms", [keyword(term)])) for term in terms),
        )
        weights = {
            term: math.log(1 + (total - count + 0.5) / (count + 0.5))
            for term, count in zip(terms, counts, strict=True)
            if count
        }
        rare: list[str] = []
        reached = 0
        for count, term in sorted(zip(counts, terms, strict=True)):
            if count and reached < _ENOUGH * limit:
                rare.append(term)
                reached += count
        scores: dict[str, float] = {}
        clause = compiled.with_(matching("terms", [keyword(term) for term in rare]))
        payload = ["id", "terms_text"] if compiled.exact else TEXTS
        async for points in self.pages(clause, payload=payload):
            records = [to_record(point.payload) for point in points]
            for record in records if compiled.exact else kept(records, condition):
                held = set((record.terms or "").split())
                scores[record.id] = sum(weight for term, weight in weights.items() if term in held)
            if len(scores) >= _MOST_CANDIDATES:
                break
        best = sorted(scores, key=lambda id_: (-scores[id_], id_))[:limit]
        return await self.by_id(best, vectors=False)

    def _next_size(self, points: Sequence[Any], vectors: Sequence[str], size: int) -> int:
        """How many points make up a page of some megabytes, judged by the last one."""
        if not points:
            return size
        dimensions = {"vector": self.collection.dimension, "lexical": 256}
        numbers = sum(dimensions[name] for name in vectors)
        texts = max(sum(len(value) for value in point.payload.values()) for point in points)
        fitting = _BYTES_PER_PAGE // (numbers * _BYTES_PER_NUMBER + texts + 200)
        return max(1, min(fitting, 4 * size, _LARGEST_PAGE))


def kept(records: Sequence[Record], condition: Filter | None) -> list[Record]:
    """Those of the records that match."""
    return [record for record in records if condition is None or matches(record, condition)]
