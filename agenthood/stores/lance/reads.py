"""Reading rows of a LanceDB table: by condition, in batches, as a matrix, and by terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agenthood.formats import loads_object
from agenthood.stores.base import TYPED_FIELDS, Matrix
from agenthood.stores.lance.rows import matrix_of, to_records
from agenthood.stores.lance.sql import one_of
from agenthood.stores.lance.writes import chunks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from agenthood.stores.base import Record, VectorField

_SCAN_ROWS = 4_096
# Looking for an id among others takes 9 us, reading one of all 0.25 us.
SCANNED_PER_ID = 32
SCANNED_FROM = 200


async def with_ids(table: AsyncTable, columns: list[str], ids: Sequence[str]) -> list[Record]:
    """The rows that have one of `ids`, all of an id."""
    if len(ids) >= SCANNED_FROM and await table.count_rows() <= SCANNED_PER_ID * len(ids):
        addresses = await addresses_of(table, ids)
        found = await table.take_row_ids(addresses).select(columns).to_arrow()
        if found.num_rows == len(addresses):  # else somebody rewrote or removed one meanwhile
            return to_records(found)
    rows: list[Record] = []
    for part in chunks(ids):
        rows += to_records(await table.query().select(columns).where(one_of("id", part)).to_arrow())
    return rows


async def addresses_of(table: AsyncTable, ids: Sequence[str]) -> list[int]:
    """Where the rows are that have one of `ids`: found by reading every id."""
    import pyarrow as pa  # noqa: PLC0415  loads in 0.35 s
    import pyarrow.compute as pc  # noqa: PLC0415

    every = await table.query().select(["id"]).with_row_id().to_arrow()
    there = pc.is_in(every["id"], value_set=pa.array(ids, pa.utf8()))
    addresses: list[int] = every["_rowid"].filter(there).to_pylist()
    return addresses


async def batches(
    table: AsyncTable, columns: list[str], condition: str | None
) -> AsyncIterator[list[Record]]:
    """The rows that satisfy `condition`, some thousands at a time."""
    import pyarrow as pa  # noqa: PLC0415

    query = table.query().select(columns)
    found = await (query.where(condition) if condition else query).to_batches(max_batch_length=_SCAN_ROWS)
    async for batch in found:
        yield to_records(pa.Table.from_batches([batch]))


async def ids(table: AsyncTable, condition: str | None) -> set[str]:
    """The ids of the rows that satisfy `condition`."""
    query = table.query().select(["id"])
    found = await (query.where(condition) if condition else query).to_arrow()
    return set(found["id"].to_pylist())


async def matrix(table: AsyncTable, field: VectorField, condition: str | None, *, typed: bool) -> Matrix:
    """Ids, vectors and owners of the rows that satisfy `condition` and have a vector."""
    query = table.query().select(["id", field, *(TYPED_FIELDS if typed else ("metadata",))])
    found = await (query.where(condition) if condition else query).to_arrow()
    vectors = matrix_of(found[field])
    there = np.flatnonzero(np.any(vectors, axis=1))
    if len(there) != len(vectors):
        vectors, found = vectors[there], found.take(there)
    return Matrix(found["id"].to_pylist(), vectors, _owners(found, typed=typed))


def _owners(found: pa.Table, *, typed: bool) -> list[tuple[str | None, ...]]:
    if typed:
        return list(zip(*(found[name].to_pylist() for name in TYPED_FIELDS), strict=True))
    bodies = (loads_object(text or "") for text in found["metadata"].to_pylist())
    return [tuple(body.get(name) for name in TYPED_FIELDS) for body in bodies]


async def holders(
    table: AsyncTable, columns: list[str], terms: Sequence[str], condition: str | None, limit: int
) -> list[Record]:
    """The rows whose `terms` hold at least one of `terms`, by id; if there are more than `limit`, the best."""
    search = table.query().nearest_to_text(" ".join(terms), columns=["terms"])
    search = search.select([*columns, "_score"]).limit(limit)
    found = await (search.where(condition) if condition else search).to_arrow()
    return sorted(to_records(found.drop_columns(["_score"])), key=lambda record: record.id)
