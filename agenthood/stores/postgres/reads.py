"""Reading rows: by id, page by page, as a matrix, and by terms. The conditions come from `sql.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenthood.stores.postgres.keys import key
from agenthood.stores.postgres.rows import selected, to_records
from agenthood.stores.postgres.sql import ID, Clause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.stores.base import Record
    from agenthood.stores.postgres.connections import Connection
    from agenthood.stores.postgres.tables import OpenTable

IDS_AT_ONCE = 2_000
_PAGE = 2_000


async def by_id(table: OpenTable, ids: Sequence[str], own: Clause, *, vectors: bool) -> dict[str, Record]:
    """The records with these ids, among the rows that are `own`."""
    listed = selected(table.collection, vectors=vectors)
    statement = f"select {', '.join(listed)} from {table.name} where id = any(%s) and {own.text}"  # noqa: S608
    found: dict[str, Record] = {}
    for start in range(0, len(ids), IDS_AT_ONCE):
        part = [key(id_) for id_ in ids[start : start + IDS_AT_ONCE]]
        rows = await table.run(statement, [part, *own.parameters])
        found |= {record.id: record for record in to_records(rows, listed)}
    return found


async def page(table: OpenTable, condition: Clause, after: str, *, vectors: bool) -> tuple[list[Record], str]:
    """The matching records whose key sorts after `after`, some thousands, and the key of the last."""
    listed = selected(table.collection, vectors=vectors)
    rows = await table.run(
        f"select {', '.join(listed)} from {table.name} as r where r.id > %s and {condition.text} "  # noqa: S608
        f"order by r.id limit {_PAGE}",
        [after, *condition.parameters],
    )
    records = to_records(rows, listed)
    return records, key(records[-1].id) if records else after


async def ids(table: OpenTable, condition: Clause) -> set[str]:
    """The ids of the matching rows."""
    rows = await table.run(f"select {ID} from {table.name} where {condition.text}", condition.parameters)  # noqa: S608
    return {id_ for (id_,) in rows}


async def count(table: OpenTable, condition: Clause) -> int:
    """How many rows match."""
    ((found,),) = await table.run(
        f"select count(*) from {table.name} where {condition.text}",  # noqa: S608
        condition.parameters,
    )
    return int(found)


async def vectors(table: OpenTable, field: str, condition: Clause) -> list[tuple[Any, ...]]:
    """Id, metadata and vector of the matching rows that have one."""
    return await table.run(
        f"select {ID}, metadata, {field} from {table.name} where {field} is not null and {condition.text}",  # noqa: S608
        condition.parameters,
    )


async def holders(table: OpenTable, words: Sequence[str], condition: Clause, limit: int) -> list[Record]:
    """The records that hold at least one of `words`, by id; if there are more than `limit`, the best.

    The best are those with the greatest sum of weights: a word weighs ln(1 + holders of any / its own holders).
    """
    if not table.collection.typed:
        return []
    listed = selected(table.collection, vectors=False)
    held = f"words && %s::text[] and {condition.text}"
    rows = await table.run(
        f"select {', '.join(listed)} from {table.name} where {held} limit {limit + 1}",  # noqa: S608
        [list(words), *condition.parameters],
    )
    if len(rows) > limit:
        rows = await table.run(
            f"with held as materialized (select id as key, words from {table.name} where {held}), "  # noqa: S608
            "pairs as materialized (select key, word from held, unnest(held.words) as word where word = any(%s)), "
            "weights as (select word, ln(1 + (select count(*) from held)::float8 / count(*)) as weight "
            "from pairs group by word), "
            "best as (select key from pairs join weights using (word) group by key "
            f"order by sum(weight) desc, key limit {limit}) "
            f"select {', '.join(listed)} from {table.name} where id in (select key from best)",
            [list(words), *condition.parameters, list(words)],
        )
    return sorted(to_records(rows, listed), key=lambda record: record.id)


async def version(connection: Connection) -> str:
    """Of the server and of pgvector, where that is there."""
    ((server, vector),) = await connection.run(
        "select current_setting('server_version'), "
        "(select extversion from pg_extension where extname = 'vector')"
    )
    return f"PostgreSQL {server}, {f'pgvector {vector}' if vector else 'without pgvector yet'}"


async def read_only(connection: Connection) -> bool:
    """Whether nothing can be written, as on a standby."""
    ((answer,),) = await connection.run("select current_setting('transaction_read_only') = 'on'")
    return bool(answer)
