"""Joining what single writes leave at the end of a LanceDB table: their small fragments become one, in one commit.

LanceDB's own compaction rewrites the whole of a table that has less than a million rows. Here only the last fragments
are written anew, each with about as many rows as all that come after it together, so that a row is written about once
for each time the table doubles. LanceDB also reads every id meanwhile, 0.25 us a row.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

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
    count = await table.count_rows()
    most = min(_MOST_ROWS, int(_MOST_BYTES / max(1.0, bytes_per_row)))
    last = table.query().select(["id"]).offset(max(0, count - most)).limit(most).with_row_id()
    rows = (await last.to_arrow()).to_pylist()
    runs = [list(run) for _, run in groupby(rows, lambda row: row["_rowid"] >> FRAGMENT_BITS)]
    tail = _tail(runs[1:] if count > most else runs)  # the first is cut
    if len(tail) < JOINED_FROM // 2:
        return None
    found = await table.take_row_ids([row["_rowid"] for run in tail for row in run]).to_arrow()
    return await write_anew(table, found, [run[0]["_rowid"] >> FRAGMENT_BITS for run in tail])


def _tail(runs: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """The longest end of `runs` of which none has more than twice the rows of those after it, nor an id of theirs.

    A program that adds without looking leaves several rows of an id; their order tells which is newer.
    """
    taken, ids = 0, set[str]()
    for run in reversed(runs):
        mine = {row["id"] for row in run}
        if len(mine) < len(run) or not ids.isdisjoint(mine) or (taken and len(run) > _GROWTH * len(ids)):
            break
        taken += 1
        ids |= mine
    return runs[len(runs) - taken :]
