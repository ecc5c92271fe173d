"""Purging: removing rows of a LanceDB table so that none of its files keeps their bytes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from agenthood.stores.lance.index import rebuild
from agenthood.stores.lance.leftovers import GRACE, remove_unnamed
from agenthood.stores.lance.sql import one_of
from agenthood.stores.lance.upkeep import optimize
from agenthood.stores.lance.writes import (
    FRAGMENT_BITS,
    chunks,
    delete_ids,
    delete_rows,
    superseded,
    write_anew,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection
    from agenthood.stores.lance.index import IndexRules


async def purge(
    table: AsyncTable, collection: Collection, ids: Sequence[str], folder: Path, rules: IndexRules
) -> int:
    """Remove rows so that no file below `folder`, the table's directory, keeps their bytes.

    A deletion or update only marks rows in their data file, and compaction leaves a file with few marked rows
    alone. So every file with marked rows loses its readers: its other rows are written anew. Then the indices are
    rebuilt and every old version is removed, and at last what no version names. Killed at any point, it completes
    when it is called again.
    """
    await table.checkout_latest()
    removed = await delete_ids(table, ids)
    for fragment in _marked_fragments(folder):
        await _rewrite(table, fragment)
    await rebuild(table, collection, rules)
    # A commit names the ids it deleted, and the latest one is kept: make that one that names none.
    await table.delete("false")
    await optimize(table, timedelta(0))
    await remove_unnamed(table, folder, grace=0.0 if collection.typed else GRACE)
    return removed


def _marked_fragments(folder: Path) -> list[int]:
    """The fragments that have, or had in some version, rows marked as deleted; LanceDB names the marks so."""
    names = (path.name.split("-")[0] for path in (folder / "_deletions").glob("*-*"))
    return sorted({int(name) for name in names if name.isdecimal()})


async def _rewrite(table: AsyncTable, fragment: int) -> None:
    first, last = fragment << FRAGMENT_BITS, (fragment + 1) << FRAGMENT_BITS
    there = f"_rowid >= {first} AND _rowid < {last}"
    ids = (await table.query().where(there).select(["id"]).to_arrow())["id"].unique().to_pylist()
    for part in chunks(ids):
        listed = one_of("id", part)
        await delete_rows(table, await superseded(table, listed))
        rows = await table.query().where(f"{listed} AND {there}").to_arrow()
        if rows.num_rows:
            await write_anew(table, rows, [fragment])
