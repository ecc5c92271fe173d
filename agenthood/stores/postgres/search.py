"""Search by vector: exact where few rows match, through an HNSW index where many do, and ranked by exact cosines.

An HNSW index asked for the nearest rows of a small tenant gives some or none of them: what it finds nearest is dropped
by the filter afterwards. So the matching rows are counted first, as far as it matters, and a search that gave
fewer rows than were asked for is made again without the index.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agenthood.stores.base import LEXICAL_DIMENSION, Collection, Hit, Vector, VectorField
from agenthood.stores.postgres.rows import selected, to_records
from agenthood.stores.scoring import TIE_MARGIN, apart, best_first, cosine

if TYPE_CHECKING:
    from collections.abc import Hashable

    from agenthood.stores.postgres.connections import Connection, Rows
    from agenthood.stores.postgres.sql import Clause
    from agenthood.stores.postgres.tables import OpenTable

FEW = 20_000
"""Up to so many matching rows are all compared."""
_MANY_KNOWN_FOR = 60.0
_FEW_KNOWN_FOR = 10.0
_MOST_KNOWN = 1_000
_GROWTH = 4
_QUERIES_AT_ONCE = 64
_MOST_THROUGH_INDEX = 400
# Half-precision distances and a graph's short cuts lose some of the nearest; more candidates bring them back.
_OVERSAMPLING = 4
_LEAST_EF = 200
_MOST_EF = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a search: see `VectorStore.query`."""

    field: VectorField
    condition: Clause
    limit: int
    with_vectors: bool


class ManyMatches:
    """Which conditions lately matched many rows: to count before each search would cost as much as searching.

    What is known is a little out of date, which costs time alone: either way of searching finds what there is.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[float, bool]] = {}

    async def check(self, table: OpenTable, asked: Asked) -> bool:
        """Whether more than `FEW` rows match, so that an index is worth while."""
        name: Hashable = (table.name, asked.field, asked.condition.text, repr(asked.condition.parameters))
        until, many = self._known.get(name, (0.0, False))
        if until > time.monotonic():
            return many
        ((count,),) = await table.run(
            f"select count(*) from (select from {table.name} where {asked.field} is not null "  # noqa: S608  our names
            f"and {asked.condition.text} limit {FEW + 1}) as matching",
            asked.condition.parameters,
        )
        many = bool(count > FEW)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = (time.monotonic() + (_MANY_KNOWN_FOR if many else _FEW_KNOWN_FOR), many)
        return many


async def search(table: OpenTable, queries: Vector, asked: Asked, *, index: bool) -> list[list[Hit]]:
    """The `limit` nearest rows for each query by exact cosine, best first, ties by id.

    Args:
        table: what is searched.
        queries: float32 (n, dimension of the field).
        asked: what is asked.
        index: whether to go through the HNSW index.
    """
    found: list[list[Hit]] = []
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        part = queries[start : start + _QUERIES_AT_ONCE]
        hits = None
        if index and asked.limit <= _MOST_THROUGH_INDEX:
            hits = await _through_index(table, part, asked)
        found += hits if hits is not None else await _exact(table, part, asked)
    return found


async def _exact(table: OpenTable, queries: Vector, asked: Asked) -> list[list[Hit]]:
    fetched = asked.limit + TIE_MARGIN
    while True:
        # Adding 0 keeps the planner from any index by distance.
        order = f"({asked.field} <=> wanted) + 0, id"
        rows = await _nearest(table, queries, asked, order, fetched)
        hits = _ranked(rows, table.collection, queries, asked)
        if all(len(row) < fetched or apart(row[asked.limit - 1], row[-1]) for row in hits):
            return [row[: asked.limit] for row in hits]
        fetched *= _GROWTH


async def _through_index(table: OpenTable, queries: Vector, asked: Asked) -> list[list[Hit]] | None:
    """The same from the index; None if it may have missed one, or ties go on beyond what was read."""
    fetched = asked.limit * 2 + TIE_MARGIN
    await use_index(table.connection, fetched)
    order = indexed_distance(table.collection, asked.field)
    rows = await _nearest(table, queries, asked, order, fetched)
    await table.connection.script("set local enable_sort = on")
    hits = _ranked(rows, table.collection, queries, asked)
    if any(len(row) < fetched or not apart(row[asked.limit - 1], row[-1]) for row in hits):
        return None
    return [row[: asked.limit] for row in hits]


async def use_index(connection: Connection, fetched: int) -> None:
    """Let the planner use nothing but the index for this order, and the index go on until it has enough rows."""
    ef = min(_MOST_EF, max(_LEAST_EF, fetched * _OVERSAMPLING))
    await connection.script(
        f"set local enable_sort = off; set local hnsw.iterative_scan = strict_order; set local hnsw.ef_search = {ef}; "
        "set local hnsw.max_scan_tuples = 1000000; set local hnsw.scan_mem_multiplier = 16"
    )


def indexed_distance(collection: Collection, field: VectorField) -> str:
    """The distance between a row and `wanted` as the index has it."""
    dimension = dimension_of(collection, field)
    return f"{field}::halfvec({dimension}) <=> wanted::halfvec({dimension})"


def dimension_of(collection: Collection, field: VectorField) -> int:
    """How long the vectors of this field are."""
    return LEXICAL_DIMENSION if field == "lexical" else collection.dimension


def statement(table: OpenTable, asked: Asked, order: str, limit: int) -> str:
    """The SQL that finds the nearest rows for each query; its parameters are the queries and those of the condition."""
    listed = selected(table.collection, vectors=asked.with_vectors, also=[asked.field])
    return (
        f"select n, r.* from unnest(%b::vector[]) with ordinality as q (wanted, n) cross join lateral ("  # noqa: S608
        f"select {', '.join(listed)} from {table.name} where {asked.field} is not null and {asked.condition.text} "
        f"order by {order} limit {limit}) as r"
    )


async def _nearest(table: OpenTable, queries: Vector, asked: Asked, order: str, limit: int) -> Rows:
    found = statement(table, asked, order, limit)
    return await table.run(found, [list(queries), *asked.condition.parameters])


def _ranked(rows: Rows, collection: Collection, queries: Vector, asked: Asked) -> list[list[Hit]]:
    listed = selected(collection, vectors=asked.with_vectors, also=[asked.field])
    hits: list[list[Hit]] = [[] for _ in queries]
    for (position, *_), record in zip(rows, to_records([row[1:] for row in rows], listed), strict=True):
        vector = record.lexical if asked.field == "lexical" else record.vector
        score = cosine(vector, queries[position - 1])
        if score is not None:
            hits[position - 1].append(Hit(record, score))
    return [sorted(row, key=best_first) for row in hits]
