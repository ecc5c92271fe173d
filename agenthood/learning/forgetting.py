"""Forgetting a lesson: out of long-term memory, every index, residual memory and every old version on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agenthood.formats import EPISODE, LTM, PATTERN, storable
from agenthood.learning.lessons import lesson_from, lesson_id, lesson_key
from agenthood.learning.rules import candidate_keys
from agenthood.memory.episodic import episode_from
from agenthood.records import Forgotten, Lesson
from agenthood.stores.base import SHARED
from agenthood.stores.filters import StartsWith

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.memory.residual import ResidualMemory
    from agenthood.stores.base import VectorStore


@dataclass(slots=True)
class _Doomed:
    """What is to go.

    Attributes:
        shared: ids in the shared table.
        patterns: ids in tables of our own.
        lessons: the lessons themselves.
        rows: ids asked for that hold no usable lesson but exist.
        missing: ids asked for that nothing has.
    """

    shared: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    lessons: dict[str, Lesson] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


async def forget(
    store: VectorStore, ids: Sequence[str], *, episodes: bool = False, residual: ResidualMemory | None = None
) -> Forgotten:
    """Remove lessons so that neither a look-up nor a search through the store's files finds them.

    Args:
        store: the store.
        ids: ids of lessons.
        episodes: also remove the episodes they cite and those with the same text; they stay otherwise.
        residual: the residual memory to remove their signals from.

    Returns:
        What was removed, and the ids that no lesson has.

    Raises:
        StoreError: the store could not be written; what was removed until then stays removed.
    """
    async with store.exclusive():
        doomed = await _find(store, ids)
        gone: set[str] = set()
        if episodes:
            gone = await _episodes_of(store, list(doomed.lessons.values()))
        if doomed.shared or gone:
            await store.purge(SHARED, sorted(doomed.shared | gone))
            for collection in await store.collections():
                if collection.typed:
                    await store.purge(collection, sorted(doomed.patterns))
    signals = 0
    if residual is not None:
        texts = {lesson.text for lesson in doomed.lessons.values()}
        signals = sum(residual.forget(text) for text in sorted(texts))
    return Forgotten((*doomed.lessons, *doomed.rows), tuple(sorted(gone)), signals, tuple(doomed.missing))


async def _find(store: VectorStore, ids: Sequence[str]) -> _Doomed:
    doomed = _Doomed()
    found = await store.get(SHARED, [*ids, *(PATTERN + lesson_key(id_) for id_ in ids if "/" in id_)])
    for id_ in dict.fromkeys(ids):
        row = found.get(id_) or found.get(PATTERN + lesson_key(id_))
        lesson = lesson_from(row) if row is not None else None
        if not id_.startswith(LTM) or row is None:
            doomed.missing.append(id_)
        elif lesson is None:
            doomed.rows.append(id_)
            doomed.shared.add(id_)
        else:
            doomed.lessons[id_] = lesson
            await _mark(store, lesson, doomed)
    return doomed


async def _mark(store: VectorStore, lesson: Lesson, doomed: _Doomed) -> None:
    """Every row that holds the lesson's pattern, under whatever of its keys."""
    keys = {lesson_key(lesson.id), *candidate_keys(lesson.pattern)}
    long_term = [lesson_id(lesson.kind, key) for key in keys]
    patterns = [PATTERN + key for key in keys]
    for id_, row in (await store.get(SHARED, [*long_term, *patterns])).items():
        held = lesson_from(row)
        if held is not None and storable(held.pattern) == storable(lesson.pattern):
            doomed.shared.add(id_)
    for collection in await store.collections():
        if collection.typed:
            rows = await store.get(collection, patterns)
            doomed.patterns |= {id_ for id_, row in rows.items() if row.content == storable(lesson.pattern)}


async def _episodes_of(store: VectorStore, lessons: Sequence[Lesson]) -> set[str]:
    cited = {id_ for lesson in lessons for id_ in lesson.episodes}
    texts = {lesson.text for lesson in lessons}
    found = set()
    async for batch in store.scan(SHARED, condition=StartsWith("id", EPISODE)):
        found |= {row.id for row in batch if row.id in cited or episode_from(row).episode in texts}
    return found
