"""Vector search in a LanceDB table: exact cosines, ties in order, no more than was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.stores.base import Collection, Hit, Vector, VectorField
from agenthood.stores.lance.rows import TEXT_COLUMNS, to_records

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

SCORE_DIGITS = 6
"""Scores that agree to so many digits count as a tie: float32 carries no more."""

# Extra hits read beyond the limit, so that ties at the cut are ordered by id and not by chance.
_TIE_MARGIN = 8
_GROWTH = 4
# All partitions up to 800,000 rows; at a million 100 probes find what brute force finds.
_PROBES = 100
_REFINE = 5


def columns_of(collection: Collection, *, vectors: bool) -> list[str]:
    """The columns that make up a record of the collection."""
    columns = [*TEXT_COLUMNS]
    if collection.typed:
        columns.append("terms")
    if vectors:
        columns += ["vector", "lexical"] if collection.lexical else ["vector"]
    return columns


async def search(  # noqa: PLR0913  one for each thing that can be asked
    table: AsyncTable,
    collection: Collection,
    queries: Vector,
    *,
    field: VectorField,
    condition: str | None,
    limit: int,
    unit: bool,
) -> list[list[Hit]]:
    """The `limit` nearest rows for each query by exact cosine, best first, ties by id."""
    fetched = limit + _TIE_MARGIN
    while True:
        found = await _nearest(
            table, collection, queries, field=field, condition=condition, limit=fetched, unit=unit
        )
        hits, complete = _ranked(found, queries, field, limit, fetched)
        if complete:
            return [row[:limit] for row in hits]
        fetched *= _GROWTH


async def _nearest(  # noqa: PLR0913
    table: AsyncTable,
    collection: Collection,
    queries: Vector,
    *,
    field: VectorField,
    condition: str | None,
    limit: int,
    unit: bool,
) -> Any:  # noqa: ANN401  a pyarrow.Table
    # The shared table's index is l2, which for unit vectors ranks as cosine does. Where there may be others
    # cosine is asked for, which passes that index over.
    distance = "l2" if unit and not collection.typed else "cosine"
    nearest = (
        table.query()
        .nearest_to(list(queries))
        .column(field)
        .distance_type(distance)
        .refine_factor(_REFINE)
        .maximum_nprobes(0)  # a selective filter would else leave too few rows
        .minimum_nprobes(_PROBES)
        .select([*columns_of(collection, vectors=True), "_distance"])
        .limit(limit)
    )
    return await (nearest.where(condition) if condition else nearest).to_arrow()


def _ranked(
    found: Any,  # noqa: ANN401  a pyarrow.Table
    queries: Vector,
    field: VectorField,
    limit: int,
    fetched: int,
) -> tuple[list[list[Hit]], bool]:
    """Hits per query, best first, ties by id; and whether none that belongs above the cut was left unread."""
    records = to_records(found)
    many = "query_index" in found.column_names
    positions = found["query_index"].to_pylist() if many else [0] * len(records)
    read = np.bincount(np.asarray(positions, dtype=np.int64), minlength=len(queries))
    hits: list[dict[str, Hit]] = [{} for _ in queries]
    for position, record in zip(positions, records, strict=True):
        score = _cosine(record.lexical if field == "lexical" else record.vector, queries[position])
        if score is not None:
            _keep_newest(hits[position], Hit(record, score))
    rows = [sorted(row.values(), key=_order) for row in hits]
    return rows, all(
        count < fetched or (len(row) > limit and _apart(row[limit - 1], row[-1]))
        for row, count in zip(rows, read, strict=True)
    )


def _cosine(vector: Vector | None, query: Vector) -> float | None:
    if vector is None:
        return None
    exact, wanted = vector.astype(np.float64), query.astype(np.float64)
    cosine = float(exact @ wanted / (np.linalg.norm(exact) * np.linalg.norm(wanted)))
    # Another program may have left NaN or infinity.
    return max(-1.0, min(1.0, cosine)) if np.isfinite(cosine) else None


def _keep_newest(row: dict[str, Hit], hit: Hit) -> None:
    known = row.get(hit.record.id)
    if known is None or hit.record.created_at >= known.record.created_at:
        row[hit.record.id] = hit


def _order(hit: Hit) -> tuple[float, str]:
    return -round(hit.score, SCORE_DIGITS), hit.record.id


def _apart(better: Hit, worse: Hit) -> bool:
    return better.score - worse.score > 10.0**-SCORE_DIGITS * 2
