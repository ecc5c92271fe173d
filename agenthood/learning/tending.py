"""Upkeep of lessons: uses are counted, tiers follow the rules of `salience`, and a bound on their number is kept.

Decisions are made on a scan without a lock; each batch is decided on again under it, on the rows as they are then,
and long-term memory is written before the index. Killed at any point, the next upkeep or migration goes on.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from agenthood.formats import LTM, iso, loads_object
from agenthood.learning.archiving import archived, batches, restored, unindex, write
from agenthood.learning.lessons import LESSON_ROWS, lesson_from
from agenthood.learning.rules import MAX_COUNT
from agenthood.learning.salience import expendable, next_tier, read_time
from agenthood.memory.long_term import long_term_record
from agenthood.records import TIERS, Lesson, Tidied
from agenthood.stores.base import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.memory.uses import UseLog
    from agenthood.stores.base import Record, VectorStore

UPKEEP_KEY = "learner/upkeep"
"""The key of long-term memory that says since when lessons are looked after."""
_USED = 4_000
"""Lessons whose uses are counted in one commit: the lock is held for all of them, so few commits."""


async def tend(
    store: VectorStore,
    index: EmbeddingIndex,
    uses: UseLog,
    *,
    now: datetime,
    max_lessons: int | None = None,
) -> Tidied:
    """Count uses, promote, demote and archive lessons, and keep their number within bounds.

    Args:
        store: the store.
        index: the pattern index; what is restored is left for the migration to add.
        uses: the uses noted since the last time.
        now: the time of the upkeep.
        max_lessons: how many lessons may stay in look-ups, pinned ones among them; None for any number.

    Returns:
        What was done.

    Raises:
        StoreError: the store or the uses could not be read or written; the next upkeep goes on.
    """
    counted = await count_uses(store, uses, now=now)
    run = _Run(store, index, now, await _since(store, now))
    await run.move()
    if max_lessons is not None:
        await run.keep(max_lessons)
    return replace(run.report(), uses=counted)


async def _since(store: VectorStore, now: datetime) -> datetime:
    """When the first upkeep of lessons was: on an older store nobody had counted uses until then."""
    id_ = LTM + UPKEEP_KEY
    row = (await store.get(SHARED, [id_])).get(id_)
    since = read_time(str(loads_object(row.content).get("since"))) if row is not None else None
    if since is None:
        await store.upsert(SHARED, [long_term_record(UPKEEP_KEY, {"since": iso(now)}, at=now)])
    return since or now


async def count_uses(store: VectorStore, uses: UseLog, *, now: datetime) -> int:
    """Count the noted uses into the lessons and remove them; returns how many there were.

    Doing it twice counts nothing twice: a use dated no later than the last one of its lesson is counted already.

    Raises:
        StoreError: as `tend`.
    """
    counted = 0
    async with store.exclusive():
        for noted in uses.claimed():
            for part in batches(sorted(noted), _USED):
                rows = await store.get(SHARED, part)
                used = [
                    _used(lesson, noted[lesson.id], now)
                    for row in rows.values()
                    if (lesson := lesson_from(row)) is not None
                ]
                await write(store, [lesson for lesson, count in used if count], at=now)
                counted += sum(count for _, count in used)
    return counted


def _used(lesson: Lesson, times: Sequence[str], now: datetime) -> tuple[Lesson, int]:
    """`lesson` with its new uses, and how many these are."""
    latest = iso(now)  # no clock that ran ahead may keep later uses from being counted
    new = [min(at, latest) for at in times if at > lesson.last_used]
    if not new:
        return lesson, 0
    return replace(lesson, uses=min(MAX_COUNT, lesson.uses + len(new)), last_used=max(new)), len(new)


@dataclass(slots=True)
class _Run:
    """One upkeep.

    Attributes:
        store: the store.
        index: the pattern index.
        now: its time.
        since: the time of the first one.
        done: what it did -> how often.
        active: how many lessons are in look-ups, as far as it has seen.
    """

    store: VectorStore
    index: EmbeddingIndex
    now: datetime
    since: datetime
    done: Counter[str] = field(default_factory=Counter)
    active: int = 0

    async def move(self) -> None:
        """Give every lesson the tier it belongs in."""
        due: list[str] = []
        async for rows in self.store.scan(SHARED, condition=LESSON_ROWS):
            for row in rows:
                moved = self._moved(row)
                due += [] if moved is None else [row.id]
                lesson = moved or lesson_from(row)
                self.active += lesson is not None and not lesson.archived
        await self._change(due, self._moved)

    def _moved(self, row: Record) -> Lesson | None:
        """The lesson of a row in another tier; None if it belongs where it is."""
        lesson = lesson_from(row)
        if lesson is None:
            return None
        if lesson.pinned and lesson.archived:  # as an import may bring it
            return restored(lesson)
        written = max(self.since, read_time(row.created_at) or self.since)
        tier = next_tier(lesson, self.now, written=written)
        return replace(lesson, tier=tier) if tier != lesson.tier else None

    async def keep(self, most: int) -> None:
        """Archive the least salient lessons above `most`; unconfirmed ones first, pinned ones never."""
        surplus = self.active - most
        if surplus <= 0:
            return
        keys: list[tuple[bool, float, str]] = []
        async for rows in self.store.scan(SHARED, condition=LESSON_ROWS):
            found = [key for row in rows if (key := self._expendable(row)) is not None]
            keys = heapq.nsmallest(surplus, [*keys, *found])
        least = {key[-1]: key for key in keys}

        def spared(row: Record) -> Lesson | None:
            # What was learned or used meanwhile is worth more than it was when it was chosen.
            key, lesson = self._expendable(row), lesson_from(row)
            return (
                archived(lesson) if key is not None and lesson is not None and key <= least[row.id] else None
            )

        await self._change(list(least), spared)

    def _expendable(self, row: Record) -> tuple[bool, float, str] | None:
        lesson = lesson_from(row)
        return None if lesson is None or lesson.pinned or lesson.archived else expendable(lesson, self.now)

    async def _change(self, ids: Sequence[str], decide: Callable[[Record], Lesson | None]) -> None:
        for part in batches(ids):
            async with self.store.exclusive():
                rows = await self.store.get(SHARED, part)
                before = {
                    id_: lesson for id_, row in rows.items() if (lesson := lesson_from(row)) is not None
                }
                changed = [lesson for row in rows.values() if (lesson := decide(row)) is not None]
                await write(self.store, changed, at=self.now)
                await unindex(self.store, self.index, [lesson for lesson in changed if lesson.archived])
            self.done.update(_name(before[lesson.id], lesson) for lesson in changed)

    def report(self) -> Tidied:
        """The counts."""
        return Tidied(**self.done)


def _name(before: Lesson, after: Lesson) -> str:
    if after.archived or before.archived:
        return "archived" if after.archived else "restored"
    return "promoted" if TIERS.index(after.tier) > TIERS.index(before.tier) else "demoted"
