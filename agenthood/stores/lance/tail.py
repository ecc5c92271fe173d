"""Joining what single writes leave at the end of a LanceDB table: their small fragments become one, in one commit.

LanceDB's own compaction rewrites the whole of a table that has less than a million rows. Here only the last fragments
are written anew, each with about as many rows as all that come after it together, so that a row is written about once
for each time the table doubles. LanceDB also reads every id meanwhile, 0.25 us a row.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from agenthood.stores.lance.writes import FRAGMENT_BITS, write_anew

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

JOINED_FROM = 8
"""From so many fragments on the last ones are joined."""
HEAVY_JOINED_FROM = 32
"""The same in a table of which reading every id takes long."""

_MOST_BYTES = 4_000_000
_MOST_ROWS = 4_096
_GROWTH = 2


async def join_tail(table: AsyncTable, bytes_per_row: float) -> int | None:
    """Write the last small fragments anew as one; at most 4 MB and 4,096 rows are looked at.

    Args:
        table: a table on its latest version; whoever calls holds the write lock.
        bytes_per_row: how large a row is.

    Returns:
        The version this made; None if nothing was done.
    """
    import pyarrow.compute as pc  # noqa: PLC0415  loads in 0.35 s

    count = await table.count_rows()
    most = min(_MOST_ROWS, int(_MOST_BYTES / max(1.0, bytes_per_row)))
    last = table.query().select(["id"]).offset(max(0, count - most)).limit(most).with_row_id()
    rows = (await last.to_arrow())["_rowid"].to_pylist()
    runs = [list(run) for _, run in groupby(rows, lambda row: row >> FRAGMENT_BITS)]
    tail = _tail(runs[1:] if count > most else runs)  # the first is cut
    if len(tail) < JOINED_FROM // 2:
        return None
    found = await table.take_row_ids([row for run in tail for row in run]).to_arrow()
    if pc.count_distinct(found["id"]).as_py() < found.num_rows:
        # A program that adds without looking left several rows of an id, and their order tells which is newer.
        return None
    return await write_anew(table, found, [run[0] >> FRAGMENT_BITS for run in tail])


def _tail(runs: list[list[int]]) -> list[list[int]]:
    """The longest end of `runs` of which none has more than twice the rows of those after it."""
    taken = rows = 0
    for run in reversed(runs):
        if taken and len(run) > _GROWTH * rows:
            break
        taken, rows = taken + 1, rows + len(run)
    return runs[len(runs) - taken :]
