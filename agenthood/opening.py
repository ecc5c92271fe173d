"""Opening a store: its settings, its embedder, and the parts the engine works with."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agenthood.catch_up import CatchUp
from agenthood.errors import (
    AgenthoodError,
    EmbeddingError,
    EmbeddingSpaceError,
    StoreError,
    StoreUnavailableError,
)
from agenthood.formats import utc_now
from agenthood.healing import Healing
from agenthood.learning import forgetting, migration
from agenthood.learning.index import EmbeddingIndex
from agenthood.learning.queue_file import QueueFile
from agenthood.learning.queued import QueuedLearner
from agenthood.learning.recall import Recaller
from agenthood.learning.spaces import ActiveSpace
from agenthood.memory.episodic import EpisodicMemory
from agenthood.memory.long_term import LongTermMemory
from agenthood.memory.residual import ResidualMemory
from agenthood.memory.uses import UseLog
from agenthood.redaction import redact
from agenthood.stores.base import SHARED
from agenthood.stores.deadline import LOADING
from agenthood.stores.guarded import GuardedStore
from agenthood.stores.lance.store import LanceStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import datetime

    from agenthood.config import Fail, Settings
    from agenthood.embedding.base import Embedder
    from agenthood.learning.learner import EpisodeLearner
    from agenthood.learning.recall import Query
    from agenthood.records import MigrationReport, Recall
    from agenthood.stores.base import VectorStore

    Progress = Callable[[int, int], None]

MIGRATION_SECONDS = 5.0
_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class Parts:
    """What an open store consists of.

    Attributes:
        store: the rows.
        space: what embeds.
        index: the pattern index.
        residual: the signals.
        learner: what learns.
        recaller: what recalls.
        catch_up: what indexes later what could not be indexed at once.
        uses: which lessons were put before an agent.
        settings: what the store was opened with.
        clock: the current time in UTC.
        closed: whether an outage of the store is raised.
    """

    store: GuardedStore
    space: ActiveSpace
    index: EmbeddingIndex
    residual: ResidualMemory
    learner: QueuedLearner
    recaller: Recaller
    catch_up: CatchUp
    uses: UseLog
    settings: Settings
    clock: Callable[[], datetime]
    closed: bool

    async def recall(self, query: Query) -> Recall:
        """The lessons for `query`, also those that an embedder just back has to catch up with; notes no use.

        Raises:
            InvalidInputError: `Query.check` refused it.
            EmbeddingSpaceError: the model no longer answers as it did.
            StoreError: the store could not be searched, or not in time.
        """
        found = await self._found(query)
        if await self.catch_up.just_done():
            found = await self._found(query)
        missing = self.catch_up.missing
        return replace(found, degraded=True, reason=missing) if missing and not found.degraded else found

    async def _found(self, query: Query) -> Recall:
        async with self.store.section("reading"):
            try:
                return await self.recaller.recall(query)
            except AgenthoodError:
                raise
            except Exception as exc:  # a recall must not end the caller's run, whatever the store holds
                _log.debug("recalling failed", exc_info=True)
                raise StoreError(redact(f"the store's answer makes no sense: {exc!r:.200}")) from exc


class OpenStore:
    """A store that can be opened and closed, and its parts while it is open."""

    def __init__(  # noqa: PLR0913  the options of a store
        self,
        path: str | Path = ".agenthood",
        *,
        settings: Settings | None = None,
        embedder: Embedder | str | None = None,
        start_migration: bool = True,
        migration_seconds: float = MIGRATION_SECONDS,
        clock: Callable[[], datetime] = utc_now,
        fail: Fail | None = None,
    ) -> None:
        """See `agenthood.open_async`."""
        self.path = Path(path)
        self._settings = settings
        self._wanted = embedder
        self._start_migration = start_migration
        self._migration_seconds = migration_seconds
        self._clock = clock
        self._fail = fail
        self._fallback = ""
        self._parts: Parts | None = None
        self._ready = False
        self._finished = True
        self._healing = Healing(self._heal)

    def __await__(self) -> Generator[Any, None, Self]:
        return self.start().__await__()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # -- its parts --------------------------------------------------------------------------------------

    @property
    def parts(self) -> Parts:
        """All parts.

        Raises:
            RuntimeError: the store is not open; so does every other part.
        """
        if self._parts is None:
            raise RuntimeError(
                f"this store is not open: use `async with agenthood.open_async({str(self.path)!r}) as hood`"
            )
        return self._parts

    @property
    def store(self) -> VectorStore:
        """The rows themselves."""
        return self.parts.store

    @property
    def space(self) -> ActiveSpace:
        """The active embedding space."""
        return self.parts.space

    @property
    def index(self) -> EmbeddingIndex:
        """The pattern index of the active space."""
        return self.parts.index

    @property
    def learner(self) -> EpisodeLearner:
        """The episode learner."""
        return self.parts.learner

    @property
    def residual(self) -> ResidualMemory:
        """Residual memory."""
        return self.parts.residual

    @property
    def long_term(self) -> LongTermMemory:
        """Long-term memory."""
        return LongTermMemory(self.store)

    @property
    def episodic(self) -> EpisodicMemory:
        """Episodic memory."""
        return EpisodicMemory(self.store)

    @property
    def migration(self) -> MigrationReport | None:
        """What the last migration did; None if there was nothing to do yet."""
        return self._parts.catch_up.report if self._parts is not None else None

    @property
    def reason(self) -> str:
        """Why meaning is not compared now; empty if it is."""
        return self._fallback or (self._parts.space.problem if self._parts is not None else "")

    @property
    def _patience(self) -> float:
        """Seconds after which a store that does not answer is given up on."""
        return self._parts.store.deadline if self._parts is not None else 0.0

    async def _answers(self) -> bool:
        """Whether the store can be read; asked for the deadline at most."""
        return self._parts is not None and not self._parts.store.failing and await self._parts.store.answers()

    # -- opening and closing ----------------------------------------------------------------------------

    async def start(self) -> Self:
        """Open the store and the embedding space; called by `await` and `async with`.

        Raises:
            ConfigError: a setting cannot be used.
            EmbeddingSpaceError: the model answers differently from when its space was created.
            StoreUnavailableError: something else stands where the store has to be; with `fail="closed"` also where
                it is down. Otherwise a store that is down is opened degraded, and heals when it returns.
            StoreError: what is there cannot serve as the store.
        """
        if self._parts is not None:
            return self
        from agenthood.config import load_settings  # noqa: PLC0415  for those who give settings it is not needed

        settings = self._settings or load_settings(self.path)
        for warning in settings.warnings if self._settings is None else ():
            _log.warning("%s", warning)
        embedder, self._fallback = await _chosen(self._wanted, settings)
        self._healing = Healing(self._heal)
        closed = (self._fail or settings.fail) == "closed"
        store = GuardedStore(self._new_store(settings), deadline=settings.deadline, quiet=closed)
        space = ActiveSpace(embedder, store, deadline=settings.embedder.deadline)
        try:
            _check_place(self.path / "memory")
            parts = self._assembled(store, space, settings, closed=closed)
            await self._open(parts)
        except BaseException:  # also Ctrl-C: what is half open has no other owner who could close it
            if self._parts is None:
                await _close(store, space)
            await self.close()
            raise
        return self

    def _new_store(self, settings: Settings) -> VectorStore:  # noqa: ARG002  there is one kind so far
        """The store itself, not asked for anything yet."""
        return LanceStore(self.path / "memory")

    def _assembled(
        self, store: GuardedStore, space: ActiveSpace, settings: Settings, *, closed: bool
    ) -> Parts:
        index = EmbeddingIndex(store, space.space, calibration=space.calibration)
        residual = ResidualMemory(self.path / "residual.json", clock=self._clock)
        learner = QueuedLearner(
            store,
            queue=QueueFile(self.path / "queue.jsonl"),
            closed=closed,
            index=index,
            space=space,
            residual=residual,
            threshold=settings.merge_threshold,
            clock=self._clock,
        )
        catch_up = CatchUp(space, partial(migration.reindex_legacy_patterns, store, index, space))
        recaller = Recaller(store, index, space, clock=self._clock)
        uses = UseLog(self.path / "uses.jsonl", clock=self._clock)
        return Parts(
            store, space, index, residual, learner, recaller, catch_up, uses, settings, self._clock, closed
        )

    async def _open(self, parts: Parts) -> None:
        """Get to know the store and finish what was left undone; where it is down that is done when it returns."""
        try:
            await self._get_ready(parts)
        except StoreUnavailableError:
            if parts.closed:
                raise
        self._parts = parts
        if not parts.closed:
            parts.store.on_failure = self._healing.start
        if not self._ready or parts.learner.waits:
            self._healing.start()
        if self._ready and self._start_migration:
            await self._begin(parts)

    async def _get_ready(self, parts: Parts) -> None:
        async with parts.store.section("reading"):
            parts.index.use(await parts.store.find(SHARED) or SHARED)
            await parts.space.load_calibration()
            await _verify(parts.space)
        parts.index.calibration = parts.space.calibration
        self._ready = True

    async def _begin(self, parts: Parts) -> None:
        """Finish what was left undone, as far as the time for it goes."""
        if parts.closed:
            await self._finish(parts)
            return
        try:
            # A store that goes down meanwhile holds nobody up.
            async with asyncio.timeout(self._migration_seconds + LOADING):
                await self._finish(parts)
        except (TimeoutError, StoreUnavailableError) as exc:  # an outage was logged; both are tried again
            _log.debug("what was left undone is not finished: %r", exc)
            self._finished = False
            self._healing.start()

    async def _finish(self, parts: Parts) -> None:
        await self._finish_forgetting()
        if parts.learner.waits:
            await parts.learner.settled(self._migration_seconds)
        if not await migration.is_current(parts.store, parts.index):
            await self._migrate(seconds=self._migration_seconds)

    async def _heal(self) -> bool:
        """Do what an outage left undone; whether that is all."""
        parts = self._parts
        if parts is None:
            return True
        if not self._ready:
            try:
                await self._get_ready(parts)
            except EmbeddingSpaceError as exc:  # every recall will say so
                _log.warning("%s", exc)
                self._ready = True
            self._finished = not self._start_migration
        if not self._finished:
            await self._finish(parts)
            self._finished = True
        if parts.store.problem("reading") and not await parts.store.answers():
            return False
        await parts.learner.settled(self._migration_seconds)
        return not parts.learner.waits

    async def _finish_forgetting(self) -> None:
        """Finish what a killed `forget` left; where that cannot be done now, the next start tries again."""
        try:
            await forgetting.finish(self.store, residual=self.residual)
        except StoreError as exc:
            _log.warning("an interrupted forget could not be finished: %s", exc)

    async def _migrate(
        self, *, seconds: float | None = None, on_progress: Progress | None = None
    ) -> MigrationReport:
        parts = self.parts
        return await parts.catch_up.run(
            migration.reindex_legacy_patterns(
                parts.store, parts.index, parts.space, seconds=seconds, on_progress=on_progress
            )
        )

    async def close(self) -> None:
        """Release the store and the embedder; closing twice is fine."""
        parts, self._parts = self._parts, None
        self._ready = False
        if parts is not None:
            await self._healing.aclose()
            await parts.learner.aclose()
            await parts.catch_up.aclose()
            await _close(parts.store, parts.space)


def _check_place(folder: Path) -> None:
    """Refuse a path that no waiting turns into a store.

    Raises:
        StoreUnavailableError: something that is no directory stands there or above.
    """
    for place in (folder, *folder.absolute().parents):
        if os.path.exists(place):  # noqa: PTH110  Path.exists raises where a parent may not be looked into
            if not os.path.isdir(place):  # noqa: PTH112
                raise StoreUnavailableError(
                    f"{str(place)!r} is not a directory, so no store can be there: choose another path, or move it away"
                )
            return


async def _close(store: VectorStore, space: ActiveSpace) -> None:
    try:
        await space.aclose()
        await space.embedder.aclose()
    finally:
        await store.close()


async def _verify(space: ActiveSpace) -> None:
    """Ask a model whose answers may have changed; one that cannot be reached now is asked at first use."""
    try:
        await space.check()
    except EmbeddingSpaceError:
        raise
    except EmbeddingError as exc:
        _log.warning("%s", exc)


async def _chosen(wanted: Embedder | str | None, settings: Settings) -> tuple[Embedder, str]:
    """The embedder to use, and why it is not the one wanted."""
    from agenthood.embedding import (  # noqa: PLC0415  loads numpy
        BundledEmbedder,
        EmbedderSettings,
        LexicalEmbedder,
        create_embedder,
    )

    if wanted is not None and not isinstance(wanted, str):
        return wanted, ""
    chosen = settings.embedder
    if wanted is not None and wanted != chosen.kind:
        # Another kind: the model and address belong to another server, and its key must not be sent to this one.
        chosen = EmbedderSettings(kind=wanted, deadline=chosen.deadline)
    try:
        # Only one of unknown dimension is asked here; it may have to load its model, and is not asked again.
        async with asyncio.timeout(max(chosen.deadline, chosen.timeout)):
            embedder = await create_embedder(chosen)
        if isinstance(embedder, BundledEmbedder):
            embedder.check_installed()
    except (EmbeddingError, TimeoutError) as exc:
        reason = f"wording is compared instead of meaning: {exc or 'the embedder did not answer in time'}"
        _log.warning("%s", reason)
        return LexicalEmbedder(), reason
    return embedder, ""
