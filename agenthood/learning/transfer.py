"""Export and import of everything a store knows, as JSON lines that a person can read.

Lines have a `type`: `lesson`, `episode`, or `memory` for any other key of long-term memory. Importing is
idempotent: evidence that is there already is not counted twice.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from agenthood.errors import EmbeddingError, InvalidInputError, StoreError
from agenthood.formats import EPISODE, LTM, dumps, utc_now
from agenthood.learning import rules
from agenthood.learning.lessons import LESSON_ROWS, lesson_record, read_book
from agenthood.learning.lines import OWN_KEYS, parse
from agenthood.learning.patterns import IndexEntry, still_there
from agenthood.learning.placing import Held, look_up
from agenthood.learning.reading import GatheredReads
from agenthood.memory.episodic import episode_from
from agenthood.records import Imported, Lesson
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import AllOf, Not, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.spaces import ActiveSpace
    from agenthood.stores.base import Vector, VectorStore

_BATCH = 500
_log = logging.getLogger("agenthood")

_Item: TypeAlias = tuple[int, Lesson | Record]  # with the number of its line


async def export(store: VectorStore, file: TextIO) -> int:
    """Write every lesson, episode and other memory to `file` as JSON lines; returns how many lines.

    Raises:
        InvalidInputError: `file` cannot be written text to.
        StoreError: the store cannot be read.
    """
    _check_writable(file)
    lines = 0
    async for line in _exported(store):
        file.write(dumps(line) + "\n")
        lines += 1
    return lines


def _check_writable(file: TextIO) -> None:
    try:
        file.write("")
    except (AttributeError, TypeError, io.UnsupportedOperation) as exc:  # no file, one of bytes, one to read
        raise InvalidInputError(
            f"file is {file!r:.80}: give a file opened for writing text, such as open(path, 'w', encoding='utf-8')"
        ) from exc


async def _exported(store: VectorStore) -> Any:  # noqa: ANN401  an async iterator of JSON objects
    book = await read_book(store)
    for lesson in sorted(book.lessons.values(), key=lambda one: one.id):
        yield {"type": "lesson"} | lesson.to_dict()
    async for batch in store.scan(SHARED, condition=StartsWith("id", EPISODE)):
        for record in batch:
            yield {"type": "episode"} | episode_from(record).to_dict()
    others = AllOf((StartsWith("id", LTM), Not(LESSON_ROWS)))
    async for batch in store.scan(SHARED, condition=others):
        for record in batch:
            key = record.id.removeprefix(LTM)
            if not key.startswith(OWN_KEYS):
                yield {"type": "memory", "key": key, "value": _json_or_text(record.content)}


def _json_or_text(content: str) -> Any:  # noqa: ANN401  any JSON value
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


@dataclass(slots=True)
class _Outcome:
    stored: int = 0
    merged: int = 0
    skipped: int = 0
    pending: int = 0
    reason: str = ""
    rejected: list[tuple[int, str]] = field(default_factory=list)

    def report(self) -> Imported:
        return Imported(
            self.stored, self.merged, self.skipped, tuple(sorted(self.rejected)), self.pending, self.reason
        )

    def leave(self, count: int, reason: str) -> None:
        """Note that so many lessons cannot be found by meaning yet."""
        if count:
            self.pending += count
            self.reason = self.reason or reason
            _log.warning("%d imported lessons are not indexed yet: %s", count, reason)


async def import_lines(
    store: VectorStore,
    index: EmbeddingIndex,
    space: ActiveSpace,
    lines: Iterable[str],
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Import what `export` wrote.

    Args:
        store: the store to import into.
        index: its pattern index.
        space: what embeds; if it cannot, the lessons are pending until the next migration.
        lines: JSON lines; blank ones are skipped, bad ones reported with their number.
        on_progress: called with (lines done, 0) after each batch; the total is not known.

    Raises:
        StoreError: the store could not be written; what was imported until then stays, and importing again goes on.
    """
    outcome = _Outcome()
    done = 0
    for batch in _batches(_parsed(lines, outcome)):
        async with store.exclusive():
            entries = await _import_batch(store, batch, outcome)
        if entries:
            await _index(store, index, entries, await _vectors(space, entries, outcome), outcome)
        done += len(batch)
        if on_progress is not None:
            on_progress(done, 0)
    return outcome.report()


def _parsed(lines: Iterable[str], outcome: _Outcome) -> Iterator[_Item]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, parse(line)
        except InvalidInputError as exc:
            outcome.rejected.append((number, str(exc)))


