"""Filling the pattern index of the active space from long-term memory.

The same migration serves a store the TypeScript program left, a changed model, lessons learned while no embedder
worked, and a run that was killed: it compares the lessons with the index rows present and embeds what is missing.
Long-term rows are never touched. The marker is removed when work begins and written when the index is complete,
so a marker of this space means that nothing was missing then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from agenthood.errors import AgenthoodError, EmbeddingError
from agenthood.formats import (
    INDEX_CURRENT_VERSION,
    INDEX_VERSION_KEY,
    PATTERN,
    dumps,
    iso,
    loads_object,
    storable,
    utc_now,
)
from agenthood.learning.archiving import batches, index_ids, still_archived, unindex
from agenthood.learning.lessons import ARCHIVED_ROWS, LESSON_ROWS, LessonBook, lesson_key, read_book
from agenthood.learning.patterns import IndexEntry, still_there
from agenthood.learning.rules import candidate_keys, choose_key
from agenthood.records import Lesson, MigrationReport
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import AllOf, AtLeast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.spaces import ActiveSpace
    from agenthood.stores.base import Vector, VectorStore

# Small first, so that a slow embedder gets something done within a bounded start; then larger, for fewer commits.
_FIRST_BATCH = 16
_LARGEST_BATCH = 2_048
# With more lessons since the marker than this, a whole run, which renews it, costs less than the starts to come.
_MANY_RECENT = 1_000
_OUT_OF_TIME = "the time for it ran out; the rest is done next time"
_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class Marker:
    """The row that says the index is complete.

    Attributes:
        space: the embedding space it speaks of; the TypeScript program's markers name none.
        migrated_at: ISO 8601 time of the check that found nothing missing.
        lessons: how many lessons there were.
        excess: how many more long-term rows of lessons in use there were than index rows: duplicates, unusable
            ones. Learning, forgetting and archiving change both by one; None in markers of other programs.
    """

    space: str | None
    migrated_at: str
    lessons: int
    excess: int | None = None


async def read_marker(store: VectorStore) -> Marker | None:
    """The marker, the newest if several were left, or None."""
    record = (await store.get(SHARED, [INDEX_VERSION_KEY])).get(INDEX_VERSION_KEY)
    if record is None:
        return None
    body = loads_object(record.content)
    space, lessons = body.get("space"), body.get("migrated")
    return Marker(
        space if isinstance(space, str) else None,
        str(body.get("migratedAt", record.created_at)),
        lessons if isinstance(lessons, int) else 0,
        excess if isinstance(excess := body.get("excess"), int) else None,
    )


def marker_record(marker: Marker) -> Record:
    """The marker's row: the TypeScript program's keys first, ours after them."""
    body = {
        "version": INDEX_CURRENT_VERSION,
        "migratedAt": marker.migrated_at,
        "migrated": marker.lessons,
        "space": marker.space,
        "excess": marker.excess,
    }
    return Record(INDEX_VERSION_KEY, dumps(body), {"type": "index_version"}, marker.migrated_at)


async def is_current(store: VectorStore, index: EmbeddingIndex) -> bool:
    """Whether nothing is to do: a marker of this space, and every lesson written since then is indexed."""
    marker = await read_marker(store)
    if marker is None or marker.space != str(index.space):
        return False
    if await _excess(store, index) != marker.excess:
        return False  # rows came from or went to somewhere else, whatever their dates
    book = LessonBook()
    recent = AllOf((LESSON_ROWS, AtLeast("created_at", marker.migrated_at)))
    async for batch in store.scan(SHARED, condition=recent):
        for record in batch:
            book.add(record)
    active = book.active
    if not active:
        return True
    if len(active) > _MANY_RECENT:
        return False
    rows = await store.get(index.main, [PATTERN + key for p in active for key in candidate_keys(p)])
    indexed = {row.content for row in rows.values() if row.metadata.get("space") == str(index.space)}
    return all(storable(pattern) in indexed for pattern in active)


async def _excess(store: VectorStore, index: EmbeddingIndex) -> int:
    indexed = await store.count(index.main, index.condition({}))
    lessons, archived = [await store.count(SHARED, rows) for rows in (LESSON_ROWS, ARCHIVED_ROWS)]
    return lessons - archived - indexed


async def reindex_legacy_patterns(
    store: VectorStore,
    index: EmbeddingIndex,
    space: ActiveSpace,
    *,
    seconds: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> MigrationReport:
    """Make every lesson of the store findable in the active space, each once.

    Args:
        store: the store.
        index: the pattern index to fill.
        space: what embeds.
        seconds: how long embedding may take, from when the lessons are read; None runs to the end.
        on_progress: called with (embedded, to embed) after each batch.

    Returns:
        The report. It never raises for an embedder or a store that fails half-way: the report says why it
        stopped, no marker is left, and the next run goes on from there.
    """
    run = _Run(store, index, space, seconds)
    try:
        await run.work(on_progress)
    except TimeoutError:
        run.report = replace(run.report, complete=False, reason=_OUT_OF_TIME)
    except AgenthoodError as exc:
        _log.warning("the pattern index is not complete: %s", exc)
        run.report = replace(run.report, complete=False, reason=str(exc))
    return replace(run.report, seconds=round(time.monotonic() - run.started, 3))


async def reindex_layers(
    layers: Sequence[tuple[VectorStore, EmbeddingIndex]],
    space: ActiveSpace,
    *,
    seconds: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> MigrationReport:
    """As `reindex_legacy_patterns`, for several layers of memory one after the other; the report adds them up.

    Args:
        layers: at least one store with its pattern index.
        space: what embeds for all of them.
        seconds: how long all may take together.
        on_progress: called with (embedded, to embed) of the layer at work.
    """
    end = None if seconds is None else time.monotonic() + seconds
    reports = []
    for store, index in layers:
        left = None if end is None else max(0.0, end - time.monotonic())
        reports.append(
            await reindex_legacy_patterns(store, index, space, seconds=left, on_progress=on_progress)
        )
    numbers = ("lessons", "present", "embedded", "remaining", "unusable", "seconds")
    return replace(
        reports[0],
        **{name: sum(getattr(report, name) for report in reports) for name in numbers},
        complete=all(report.complete for report in reports),
        reason=next((report.reason for report in reports if report.reason), ""),
    )


class _Run:
    def __init__(
        self, store: VectorStore, index: EmbeddingIndex, space: ActiveSpace, seconds: float | None
    ) -> None:
        self._store = store
        self._index = index
        self._space = space
        self.started = time.monotonic()
        self._seconds = seconds
        self._deadline: float | None = None
        self._began_at: datetime = utc_now()
        self.report = MigrationReport(str(index.space))

    async def work(self, on_progress: Callable[[int, int], None] | None) -> None:
        book = await read_book(self._store)
        present = await self._index.present()
        await self._remove_archived(book.archived, present)
        missing = _missing(book, present)
        lessons = len(book.active)
        self.report = replace(
            self.report,
            lessons=lessons,
            present=lessons - len(missing),
            remaining=len(missing),
            unusable=book.unusable,
            complete=not missing,
        )
        if self._seconds is not None:  # from here, or a large store would never get further than reading
            self._deadline = time.monotonic() + self._seconds
        start, size = 0, _FIRST_BATCH
        while start < len(missing):
            if start and self._deadline is not None and time.monotonic() > self._deadline:
                raise TimeoutError
            try:
                await self._fill(missing[start : start + size], first=start == 0)
            except (EmbeddingError, TimeoutError):
                await self._index_words(missing[start:])
                raise
            start, size = start + size, min(2 * size, _LARGEST_BATCH)
            if on_progress is not None:
                on_progress(self.report.embedded, len(missing))
        await self._finish(lessons)

    async def _remove_archived(self, lessons: list[Lesson], present: Mapping[str, str]) -> None:
        """Take out of the index what was archived by a process that did not get to it, or under another space."""
        if not lessons:
            return
        rows = present.keys() | await self._store.ids(self._index.main)
        stale = [lesson for lesson in lessons if not rows.isdisjoint(index_ids(lesson))]
        for part in batches(stale):
            async with self._store.exclusive():
                await unindex(self._store, self._index, await still_archived(self._store, part))

    async def _fill(self, entries: list[IndexEntry], *, first: bool) -> None:
        async with asyncio.timeout(
            None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        ):
            vectors = await self._vectors(entries)
        self._index.calibration = self._space.calibration
        async with self._store.exclusive():
            if first:
                await self._store.delete(SHARED, [INDEX_VERSION_KEY])
            kept = await still_there(self._store, entries)
            rows = self._index.rows([entries[n] for n in kept], vectors[kept])
            for collection, records in rows.items():
                result = await self._store.upsert(collection, records)
                for rejection in result.rejected:
                    _log.warning("lesson %r cannot be indexed: %s", rejection.id, rejection.reason)
        done = self.report.embedded + len(entries)
        remaining = self.report.remaining - len(entries)
        self.report = replace(self.report, embedded=done, remaining=remaining, complete=remaining == 0)

    async def _vectors(self, entries: list[IndexEntry]) -> Vector:
        """Those of the shared table where it holds them in this space already, else new ones."""
        vectors = np.zeros((len(entries), self._space.space.dimension), dtype=np.float32)
        known = await self._index.mirrored(entries)
        for position, vector in known.items():
            vectors[position] = vector
        if missing := [n for n in range(len(entries)) if n not in known]:
            vectors[missing] = await self._space.embed([entries[n].text for n in missing])
        return vectors

    async def _index_words(self, entries: list[IndexEntry]) -> None:
        """Let the lessons that cannot be embedded now be found by their words until they are."""
        known = await self._store.ids(self._index.main)
        unknown = [entry for entry in entries if PATTERN + storable(entry.key) not in known]
        for start in range(0, len(unknown), _LARGEST_BATCH):
            part = unknown[start : start + _LARGEST_BATCH]
            async with self._store.exclusive():
                kept = [part[n] for n in await still_there(self._store, part)]
                for collection, records in self._index.rows(kept, None).items():
                    await self._store.upsert(collection, records)

    async def _finish(self, lessons: int) -> None:
        """Write the marker last; as an upsert it collapses the several that the TypeScript program leaves."""
        async with self._store.exclusive():
            excess = await _excess(self._store, self._index)
            marker = Marker(str(self._index.space), iso(self._began_at), lessons, excess)
            await self._store.upsert(SHARED, [marker_record(marker)])


def _missing(book: LessonBook, present: Mapping[str, str]) -> list[IndexEntry]:
    """What is not indexed yet, with the key each goes under; a key that holds another pattern is left to it."""
    by_text = {text: id_ for id_, text in present.items()}
    lessons = [lesson for pattern, lesson in book.active.items() if storable(pattern) not in by_text]
    wanted = {storable(pattern) for pattern in book.lessons}
    # The key of an archived lesson is kept for it: it goes back there when it is restored.
    taken = {lesson_key(lesson.id): lesson.pattern for lesson in book.archived}
    taken |= {id_.removeprefix(PATTERN): text for id_, text in present.items() if text in wanted}
    entries = []
    # What only a pattern row knows keeps that row's key, since in the shared table another row would overwrite
    # it; then the plain key goes to the lesson that has it in long-term memory.
    for lesson in sorted(
        lessons, key=lambda one: (one.pattern not in book.orphans, "~" in lesson_key(one.id), one.id)
    ):
        key, _ = choose_key(lesson.pattern, taken)
        taken[key] = lesson.pattern
        entries.append(IndexEntry.of(lesson, key=key, orphan=lesson.pattern in book.orphans))
    return entries
