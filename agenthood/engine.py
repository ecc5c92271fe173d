"""The front door: open a store, learn, recall, forget, see, migrate, maintain, move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from agenthood.errors import (
    AgenthoodError,
    EmbeddingError,
    EmbeddingSpaceError,
    InvalidInputError,
    StoreError,
)
from agenthood.formats import EPISODE, parse_time, storable
from agenthood.learning import forgetting, migration, transfer
from agenthood.learning.index import EmbeddingIndex
from agenthood.learning.learner import EpisodeLearner
from agenthood.learning.lessons import read_book
from agenthood.learning.recall import Query, Recaller
from agenthood.learning.spaces import ActiveSpace
from agenthood.memory.episodic import EpisodicMemory
from agenthood.memory.long_term import LongTermMemory
from agenthood.memory.residual import ResidualMemory
from agenthood.records import (
    KINDS,
    UNKNOWN,
    EvalResult,
    Forgotten,
    Imported,
    Kind,
    Lesson,
    MaintenanceReport,
    MigrationReport,
    Recall,
    Receipt,
    Scoring,
    Status,
)
from agenthood.session import DEADLINE, AsyncSession
from agenthood.stores.base import SHARED
from agenthood.stores.filters import StartsWith
from agenthood.stores.lance import LanceStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenthood.config import Settings
    from agenthood.embedding.base import Embedder
    from agenthood.stores.base import Health, VectorStore

    Progress = Callable[[int, int], None]

MIGRATION_SECONDS = 5.0
_OPENED = (
    "store",
    "space",
    "index",
    "long_term",
    "episodic",
    "residual",
    "learner",
    "_recaller",
    "_recall_threshold",
)
_log = logging.getLogger("agenthood")


class AsyncHood:
    """An open store with its engine. Use it as `async with open_async(path) as hood`, or `await` it."""

    def __init__(
        self,
        path: str | Path = ".agenthood",
        *,
        settings: Settings | None = None,
        embedder: Embedder | str | None = None,
        start_migration: bool = True,
        migration_seconds: float = MIGRATION_SECONDS,
    ) -> None:
        """See `agenthood.open_async`."""
        self.path = Path(path)
        self.migration: MigrationReport | None = None
        self.reason = ""
        self._settings = settings
        self._wanted = embedder
        self._start_migration = start_migration
        self._migration_seconds = migration_seconds
        self._started = False
        self._embedder: Embedder | None = None

    if not TYPE_CHECKING:  # a type checker would take it that every name exists

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            """Say that the store is closed, where what opening makes is asked for."""
            if name in _OPENED:
                raise RuntimeError(
                    f"this store is not open: use `async with agenthood.open_async({str(self.path)!r}) as hood`"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- opening and closing ----------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Self]:
        return self.start().__await__()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> Self:
        """Open the store and the embedding space; called by `await` and `async with`.

        Raises:
            ConfigError: a setting cannot be used.
            EmbeddingSpaceError: the model answers differently from when its space was created.
            StoreUnavailableError: the store cannot be opened.
        """
        if self._started:
            return self
        from agenthood.config import load_settings  # noqa: PLC0415  for those who give settings it is not needed

        settings = self._settings or load_settings(self.path)
        for warning in settings.warnings if self._settings is None else ():
            _log.warning("%s", warning)
        self._embedder, self.reason = await _chosen(self._wanted, settings)
        self.store: VectorStore = LanceStore(self.path / "memory")
        try:
            await self._open(self._embedder, settings)
        except BaseException:
            await self.close()
            raise
        self._started = True
        return self

    async def _open(self, embedder: Embedder, settings: Settings) -> None:
        shared = await self.store.ensure_collection(SHARED)
        self.space = ActiveSpace(embedder, self.store)
        await self.space.load_calibration()
        if not embedder.pinned:
            await self._verify()
        self.index = EmbeddingIndex(
            self.store, embedder.space, shared=shared, calibration=self.space.calibration
        )
        for collection in (self.index.main, self.index.words):
            await self.store.ensure_collection(collection)
        self.long_term = LongTermMemory(self.store)
        self.episodic = EpisodicMemory(self.store)
        self.residual = ResidualMemory(self.path / "residual.json")
        self.learner = EpisodeLearner(
            self.store,
            index=self.index,
            space=self.space,
            residual=self.residual,
            threshold=settings.merge_threshold,
        )
        self._recaller = Recaller(self.store, self.index, self.space)
        self._recall_threshold = settings.recall_threshold
        if self._start_migration:
            await self._finish_forgetting()
        if self._start_migration and not await migration.is_current(self.store, self.index):
            self.migration = await self._migrate(seconds=self._migration_seconds)

    async def _finish_forgetting(self) -> None:
        """Finish what a killed `forget` left; where that cannot be done now, the next start tries again."""
        try:
            await forgetting.finish(self.store, residual=self.residual)
        except StoreError as exc:
            _log.warning("an interrupted forget could not be finished: %s", exc)

    async def _verify(self) -> None:
        """Ask a model whose answers may have changed; one that cannot be reached now is asked at first use."""
        try:
            await self.space.check()
        except EmbeddingSpaceError:
            raise
        except EmbeddingError as exc:
            self.reason = str(exc)
            _log.warning("%s", exc)

    async def close(self) -> None:
        """Release the store and the embedder; closing twice is fine."""
        self._started = False
        embedder, store = self._embedder, self.__dict__.get("store")
        for name in _OPENED:
            self.__dict__.pop(name, None)
        self._embedder = None
        try:
            if embedder is not None:
                await embedder.aclose()
        finally:
            if store is not None:
                await store.close()

    # -- learning and recalling -------------------------------------------------------------------------

    async def learn(  # noqa: PLR0913  the fields of an episode
        self,
        episode: str,
        *,
        score: float | None = None,
        scores: Mapping[str, float] | None = None,
        outcome: str = "",
        member: str | None = None,
        skill: str | None = None,
        timestamp: datetime | str | None = None,
    ) -> Receipt:
        """Learn from one episode; never raises into the caller's run.

        Args:
            episode: what was done.
            score: how well it went, in [0, 1]; the short form of `scores={"score": score}`.
            scores: name -> number in [0, 1]; their mean decides. Without any nothing is learned.
            outcome: how it ended, in words.
            member: who did it.
            skill: in which skill.
            timestamp: when, as a datetime or ISO 8601; now if absent.

        Returns:
            The receipt: what was decided and why.
        """
        if score is not None and scores is not None:
            return Receipt("rejected", reason="both score and scores were given: give one of them")
        try:
            at = parse_time(timestamp) if timestamp is not None else None
        except InvalidInputError as exc:
            return Receipt("rejected", reason=str(exc))
        named = {"score": score} if score is not None else ({} if scores is None else scores)
        result = EvalResult(episode, named, outcome, member or UNKNOWN, skill or UNKNOWN, at)
        return await self.learner.learn(result)

    async def learn_many(
        self, results: Iterable[EvalResult], *, on_progress: Progress | None = None
    ) -> list[Receipt]:
        """Learn from many episodes, with exactly the outcome of one by one.

        Args:
            results: the episodes with their scores.
            on_progress: called with (done, total) after each batch.

        Returns:
            One receipt per episode, in order.
        """
        return await self.learner.learn_many(list(results), on_progress=on_progress)

    async def recall(  # noqa: PLR0913  the options of a recall
        self,
        text: str,
        *,
        limit: int = 5,
        member: str | None = None,
        skill: str | None = None,
        kind: Kind | None = None,
        threshold: float | None = None,
        scoring: Scoring = "calibrated",
    ) -> Recall:
        """The lessons that bear on `text`, best first.

        Args:
            text: a task, a question, an error message: whatever the next run is about.
            limit: how many at most; at most 0 gives none.
            member: whose lessons come first; others' follow.
            skill: only lessons of this skill.
            kind: only `learned` or only `antipattern`; both if absent.
            threshold: lowest similarity shown, inclusive, on the scale of `scoring`; 0.65 if not configured.
            scoring: the scale of `similarity`: `calibrated` in [0, 1], raw `cosine`, or `squared_l2`.

        Raises:
            InvalidInputError: an empty text or an unusable option.
            StoreError: the store could not be searched.
        """
        lowest = self._recall_threshold if threshold is None else threshold
        found = await self._recaller.recall(Query(text, limit, member, skill, kind, lowest, scoring))
        if self.migration is not None and not self.migration.complete and not found.degraded:
            missing = (
                f"{self.migration.remaining} lessons cannot be found by meaning yet: run agenthood migrate"
            )
            found = replace(found, degraded=True, reason=missing)
        return found

    def session(  # noqa: PLR0913  the options of a session
        self,
        task: str,
        *,
        member: str | None = None,
        skill: str | None = None,
        limit: int = 6,
        max_bytes: int = 4096,
        deadline: float = DEADLINE,
    ) -> AsyncSession:
        """One run of an agent of your own: `async with hood.session(task) as session`.

        On entering, `session.block` has the lessons for the prompt; say `session.end(outcome)` and
        `session.score(name, value)`; on leaving, the episode is recorded and learned from.

        Args:
            task: what the run is about; lessons are found by it and learned under it.
            member: who runs; its own lessons come first.
            skill: in which skill; lessons of the same skill come first.
            limit: how many lessons at most; 0 for none.
            max_bytes: cap on the block, in UTF-8 bytes.
            deadline: seconds that looking up, recording and learning may take each; the run goes on without.
        """
        return AsyncSession(
            self, task, member=member, skill=skill, limit=limit, max_bytes=max_bytes, deadline=deadline
        )

    # -- seeing and forgetting --------------------------------------------------------------------------

    async def lessons(
        self,
        *,
        kind: Kind | None = None,
        member: str | None = None,
        skill: str | None = None,
        contains: str | None = None,
        limit: int | None = None,
    ) -> list[Lesson]:
        """All lessons that fit, latest first.

        Args:
            kind: only this kind.
            member: only this member's.
            skill: only of this skill.
            contains: only those whose text holds this, upper or lower case.
            limit: how many at most; all if absent.
        """
        if kind is not None and kind not in KINDS:
            raise InvalidInputError(f"kind {kind!r} is none of {', '.join(map(repr, KINDS))}")
        wanted = {
            name: value
            for name, value in (("kind", kind), ("member", member), ("skill", skill))
            if value is not None
        }
        part = (contains or "").lower()
        found = [
            lesson
            for lesson in (await read_book(self.store)).lessons.values()
            if all(getattr(lesson, name) == value for name, value in wanted.items())
            and part in lesson.text.lower()
        ]
        found.sort(key=lambda lesson: lesson.id)
        found.sort(key=lambda lesson: lesson.last_seen, reverse=True)
        return found if limit is None else found[: max(0, limit)]

    async def forget(self, *ids: str, episodes: bool = False) -> Forgotten:
        """Remove lessons everywhere, also from old versions on disk.

        Args:
            ids: ids of lessons, as `lessons` and `recall` give them.
            episodes: also remove the episodes they cite and those with the same text.
        """
        return await forgetting.forget(self.store, ids, episodes=episodes, residual=self.residual)

    async def status(self) -> Status:
        """Counts, the active space, and what the learner has done."""
        book = await read_book(self.store)
        present = set((await self.index.present()).values())
        indexed = sum(storable(pattern) in present for pattern in book.lessons)
        return Status(
            path=str(self.path),
            lessons={kind: sum(one.kind == kind for one in book.lessons.values()) for kind in KINDS},
            episodes=await self.store.count(SHARED, StartsWith("id", EPISODE)),
            indexed=indexed,
            pending=len(book.lessons) - indexed,
            space=str(self.index.space),
            semantic=self.space.semantic,
            calibration=self.space.calibration,
            learner=await self.learner.get_status(),
            reason=self.reason,
        )

    async def health(self) -> Health:
        """Whether the store answers; never raises."""
        return await self.store.health()

    # -- upkeep -----------------------------------------------------------------------------------------

    async def migrate(
        self, *, drop_old: bool = False, on_progress: Progress | None = None
    ) -> MigrationReport:
        """Make every lesson findable in the active space.

        Args:
            drop_old: afterwards, if nothing remains to do, remove the pattern tables of other spaces.
            on_progress: called with (embedded, to embed) after each batch.
        """
        report = self.migration = await self._migrate(on_progress=on_progress)
        if drop_old and report.complete:
            kept = {self.index.main.name, self.index.words.name}
            for collection in await self.store.collections():
                if (
                    collection.typed
                    and collection.name.startswith("patterns_")
                    and collection.name not in kept
                ):
                    await self.store.drop_collection(collection.name)
        return report

    async def _migrate(
        self, *, seconds: float | None = None, on_progress: Progress | None = None
    ) -> MigrationReport:
        return await migration.reindex_legacy_patterns(
            self.store, self.index, self.space, seconds=seconds, on_progress=on_progress
        )

    async def maintain(self) -> MaintenanceReport:
        """Finish a forget and the index, compact every collection, and remove versions older than ten minutes."""
        await self._finish_forgetting()
        migrated = None
        if not await migration.is_current(self.store, self.index):
            migrated = self.migration = await self._migrate()
        done = {
            collection.name: await self.store.maintain(collection)
            for collection in await self.store.collections()
        }
        await self._decay()
        return MaintenanceReport(done, migrated)

    async def _decay(self) -> None:
        """Drop faded signals; they only hint, so a file that cannot be used stops nothing."""
        try:
            await asyncio.to_thread(self.residual.decay)
        except (AgenthoodError, OSError) as exc:
            _log.warning("residual memory was not tidied: %s", exc)

    async def export(self, file: TextIO) -> int:
        """Write every lesson, episode and other memory as JSON lines; returns how many lines."""
        return await transfer.export(self.store, file)

    async def import_(self, lines: Iterable[str], *, on_progress: Progress | None = None) -> Imported:
        """Import what `export` wrote; evidence that is there already is not counted twice.

        Args:
            lines: the JSON lines.
            on_progress: called with (lines done, 0) after each batch.
        """
        return await transfer.import_lines(self.store, self.index, self.space, lines, on_progress=on_progress)


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
        chosen = EmbedderSettings(kind=wanted)
    try:
        embedder = await create_embedder(chosen)
        if isinstance(embedder, BundledEmbedder):
            embedder.check_installed()
    except EmbeddingError as exc:
        reason = f"wording is compared instead of meaning: {exc}"
        _log.warning("%s", reason)
        return LexicalEmbedder(), reason
    return embedder, ""


def open_async(
    path: str | Path = ".agenthood",
    *,
    settings: Settings | None = None,
    embedder: Embedder | str | None = None,
    start_migration: bool = True,
    migration_seconds: float = MIGRATION_SECONDS,
) -> AsyncHood:
    """Open a store, as in `async with agenthood.open_async() as hood` or `hood = await agenthood.open_async()`.

    Args:
        path: the `.agenthood` directory; created on first use.
        settings: what to use instead of the environment and `config.json`.
        embedder: an `Embedder`, or the name of a kind, such as `bundled` or `lexical`.
        start_migration: whether lessons that are not indexed yet are indexed at the start.
        migration_seconds: how long that may take; the rest is done at the next start.
    """
    return AsyncHood(
        path,
        settings=settings,
        embedder=embedder,
        start_migration=start_migration,
        migration_seconds=migration_seconds,
    )
