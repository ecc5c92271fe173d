"""Opening a store: its settings, its embedder, and the parts the engine works with."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from agenthood.errors import (
    ConfigError,
    EmbeddingError,
    EmbeddingSpaceError,
    StoreError,
    StoreUnavailableError,
)
from agenthood.formats import shown, utc_now
from agenthood.healing import Healing
from agenthood.learning import forgetting, migration
from agenthood.learning.spaces import ActiveSpace
from agenthood.memory.episodic import EpisodicMemory
from agenthood.memory.long_term import LongTermMemory
from agenthood.parts import Parts, assembled, scope_of
from agenthood.stores.base import SHARED
from agenthood.stores.deadline import LOADING
from agenthood.stores.factory import check_place, create_store, place_of
from agenthood.telemetry_queue import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import datetime

    from agenthood.config import Fail, Settings
    from agenthood.embedding.base import Embedder
    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.learner import EpisodeLearner
    from agenthood.memory.residual import ResidualMemory
    from agenthood.records import MigrationReport
    from agenthood.scope import Scope
    from agenthood.stores.base import VectorStore

    Progress = Callable[[int, int], None]

MIGRATION_SECONDS = 5.0
_log = logging.getLogger("agenthood")


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
        tenant: str | None = None,
        project: str | None = None,
        agent: str | None = None,
    ) -> None:
        """See `agenthood.open_async`."""
        self.path = Path(path)
        self._settings = settings
        self._wanted = embedder
        self._start_migration = start_migration
        self._migration_seconds = migration_seconds
        self._clock = clock
        named = {"tenant": tenant, "project": project, "agent": agent, "fail": fail}
        self._named: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        self._fallback = ""
        self._parts: Parts | None = None
        self._ready = False
        self._finished = True
        self._stood = False
        self._healing = Healing(self._heal)
        # Of each event loop, to which a lock belongs.
        self._starting: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

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
        # Of tasks that begin with it at the same time one opens it.
        async with self._starting.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._parts is None:
                await self._start()
        return self

    async def _start(self) -> None:
        from agenthood.config import Settings, load_settings  # noqa: PLC0415  not needed by `import agenthood`

        if not isinstance(self._settings, Settings | None):
            raise ConfigError(
                f"settings is {shown(self._settings, 80)}: give agenthood.Settings(...), "
                "or nothing for those of config.json and the environment"
            )
        settings = self._settings or load_settings(self.path)
        for warning in settings.warnings if self._settings is None else ():
            _log.warning("%s", warning)
        settings = replace(settings, **self._named)
        scope = scope_of(settings, self.path)
        store = self._new_store(settings, scope)
        from agenthood.embedding.choosing import chosen_embedder  # noqa: PLC0415  loads numpy

        embedder, self._fallback = await chosen_embedder(self._wanted, settings.embedder)
        self._healing = Healing(self._heal)
        parts = assembled(
            store,
            lambda store: ActiveSpace(embedder, store, deadline=settings.embedder.deadline),
            settings,
            self.path,
            scope=scope,
            clock=self._clock,
            closed=settings.fail == "closed",
        )
        try:
            check_place(settings.store, self.path)
            await self._open(parts)
        except BaseException:  # also Ctrl-C: what is half open has no other owner who could close it
            if self._parts is None:
                await _close(parts.store, parts.space)
            await self.close()
            raise

    def _new_store(self, settings: Settings, scope: Scope | None) -> VectorStore:
        """The store itself, not asked for anything yet."""
        return create_store(settings.store, self.path, tenant=None if scope is None else scope.tenant)

    async def _open(self, parts: Parts) -> None:
        """Get to know the store and finish what was left undone; where it is down that is done when it returns."""
        try:
            await self._get_ready(parts)
        except StoreUnavailableError:
            if parts.closed:
                raise
        self._parts = parts
        watch(self)
        if not parts.closed:
            for layer in parts.layers:
                layer.store.on_failure = self._healing.start
        if not self._ready or parts.waits:
            self._healing.start()
        if self._ready and self._start_migration:
            await self._begin(parts)
        self._stood = self._stands()

    def _stands(self) -> bool:
        """Whether there is something on disk where an embedded store is; a server's is taken for granted."""
        place = place_of(self.parts.settings.store, self.path)
        return place is None or place.exists()

    async def _get_ready(self, parts: Parts) -> None:
        async with parts.store.section("reading"):
            await parts.get_ready()
            if (
                parts.scope is not None
            ):  # nothing was asked of the store yet, and what comes next takes its time
                await parts.store.find(SHARED)
            await parts.space.load_calibration()
            await _verify(parts.space)
        for layer in parts.layers:
            layer.index.calibration = parts.space.calibration
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
        for layer in parts.layers:
            if layer.learner.waits:
                await layer.learner.settled(self._migration_seconds)
        if not await is_current(parts):
            await migrated(parts, seconds=self._migration_seconds)

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
        for layer in parts.layers:
            await layer.learner.settled(self._migration_seconds)
        return not parts.waits

    async def _finish_forgetting(self) -> None:
        """Finish what a killed `forget` left; where that cannot be done now, the next start tries again."""
        try:
            for layer in self.parts.layers:
                await forgetting.finish(layer.store, residual=layer.residual)
        except StoreError as exc:
            _log.warning("an interrupted forget could not be finished: %s", exc)

    async def close(self) -> None:
        """Release the store and the embedder; closing twice is fine."""
        parts, self._parts = self._parts, None
        self._ready = False
        if parts is not None:
            await self._healing.aclose()
            await parts.catch_up.aclose()
            for layer in parts.layers:
                await layer.learner.aclose()
            await _close(parts.store, parts.space)


async def migrated(
    parts: Parts, *, seconds: float | None = None, on_progress: Progress | None = None
) -> MigrationReport:
    """Make every lesson of `parts` findable, in all layers; see `reindex_layers`."""
    layers = [(layer.store, layer.index) for layer in parts.layers]
    return await parts.catch_up.run(
        migration.reindex_layers(layers, parts.space, seconds=seconds, on_progress=on_progress)
    )


async def is_current(parts: Parts) -> bool:
    """Whether nothing is to be migrated in any layer."""
    return all([await migration.is_current(layer.store, layer.index) for layer in parts.layers])


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
