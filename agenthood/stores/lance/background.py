"""Upkeep of a LanceDB table beside the work: begun by a commit now and then, waited for when the store closes."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from typing import TYPE_CHECKING

from agenthood.errors import StoreError
from agenthood.stores.lance.errors import translated
from agenthood.stores.lance.index import keep_indexed
from agenthood.stores.lance.upkeep import COMMITS_BETWEEN_CHECKS, compact_if_fragmented

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection
    from agenthood.stores.lance.index import IndexRules
    from agenthood.stores.lance.tables import LanceTables

_log = logging.getLogger("agenthood")


class BackgroundUpkeep:
    """At most one task per collection, which compacts and indexes its table where that is due."""

    def __init__(self, tables: LanceTables, rules: IndexRules) -> None:
        """Args: `tables` to see to; `rules` that say which indices they need."""
        self._tables = tables
        self._rules = rules
        self._commits: dict[str, int] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def after_commit(self, collection: Collection) -> None:
        """Count a commit to the collection, and see to its table beside whatever comes next if it is time."""
        name = collection.name
        commits = self._commits[name] = self._commits.get(name, 0) + 1
        running = self._running.get(name)
        if commits % COMMITS_BETWEEN_CHECKS == 1 and (running is None or running.done()):
            # In a context of its own: the caller may hold the write lock, which this must wait for.
            loop = asyncio.get_running_loop()
            self._running[name] = loop.create_task(self._keep_up(collection), context=Context())

    async def finish(self) -> None:
        """Wait for what is running."""
        await asyncio.gather(*self._running.values())
        self._running.clear()

    async def _keep_up(self, collection: Collection) -> None:
        async def compact(table: AsyncTable) -> None:
            await compact_if_fragmented(table, collection)

        try:
            async with self._tables.exclusive():  # a compaction that loses to a writer was for nothing
                await self._tables.run("compacting", collection, compact)
            # An index takes long to build and does not mind writers, so it is built beside them.
            table = await self._tables.open(collection)
            async with self._tables.indexing():
                with translated(f"indexing {collection.name!r} in {str(self._tables.path)!r}"):
                    await keep_indexed(table, collection, self._rules)
        except StoreError as exc:  # what was to be written is written, and the next commit tries again
            _log.warning("%s", exc)
