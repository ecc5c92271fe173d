"""Keeping a database small and fast, and leaving nothing in it of what was purged.

What is deleted is overwritten at once (`secure_delete`), but SQLite also leaves copies of rows in the unused space of
pages it once rearranged, and in the log. Only writing the file anew (`vacuum`) and emptying the log ends all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenthood.errors import StoreUnavailableError
from agenthood.stores.places import MOST_TENANTS
from agenthood.stores.sqlite.connection import writing
from agenthood.stores.sqlite.errors import load_apsw
from agenthood.stores.sqlite.schema import PARTITION

if TYPE_CHECKING:
    import apsw

    from agenthood.stores.base import VectorField
    from agenthood.stores.sqlite.schema import Tables
    from agenthood.stores.sqlite.worker import Job

_MOST_FREE = 0.25
"""The share of unused pages from which on the file is written anew."""
_FULL_ENOUGH = 0.5
"""The share of used places in the blocks of vectors below which they are filled anew."""
_FEW_BLOCKS = 16


def describe(connection: apsw.Connection, tables: Tables) -> dict[str, Any]:
    """Rows, indices and, of a scoped collection, tenants."""
    detail: dict[str, Any] = {"rows": connection.execute(f"select count(*) from {tables.rows}").get}
    indices: dict[str, dict[str, Any]] = {}
    for field in tables.fields:
        vectors, blocks, _ = _filled(connection, tables, field)
        indices[field] = {"type": "vec0", "rows": vectors, "blocks": blocks, "unindexed_rows": 0}
    if tables.collection.typed:
        indices["terms"] = {"type": "fts5", "unindexed_rows": 0}
    for column in (*tables.columns, "created_at"):
        indices[column] = {"type": "btree", "unindexed_rows": 0}
    # There is none of vectors that could serve in place of comparing all.
    detail |= {"indices": indices, "unindexed_rows": 0, "quantization": None}
    if tables.collection.scoped:
        detail["tenants"] = dict(
            connection.execute(
                f"select {PARTITION}, count(*) from {tables.rows} "
                f"where {PARTITION} is not null group by {PARTITION} order by 2 desc, 1 limit {MOST_TENANTS}"
            )
        )
    return detail


def maintain(connection: apsw.Connection, tables: Tables, job: Job) -> dict[str, Any]:
    """Close gaps, merge the full-text index, renew the planner's statistics, give unused space back."""
    before = _bytes(connection)
    with writing(connection):
        refilled = [field for field in tables.fields if _refill(connection, tables, field, job)]
        if tables.collection.typed:
            connection.execute(f"insert into {tables.terms} ({tables.terms}) values ('optimize')")
        connection.execute(f"analyze {tables.rows}")
        # Samples of what the columns hold: not needed, and a purge would have to look for them.
        connection.execute("delete from sqlite_stat4")
    free: int = connection.pragma("freelist_count")
    vacuumed = free > connection.pragma("page_count") * _MOST_FREE
    if vacuumed:
        connection.execute("vacuum")
    emptied = _empty_log(connection)
    return {
        **describe(connection, tables),
        "bytes_before": before,
        "bytes_after": _bytes(connection),
        "refilled": refilled,
        "vacuumed": vacuumed,
        "log_emptied": emptied,
    }


def leave_nothing(connection: apsw.Connection, name: str) -> None:
    """Write the file anew, so that it holds what it holds and nothing else.

    Raises:
        StoreUnavailableError: another process was reading all the time, so the log could not be emptied.
    """
    connection.execute("vacuum")
    if not _empty_log(connection):
        raise StoreUnavailableError(
            f"what was purged from {name!r} is still in its log, since another process is reading: purge again later"
        )


def _empty_log(connection: apsw.Connection) -> bool:
    """Whether all of the log is now in the database, and the log empty."""
    apsw = load_apsw()
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return False
    return True


def _bytes(connection: apsw.Connection) -> int:
    pages: int = connection.pragma("page_count")
    size: int = connection.pragma("page_size")
    return pages * size


def _filled(connection: apsw.Connection, tables: Tables, field: VectorField) -> tuple[int, int, int]:
    """How many vectors there are, in how many blocks, with how many places."""
    table = tables.vectors(field)
    vectors: int = connection.execute(f"select count(*) from {table}_rowids").get
    blocks, places = connection.execute(f"select count(*), coalesce(sum(size), 0) from {table}_chunks").get
    return vectors, blocks, places


def _refill(connection: apsw.Connection, tables: Tables, field: VectorField, job: Job) -> bool:
    """Fill the blocks of vectors anew if many of their places are gaps, left by what was removed."""
    vectors, blocks, places = _filled(connection, tables, field)
    table = tables.vectors(field)
    tenants = 1
    if tables.collection.scoped:  # each has a block that is not full
        tenants = connection.execute(f"select count(distinct partition00) from {table}_chunks").get
    if blocks <= _FEW_BLOCKS + tenants or vectors > (places - tenants * (places // blocks)) * _FULL_ENOUGH:
        return False
    columns = ", ".join(
        ("rowid", *((PARTITION,) if tables.collection.scoped else ()), *tables.marks, "embedding")
    )
    connection.execute(f"create temp table refilling as select {columns} from {table}")
    connection.execute(f"delete from {table}")
    job.check()
    connection.execute(f"insert into {table} ({columns}) select {columns} from refilling")
    connection.execute("drop table temp.refilling")
    return True
