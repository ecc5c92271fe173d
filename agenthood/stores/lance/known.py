"""What is known of a table without reading it: which ids its rows have, and the rows written last.

Whoever learns asks for a dozen ids at a time: that of the new episode and those a pattern may live under, which have no
row, and that of the learner's status, whose row it wrote a moment ago. LanceDB takes milliseconds for that, and a
tenth of one to say at which version the table is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agenthood.stores.lance import reads
from agenthood.stores.lance.rows import to_records
from agenthood.stores.lance.search import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection, Record

MOST_IDS = 100_000
"""The ids of a table with more rows are not kept: these take 10 MB."""
_FRUITLESS = 4
_MOST_ROWS = 32
_ROWS_OF_A_COMMIT = 8


@dataclass(slots=True)
class _Kept:
    """What is known of a table.

    Attributes:
        folder: inode and time of the folder it lies in: a table made anew counts its versions from 1 again.
        version: LanceDB's, at which this holds.
        ids: at least those of its rows; None before they were read.
        rows: some of its rows, without vectors, the latest last.
        fruitless: how many look-ups in a row found next to nothing.
    """

    folder: tuple[int, int]
    version: int
    ids: set[str] | None = None
    rows: dict[str, Record] = field(default_factory=dict)
    fruitless: int = 0


class KnownRows:
    """What is known of each table at one version, kept up with this store's own commits."""

    def __init__(self, folder: Callable[[Collection], Path]) -> None:
        """Args: `folder`, where the files of a table lie."""
        self._folder = folder
        self._kept: dict[str, _Kept] = {}

    async def look(
        self, collection: Collection, table: AsyncTable, ids: Sequence[str]
    ) -> tuple[dict[str, Record], Sequence[str]]:
        """What has not to be read.

        All ids are read once where many are asked for, or few several times in vain.

        Args:
            collection: the table.
            table: its handle, which sees every commit.
            ids: what to look for.

        Returns:
            The rows that are known, without vectors, and those of the other ids that may have a row.
        """
        kept = self._now(collection, await table.version())
        if kept.ids is None and (kept.fruitless >= _FRUITLESS or len(ids) >= reads.SCANNED_FROM):
            await self._read(table, kept, len(ids))
        # A copy: whoever gets it may do what he likes with it.
        rows = {id_: replace(row, metadata=dict(row.metadata)) for id_ in ids if (row := kept.rows.get(id_))}
        return rows, [id_ for id_ in ids if id_ not in rows and (kept.ids is None or id_ in kept.ids)]

    def found(self, collection: Collection, asked: int, found: int) -> None:
        """For `asked` ids that might have had a row there were `found` rows."""
        kept = self._kept.get(collection.name)
        if kept is not None and asked:
            kept.fruitless = kept.fruitless + 1 if 2 * found < asked else 0

    def wrote(self, collection: Collection, version: int | None, rows: pa.Table) -> None:
        """This store's commit that made `version` inserted or replaced these rows; None if it took several."""
        kept = self._kept.get(collection.name)
        if kept is None or version != kept.version + 1:  # something else came in between
            self.forget(collection.name)
            return
        kept.version = version
        ids = rows["id"].to_pylist()
        if kept.ids is not None:
            kept.ids.update(ids)
            if len(kept.ids) > MOST_IDS:
                kept.ids = None
        for id_ in ids:
            kept.rows.pop(id_, None)
        if rows.num_rows <= _ROWS_OF_A_COMMIT:
            # As they are read: what was given may have been written differently.
            written = to_records(rows.select(columns_of(collection, vectors=False)))
            kept.rows |= {record.id: record for record in written}
        for id_ in list(kept.rows)[:-_MOST_ROWS]:
            del kept.rows[id_]

    def rewritten(self, collection: Collection, before: int, after: int) -> None:
        """What led from version `before` to `after` changed no record."""
        kept = self._kept.get(collection.name)
        if kept is not None and kept.version == before:
            kept.version = after

    def forget(self, name: str) -> None:
        """Know nothing of a table any more."""
        self._kept.pop(name, None)

    def _now(self, collection: Collection, version: int) -> _Kept:
        there = self._folder(collection).stat()
        folder = (there.st_ino, there.st_ctime_ns)  # an inode is soon used again
        kept = self._kept.get(collection.name)
        if kept is None or (kept.folder, kept.version) != (folder, version):
            kept = self._kept[collection.name] = _Kept(folder, version)
        return kept

    @staticmethod
    async def _read(table: AsyncTable, kept: _Kept, asked: int) -> None:
        most = MOST_IDS if kept.fruitless >= _FRUITLESS else min(MOST_IDS, reads.SCANNED_PER_ID * asked)
        kept.fruitless = 0
        if await table.count_rows() > most:
            return
        version = kept.version
        ids = await reads.ids(table, None)
        # If this store wrote meanwhile, they may lack what it wrote. If others did, the version tells the next one.
        if kept.version == version:
            kept.ids = ids
