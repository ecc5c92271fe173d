"""Vector search in a LanceDB table: exact cosines, ties in order, no more than was asked for."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agenthood.stores.base import Collection, Hit, Vector, VectorField
from agenthood.stores.filters import Filter, matches
from agenthood.stores.lance.rows import TEXT_COLUMNS, matrix_of, to_records
from agenthood.stores.scoring import TIE_MARGIN, apart, best_first, cosines

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

_GROWTH = 4
# All partitions up to 800,000 rows; at a million 100 probes find what brute force finds.
_PROBES = 100
_REFINE = 2
# From so many rows on, and up to such a limit, some times as many of the nearest rows are looked through for those that
# fulfil a condition.
_SIFTED_FROM = 30_000
_SIFTED = 3
_MOST_SIFTED = 20
_MOST_NARROW = 256


def columns_of(collection: Collection, *, vectors: bool) -> list[str]:
    """The columns that make up a record of the collection."""
    columns = [*TEXT_COLUMNS]
    if collection.typed:
        columns.append("terms")
    if vectors:
        columns += ["vector", "lexical"] if collection.lexical else ["vector"]
    return columns


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a search: see `VectorStore.query`.

    Attributes:
        field: as there.
        condition: as there.
        selected: the condition as SQL, and what else leaves rows out.
        limit: as there.
        unit: as there.
        with_vectors: as there.
    """

    field: VectorField
    condition: Filter | None
    selected: str | None
    limit: int
    unit: bool
    with_vectors: bool


class Narrow:
    """Conditions that few rows fulfil, as found out by searching: the least recently met are forgotten."""

    def __init__(self) -> None:
        self._met: OrderedDict[tuple[str, Filter], None] = OrderedDict()

    def note(self, collection: Collection, condition: Filter) -> None:
        """So many of the nearest rows did not fulfil it that others had to be searched for."""
        self._met[collection.name, condition] = None
        self._met.move_to_end((collection.name, condition))
        if len(self._met) > _MOST_NARROW:
            self._met.popitem(last=False)

    def holds(self, collection: Collection, condition: Filter) -> bool:
        """Whether it was met lately."""
        return (collection.name, condition) in self._met


async def search(
    table: AsyncTable, collection: Collection, queries: Vector, asked: Asked, narrow: Narrow
) -> list[list[Hit]]:
    """The `limit` nearest rows for each query by exact cosine, best first, ties by id."""
    if _may_sift(collection, queries, asked, narrow) and await table.count_rows() >= _SIFTED_FROM:
        if (sifted := await _sifted(table, collection, queries, asked)) is not None:
            return [sifted]
        narrow.note(collection, cast("Filter", asked.condition))
    fetched = asked.limit + TIE_MARGIN
    while True:
        found = await _nearest(table, collection, queries, asked, fetched, asked.selected)
        hits, complete = _ranked(found, queries, asked, fetched)
        if complete:
            return [row[: asked.limit] for row in hits]
        fetched *= _GROWTH


def _may_sift(collection: Collection, queries: Vector, asked: Asked, narrow: Narrow) -> bool:
    return (
        asked.condition is not None
        and collection.typed
        and len(queries) == 1
        and asked.limit <= _MOST_SIFTED
        and not narrow.holds(collection, asked.condition)
    )


async def _sifted(
    table: AsyncTable, collection: Collection, queries: Vector, asked: Asked
) -> list[Hit] | None:
    """The hits among the nearest of all rows; None if too few of them fulfil the condition.

    An index looks at every row's bit of a condition, which at 100,000 rows takes longer than the rest of the search.
    """
    fetched = _SIFTED * (asked.limit + TIE_MARGIN)
    found = await _nearest(table, collection, queries, asked, fetched, None)
    (row,), complete = _ranked(found, queries, asked, fetched)
    fitting = [hit for hit in row if matches(hit.record, cast("Filter", asked.condition))][: asked.limit + 1]
    if found.num_rows < fetched and complete:
        return fitting[: asked.limit]
    if len(fitting) > asked.limit and apart(fitting[asked.limit - 1], row[-1]):
        return fitting[: asked.limit]
    return None


async def _nearest(  # noqa: PLR0913, PLR0917  one search
    table: AsyncTable,
    collection: Collection,
    queries: Vector,
    asked: Asked,
    limit: int,
    condition: str | None,
) -> Any:  # noqa: ANN401  a pyarrow.Table
    # The shared table's index is l2, which for unit vectors ranks as cosine does. Where there may be others
    # cosine is asked for, which passes that index over.
    distance = "l2" if asked.unit and not collection.typed else "cosine"
    columns = columns_of(collection, vectors=asked.with_vectors)
    nearest = (
        table.query()
        .nearest_to(list(queries))
        .column(asked.field)
        .distance_type(distance)
        .refine_factor(_REFINE if collection.typed else 1)  # what the shared table's index holds is exact
        .maximum_nprobes(0)  # a selective filter would else leave too few rows
        .minimum_nprobes(_PROBES)
        # The vector searched by is needed in any case: scores are computed from it.
        .select([*dict.fromkeys([*columns, asked.field]), "_distance"])
        .limit(limit)
    )
    return await (nearest.where(condition) if condition else nearest).to_arrow()


def _ranked(
    found: Any,  # noqa: ANN401  a pyarrow.Table
    queries: Vector,
    asked: Asked,
    fetched: int,
) -> tuple[list[list[Hit]], bool]:
    """Hits per query, best first, ties by id; and whether none that belongs above the cut was left unread."""
    many = "query_index" in found.column_names
    positions = found["query_index"].to_numpy() if many else np.zeros(found.num_rows, dtype=np.int64)
    read = np.bincount(positions, minlength=len(queries))
    scores = cosines(matrix_of(found[asked.field]), queries[positions])
    # Another program may have left NaN or infinity, and the shared table has zeros where there is no vector.
    usable = np.flatnonzero(np.isfinite(scores))
    records = to_records(found.take(usable) if len(usable) < found.num_rows else found)
    hits: list[dict[str, Hit]] = [{} for _ in queries]
    for position, record, score in zip(
        positions[usable].tolist(), records, scores[usable].tolist(), strict=True
    ):
        _keep_newest(hits[position], Hit(record, score))
    rows = [sorted(row.values(), key=best_first) for row in hits]
    return rows, all(
        count < fetched or (len(row) > asked.limit and apart(row[asked.limit - 1], row[-1]))
        for row, count in zip(rows, read.tolist(), strict=True)
    )


def _keep_newest(row: dict[str, Hit], hit: Hit) -> None:
    known = row.get(hit.record.id)
    if known is None or hit.record.created_at >= known.record.created_at:
        row[hit.record.id] = hit
