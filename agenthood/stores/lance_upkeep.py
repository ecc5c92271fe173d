"""Keeping a LanceDB table fast and clean: scalar indices, compaction, removal of old versions, purging.

Every commit adds a version and usually a fragment; about 0.08 ms a search and quadratically growing manifests per
fragment make compaction a matter of course. Old versions are kept ten minutes, since another process may be reading
one; only `purge`, which must leave nothing behind, removes them at once.
"""

from __future__ import annotations

import asyncio
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agenthood.stores.lance_errors import is_conflict
from agenthood.stores.lance_index import keep_indexed, rebuild
from agenthood.stores.lance_sql import one_of
from agenthood.stores.lance_writes import chunks, delete_ids, delete_rows, superseded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection

COMMITS_BETWEEN_CHECKS = 8
# Compaction rewrites the table, so a large one may have more fragments before that is worth while.
FEWEST_FRAGMENTS = 16
MOST_FRAGMENTS = 64
_ROWS_PER_FRAGMENT = 1_000
KEEP_VERSIONS = timedelta(minutes=10)
_ATTEMPTS = 5
_UNCHANGED = " AND ".join(
    f"(target.{name} = source.{name} OR (target.{name} IS NULL AND source.{name} IS NULL))"
    for name in ("content", "metadata", "created_at")
)


async def compact_if_fragmented(table: AsyncTable) -> None:
    """Merge small fragments once there are many; a concurrent writer's conflict leaves it to the next time."""
    bearable = min(MOST_FRAGMENTS, max(FEWEST_FRAGMENTS, await table.count_rows() // _ROWS_PER_FRAGMENT))
    if (await _fragments(table)) > bearable:
        try:
            await table.optimize(cleanup_older_than=KEEP_VERSIONS)
        except (RuntimeError, ValueError) as exc:
            if not is_conflict(exc):
                raise


async def maintain(table: AsyncTable, collection: Collection) -> dict[str, Any]:
    """Compact, index what is new, and remove versions older than ten minutes."""
    before = await describe(table)
    stats = await _optimize(table, KEEP_VERSIONS)
    indexed = await keep_indexed(table, collection)
    after = await describe(table)
    return {
        "rows": after["rows"],
        "fragments_before": before["fragments"],
        "fragments_after": after["fragments"],
        "bytes_freed": stats.prune.bytes_removed,
        "old_versions_removed": stats.prune.old_versions_removed,
        "indexed": indexed,
        "indices": after["indices"],
    }


async def describe(table: AsyncTable) -> dict[str, Any]:
    """Rows, fragments, versions and the state of each index."""
    indices = {}
    for index in await table.list_indices():
        stats = await table.index_stats(index.name)
        if stats is not None:
            indices[index.name] = {
                "type": stats.index_type,
                "unindexed_rows": stats.num_unindexed_rows,
                "deltas": stats.num_indices,
            }
    return {
        "rows": await table.count_rows(),
        "fragments": await _fragments(table),
        "version": await table.version(),
        "indices": indices,
    }


async def purge(table: AsyncTable, collection: Collection, ids: Sequence[str], folder: Path) -> int:
    """Remove rows so that no file below `folder`, the table's directory, keeps their bytes.

    A deletion or update only marks rows in their data file, and compaction leaves a file with few marked rows
    alone. So every file with marked rows loses its readers: its other rows are written anew. Then the indices are
    rebuilt and every old version is removed. Killed at any point, it completes when it is called again.
    """
    await table.checkout_latest()
    removed = await delete_ids(table, ids)
    for fragment in _marked_fragments(folder):
        await _rewrite(table, fragment)
    await rebuild(table, collection)
    # A commit names the ids it deleted, and the latest one is kept: make that one that names none.
    await table.delete("false")
    await _optimize(table, timedelta(0))
    return removed


def _marked_fragments(folder: Path) -> list[int]:
    """The fragments that have, or had in some version, rows marked as deleted; LanceDB names the marks so."""
    names = (path.name.split("-")[0] for path in (folder / "_deletions").glob("*-*"))
    return sorted({int(name) for name in names if name.isdecimal()})


async def _rewrite(table: AsyncTable, fragment: int) -> None:
    first, last = fragment << 32, (fragment + 1) << 32
    there = f"_rowid >= {first} AND _rowid < {last}"
    ids = (await table.query().where(there).select(["id"]).to_arrow())["id"].unique().to_pylist()
    for part in chunks(ids):
        listed = one_of("id", part)
        await delete_rows(table, await superseded(table, listed))
        rows = await table.query().where(f"{listed} AND {there}").to_arrow()
        if rows.num_rows:
            # As they are, byte for byte; what another process changed meanwhile has left the file already.
            merging = table.merge_insert("id").when_matched_update_all(where=_UNCHANGED)
            await merging.use_index(False).execute(rows, on_bad_vectors="null")


async def _optimize(table: AsyncTable, keep: timedelta) -> Any:  # noqa: ANN401  lancedb's OptimizeStats
    for attempt in range(_ATTEMPTS):
        await table.checkout_latest()
        try:
            with warnings.catch_warnings():
                # It warns that removing all old versions fails their readers; ours reopen and retry.
                warnings.simplefilter("ignore", UserWarning)
                return await table.optimize(cleanup_older_than=keep)
        except (RuntimeError, ValueError) as exc:
            if not is_conflict(exc) or attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.05 * 2**attempt)
    raise AssertionError  # pragma: no cover  the loop returns or raises


async def _fragments(table: AsyncTable) -> int:
    stats: Any = await table.stats()  # a mapping at run time, declared as a class without items
    count: int = stats["fragment_stats"]["num_fragments"]
    return count
