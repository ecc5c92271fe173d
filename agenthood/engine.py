"""The front door: open a store, learn, recall, forget, see, migrate, maintain, move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agenthood.errors import EmbeddingError, InvalidInputError, StoreError
from agenthood.formats import parse_time, utc_now
from agenthood.learning import archiving, forgetting, tending, transfer
from agenthood.learning.recall import Query
from agenthood.opening import MIGRATION_SECONDS, OpenStore, is_current, migrated
from agenthood.overview import chosen_lessons, status_of
from agenthood.records import (
    UNKNOWN,
    Changed,
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
    Tidied,
    Tier,
)
from agenthood.session import DEADLINE, AsyncSession
from agenthood.telemetry import traced
from agenthood.telemetry_facts import changed, forgotten, imported, learned, learned_many, recalled
from agenthood.upkeep import drop_other_spaces, tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agenthood.config import Fail, Settings
    from agenthood.embedding.base import Embedder
    from agenthood.learning.learner import EpisodeLearner
    from agenthood.stores.base import Health

    Progress = Callable[[int, int], None]

_LONG = 60.0
_WAITS = "some episodes wait to be learned until the store can take them"
_log = logging.getLogger("agenthood")


class AsyncHood(OpenStore):
    """An open store with its engine. Use it as `async with open_async(path) as hood`, or `await` it.

    An agent of its own recalls what it learned for itself and what all agents of its project share. Whatever lists,
    counts, changes, forgets or moves records is about its own: open the store without an agent for the shared ones.
    `migrate` and `maintain` look after both.
    """

    # -- learning and recalling -------------------------------------------------------------------------

    @traced("upsert_memory", learned)
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
        shared: bool = False,
    ) -> Receipt:
        """Learn from one episode; never raises into the caller's run, unless the store was opened to fail closed.

        While the store is down, or takes longer than the deadline, the episode is queued in `queue.jsonl` and learned
        when the store returns; the receipt is `pending` then, without an id.

        Args:
            episode: what was done.
            score: how well it went, in [0, 1]; the short form of `scores={"score": score}`.
            scores: name -> number in [0, 1]; their mean decides. Without any nothing is learned.
            outcome: how it ended, in words.
            member: who did it.
            skill: in which skill.
            timestamp: when, as a datetime or ISO 8601; now if absent.
            shared: whether an agent of its own learns it for all agents of the project instead of for itself.

        Returns:
            The receipt: what was decided and why.

        Raises:
            StoreError: only with `fail="closed"`: the store could not be written to; nothing is queued.
        """
        if score is not None and scores is not None:
            return Receipt("rejected", reason="both score and scores were given: give one of them")
        try:
            at = parse_time(timestamp) if timestamp is not None else None
        except InvalidInputError as exc:
            return Receipt("rejected", reason=str(exc))
        self._notice_loss()
        named = {} if scores is None else scores
        result = EvalResult(episode, named, outcome, member or UNKNOWN, skill or UNKNOWN, at, score=score)
        return await self._learner(shared=shared).learn(result)

    @traced("upsert_memory", learned_many)
    async def learn_many(
        self,
        results: Iterable[EvalResult],
        *,
        on_progress: Progress | None = None,
        shared: bool = False,
    ) -> list[Receipt]:
        """Learn from many episodes, with exactly the outcome of one by one.

        The store's deadline is longer by 0.02 s for each further episode of a batch; what it cannot take is queued.

        Args:
            results: the episodes with their scores.
            on_progress: called with (done, total) after each batch.
            shared: as `learn`.

        Returns:
            One receipt per episode, in order.

        Raises:
            InvalidInputError: `results` is no list or other iterable, such as a single `EvalResult`. What is wrong
                with one of the episodes is in its receipt instead.
            StoreError: as `learn`.
        """
        episodes = listed(results)
        self._notice_loss()
        return await self._learner(shared=shared).learn_many(episodes, on_progress=on_progress)

    def _learner(self, *, shared: bool) -> EpisodeLearner:
        parts = self.parts
        return (parts.shared or parts).learner if shared else parts.learner

    def _notice_loss(self) -> None:
        """Say so where somebody has removed the store while it was open: what is learned makes an empty one."""
        if self._parts is None:
            return
        stood, self._stood = self._stood, self._stands()
        if stood and not self._stood:
            _log.warning(
                "the store at %r was removed while it was open: learning begins an empty one", str(self.path)
            )

    @traced("search_memory", recalled)
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
        """The lessons that bear on `text`, best first. Those found count as used; `maintain` adds it up.

        While the store is down, or takes longer than the deadline, there are none: the answer is `degraded` then, and
        its `reason` says why.

        Args:
            text: a task, a question, an error message: whatever the next run is about.
            limit: how many at most; 0 or less gives none, and is no error.
            member: whose lessons come first; others' follow.
            skill: only lessons of this skill.
            kind: only `learned` or only `antipattern`; both if absent.
            threshold: lowest similarity shown, inclusive, on the scale of `scoring`; 0.65 if not configured.
            scoring: the scale of `similarity`: `calibrated` in [0, 1], raw `cosine`, or `squared_l2`.

        Raises:
            InvalidInputError: an empty text or an unusable option.
            EmbeddingSpaceError: the model answers differently from when its space was created.
            StoreError: only with `fail="closed"`: the store could not be searched.
        """
        parts = self.parts
        lowest = parts.settings.recall_threshold if threshold is None else threshold
        query = Query(text, limit, member, skill, kind, lowest, scoring)
        query.check()
        # Together, since each may take the deadline.
        await asyncio.gather(*(layer.learner.settled() for layer in parts.layers))
        try:
            found = await parts.recall(query)
        except StoreError as exc:
            if parts.closed:
                raise
            return Recall(threshold=lowest, semantic=False, degraded=True, reason=str(exc))
        parts.note_uses(found)
        missing = _WAITS if parts.waits else ""
        return replace(found, degraded=True, reason=missing) if missing and not found.degraded else found

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
        """One run of an agent of your own: `async with hood.session(task) as session`, or `with` on a `Hood`.

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

    async def lessons(  # noqa: PLR0913  the options of a list
        self,
        *,
        kind: Kind | None = None,
        member: str | None = None,
        skill: str | None = None,
        contains: str | None = None,
        tier: Tier | None = None,
        limit: int | None = None,
    ) -> list[Lesson]:
        """All lessons that fit, latest first; those in the archive only if asked for.

        Args:
            kind: only this kind.
            member: only this member's.
            skill: only of this skill.
            contains: only those whose text holds this, upper or lower case.
            tier: only of this tier, such as `archive`; all tiers but that if absent.
            limit: how many at most; all if absent.
        """
        return await chosen_lessons(
            self.store, kind=kind, member=member, skill=skill, contains=contains, tier=tier, limit=limit
        )

    async def pin(self, *ids: str) -> Changed:
        """Keep lessons as they are: upkeep neither moves nor archives them, and they do not fade.

        An archived one is restored.

        Args:
            ids: ids of lessons, as `lessons` and `recall` give them.

        Raises:
            InvalidInputError: an id that is no text.
            StoreError: the store could not be written; what was changed until then stays.
        """
        return await self._change(ids, archiving.pinned)

    async def unpin(self, *ids: str) -> Changed:
        """Let upkeep move lessons again. Args, errors: as `pin`."""
        return await self._change(ids, archiving.unpinned)

    async def archive(self, *ids: str) -> Changed:
        """Take lessons out of look-ups and keep them with all their evidence. Args, errors: as `pin`."""
        return await self._change(ids, archiving.archived)

    async def restore(self, *ids: str) -> Changed:
        """Put archived lessons back into look-ups. Args, errors: as `pin`."""
        return await self._change(ids, archiving.restored)

    @traced("update_memory", changed)
    async def _change(self, ids: Sequence[str], alter: Callable[[Lesson], Lesson]) -> Changed:
        now = self.parts.clock()
        return await archiving.change(self.store, self.index, self.space, ids, alter, now=now)

    @traced("delete_memory", forgotten)
    async def forget(self, *ids: str, episodes: bool = False) -> Forgotten:
        """Remove lessons everywhere, also from old versions on disk.

        Args:
            ids: ids of lessons, as `lessons` and `recall` give them.
            episodes: also remove the episodes they cite and those with the same text.
        """
        parts = self.parts
        if not await parts.learner.settled(_LONG):
            _log.warning("%s: what is forgotten now may be among them", _WAITS)
        done = await forgetting.forget(parts.store, ids, episodes=episodes, residual=parts.residual)
        try:  # their file names what was forgotten
            await tending.count_uses(parts.store, parts.uses, now=parts.clock())
        except StoreError as exc:
            _log.warning("the uses were not counted, and still name what was forgotten: %s", exc)
        return done

    async def status(self) -> Status:
        """Counts, the active space, what the learner has done, and what waits to be learned.

        Raises:
            StoreError: the store cannot be read.
        """
        await self.parts.learner.settled()
        await self.parts.catch_up.just_done()
        return await status_of(self.parts, self.path, self.reason)

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
        await self._wait_for_model()
        report = await migrated(self.parts, on_progress=on_progress)
        if drop_old and report.complete:
            for layer in self.parts.layers:
                await drop_other_spaces(layer.store, layer.index)
        return report

    async def _wait_for_model(self) -> None:
        """Let a model that is slow to start take its time; what it cannot do is told by what follows."""
        with suppress(EmbeddingError):
            await self.space.prepare()

    async def maintain(self) -> MaintenanceReport:
        """Tidy the lessons, complete the index, compact every collection, and remove old versions.

        Lessons are promoted, demoted and archived as `learning.salience` says, and the least salient ones above
        `max_lessons` of the settings are archived; evidence is never removed. What waits to be learned comes first,
        and a forget that was killed is finished.
        """
        parts = self.parts
        for layer in parts.layers:
            await layer.learner.settled(_LONG)
        await self._finish_forgetting()
        tidied = Tidied()
        for layer in parts.layers:
            tidied += await tending.tend(
                layer.store,
                layer.index,
                layer.uses,
                now=parts.clock(),
                max_lessons=parts.settings.max_lessons,
            )
        moved = await self._completed_index()
        return MaintenanceReport(await tidy(parts.layers), moved, tidied)

    async def _completed_index(self) -> MigrationReport | None:
        """Make every lesson findable; None where each was, though that took a whole migration to find out."""
        if await is_current(self.parts):
            return None
        await self._wait_for_model()
        report = await migrated(self.parts)
        return report if report.embedded or not report.complete else None

    async def export(self, file: TextIO) -> int:
        """Write every lesson, episode and other memory as JSON lines; returns how many lines.

        Args:
            file: open for writing text, such as `open(path, "w", encoding="utf-8")`; it stays open.

        Raises:
            InvalidInputError: what was given cannot be written text to, such as the name of a file.
            StoreError: the store cannot be read; what was written until then stays.
        """
        return await transfer.export(self.store, file)

    @traced("upsert_memory", imported)
    async def import_(self, lines: Iterable[str], *, on_progress: Progress | None = None) -> Imported:
        """Import what `export` wrote; evidence that is there already is not counted twice.

        Args:
            lines: the JSON lines, such as an open file.
            on_progress: called with (lines done, 0) after each batch.

        Raises:
            InvalidInputError: one text was given, such as the name of a file, whose lines are its characters.
        """
        if isinstance(lines, str | bytes):
            raise InvalidInputError(f"lines is {lines!r:.80}: give an open file, or a list of lines")
        return await transfer.import_lines(self.store, self.index, self.space, lines, on_progress=on_progress)


