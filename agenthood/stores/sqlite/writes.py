"""Writing and removing records, each within the caller's transaction.

sqlite-vec has no upsert, and does not let a row move to another partition. A vector is replaced in its place where
it can be: a row that is removed and added again leaves a gap that only `upkeep` closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenthood.stores.sqlite.rows import blob_of, row_of, text_of, words
from agenthood.stores.sqlite.schema import PARTITION, mark
from agenthood.stores.sqlite.sql import json_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from agenthood.stores.base import Record, VectorField
    from agenthood.stores.sqlite.schema import Tables
    from agenthood.stores.sqlite.worker import Job


def upsert(connection: apsw.Connection, tables: Tables, records: Sequence[Record], job: Job) -> None:
    """Insert or replace `records`, whose ids differ."""
    writer = Writer(connection, tables)
    known = writer.known([record.id for record in records])
    for record in records:
        job.check()
        writer.put(record, known)


def delete(connection: apsw.Connection, tables: Tables, ids: Sequence[str], job: Job) -> int:
    """Remove the records with these ids; returns how many there were."""
    statement = f"select rid from {tables.rows} where id in (select value from json_each(?))"
    doomed = [rid for (rid,) in connection.execute(statement, (json_list(ids),))]
    holders = [*map(tables.vectors, tables.fields)]
    if tables.collection.typed:
        holders.append(tables.terms)
    for rid in doomed:
        job.check()
        for table in holders:
            connection.execute(f"delete from {table} where rowid = ?", (rid,))
        connection.execute(f"delete from {tables.rows} where rid = ?", (rid,))
    return len(doomed)


class Writer:
    """Puts records of one collection into all of its tables."""

    def __init__(self, connection: apsw.Connection, tables: Tables) -> None:
        """Args: `connection` in a transaction; the `tables`."""
        self._connection = connection
        self._tables = tables
        columns = ("id", "content", "metadata", "created_at", *tables.columns, "terms")
        replaced = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
        self._put_row = (
            f"insert into {tables.rows} ({', '.join(columns)}) values ({', '.join('?' * len(columns))}) "
            f"on conflict (id) do update set {replaced} returning rid"
        )

    def known(self, ids: Sequence[str]) -> dict[str, str | None]:
        """Those of `ids` that are there, each with the tenant under which its vectors lie."""
        tenant = PARTITION if self._tables.collection.scoped else "null"
        statement = (
            f"select id, {tenant} from {self._tables.rows} where id in (select value from json_each(?))"
        )
        return dict(self._connection.execute(statement, (json_list(ids),)))

    def put(self, record: Record, known: dict[str, str | None]) -> None:
        """Insert or replace `record`."""
        new = record.id not in known
        rid: int = self._connection.execute(self._put_row, row_of(record, self._tables)).get
        moved = self._tables.collection.scoped and known.get(record.id) != text_of(record, PARTITION)
        for field in self._tables.fields:
            self._put_vector(rid, field, record, new=new, moved=moved)
        if self._tables.collection.typed:
            self._put_terms(rid, record.terms, new=new)

    def _put_vector(self, rid: int, field: VectorField, record: Record, *, new: bool, moved: bool) -> None:
        table, vector = self._tables.vectors(field), getattr(record, field)
        there = not new and self._get(f"select 1 from {table} where rowid = ?", rid) is not None
        if there and (vector is None or moved):
            self._get(f"delete from {table} where rowid = ?", rid)
            there = False
        if vector is None:
            return
        values: dict[str, Any] = {name: mark(text_of(record, name)) for name in self._tables.marks}
        values["embedding"] = blob_of(vector)
        if there:
            changes = ", ".join(f"{name} = ?" for name in values)
            self._get(f"update {table} set {changes} where rowid = ?", *values.values(), rid)
            return
        if self._tables.collection.scoped:
            values[PARTITION] = mark(text_of(record, PARTITION))
        places = ", ".join("?" * (len(values) + 1))
        self._get(
            f"insert into {table} (rowid, {', '.join(values)}) values ({places})", rid, *values.values()
        )

    def _put_terms(self, rid: int, terms: str | None, *, new: bool) -> None:
        if not new:
            self._get(f"delete from {self._tables.terms} where rowid = ?", rid)
        if terms:
            text = " ".join(words(terms.split()))
            self._get(f"insert into {self._tables.terms} (rowid, tokens) values (?, ?)", rid, text)

    def _get(self, statement: str, *values: object) -> object:
        return self._connection.execute(statement, values).get
