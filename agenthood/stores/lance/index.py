"""The indices of a LanceDB table: which there are, when they are built, extended and rebuilt.

Small tables are scanned: that is exact and takes milliseconds. From some thousand rows on vectors get an IVF index.
Unindexed rows are always searched too, so a row is findable at once; compaction extends the index by a delta,
and when deltas pile up it is rebuilt.

- Tables of our own: scalar quantization in cosine, with exact distances for the best of it (recall 1.0 at 100,000).
- The shared table: exact vectors in l2, in so few partitions that a reader with LanceDB's default of 20 probes, as
  the TypeScript program is, reads them all: its scores do not change.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agenthood.stores.lance.errors import is_conflict

if TYPE_CHECKING:
    from collections.abc import Container

    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection

_SHARED_PARTITIONS = 16
_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class IndexRules:
    """When a table is indexed, and how finely.

    Attributes:
        vectors_from: rows from which on the vectors of a table of our own are indexed.
        shared_from: rows with a pattern from which on the vectors of the shared table are; a flat search over
            1536 dimensions takes 43 ms at 10,000.
        ids_from: rows from which on the ids are.
        most_deltas: with more parts than that an index of vectors is rebuilt.
        heavy_from_mb: size from which on a table is compacted beside its writers; with its indices one of a million
            rows, 2,500 MB, took half a minute.
        rows_per_partition: how many vectors share a partition; the shared table has at most 16 partitions.
    """

    vectors_from: int = 10_000
    shared_from: int = 4_000
    ids_from: int = 5_000
    most_deltas: int = 8
    heavy_from_mb: float = 300
    rows_per_partition: int = 8_192


DEFAULT_RULES = IndexRules()


async def has_indices(table: AsyncTable, collection: Collection) -> bool:
    """Whether all scalar indices of a table of our own are there: a process may be killed while it makes them."""
    wanted = {*collection.columns, *(("terms",) if collection.typed else ())}
    return not wanted or wanted <= {column for one in await table.list_indices() for column in one.columns}


async def create_scalar_indices(table: AsyncTable, collection: Collection) -> None:
    """Index the filtered columns and the terms of a table of our own; existing indices are rebuilt."""
    from lancedb.index import FTS, Bitmap  # noqa: PLC0415

    for column in collection.columns:
        await table.create_index(column, config=Bitmap(), replace=True)
    if not collection.typed:
        return
    # The terms are already normalised and separated by spaces, so every analysis step is off.
    plain = FTS(
        base_tokenizer="whitespace",
        language="English",
        max_token_length=None,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        with_position=False,
    )
    await table.create_index("terms", config=plain, replace=True)


async def keep_indexed(
    table: AsyncTable, collection: Collection, rules: IndexRules, *, grown: Container[str] = ()
) -> list[str]:
    """Build what the table has grown into, and rebuild indices of vectors with too many deltas.

    A concurrent commit may come first; then it is left to the next time.

    Args:
        table: the table.
        collection: what it is.
        rules: from which sizes on it is indexed.
        grown: names of indices that have grown so much that they are to be rebuilt too.

    Returns:
        The columns indexed.
    """
    rows = await table.count_rows()
    large = await with_vectors(table, collection) >= (
        rules.vectors_from if collection.typed else rules.shared_from
    )
    columns = [
        column
        for column in vector_columns(collection)
        if await _due(table, column, rules, large=large, grown=f"{column}_idx" in grown)
    ]
    if rows >= rules.ids_from and await table.index_stats("id_idx") is None:
        columns.append("id")
    return [column for column in columns if await _create(table, collection, column, rules)]


async def rebuild(table: AsyncTable, collection: Collection, rules: IndexRules) -> None:
    """Build every index anew, so that none keeps anything of rows that are gone."""
    await create_scalar_indices(table, collection)
    for column in (*vector_columns(collection), "id"):
        if await table.index_stats(f"{column}_idx") is None:
            continue
        # An index that can no longer be built still holds what is gone.
        if not await table.count_rows() or not await _create(table, collection, column, rules):
            await table.drop_index(f"{column}_idx")


async def with_vectors(table: AsyncTable, collection: Collection) -> int:
    """How many rows have vectors: all of a table of our own, the patterns of the shared one."""
    return await table.count_rows(None if collection.typed else "starts_with(id, 'pattern:')")


def vector_columns(collection: Collection) -> tuple[str, ...]:
    """The columns of vectors that a table has."""
    return ("vector", "lexical") if collection.lexical else ("vector",)


async def _due(table: AsyncTable, column: str, rules: IndexRules, *, large: bool, grown: bool) -> bool:
    stats = await table.index_stats(f"{column}_idx")
    if stats is None:
        return large
    return grown or (stats.num_indices or 1) > rules.most_deltas


async def _create(table: AsyncTable, collection: Collection, column: str, rules: IndexRules) -> bool:
    from lancedb.index import BTree  # noqa: PLC0415

    partitions = max(1, await table.count_rows() // rules.rows_per_partition)
    config = BTree() if column == "id" else _vector_config(collection, partitions)
    try:
        await table.create_index(column, config=config, replace=True)
    except (RuntimeError, ValueError) as exc:
        if not is_conflict(exc) and "KMeans" not in str(exc):
            raise
        # Too few rows with a vector to train on, or another commit came first: it is searched without.
        _log.debug("%s is not indexed now: %s", column, exc)
        return False
    return True


def _vector_config(collection: Collection, partitions: int) -> Any:  # noqa: ANN401  one of lancedb's index configurations
    from lancedb.index import IvfFlat, IvfSq  # noqa: PLC0415

    if collection.typed:
        return IvfSq(distance_type="cosine", num_partitions=partitions)
    return IvfFlat(distance_type="l2", num_partitions=min(partitions, _SHARED_PARTITIONS))
