"""Vector search in a LanceDB table: exact cosines, ties in order, no more than was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.stores.base import Collection, Hit, Vector, VectorField
from agenthood.stores.lance.rows import TEXT_COLUMNS, matrix_of, to_records
from agenthood.stores.scoring import TIE_MARGIN, apart, best_first, cosines

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

_GROWTH = 4
# All partitions up to 800,000 rows; at a million 100 probes find what brute force finds.
_PROBES = 100
_REFINE = 3


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
    """What is asked of a search: see `VectorStore.query`; `condition` is SQL."""

    field: VectorField
    condition: str | None
    limit: int
    unit: bool
    with_vectors: bool


async def search(table: AsyncTable, collection: Collection, queries: Vector, asked: Asked) -> list[list[Hit]]:
    """The `limit` nearest rows for each query by exact cosine, best first, ties by id."""
    fetched = asked.limit + TIE_MARGIN
    while True:
        found = await _nearest(table, collection, queries, asked, fetched)
        hits, complete = _ranked(found, queries, asked, fetched)
        if complete:
            return [row[: asked.limit] for row in hits]
        fetched *= _GROWTH


async def _nearest(
    table: AsyncTable, collection: Collection, queries: Vector, asked: Asked, limit: int
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
    return await (nearest.where(asked.condition) if asked.condition else nearest).to_arrow()


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
