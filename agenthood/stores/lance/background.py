"""Upkeep of a LanceDB table beside the work: begun by a commit now and then, waited for when the store closes.

The last fragments of a table are joined at once. A compaction keeps writers out, so it waits for a moment in
which nobody of this process writes, unless it is urgent. One of a large table takes too long for that: it is done
beside the writers, and another time if one comes first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agenthood.errors import StoreError
from agenthood.stores.lance.errors import translated
from agenthood.stores.lance.index import keep_indexed
from agenthood.stores.lance.tail import HEAVY_JOINED_FROM, JOINED_FROM, join_tail
from agenthood.stores.lance.upkeep import COMMITS_BETWEEN_CHECKS, Condition, Need, compact, condition_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection
    from agenthood.stores.lance.index import IndexRules
    from agenthood.stores.lance.tables import LanceTables

_QUIET = 0.25  # seconds without a commit
_PATIENCE = 10.0
_GROWN = 1.02
_log = logging.getLogger("agenthood")


class BackgroundUpkeep:
    """At most one task per collection, which compacts and indexes its table where that is due."""

    def __init__(
        self, tables: LanceTables, rules: IndexRules, *, rewrote: Callable[[Collection, int, int], None]
    ) -> None:
        """Put its parts together.

        Args:
            tables: what to see to.
            rules: which indices they need.
            rewrote: told of what changed no record: the collection, its version before, and after.
        """
        self._tables = tables
        self._rules = rules
        self._rewrote = rewrote
        self._commits: dict[str, int] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._seen_to: dict[str, int] = {}
        self._closing = asyncio.Event()

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
        """Wait for what is running, which waits for nothing more itself."""
        self._closing.set()
        await asyncio.gather(*self._running.values())
        self._running.clear()
        self._closing.clear()

    async def _keep_up(self, collection: Collection) -> None:
        work = partial(compact, collection=collection)
        try:
            found = await self._once_quiet(collection, await self._joined(collection))
            grown = found.rows > _GROWN * self._seen_to.get(collection.name, 0)
            if not found.need and not grown:
                return
            async with self._tables.exclusive():  # a compaction that loses to a writer was for nothing
                if found.need and not found.heavy:
                    await self._rewritten("compacting", collection, work)
            if found.need and found.heavy:
                async with self._tables.indexing():  # only a purge waits for that
                    await self._tables.run("compacting", collection, work)
            await self._index(collection)
            self._seen_to[collection.name] = found.rows
        except StoreError as exc:  # what was to be written is written, and the next commit tries again
            _log.warning("%s", exc)

    async def _index(self, collection: Collection) -> None:
        # An index takes long to build and does not mind writers, so it is built beside them.
        table = await self._tables.open(collection)
        async with self._tables.indexing():
            with translated(f"indexing {collection.name!r} in {str(self._tables.path)!r}"):
                await keep_indexed(table, collection, self._rules)

    async def _joined(self, collection: Collection) -> Condition:
        """Join the last fragments of a table if there are many, which is worth a short wait."""
        found = await self._look(collection)
        if found.fragments < (HEAVY_JOINED_FROM if found.heavy else JOINED_FROM):
            return found
        async with self._tables.exclusive():
            work = partial(join_tail, bytes_per_row=found.bytes_per_row)
            await self._rewritten("joining fragments of", collection, work)
        return await self._look(collection)

    async def _rewritten(
        self, doing: str, collection: Collection, work: Callable[[AsyncTable], Awaitable[int | None]]
    ) -> None:
        """Do what changes no record, under the write lock, and tell of it unless somebody else wrote meanwhile."""

        async def watched(table: AsyncTable) -> tuple[int, int, bool]:
            before = await table.version()
            made = await work(table)
            after = await table.version()
            return before, after, collection.ours or made == after == before + 1

        before, after, alone = await self._tables.run(doing, collection, watched)
        if alone:
            self._rewrote(collection, before, after)

    async def _look(self, collection: Collection) -> Condition:
        folder = self._tables.folder(collection)
        look = partial(condition_of, collection=collection, folder=folder, rules=self._rules)
        return await self._tables.run("looking at", collection, look)

    async def _once_quiet(self, collection: Collection, found: Condition) -> Condition:
        """The condition of the table once nobody writes or it is urgent; without need if that does not come to pass."""
        end = asyncio.get_running_loop().time() + _PATIENCE
        while found.need is Need.SOME and not self._closing.is_set():
            commits = self._commits[collection.name]
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _QUIET)
            if commits == self._commits[collection.name]:
                break
            if asyncio.get_running_loop().time() > end:
                return replace(found, need=Need.NONE)  # the next commit asks again
            found = await self._look(collection)
        return found