def listed(results: object) -> list[EvalResult]:
    """The episodes that were given to be learned.

    Raises:
        InvalidInputError: it is one thing and not many.
    """
    if isinstance(results, str | bytes) or not isinstance(results, Iterable):
        raise InvalidInputError(
            f"results is {results!r:.80}: give a list of EvalResult, or learn one with learn()"
        )
    return list(results)


def open_async(  # noqa: PLR0913  the options of a store
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
) -> AsyncHood:
    """Open a store, as in `async with agenthood.open_async() as hood` or `hood = await agenthood.open_async()`.

    Args:
        path: the `.agenthood` directory; created on first use.
        settings: what to use instead of the environment and `config.json`.
        embedder: an `Embedder`, or the name of a kind, such as `bundled` or `lexical`.
        start_migration: whether lessons that are not indexed yet are indexed at the start.
        migration_seconds: how long that may take; the rest is done at the next start.
        clock: gives the current time, aware, for what is learned, ranked and tidied.
        fail: what happens while the store is down. `"open"`: recalls are empty and learning is queued; `"closed"`: it
            is raised as `StoreError`. As configured if absent, which is `"open"` by default.
        tenant: whose memory it is; as configured if absent, which is `local` by default.
        project: of which project; as configured if absent, else that of the directory the store is in.
        agent: of which agent, with lessons of its own beside those that its project shares; as configured if absent.
    """
    return AsyncHood(
        path,
        settings=settings,
        embedder=embedder,
        start_migration=start_migration,
        migration_seconds=migration_seconds,
        clock=clock,
        fail=fail,
        tenant=tenant,
        project=project,
        agent=agent,
    )
