"""Writing and removing records, each within the caller's transaction.

sqlite-vec has no upsert, and does not let a row move to another partition. A vector is replaced in its place where
it can be: a row that is removed and added again leaves a gap that only `upkeep` closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.formats import dumps
from agenthood.stores.sqlite.rows import blob_of, text_of, words
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
    """Puts records of one collection into all of its tables. What is the same for all of them is worked out once."""

    def __init__(self, connection: apsw.Connection, tables: Tables) -> None:
        """Args: `connection` in a transaction; the `tables`."""
        self._run = connection.execute
        self._tables = tables
        self._columns = tables.columns
        self._marks = tables.marks
        self._scoped = tables.collection.scoped
        columns = ("id", "content", "metadata", "created_at", *self._columns, "terms")
        replaced = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
        self._put_row = (
            f"insert into {tables.rows} ({', '.join(columns)}) values ({', '.join('?' * len(columns))}) "
            f"on conflict (id) do update set {replaced} returning rid"
        )
        self._vectors = [
            _VectorStatements(field, tables.vectors(field), self._marks, self._scoped)
            for field in tables.fields
        ]

    def known(self, ids: Sequence[str]) -> dict[str, str | None]:
        """Those of `ids` that are there, each with the tenant under which its vectors lie."""
        tenant = PARTITION if self._scoped else "null"
        statement = (
            f"select id, {tenant} from {self._tables.rows} where id in (select value from json_each(?))"
        )
        return dict(self._run(statement, (json_list(ids),)))

    def put(self, record: Record, known: dict[str, str | None]) -> None:
        """Insert or replace `record`."""
        new, typed = record.id not in known, self._tables.collection.typed
        texts = {name: text_of(record, name) for name in self._columns}
        head = (record.id, record.content, dumps(dict(record.metadata)), record.created_at)
        rid: int = self._run(self._put_row, (*head, *texts.values(), record.terms if typed else None)).get
        marks = [mark(texts[name]) for name in self._marks]
        for statements in self._vectors:
            vector = getattr(record, statements.field)
            there = not new and self._run(statements.look, (rid,)).get is not None
            moved = there and self._scoped and known[record.id] != texts[PARTITION]
            if moved or (there and vector is None):
                self._run(statements.remove, (rid,))
            if vector is None:
                continue
            if there and not moved:
                self._run(statements.change, (*marks, blob_of(vector), rid))
            else:
                partition = (mark(texts[PARTITION]),) if self._scoped else ()
                self._run(statements.add, (*partition, *marks, blob_of(vector), rid))
        if typed:
            self._put_terms(rid, record.terms, new=new)

    def _put_terms(self, rid: int, terms: str | None, *, new: bool) -> None:
        table = self._tables.terms
        if not new:
            self._run(f"delete from {table} where rowid = ?", (rid,))
        if terms:
            self._run(
                f"insert into {table} (rowid, tokens) values (?, ?)", (rid, " ".join(words(terms.split())))
            )


class _VectorStatements:
    """What is said to one table of vectors; parameters are the tenant where one is asked for, marks, vector, `rid`."""

    def __init__(self, field: VectorField, table: str, marks: Sequence[str], scoped: bool) -> None:
        self.field = field
        changed = [*marks, "embedding"]
        added = [*((PARTITION,) if scoped else ()), *changed, "rowid"]
        self.look = f"select 1 from {table} where rowid = ?"
        self.remove = f"delete from {table} where rowid = ?"
        self.change = f"update {table} set {', '.join(f'{name} = ?' for name in changed)} where rowid = ?"
        self.add = f"insert into {table} ({', '.join(added)}) values ({', '.join('?' * len(added))})"
