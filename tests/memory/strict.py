"""A store with a rule of its own, as a backend with smaller limits has; and a look at the bytes of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.stores.base import Collection, Record, Rejection, UpsertResult
from agenthood.stores.lance.store import LanceStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LONGEST = 200


class StrictStore(LanceStore):
    """Rejects contents of more than `LONGEST` characters and writes the rest."""

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`."""
        short = [record for record in records if len(record.content) <= LONGEST]
        result = await super().upsert(collection, short)
        rejected = (Rejection(r.id, "it is too long") for r in records if len(r.content) > LONGEST)
        return UpsertResult(result.written, (*result.rejected, *rejected))


def everything_below(folder: Path) -> bytes:
    """The bytes of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
