"""Reading records: by id, by condition in pages, as a matrix, and by terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.formats import loads_object
from agenthood.stores.base import TYPED_FIELDS, Matrix
from agenthood.stores.sqlite.rows import record_of, selection, words
from agenthood.stores.sqlite.schema import PARTITION
from agenthood.stores.sqlite.sql import compiled, json_list, marked
from agenthood.stores.sqlite.vectors import chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from agenthood.stores.base import Record, Vector, VectorField
    from agenthood.stores.filters import Filter
    from agenthood.stores.sqlite.schema import Tables
    from agenthood.stores.sqlite.worker import Job

PAGE = 1_000
"""Records that a scan reads at once."""


def by_ids(
    connection: apsw.Connection, tables: Tables, ids: Sequence[str], fields: Sequence[VectorField]
) -> dict[str, Record]:
    """The records with these ids."""
    columns, joins = selection(tables, fields)
    statement = f"select {columns} from {tables.rows} r{joins} where r.id in (select value from json_each(?))"
    records = (record_of(row, fields) for row in connection.execute(statement, (json_list(ids),)))
    return {record.id: record for record in records}


def page(
    connection: apsw.Connection,
    tables: Tables,
    condition: Filter | None,
    fields: Sequence[VectorField],
    after: str,
) -> list[Record]:
    """The first records that match and whose id sorts after `after`, by id.

    By id and not by row, so that a record which is removed and added again meanwhile is not given twice.
    """
    columns, joins = selection(tables, fields)
    where = compiled(condition, tables)
    statement = (
        f"select {columns} from {tables.rows} r{joins} "
        f"where r.id > ? and {where.sql} order by r.id limit {PAGE}"
    )
    return [record_of(row, fields) for row in connection.execute(statement, (after, *where.values))]


def ids(connection: apsw.Connection, tables: Tables, condition: Filter | None) -> set[str]:
    """The ids of the records that match."""
    where = compiled(condition, tables)
    statement = f"select r.id from {tables.rows} r where {where.sql}"
    return {id_ for (id_,) in connection.execute(statement, where.values)}


def count(connection: apsw.Connection, tables: Tables, condition: Filter | None) -> int:
    """How many records match."""
    where = compiled(condition, tables)
    found: int = connection.execute(
        f"select count(*) from {tables.rows} r where {where.sql}",
        where.values,
    ).get
    return found


def matrix(
    connection: apsw.Connection, tables: Tables, field: VectorField, condition: Filter | None, job: Job
) -> Matrix:
    """Ids, vectors and owners of the records that match and have a vector."""
    typed = tables.collection.typed
    columns = ", ".join(f"r.{name}" for name in ("rid", "id", *(TYPED_FIELDS if typed else ("metadata",))))
    where = compiled(condition, tables)
    rows = {
        row[0]: row[1:]
        for row in connection.execute(
            f"select {columns} from {tables.rows} r where {where.sql}", where.values
        )
    }
    tenant = (marked(condition, tables) or {}).get(PARTITION) if condition else None
    wanted = np.sort(np.fromiter(rows, dtype=np.int64, count=len(rows)))
    found: list[tuple[Any, ...]] = []
    parts: list[Vector] = [np.zeros((0, tables.width(field)), dtype=np.float32)]
    for rids, vectors in chosen(connection, tables, field, wanted, tenant, job):
        found += [rows[rid] for rid in rids.tolist()]
        parts.append(vectors)
    owners = [row[1:] if typed else _owner(row[1]) for row in found]
    return Matrix([row[0] for row in found], np.concatenate(parts).astype(np.float32, copy=False), owners)


def _owner(metadata: str) -> tuple[str | None, ...]:
    body = loads_object(metadata)
    return tuple(body.get(name) for name in TYPED_FIELDS)


def holders(
    connection: apsw.Connection,
    tables: Tables,
    terms: Sequence[str],
    condition: Filter | None,
    limit: int,
) -> list[Record]:
    """The records that hold at least one of `terms`, by id; if there are more than `limit`, those ranked best."""
    columns, _ = selection(tables, ())
    where = compiled(condition, tables)
    statement = (
        f"select {columns} from {tables.terms} f join {tables.rows} r on r.rid = f.rowid "
        f"where f.tokens match ? and {where.sql} order by f.rank, r.id limit ?"
    )
    wanted = " OR ".join(f'"{word}"' for word in words(terms))
    rows = connection.execute(statement, (wanted, *where.values, limit))
    return sorted((record_of(row, ()) for row in rows), key=lambda record: record.id)
