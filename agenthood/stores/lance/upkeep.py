"""Keeping a LanceDB table fast: compaction and the removal of old versions.

Every commit adds a version and usually a fragment, and each of these slows every call down. Old versions of the shared
table are kept ten minutes, since another program may be reading one; those of our own tables ten seconds, since our
readers begin anew on the latest. Only a purge, which must leave nothing behind, removes them at once.
"""

from __future__ import annotations

import asyncio
import os
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from agenthood.stores.lance.errors import is_conflict
from agenthood.stores.lance.index import keep_indexed

if TYPE_CHECKING:
    from pathlib import Path

    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection
    from agenthood.stores.lance.index import IndexRules

COMMITS_BETWEEN_CHECKS = 16
"""A look takes 3 ms, and a fragment adds 0.1 ms to every call."""
# Compaction rewrites the table, 1.5 ms a MB: with f fragments in between that and what these cost is least for f near 4
# times the root of the size in MB, for about two calls a commit. Joining (see `tail`) leaves fewer.
FEWEST_FRAGMENTS = 16
MOST_FRAGMENTS = 64
_FRAGMENTS_PER_ROOT_MB = 4.0
# Rows outside an index are searched one by one: a tenth of the table may be, within these bounds.
_FEWEST_UNINDEXED, _MOST_UNINDEXED = 500, 10_000
_UNINDEXED_SHARE = 0.1
_URGENT_UNINDEXED = 20  # times as many
# 1,000 versions add 0.4 ms to every call, and what was rewritten since stays on the disk.
_OLD_VERSIONS, _URGENT_OLD_VERSIONS = 100, 500
# To remove them LanceDB rewrites the table, and what was the shared one before stays ten minutes.
_URGENT_OLD_SHARED_VERSIONS = 5_000
_GROWN_SHARE = 0.02
KEEP_SHARED_VERSIONS = timedelta(minutes=10)
KEEP_OWN_VERSIONS = timedelta(seconds=10)
_ATTEMPTS = 5


def kept_for(collection: Collection) -> timedelta:
    """How long the old versions of a table stay."""
    return KEEP_OWN_VERSIONS if collection.ours else KEEP_SHARED_VERSIONS


class Need(IntEnum):
    """How much a table needs compaction."""

    NONE = 0
    SOME = 1
    URGENT = 2


@dataclass(frozen=True, slots=True)
class Condition:
    """What compacting a table would be good for, and what it would cost.

    Attributes:
        need: whether it costs less by now than going on like this, or long since.
        heavy: whether it takes so long that writers must not be kept out meanwhile.
        rows: how many there are.
        fragments: how many there are.
        bytes_per_row: how large a row is.
    """

    need: Need
    heavy: bool
    rows: int
    fragments: int
    bytes_per_row: float


async def condition_of(
    table: AsyncTable, collection: Collection, folder: Path, rules: IndexRules
) -> Condition:
    """In which condition a table is; its files are in `folder`."""
    stats: Any = await table.stats()
    megabytes, rows = stats["total_bytes"] / 1e6, stats["num_rows"]
    fragments = stats["fragment_stats"]["num_fragments"]
    bearable = min(MOST_FRAGMENTS, max(FEWEST_FRAGMENTS, int(_FRAGMENTS_PER_ROOT_MB * megabytes**0.5)))
    urgent = _URGENT_OLD_VERSIONS if collection.ours else _URGENT_OLD_SHARED_VERSIONS
    unindexed = min(_MOST_UNINDEXED, max(_FEWEST_UNINDEXED, int(rows * _UNINDEXED_SHARE)))
    need = max(
        _need(fragments, bearable, min(MOST_FRAGMENTS, 2 * bearable)),
        _need(await _unindexed(table, collection), unindexed, _URGENT_UNINDEXED * unindexed),
        _need(_removable(folder, kept_for(collection)), _OLD_VERSIONS, urgent),
    )
    return Condition(
        need, megabytes > rules.heavy_from_mb, rows, fragments, stats["total_bytes"] / max(1, rows)
    )


def _need(found: int, bearable: int, most: int) -> Need:
    return Need(sum(found > bound for bound in (bearable, most)))


async def _unindexed(table: AsyncTable, collection: Collection) -> int:
    """How many rows an index that there is does not cover."""
    stats = await table.index_stats("terms_idx" if collection.typed else "vector_idx")
    return 0 if stats is None else stats.num_unindexed_rows


def _removable(folder: Path, keep: timedelta) -> int:
    """How many versions are old enough to go."""
    end = time.time() - keep.total_seconds()
    with suppress(FileNotFoundError), os.scandir(folder / "_versions") as entries:  # dropped meanwhile
        return sum(entry.stat().st_mtime < end for entry in entries)
    return 0


async def compact(table: AsyncTable, collection: Collection) -> None:
    """Merge small fragments; a concurrent writer's conflict leaves it to the next time."""
    try:
        await table.optimize(cleanup_older_than=kept_for(collection))
    except (RuntimeError, ValueError) as exc:
        if not is_conflict(exc):
            raise


async def maintain(table: AsyncTable, collection: Collection, rules: IndexRules) -> dict[str, Any]:
    """Compact, index what is new, and remove versions that are old enough."""
    before = await describe(table)
    stats = await optimize(table, kept_for(collection))
    # Whoever asks for it has the time to merge what the background would leave in parts, and to divide anew what has
    # grown: an index that is only extended keeps its number of partitions.
    grown = [
        name
        for name, found in before["indices"].items()
        if found["unindexed_rows"] > _GROWN_SHARE * before["rows"]
    ]
    indexed = await keep_indexed(table, collection, replace(rules, most_deltas=1), grown=grown)
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


async def optimize(table: AsyncTable, keep: timedelta) -> Any:  # noqa: ANN401  lancedb's OptimizeStats
    """Compact, extend the indices, and remove versions older than `keep`; begun anew where a writer came first."""
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
