"""Reading vectors in bulk: whole blocks of sqlite-vec's tables, or single ones by row.

Through sqlite-vec a vector of 256 dimensions takes 3 us to read if its neighbour was read before and 17 us if not. Its
blocks are ordinary rows that hold some dozens of vectors each: 100,000 are read in 35 ms instead of 280 and more. Their
layout belongs to the version of sqlite-vec that is required; `tests/stores/test_sqlite_search.py` compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from agenthood.stores.base import Vector
from agenthood.stores.sqlite.schema import mark
from agenthood.stores.sqlite.sql import json_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from agenthood.stores.base import VectorField
    from agenthood.stores.sqlite.schema import Tables
    from agenthood.stores.sqlite.worker import Job

Rows: TypeAlias = npt.NDArray[np.int64]
Batch: TypeAlias = tuple[Rows, Vector]

_TOGETHER: Final = 4_096
"""About how many vectors are handed on at once."""
_SINGLE: Final = 30
"""Reading one by row takes as long as reading so many in blocks."""


def chosen(  # noqa: PLR0913, PLR0917  what to read, and of what
    connection: apsw.Connection, tables: Tables, field: VectorField, rows: Rows, tenant: str | None, job: Job
) -> Iterator[Batch]:
    """Those of `rows` that have a vector, with it: float32 (n, d), some thousands at a time, in no order.

    Args:
        connection: where to read.
        tables: of which collection.
        field: which vector.
        rows: the rows asked for, in ascending order.
        tenant: whose they all are, if that is known.
        job: asked between two batches whether anybody waits.
    """
    if len(rows) <= few(connection, tables):
        yield from _single(connection, tables, field, rows, job)
        return
    yield from in_blocks(connection, tables, field, tenant, job, rows)


def few(connection: apsw.Connection, tables: Tables) -> int:
    """So many vectors are better read one by one."""
    highest: int = connection.execute(f"select coalesce(max(rid), 0) from {tables.rows}").get
    return highest // _SINGLE


def in_blocks(  # noqa: PLR0913, PLR0917  what to read, and of what
    connection: apsw.Connection,
    tables: Tables,
    field: VectorField,
    tenant: str | None,
    job: Job,
    only: Rows | None = None,
) -> Iterator[Batch]:
    """All vectors, or all of a tenant, or `only` those of some rows, with their rows: see `chosen`."""
    table = tables.vectors(field)
    where, values = ("", ()) if tenant is None else ("where c.partition00 = ?", (mark(tenant),))
    cursor = connection.execute(
        f"select c.validity, c.rowids, b.vectors from {table}_chunks c "
        f"cross join {table}_vector_chunks00 b on b._rowid_ = c.chunk_id {where}",
        values,
    )
    batch: list[Batch] = []
    held = 0
    for validity, rowids, blob in cursor:
        batch.append(_taken(validity, rowids, blob, only))
        held += len(batch[-1][0])
        if held >= _TOGETHER:
            job.check()
            yield _together(batch)
            batch, held = [], 0
    if batch:
        yield _together(batch)


def _taken(validity: bytes, rowids: bytes, blob: bytes, only: Rows | None) -> Batch:
    """What is used of a block, and wanted."""
    taken = np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little").astype(bool)
    rows = np.frombuffer(rowids, dtype="<i8")
    if only is not None:
        places = np.minimum(np.searchsorted(only, rows), len(only) - 1)
        taken &= only[places] == rows
    vectors = np.frombuffer(blob, dtype="<f4").reshape(len(rows), -1)
    return (rows, vectors) if taken.all() else (rows[taken], vectors[taken])


def _together(batch: list[Batch]) -> Batch:
    return np.concatenate([rows for rows, _ in batch]), np.concatenate([vectors for _, vectors in batch])


def _single(
    connection: apsw.Connection, tables: Tables, field: VectorField, rows: Rows, job: Job
) -> Iterator[Batch]:
    table = tables.vectors(field)
    for start in range(0, len(rows), _TOGETHER):
        job.check()
        found: list[tuple[Any, ...]] = connection.execute(
            f"select v.rowid, v.embedding from json_each(?) j join {table} v on v.rowid = j.value",
            (json_list(rows[start : start + _TOGETHER].tolist()),),
        ).fetchall()
        blob = b"".join(vector for _, vector in found)
        if found:
            yield (
                np.array([rid for rid, _ in found], dtype=np.int64),
                np.frombuffer(blob, dtype="<f4").reshape(len(found), -1),
            )
