"""Forgetting a lesson: out of long-term memory, every index, residual memory and every old version on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agenthood.formats import EPISODE, FOLDERS, LTM, PATTERN, storable
from agenthood.learning.lessons import LESSON_ROWS, PATTERN_ROWS, lesson_from, lesson_key
from agenthood.memory.episodic import episode_from
from agenthood.records import Forgotten, Lesson
from agenthood.stores.base import SHARED
from agenthood.stores.filters import AnyOf, Equals, StartsWith

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.memory.residual import ResidualMemory
    from agenthood.stores.base import Collection, VectorStore

_LESSON_IDS = tuple(LTM + folder for folder in FOLDERS.values())


@dataclass(slots=True)
class _Doomed:
    """What is to go.

    Attributes:
        lessons: the lessons, by the id asked for.
        unusable: ids asked for whose row holds no usable lesson.
        missing: ids asked for that no lesson has.
        rows: ids in the shared table.
        episodes: episode id -> its text.
    """

    lessons: dict[str, Lesson] = field(default_factory=dict)
    unusable: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    rows: set[str] = field(default_factory=set)
    episodes: dict[str, str] = field(default_factory=dict)

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
        residual: the residual memory to remove their signals from.

    Returns:
        What was removed, and the ids that no lesson has.

    Raises:
        StoreError: the store could not be written. Forgetting again goes on: the lesson's own rows go last.
    """
    signals = 0
    async with store.exclusive():
        doomed = await _find(store, ids)
        others = await _mark_rows(store, doomed)
        if episodes:
            await _mark_episodes(store, doomed, others)
        if doomed.lessons:
            for collection in await store.collections():
                if collection.typed:
                    await store.purge(collection, await _pattern_rows(store, collection, doomed))
        if residual is not None:
            texts = {lesson.text for lesson in doomed.lessons.values()} | set(doomed.episodes.values())
            signals = sum(residual.forget(text) for text in sorted(texts))
        if doomed.rows or doomed.episodes:
            await store.purge(SHARED, sorted(doomed.rows | set(doomed.episodes)))
    gone = (*doomed.lessons, *doomed.unusable)
    return Forgotten(gone, tuple(sorted(doomed.episodes)), signals, tuple(doomed.missing))


async def _find(store: VectorStore, ids: Sequence[str]) -> _Doomed:
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


async def _mark_episodes(store: VectorStore, doomed: _Doomed, others: set[str]) -> None:
    cited = {id_ for lesson in doomed.lessons.values() for id_ in lesson.episodes}
    # Whose an episode is that names no lesson only its text tells; another lesson with the same may have it.
    texts = {lesson.text for lesson in doomed.lessons.values()} - others
    async for batch in store.scan(SHARED, condition=StartsWith("id", EPISODE)):
        for row in batch:
            episode = episode_from(row)
            named = episode.details.get("lesson")
            if row.id in cited or named in doomed.lessons or (named is None and episode.episode in texts):
                doomed.episodes[row.id] = episode.episode


async def _pattern_rows(store: VectorStore, collection: Collection, doomed: _Doomed) -> list[str]:
    patterns = {storable(lesson.pattern) for lesson in doomed.lessons.values()}
    condition = AnyOf(tuple(Equals("content", pattern) for pattern in sorted(patterns)))
    return sorted(await store.ids(collection, condition=condition))
