"""Keeping a LanceDB table fast: compaction and the removal of old versions.

Every commit adds a version and usually a fragment; about 0.08 ms a search and quadratically growing manifests per
fragment make compaction a matter of course. Old versions of the shared table are kept ten minutes, since another
program may be reading one; those of our own tables one minute, since our readers begin anew on the latest. Only a
purge, which must leave nothing behind, removes them at once.
"""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from agenthood.stores.lance.errors import is_conflict
from agenthood.stores.lance.index import keep_indexed

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection
    from agenthood.stores.lance.index import IndexRules

COMMITS_BETWEEN_CHECKS = 8
# Compaction rewrites the table, 1.5 ms a MB, and a fragment costs every call 0.08 ms: with f fragments in between that
# is least for f near 4 times the root of the size in MB, for about two calls a commit.
FEWEST_FRAGMENTS = 16
MOST_FRAGMENTS = 64
_FRAGMENTS_PER_ROOT_MB = 4.0
KEEP_SHARED_VERSIONS = timedelta(minutes=10)
KEEP_OWN_VERSIONS = timedelta(minutes=1)
_ATTEMPTS = 5


def kept_for(collection: Collection) -> timedelta:
    """How long the old versions of a table stay."""
    return KEEP_OWN_VERSIONS if collection.typed or collection.scoped else KEEP_SHARED_VERSIONS


class Need(IntEnum):
    """How much a table needs compaction."""

    NONE = 0
    SOME = 1
    URGENT = 2


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """What compacting a table would be good for, and what it would cost.

    Attributes:
        need: whether it costs less by now than going on with so many fragments, or long since.
        heavy: whether it takes so long that writers must not be kept out meanwhile.
    """

    need: Need
    heavy: bool


async def fragmentation(table: AsyncTable, rules: IndexRules) -> Fragmentation:
    """How fragmented a table is."""
    stats: Any = await table.stats()
    megabytes = stats["total_bytes"] / 1e6
    bearable = min(MOST_FRAGMENTS, max(FEWEST_FRAGMENTS, int(_FRAGMENTS_PER_ROOT_MB * megabytes**0.5)))
    fragments = stats["fragment_stats"]["num_fragments"]
    bounds = (bearable, min(MOST_FRAGMENTS, 2 * bearable))
    return Fragmentation(Need(sum(fragments > bound for bound in bounds)), megabytes > rules.heavy_from_mb)


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
    # Whoever asks for it has the time to merge what the background would leave in parts.
    indexed = await keep_indexed(table, collection, replace(rules, most_deltas=1))
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
