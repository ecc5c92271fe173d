"""Pinning, archiving and restoring: lessons change in long-term memory first, then what look-ups find follows.

An archived lesson keeps its long-term row with all its evidence; only its rows in the pattern index go. Killed in
between, the next migration finishes it: it removes what is archived from the index and adds what is missing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from agenthood.errors import EmbeddingError, InvalidInputError, StoreError
from agenthood.formats import FOLDERS, LTM, PATTERN, storable
from agenthood.learning.lessons import lesson_from, lesson_key, lesson_record
from agenthood.learning.patterns import IndexEntry, still_there
from agenthood.learning.rules import candidate_keys
from agenthood.records import Changed, Lesson
from agenthood.stores.base import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.spaces import ActiveSpace
    from agenthood.stores.base import Record, VectorStore

BATCH = 500
"""How many lessons change in one commit."""

T = TypeVar("T")
_LESSON_IDS = tuple(LTM + folder for folder in FOLDERS.values())


def pinned(lesson: Lesson) -> Lesson:
    """`lesson` as one that upkeep leaves alone; an archived one is restored, as nobody would find it else."""
    return replace(restored(lesson), pinned=True)


def unpinned(lesson: Lesson) -> Lesson:
    """`lesson` as one that upkeep may move."""
    return replace(lesson, pinned=False)


def archived(lesson: Lesson) -> Lesson:
    """`lesson` out of look-ups; it is not pinned any more."""
    return replace(lesson, tier="archive", pinned=False)


def restored(lesson: Lesson) -> Lesson:
    """`lesson` back in look-ups, as a new one; one that is not archived stays as it is."""
    return replace(lesson, tier="working") if lesson.archived else lesson


async def change(  # noqa: PLR0913  what a change touches
    store: VectorStore,
    index: EmbeddingIndex,
    space: ActiveSpace,
    ids: Sequence[str],
    alter: Callable[[Lesson], Lesson],
    *,
    now: datetime,
) -> Changed:
    """Change lessons by their ids, and what look-ups find with them.

    Args:
        store: the store.
        index: the pattern index.
        space: what embeds lessons that are restored.
        ids: ids of lessons.
        alter: gives the lesson as it is to be; an equal one is left alone.
        now: the time of the change.

    Raises:
        InvalidInputError: an id that is no text.
        StoreError: the store could not be written; what was changed until then stays.
    """
    for id_ in ids:
        if not isinstance(id_, str):
            raise InvalidInputError(f"{id_!r:.80} is no id: give each as text, such as pin(*ids)")
    done: list[str] = []
    unchanged: list[str] = []
    back: list[Lesson] = []
    wanted = list(dict.fromkeys(ids))
    for part in batches(wanted):
        async with store.exclusive():
            found = await _find(store, part)
            after = {id_: alter(lesson) for id_, lesson in found.items()}
            changed = [after[id_] for id_ in found if after[id_] != found[id_]]
            await write(store, changed, at=now)
            await unindex(store, index, [one for one in changed if one.archived])
        done += [one.id for one in changed]
        unchanged += [id_ for id_ in found if after[id_] == found[id_]]
        back += [one for one in changed if found[one.id].archived and not one.archived]
    pending, reason = await reindex(store, index, space, back)
    known = {*done, *unchanged}
    missing = tuple(id_ for id_ in wanted if id_ not in known)
    return Changed(tuple(done), tuple(unchanged), missing, pending, reason)


async def _find(store: VectorStore, ids: Sequence[str]) -> dict[str, Lesson]:
    """The lessons with these ids, also those that only a pattern row knows, in the order of `ids`."""
    wanted = [id_ for id_ in ids if id_.startswith(_LESSON_IDS)]
    rows = await store.get(SHARED, [*wanted, *(PATTERN + lesson_key(id_) for id_ in wanted)])
    found: dict[str, Lesson] = {}
    for id_ in wanted:
        row = rows.get(id_)
        if row is None and (orphan := rows.get(PATTERN + lesson_key(id_))) is not None:
            row = None if "lesson" in orphan.metadata else orphan
        lesson = lesson_from(row) if row is not None else None
        if lesson is not None and lesson.id == id_:
            found[id_] = lesson
    return found


async def write(store: VectorStore, lessons: Sequence[Lesson], *, at: datetime) -> None:
    """Write lessons to long-term memory, in one commit.

    Raises:
        StoreError: the store could not be written, or refused one.
    """
    if not lessons:
        return
    result = await store.upsert(SHARED, [lesson_record(lesson, at=at) for lesson in lessons])
    if result.rejected:
        raise StoreError(f"the store refused {result.rejected[0].id!r:.120}: {result.rejected[0].reason}")


async def unindex(store: VectorStore, index: EmbeddingIndex, lessons: Sequence[Lesson]) -> None:
    """Take lessons out of the pattern index; rows of the TypeScript program, which name no space, stay."""
    if not lessons:
        return
    owners = {row_id: lesson for lesson in lessons for row_id in index_ids(lesson)}
    # The table that the migration compares with long-term memory goes last: as long as it has the rows, they are told.
    for collection in (index.mirror, index.main):
        if collection is None:
            continue
        rows = await store.get(collection, sorted(owners))
        doomed = [
            id_ for id_, row in rows.items() if _stands_for(row, owners[id_]) and "space" in row.metadata
        ]
        if doomed:
            await store.delete(collection, doomed)


def index_ids(lesson: Lesson) -> set[str]:
    """The ids that the index row of a lesson may have."""
    return {PATTERN + storable(key) for key in (lesson_key(lesson.id), *candidate_keys(lesson.pattern))}


def _stands_for(row: Record, lesson: Lesson) -> bool:
    # Old stores may hold a pattern twice, under two keys: the row is that of the lesson it names, if it names one.
    own = storable(lesson.id)
    return row.content == storable(lesson.pattern) and row.metadata.get("lesson", own) == own


async def still_archived(store: VectorStore, lessons: Iterable[Lesson]) -> list[Lesson]:
    """Those of the lessons that are archived on the store now."""
    known = {lesson.id: lesson for lesson in lessons}
    rows = await store.get(SHARED, sorted(known))
    now = [lesson for row in rows.values() if (lesson := lesson_from(row)) is not None]
    return [known[lesson.id] for lesson in now if lesson.archived]


async def reindex(
    store: VectorStore, index: EmbeddingIndex, space: ActiveSpace, lessons: Sequence[Lesson]
) -> tuple[int, str]:
    """Put restored lessons into the pattern index; how many must wait for an embedder, and why."""
    pending, reason = 0, ""
    for part in batches(lessons):
        entries = [IndexEntry.of(lesson) for lesson in part]
        try:
            vectors = await space.embed([entry.text for entry in entries])
            index.calibration = space.calibration
        except EmbeddingError as exc:
            vectors, reason = None, str(exc)
            pending += len(entries)
        async with store.exclusive():
            kept = await still_there(store, entries)
            semantic = None if vectors is None else vectors[kept]
            for collection, records in index.rows([entries[n] for n in kept], semantic).items():
                result = await store.upsert(collection, records)
                pending += 0 if vectors is None else len(result.rejected)
                reason = reason or next((one.reason for one in result.rejected), "")
    return pending, reason


def batches(items: Sequence[T], size: int = BATCH) -> Iterator[Sequence[T]]:
    """`items` in parts of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
