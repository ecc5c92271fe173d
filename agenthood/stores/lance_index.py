"""The indices of a LanceDB table: which there are, when they are built, extended and rebuilt.

Small tables are scanned: that is exact and takes milliseconds. From `INDEX_FROM` rows on vectors get an IVF index.
Unindexed rows are always searched too, so a row is findable at once; compaction extends the index by a delta,
and when deltas pile up it is rebuilt.

- Tables of our own: scalar quantization in cosine, with exact distances for the best of it (recall 1.0 at 100,000).
- The shared table: exact vectors in l2, in so few partitions that a reader with LanceDB's default of 20 probes, as
  the TypeScript program is, reads them all: its scores do not change.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from agenthood.stores.base import TYPED_FIELDS, Collection
from agenthood.stores.lance_errors import is_conflict

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

INDEX_FROM = 10_000
SHARED_INDEX_FROM = 4_000
"""Rows with a pattern; a flat search over 1536 dimensions takes 43 ms at 10,000."""
ID_INDEX_FROM = 50_000
MOST_DELTAS = 8
_SHARED_PARTITIONS = 16
_ROWS_PER_PARTITION = 8_192
_log = logging.getLogger("agenthood")


async def has_indices(table: AsyncTable) -> bool:
    """Whether all scalar indices of a table of our own are there: a process may be killed while it makes them."""
    indexed = {column for index in await table.list_indices() for column in index.columns}
    return indexed >= {*TYPED_FIELDS, "terms"}


async def create_scalar_indices(table: AsyncTable) -> None:
    """Index the filtered columns and the terms of a table of our own; existing indices are rebuilt."""
    from lancedb.index import FTS, Bitmap  # noqa: PLC0415

    for column in TYPED_FIELDS:
        await table.create_index(column, config=Bitmap(), replace=True)
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


async def keep_indexed(table: AsyncTable, collection: Collection) -> list[str]:
    """Build what the table has grown into and rebuild what has too many deltas; returns the columns indexed.

    A concurrent commit may come first; then it is left to the next time.
    """
    rows = await table.count_rows()
    large = rows >= INDEX_FROM
    if not collection.typed:
        large = await table.count_rows("starts_with(id, 'pattern:')") >= SHARED_INDEX_FROM
    columns = [column for column in _vector_columns(collection) if await _due(table, column, large=large)]
    if rows >= ID_INDEX_FROM and await table.index_stats("id_idx") is None:
        columns.append("id")
    return [column for column in columns if await _create(table, collection, column, rows)]


async def rebuild(table: AsyncTable, collection: Collection) -> None:
    """Build every index anew, so that none keeps anything of rows that are gone."""
    if collection.typed:
        await create_scalar_indices(table)
    rows = await table.count_rows()
    for column in (*_vector_columns(collection), "id"):
        if await table.index_stats(f"{column}_idx") is None:
            continue
        if rows:
            await _create(table, collection, column, rows)
        else:
            await table.drop_index(f"{column}_idx")


def _vector_columns(collection: Collection) -> tuple[str, ...]:
    return ("vector", "lexical") if collection.lexical else ("vector",)


async def _due(table: AsyncTable, column: str, *, large: bool) -> bool:
    stats = await table.index_stats(f"{column}_idx")
    if stats is None:
        return large
    return (stats.num_indices or 1) > MOST_DELTAS


async def _create(table: AsyncTable, collection: Collection, column: str, rows: int) -> bool:
    from lancedb.index import BTree  # noqa: PLC0415

    config = BTree() if column == "id" else _vector_config(collection, rows)
    try:
        await table.create_index(column, config=config, replace=True)
    except (RuntimeError, ValueError) as exc:
        if not is_conflict(exc) and "KMeans" not in str(exc):
            raise
        # Too few rows with a vector to train on, or another commit came first: it is searched without.
        _log.debug("%s is not indexed now: %s", column, exc)
        return False
    return True


def _vector_config(collection: Collection, rows: int) -> Any:  # noqa: ANN401  one of lancedb's index configurations
    from lancedb.index import IvfFlat, IvfSq  # noqa: PLC0415

    partitions = max(1, rows // _ROWS_PER_PARTITION)
    if collection.typed:
        return IvfSq(distance_type="cosine", num_partitions=partitions)
    return IvfFlat(distance_type="l2", num_partitions=min(partitions, _SHARED_PARTITIONS))
