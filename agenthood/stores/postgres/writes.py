"""Writing rows: many in one statement, in the order of their ids so that two writers never wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.stores.postgres.keys import key
from agenthood.stores.postgres.reads import IDS_AT_ONCE
from agenthood.stores.postgres.rows import columns, vector_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.stores.base import Record
    from agenthood.stores.postgres.sql import Clause
    from agenthood.stores.postgres.tables import OpenTable

_ROWS_AT_ONCE = 1_000


async def upsert(table: OpenTable, records: Sequence[Record], tenant: str | None) -> None:
    """Insert or replace `records`, whose ids differ.

    The values travel as one array for each column: as fast as COPY into a temporary table, which would leave dead rows
    in the server's catalogue with each learned episode.
    """
    ordered = sorted(records, key=lambda record: key(record.id))
    taken = columns(table.collection, tenant)
    vectors = vector_columns(table.collection)
    listed = ", ".join(taken)
    arrays = ", ".join("%b::vector[]" if name in vectors else "%s::text[]" for name in taken)
    values = ", ".join(expression.format(f"given.{name}") for name, (expression, _) in taken.items())
    replaced = ", ".join(f"{name} = excluded.{name}" for name in taken if name != "id")
    statement = (
        f"insert into {table.name} ({listed}) select {values} from unnest({arrays}) as given ({listed}) "  # noqa: S608
        f"on conflict (id) do update set {replaced}"
    )
    for start in range(0, len(ordered), _ROWS_AT_ONCE):
        part = ordered[start : start + _ROWS_AT_ONCE]
        await table.run(statement, [[value(record) for record in part] for _, value in taken.values()])


async def delete(table: OpenTable, ids: Sequence[str], own: Clause) -> int:
    """Remove the rows with these ids that are `own`; returns how many there were."""
    removed = 0
    ordered = sorted(map(key, ids))
    for start in range(0, len(ordered), IDS_AT_ONCE):
        removed += await table.connection.change(
            f"delete from {table.name} where id in (select id from {table.name} where id = any(%s) and {own.text} "  # noqa: S608
            "order by id for update)",
            [ordered[start : start + IDS_AT_ONCE], *own.parameters],
        )
    return removed
