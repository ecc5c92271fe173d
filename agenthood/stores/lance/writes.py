"""Merging rows into a LanceDB table by id, and the several rows per id that other writers leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agenthood.stores.lance.sql import one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lancedb._lancedb import MergeResult
    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection

IDS_PER_LOOKUP = 2_000
_ROWS_AT_A_TIME = 1_024
"""A merge copies what it is given several times: 1.5 to 2.5 times as fast in pieces of 6 MB as in one of 24 MB."""
FRAGMENT_BITS = 32
"""A row's id is its fragment's number, then so many bits for its place in it."""

MERGE: Final[dict[str, object]] = {
    "on": ["id"],
    "when_matched_update_all": True,
    "when_matched_update_all_condition": None,
    "when_not_matched_insert_all": False,
    "when_not_matched_by_source_delete": False,
    "when_not_matched_by_source_condition": None,
    "when_not_matched_by_source_condition_expr": None,
    "timeout": None,
    "use_index": False,
    "use_lsm": None,
    "validate_single_shard": None,
}
"""What LanceDB 0.40 hands on of `merge_insert("id").when_matched_update_all().use_index(False)`."""


def chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """`ids` in parts that fit into one condition."""
    for start in range(0, len(ids), IDS_PER_LOOKUP):
        yield ids[start : start + IDS_PER_LOOKUP]


async def have_rows(table: AsyncTable, ids: Sequence[str]) -> bool:
    """Whether a row has one of `ids`."""
    for part in chunks(ids):
        if await table.count_rows(one_of("id", part)):
            return True
    return False


async def add(table: AsyncTable, rows: Any) -> int:  # noqa: ANN401  a pyarrow.Table
    """Append `rows`, whose ids no row has yet: a fraction of the cost of a merge.

    For whoever holds the write lock of a table that nobody else writes.

    Returns:
        The version this made.
    """
    version: int = (await table.add(rows)).version
    return version


async def merge(table: AsyncTable, rows: Any, ids: Sequence[str]) -> int | None:  # noqa: ANN401  a pyarrow.Table
    """Insert or replace `rows`, whose ids are `ids`, each once.

    Returns:
        The version this made; None if there were several rows of an id, which took further commits to collapse.
    """
    result = await _merged(table, rows, when_not_matched_insert_all=True)
    if result.num_updated_rows + result.num_inserted_rows > len(ids):
        # The TypeScript program adds rows without looking: now all copies are equal, keep one of each.
        for part in chunks(ids):
            await delete_rows(table, await superseded(table, one_of("id", part)))
        return None
    version: int = result.version
    return version


async def _merged(table: AsyncTable, rows: Any, **options: object) -> MergeResult:  # noqa: ANN401  a pyarrow.Table
    """What `table.merge_insert("id").when_matched_update_all()...execute(rows)` does, without its look for NaN.

    That one is Python, run batch by batch in LanceDB's threads. Each of its dozens of steps waits until the main thread
    gives way, 5 ms or more where that computes: such a merge took 300 ms instead of 80, and did not end in 4 s beside
    a loop of `asyncio.sleep(0)`. Records are checked before they come here, see `validation`.
    """
    reader = rows.to_reader(max_chunksize=_ROWS_AT_A_TIME)
    inner: Any = table._inner  # noqa: SLF001  there is no other way
    result: MergeResult = await inner.execute_merge_insert(reader, MERGE | options)
    return result


async def write_anew(table: AsyncTable, rows: Any, fragments: Iterable[int]) -> int:  # noqa: ANN401  a pyarrow.Table
    """Write rows as they are, byte for byte, into another fragment.

    What another program, which takes no lock, changes or removes meanwhile has left its fragment already, and stays
    as that program wrote it. Only if it adds a second row of one of these ids meanwhile, dated to the same millisecond
    as the first, is the first taken for the newer from then on.

    Args:
        table: the table; whoever calls holds its write lock.
        rows: whole rows of it, each id once.
        fragments: where they are.

    Returns:
        The version this made.
    """
    there = " OR ".join(
        f"(target._rowid >= {fragment << FRAGMENT_BITS} AND target._rowid < {(fragment + 1) << FRAGMENT_BITS})"
        for fragment in fragments
    )
    return (await _merged(table, rows, when_matched_update_all_condition=there)).version


async def superseded(table: AsyncTable, condition: str | None = None) -> list[int]:
    """The row ids of the rows that are not what their id is read as: the newest, the later if equally new."""
    import pyarrow.compute as pc  # noqa: PLC0415

    query = table.query().select(["id", "created_at"]).with_row_id()
    found = await (query.where(condition) if condition else query).to_arrow()
    if pc.count_distinct(found["id"]).as_py() == found.num_rows:
        return []
    best: dict[str, tuple[str, int]] = {}
    old: list[int] = []
    for id_, created, row in zip(
        *(found[name].to_pylist() for name in ("id", "created_at", "_rowid")), strict=True
    ):
        known = best.get(id_)
        if known is not None and (created or "") < known[0]:
            old.append(row)
            continue
        if known is not None:
            old.append(known[1])
        best[id_] = (created or "", row)
    return old


class Superseded:
    """The rows that newer ones with the same id replace: found out once for each version of a table."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str]] = {}

    async def left_out(self, collection: Collection, table: AsyncTable) -> str | None:
        """The SQL condition that leaves these rows out, or None if there are none."""
        if collection.ours:
            return None
        version = await table.version()
        known, old = self._known.get(collection.name, (-1, ""))
        if known != version:
            old = ", ".join(map(str, await superseded(table)))
            self._known[collection.name] = (version, old)
        return f"NOT (_rowid IN ({old}))" if old else None

    def none_added(self, collection: Collection, version: int) -> None:
        """The commit that made `version` left no id with several rows: if there were none before, there are none."""
        if self._known.get(collection.name) == (version - 1, ""):
            self._known[collection.name] = (version, "")


async def delete_rows(table: AsyncTable, rows: Sequence[int]) -> None:
    """Remove rows by row id."""
    if rows:
        await table.delete(f"_rowid IN ({', '.join(map(str, rows))})")


async def delete_ids(table: AsyncTable, ids: Sequence[str]) -> int:
    """Remove the rows with these ids; returns how many ids there were."""
    removed = 0
    for part in chunks(ids):
        condition = one_of("id", part)
        found = await table.query().where(condition).select(["id"]).to_arrow()
        if found.num_rows:
            await table.delete(condition)
            removed += len(set(found["id"].to_pylist()))
    return removed
