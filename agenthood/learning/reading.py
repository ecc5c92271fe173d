"""Reading rows of one collection together: what several parts ask for at the same moment goes down as one call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.stores.base import Collection, Record, VectorStore


class GatheredReads:
    """Gets by id, joined: those begun before the event loop turns again are read in one call (a data loader).

    A look-up by id costs a store about the same for one row as for a hundred. Who is cancelled cancels the read
    for all: these are parts of one task.
    """

    def __init__(self, store: VectorStore, collection: Collection) -> None:
        """Args: the `store` and the `collection` in it to read from."""
        self._store = store
        self._collection = collection
        self._waiting: set[str] = set()
        self._reading: asyncio.Task[dict[str, Record]] | None = None

    async def get(self, ids: Sequence[str]) -> dict[str, Record]:
        """As `VectorStore.get`, without vectors."""
        if not ids:
            return {}
        self._waiting.update(ids)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        found = await self._reading
        return {id_: found[id_] for id_ in ids if id_ in found}

    async def _read(self) -> dict[str, Record]:
        await asyncio.sleep(0)  # whoever is about to ask does so now
        wanted, self._waiting, self._reading = self._waiting, set(), None
        return await self._store.get(self._collection, sorted(wanted))
