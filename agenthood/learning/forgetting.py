"""Forgetting a lesson: out of long-term memory, every index, residual memory and every old version on disk.

It takes many steps, so what is under way is noted in the store first, by ids and never by text: killed at any of
them, it is finished at the next opening, upkeep or forgetting.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError, StoreError
from agenthood.formats import EPISODE, FOLDERS, LTM, PATTERN, loads_object, storable, utc_now
from agenthood.learning.lessons import LESSON_ROWS, PATTERN_ROWS, lesson_from, lesson_key
from agenthood.memory.episodic import episode_from
from agenthood.memory.long_term import long_term_record
from agenthood.memory.residual import BRIEF_LOCK_SECONDS
from agenthood.records import Forgotten, Lesson
from agenthood.stores.base import SHARED
from agenthood.stores.filters import AnyOf, Equals, StartsWith

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.memory.residual import ResidualMemory
    from agenthood.stores.base import Collection, VectorStore

UNFINISHED_KEY = "learner/forgetting"
"""The key of long-term memory that tells of a forgetting under way."""

_UNFINISHED = LTM + UNFINISHED_KEY
_LESSON_IDS = tuple(LTM + folder for folder in FOLDERS.values())


@dataclass(slots=True)
class _Doomed:
    """What is to go.

    Attributes:
        lessons: the lessons, by the id asked for.
        unusable: ids asked for whose row holds no usable lesson.
        missing: ids asked for that no lesson has.
        rows: ids in the shared table.
        episodes: ids of episodes.
        signals: texts of which residual memory may have signals.
    """

    lessons: dict[str, Lesson] = field(default_factory=dict)
    unusable: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    rows: set[str] = field(default_factory=set)
    episodes: set[str] = field(default_factory=set)
    signals: set[str] = field(default_factory=set)

    def holds(self, lesson: Lesson) -> bool:
        """Whether `lesson` is one of those to go, under whatever of its keys."""
        pattern = storable(lesson.pattern)
        return any(
            (one.kind, storable(one.pattern)) == (lesson.kind, pattern) for one in self.lessons.values()
        )


async def forget(
    store: VectorStore, ids: Sequence[str], *, episodes: bool = False, residual: ResidualMemory | None = None
) -> Forgotten:
    """Remove lessons so that neither a look-up nor a search through the store's files finds them.

    Args:
        store: the store.
        ids: ids of lessons.
        episodes: also remove the episodes they cite, and those with a text that no other lesson has; they stay
            otherwise.
        residual: the residual memory to remove their signals from, and those of their episodes.

    Returns:
        What was removed, and the ids that no lesson has.

    Raises:
        InvalidInputError: an id that is no text.
        StoreError: the store or residual memory could not be written. Forgetting again goes on where it stopped.
    """
    for id_ in ids:
        if not isinstance(id_, str):
            raise InvalidInputError(f"{id_!r:.80} is no id: give each as text, such as forget(*ids)")
    async with store.exclusive():
        await _finish(store, residual)
        doomed = await _find(store, ids, episodes=episodes)
        signals = await _remove(store, doomed, residual, episodes=episodes)
    gone = (*doomed.lessons, *doomed.unusable)
    return Forgotten(gone, tuple(sorted(doomed.episodes)), signals, tuple(doomed.missing))


async def finish(store: VectorStore, *, residual: ResidualMemory | None = None) -> bool:
    """Finish a forgetting that was interrupted; whether there was one.

    Raises:
        StoreError: as `forget`.
    """
    if _UNFINISHED not in await store.get(SHARED, [_UNFINISHED]):
        return False
    async with store.exclusive():
        return await _finish(store, residual)


async def _finish(store: VectorStore, residual: ResidualMemory | None) -> bool:
    """As `finish`, for whoever holds the lock: nobody else is forgetting then."""
    row = (await store.get(SHARED, [_UNFINISHED])).get(_UNFINISHED)
    if row is None:
        return False
    body = loads_object(row.content)
    episodes = body.get("withEpisodes") is True
    doomed = await _find(store, _texts(body.get("lessons")), episodes=episodes)
    doomed.rows |= set(_texts(body.get("rows")))
    await _remove(store, doomed, residual, episodes=episodes, resumed=True)
    return True


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


async def _remove(
    store: VectorStore,
    doomed: _Doomed,
    residual: ResidualMemory | None,
    *,
    episodes: bool,
    resumed: bool = False,
) -> int:
    """Remove what is doomed; returns how many residual signals went.

    What the steps need to find the rest, the lessons' own rows, goes last but for the old versions on disk.
    """
    rows = sorted(doomed.rows | doomed.episodes)
    signals = 0
    if residual is not None and doomed.signals:
        # First: if another process holds its lock, nothing has been changed. In a thread: the wait is a blocking one.
        signals = await asyncio.to_thread(residual.forget, doomed.signals, timeout=BRIEF_LOCK_SECONDS)
    if not rows and not resumed:
        return signals
    note = {"lessons": [*doomed.lessons, *doomed.unusable], "withEpisodes": episodes, "rows": rows}
    await _note(store, note)
    if doomed.lessons or resumed:
        for collection in await store.collections():
            # Seen by itself a scope's collection is not `scoped`; of those that are the records are others'.
            if collection.typed and not collection.scoped:
                await store.purge(collection, await _pattern_rows(store, collection, doomed))
    await store.delete(SHARED, rows)
    # From here on only old versions are left, and a note with ids would outlive them; a lesson learned anew stays.
    await _note(store, {})
    await store.purge(SHARED, [])
    await store.delete(SHARED, [_UNFINISHED])
    return signals


async def _note(store: VectorStore, value: dict[str, Any]) -> None:
    result = await store.upsert(SHARED, [long_term_record(UNFINISHED_KEY, value, at=utc_now())])
    if result.rejected:
        raise StoreError(f"the store refused {_UNFINISHED!r}: {result.rejected[0].reason}")


async def _find(store: VectorStore, ids: Sequence[str], *, episodes: bool) -> _Doomed:
    doomed = await _find_lessons(store, ids)
    if doomed.lessons:
        others = await _mark_rows(store, doomed)
        await _mark_episodes(store, doomed, others, remove=episodes)
    return doomed


async def _find_lessons(store: VectorStore, ids: Sequence[str]) -> _Doomed:
    doomed = _Doomed()
    wanted = [id_ for id_ in dict.fromkeys(ids) if id_.startswith(_LESSON_IDS)]
    doomed.missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in wanted]
    found = await store.get(SHARED, [*wanted, *(PATTERN + lesson_key(id_) for id_ in wanted)])
    for id_ in wanted:
        row = found.get(id_) or found.get(PATTERN + lesson_key(id_))
        lesson = lesson_from(row) if row is not None else None
        if lesson is not None and lesson.id == id_:
            doomed.lessons[id_] = lesson
        elif id_ in found:
            doomed.unusable.append(id_)
            doomed.rows.add(id_)
        else:
            doomed.missing.append(id_)
    return doomed


async def _mark_rows(store: VectorStore, doomed: _Doomed) -> set[str]:
    """Mark every row that holds a doomed lesson; returns the texts of the other lessons."""
    others: set[str] = set()
    async for batch in store.scan(SHARED, condition=AnyOf((LESSON_ROWS, PATTERN_ROWS))):
        for row in batch:
            lesson = lesson_from(row)
            if lesson is not None and doomed.holds(lesson):
                doomed.rows.add(row.id)
            elif lesson is not None:
                others.add(lesson.text)
    return others


async def _mark_episodes(store: VectorStore, doomed: _Doomed, others: set[str], *, remove: bool) -> None:
    """Mark the signals of the lessons and their episodes, and, if they are to `remove`, the episodes themselves."""
    texts = {lesson.text for lesson in doomed.lessons.values()}
    own = texts - others
    doomed.signals |= texts
    cited = {id_ for lesson in doomed.lessons.values() for id_ in lesson.episodes}
    async for batch in store.scan(SHARED, condition=StartsWith("id", EPISODE)):
        for row in batch:
            episode = episode_from(row)
            named = episode.details.get("lesson")
            # Whose an episode is that names no lesson only its text tells; another lesson with the same may have it.
            theirs = episode.episode in own if named is None else str(named) in doomed.lessons
            if theirs or row.id in cited:
                doomed.signals.add(episode.episode)
                if remove:
                    doomed.episodes.add(row.id)


async def _pattern_rows(store: VectorStore, collection: Collection, doomed: _Doomed) -> list[str]:
    patterns = {storable(lesson.pattern) for lesson in doomed.lessons.values()}
    if not patterns:
        return []
    condition = AnyOf(tuple(Equals("content", pattern) for pattern in sorted(patterns)))
    return sorted(await store.ids(collection, condition=condition))