def _batches(items: Iterator[_Item]) -> Iterator[list[_Item]]:
    batch: list[_Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _import_batch(store: VectorStore, batch: list[_Item], outcome: _Outcome) -> list[IndexEntry]:
    """Write the lessons, episodes and memories of a batch; returns what is to be indexed."""
    records = [item for _, item in batch if isinstance(item, Record)]
    known = await store.get(SHARED, [record.id for record in records])
    fresh = {record.id: record for record in records if record.id not in known}
    outcome.stored += len(fresh)
    outcome.skipped += len(records) - len(fresh)
    lessons = [(number, item) for number, item in batch if isinstance(item, Lesson)]
    held = Held()
    await look_up(GatheredReads(store, SHARED), held, [lesson.pattern for _, lesson in lessons])
    changed, entries = _placed(held, lessons, outcome)
    rows = [*fresh.values(), *(lesson_record(lesson, at=utc_now()) for lesson in changed.values())]
    result = await store.upsert(SHARED, rows)
    if result.rejected:
        raise StoreError(f"the store refused {result.rejected[0].id!r:.120}: {result.rejected[0].reason}")
    return entries


def _placed(
    held: Held, lessons: list[tuple[int, Lesson]], outcome: _Outcome
) -> tuple[dict[str, Lesson], list[IndexEntry]]:
    """Each lesson under its key: new, or with its unseen evidence added to the one that is there."""
    changed: dict[str, Lesson] = {}
    entries = []
    for number, lesson in lessons:
        try:
            place = held.place(lesson.kind, lesson.member, lesson.skill, lesson.pattern)
        except InvalidInputError as exc:
            outcome.rejected.append((number, str(exc)))
            continue
        placed = replace(lesson, id=place.id) if place.known is None else _joined(place.known, lesson)
        if placed is None:
            outcome.skipped += 1
            continue
        held.put(placed)
        changed[placed.id] = placed
        if place.known is None:
            outcome.stored += 1
        else:
            outcome.merged += 1
        if not placed.archived and (place.known is None or place.known.archived):
            entries.append(IndexEntry.of(placed))
    return changed, entries


def _joined(known: Lesson, imported: Lesson) -> Lesson | None:
    """`known` with what `imported` adds; None if it adds nothing."""
    unseen = tuple(id_ for id_ in imported.episodes if id_ not in known.episodes)
    disjoint = len(unseen) == len(imported.episodes)
    added = imported.evidence if disjoint and unseen else len(unseen)
    later = disjoint and _may_be_one(known, imported)
    if later:
        # An earlier or later state of the same lesson, of which both cite only the latest episodes.
        added = imported.evidence - known.evidence
    if added <= 0:
        return None
    count = min(rules.MAX_COUNT, known.evidence + added)
    return replace(
        known,
        evidence=count,
        mean=imported.mean if later else known.mean + (imported.mean - known.mean) * added / count,
        episodes=(*known.episodes, *unseen)[-rules.MAX_CITED :],
        first_seen=min(known.first_seen, imported.first_seen),
        last_seen=max(known.last_seen, imported.last_seen),
        outcome=known.outcome or imported.outcome,
        # New evidence restores an archived lesson, as learning does, unless it comes from an archive itself.
        tier="working" if known.archived and not imported.archived else known.tier,
        uses=max(known.uses, imported.uses),
        last_used=max(known.last_used, imported.last_used),
    )


def _may_be_one(known: Lesson, imported: Lesson) -> bool:
    """Whether two lessons that cite no episode in common may still be two states of one history.

    They begin at the same time then, and citations are missing: none was given, or older ones had to make room.
    """
    full = max(len(known.episodes), len(imported.episodes)) >= rules.MAX_CITED
    return known.first_seen == imported.first_seen and (full or not imported.episodes)


async def _vectors(space: ActiveSpace, entries: list[IndexEntry], outcome: _Outcome) -> Vector | None:
    """Their vectors; None leaves them pending: the next migration embeds them."""
    try:
        return await space.embed([entry.text for entry in entries])
    except EmbeddingError as exc:
        outcome.leave(len(entries), str(exc))
        return None


async def _index(
    store: VectorStore,
    index: EmbeddingIndex,
    entries: list[IndexEntry],
    vectors: Vector | None,
    outcome: _Outcome,
) -> None:
    async with store.exclusive():
        kept = await still_there(store, entries)
        semantic = None if vectors is None else vectors[kept]
        refused: dict[str, str] = {}
        for collection, records in index.rows([entries[n] for n in kept], semantic).items():
            result = await store.upsert(collection, records)
            refused.update((one.id, one.reason) for one in result.rejected)
    if vectors is not None and refused:  # else they are counted already
        outcome.leave(len(refused), next(iter(refused.values())))
