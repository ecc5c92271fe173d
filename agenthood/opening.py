"""Opening a store: its settings, its embedder, and the parts the engine works with."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agenthood.catch_up import CatchUp
from agenthood.errors import EmbeddingError, EmbeddingSpaceError, StoreError
from agenthood.formats import utc_now
from agenthood.learning import forgetting, migration
from agenthood.learning.index import EmbeddingIndex
from agenthood.learning.learner import EpisodeLearner
from agenthood.learning.recall import Recaller
from agenthood.learning.spaces import ActiveSpace
from agenthood.memory.episodic import EpisodicMemory
from agenthood.memory.long_term import LongTermMemory
from agenthood.memory.residual import ResidualMemory
from agenthood.memory.uses import UseLog
from agenthood.stores.base import SHARED
from agenthood.stores.lance.store import LanceStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import datetime

    from agenthood.config import Settings
    from agenthood.embedding.base import Embedder
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
    """

    store: VectorStore
    space: ActiveSpace
    index: EmbeddingIndex
    residual: ResidualMemory
    learner: EpisodeLearner
    recaller: Recaller
    catch_up: CatchUp
    uses: UseLog
    settings: Settings
    clock: Callable[[], datetime]

    async def recall(self, query: Query) -> Recall:
        """The lessons for `query`, also those that an embedder just back has to catch up with; notes no use.

        Raises:
            InvalidInputError: `Query.check` refused it.
            StoreError: the store could not be searched.
        """
        found = await self.recaller.recall(query)
        if await self.catch_up.just_done():
            found = await self.recaller.recall(query)
        missing = self.catch_up.missing
        return replace(found, degraded=True, reason=missing) if missing and not found.degraded else found


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
    ) -> None:
        """See `agenthood.open_async`."""
        self.path = Path(path)
        self._settings = settings
        self._wanted = embedder
        self._start_migration = start_migration
        self._migration_seconds = migration_seconds
        self._clock = clock
        self._fallback = ""
        self._parts: Parts | None = None

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

    # -- opening and closing ----------------------------------------------------------------------------

    async def start(self) -> Self:
        """Open the store and the embedding space; called by `await` and `async with`.

        Raises:
            ConfigError: a setting cannot be used.
            EmbeddingSpaceError: the model answers differently from when its space was created.
            StoreUnavailableError: the store cannot be opened.
        """
        if self._parts is not None:
            return self
        from agenthood.config import load_settings  # noqa: PLC0415  for those who give settings it is not needed

        settings = self._settings or load_settings(self.path)
        for warning in settings.warnings if self._settings is None else ():
            _log.warning("%s", warning)
        embedder, self._fallback = await _chosen(self._wanted, settings)
        store = LanceStore(self.path / "memory")
        space = ActiveSpace(embedder, store, deadline=settings.embedder.deadline)
        try:
            self._parts = await self._open(store, space, settings)
            await self._begin(self._parts)
        except BaseException:  # also Ctrl-C: what is half open has no other owner who could close it
            if self._parts is None:
                await _close(store, space)
            await self.close()
            raise
        return self

    async def _open(self, store: VectorStore, space: ActiveSpace, settings: Settings) -> Parts:
        shared = await store.find(SHARED) or SHARED
        await space.load_calibration()
        await _verify(space)
        index = EmbeddingIndex(store, space.space, shared=shared, calibration=space.calibration)
        residual = ResidualMemory(self.path / "residual.json", clock=self._clock)
        learner = EpisodeLearner(
            store,
            index=index,
            space=space,
            residual=residual,
            threshold=settings.merge_threshold,
            clock=self._clock,
        )
        catch_up = CatchUp(space, partial(migration.reindex_legacy_patterns, store, index, space))
        recaller = Recaller(store, index, space, clock=self._clock)
        uses = UseLog(self.path / "uses.jsonl", clock=self._clock)
        return Parts(store, space, index, residual, learner, recaller, catch_up, uses, settings, self._clock)

    async def _begin(self, parts: Parts) -> None:
        """Finish what was left undone, as far as the time for it goes."""
        if not self._start_migration:
            return
        await self._finish_forgetting()
        if not await migration.is_current(parts.store, parts.index):
            await self._migrate(seconds=self._migration_seconds)

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
        if parts is not None:
            await parts.catch_up.aclose()
            await _close(parts.store, parts.space)


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
