"""Export and import of everything a store knows, as JSON lines that a person can read.

Lines have a `type`: `lesson`, `episode`, or `memory` for any other key of long-term memory. Importing is
idempotent: evidence that is there already is not counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TextIO

from agenthood.errors import EmbeddingError, InvalidInputError, StoreError
from agenthood.formats import (
    EPISODE,
    FOLDERS,
    LTM,
    PATTERN,
    dumps,
    iso,
    parse_time,
    pattern_text,
    unstorable_reason,
    utc_now,
)
from agenthood.learning import rules
from agenthood.learning.index import EmbeddingIndex, IndexEntry, still_there
from agenthood.learning.lessons import LESSON_ROWS, lesson_from, lesson_id, lesson_record, read_book
from agenthood.learning.tally import STATUS_KEY
from agenthood.memory.episodic import episode_from
from agenthood.memory.long_term import long_term_record
from agenthood.records import KINDS, UNKNOWN, Imported, Lesson
from agenthood.redaction import redact, redact_json
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import AllOf, Not, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenthood.learning.spaces import ActiveSpace
    from agenthood.stores.base import Vector, VectorStore

_BATCH = 500
_OWN_KEYS = (STATUS_KEY, "spaces/")


async def export(store: VectorStore, file: TextIO) -> int:
    """Write every lesson, episode and other memory to `file` as JSON lines; returns how many lines."""
    lines = 0
    async for line in _exported(store):
        file.write(dumps(line) + "\n")
        lines += 1
    return lines


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
            if not key.startswith(_OWN_KEYS):
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
    rejected: list[tuple[int, str]] = field(default_factory=list)


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
            await _index(store, index, entries, await _vectors(space, entries))
        done += len(batch)
        if on_progress is not None:
            on_progress(done, 0)
    return Imported(outcome.stored, outcome.merged, outcome.skipped, tuple(sorted(outcome.rejected)))


def _parsed(lines: Iterable[str], outcome: _Outcome) -> Iterator[Lesson | Record]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _parse(line)
        except InvalidInputError as exc:
            outcome.rejected.append((number, str(exc)))


def _batches(items: Iterator[Lesson | Record]) -> Iterator[list[Lesson | Record]]:
    batch: list[Lesson | Record] = []
    for item in items:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _parse(line: str) -> Lesson | Record:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"it is no JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise InvalidInputError(f"it is {body!r:.80}: give a JSON object with a type")
    match body.get("type"):
        case "lesson":
            return _lesson(body)
        case "episode":
            return _episode(body)
        case "memory":
            return _memory(body)
        case other:
            raise InvalidInputError(f"type {other!r:.80} is none of 'lesson', 'episode', 'memory'")


def _text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise InvalidInputError(f"{name} is {value!r:.80}: give text")
    return value


def _id(body: Mapping[str, Any], name: str) -> str:
    """As `_text`, for what becomes part of an id; in contents JSON escapes what no backend can store."""
    value = _text(body, name)
    if reason := unstorable_reason(value):
        raise InvalidInputError(f"{name} cannot be stored: {reason}")
    return value


def _memory(body: Mapping[str, Any]) -> Record:
    key = _id(body, "key")
    if key.startswith((*_OWN_KEYS, *FOLDERS.values())):
        raise InvalidInputError(
            f"key {key!r:.80} is the engine's own: give lessons as lines of type 'lesson'"
        )
    return long_term_record(key, redact_json(body.get("value")), at=utc_now())


def _lesson(body: Mapping[str, Any]) -> Lesson:
    kind = body.get("kind")
    if kind not in KINDS:
        raise InvalidInputError(f"kind {kind!r:.80} is none of {', '.join(map(repr, KINDS))}")
    member, skill = (redact(_text(body, name, UNKNOWN)) for name in ("member", "skill"))
    text = redact(_lesson_text(body, pattern_text(kind, member, skill, "")))
    mean = rules.mean_score({"mean": body.get("mean", 1.0 if kind == "learned" else 0.0)})
    evidence = body.get("evidence", 1)
    if not isinstance(evidence, int) or isinstance(evidence, bool) or evidence < 1:
        raise InvalidInputError(f"evidence {evidence!r:.80} is no whole number from 1 up")
    episodes = body.get("episodes", [])
    if not isinstance(episodes, list) or not all(isinstance(e, str) for e in episodes):
        raise InvalidInputError(f"episodes {episodes!r:.80} is no list of ids")
    first, last = (body.get(name) or utc_now() for name in ("first_seen", "last_seen"))
    assert mean is not None  # noqa: S101  one score was given
    return Lesson(
        "", kind, text, pattern_text(kind, member, skill, text), member, skill, mean, evidence,
        tuple(episodes[-rules.MAX_CITED :]), iso(parse_time(first)), iso(parse_time(last)),
        redact(_text(body, "outcome", "")),
    )  # fmt: skip


def _lesson_text(body: Mapping[str, Any], blank_pattern: str) -> str:
    """The text of a lesson; blank only in an export of a store where an older program learned from a blank one."""
    text = body.get("text")
    exported = isinstance(text, str) and body.get("pattern") == blank_pattern + text
    return _text(body, "text", "" if exported else None)


def _episode(body: Mapping[str, Any]) -> Record:
    id_ = _id(body, "id")
    if not id_.startswith(EPISODE):
        raise InvalidInputError(f"id {id_!r:.80} is no episode's: it starts with {EPISODE!r}")
    at = iso(parse_time(_text(body, "timestamp")))
    details = body.get("details", {})
    if not isinstance(details, dict):
        raise InvalidInputError(f"details {details!r:.80} is no JSON object")
    texts = {"episode": redact(_text(body, "episode", "")), "outcome": redact(_text(body, "outcome", ""))}
    content = dumps(texts | {"timestamp": at} | redact_json(details))
    return Record(id_, content, {"type": "episodic", "recordedAt": iso(utc_now())}, at)


async def _import_batch(
    store: VectorStore, batch: list[Lesson | Record], outcome: _Outcome
) -> list[IndexEntry]:
    """Write the lessons, episodes and memories of a batch; returns what is to be indexed."""
    records = [item for item in batch if isinstance(item, Record)]
    known = await store.get(SHARED, [record.id for record in records])
    fresh = {record.id: record for record in records if record.id not in known}
    outcome.stored += len(fresh)
    outcome.skipped += len(records) - len(fresh)
    lessons = [item for item in batch if isinstance(item, Lesson)]
    changed, entries = await _placed(store, lessons, outcome)
    rows = [*fresh.values(), *(lesson_record(lesson, at=utc_now()) for lesson in changed.values())]
    result = await store.upsert(SHARED, rows)
    if result.rejected:
        raise StoreError(f"the store refused {result.rejected[0].id!r:.120}: {result.rejected[0].reason}")
    return entries


async def _placed(
    store: VectorStore, lessons: list[Lesson], outcome: _Outcome
) -> tuple[dict[str, Lesson], list[IndexEntry]]:
    """Each lesson under its key: new, or with its unseen evidence added to the one that is there."""
    ids = {
        prefix
        for lesson in lessons
        for key in rules.candidate_keys(lesson.pattern)
        for prefix in (lesson_id(lesson.kind, key), PATTERN + key)
    }
    stored = {id_: lesson_from(row) for id_, row in (await store.get(SHARED, sorted(ids))).items()}
    held: dict[str, Lesson | None] = {id_: lesson for id_, lesson in stored.items() if id_.startswith(LTM)}
    for lesson in stored.values():
        if lesson is not None:
            held.setdefault(lesson.id, lesson)
    changed: dict[str, Lesson] = {}
    entries = []
    for lesson in lessons:
        keys = {key: lesson_id(lesson.kind, key) for key in rules.candidate_keys(lesson.pattern)}
        taken = {
            key: known.pattern if (known := held[id_]) else "" for key, id_ in keys.items() if id_ in held
        }
        key, exact = rules.choose_key(lesson.pattern, taken)
        placed = _joined(held[keys[key]], lesson) if exact else replace(lesson, id=keys[key])
        if placed is None:
            outcome.skipped += 1
            continue
        outcome.merged, outcome.stored = outcome.merged + exact, outcome.stored + (not exact)
        held[placed.id] = changed[placed.id] = placed
        if not exact:
            entries.append(IndexEntry.of(placed))
    return changed, entries


def _joined(known: Lesson | None, imported: Lesson) -> Lesson | None:
    """`known` with what `imported` adds; None if it adds nothing."""
    assert known is not None  # noqa: S101  an exact match has a pattern
    unseen = tuple(id_ for id_ in imported.episodes if id_ not in known.episodes)
    disjoint = len(unseen) == len(imported.episodes)
    added = imported.evidence if disjoint and unseen else len(unseen)
    later = disjoint and imported.first_seen == known.first_seen
    if later:
        # An earlier or later state of the same lesson, of which both cite only the latest episodes.
        added = imported.evidence - known.evidence
    if added <= 0:
        return None
    count = known.evidence + added
    return replace(
        known,
        evidence=count,
        mean=imported.mean if later else known.mean + (imported.mean - known.mean) * added / count,
        episodes=(*known.episodes, *unseen)[-rules.MAX_CITED :],
        first_seen=min(known.first_seen, imported.first_seen),
        last_seen=max(known.last_seen, imported.last_seen),
        outcome=known.outcome or imported.outcome,
    )


async def _vectors(space: ActiveSpace, entries: list[IndexEntry]) -> Vector | None:
    """Their vectors; None leaves them pending: the next migration embeds them."""
    try:
        return await space.embed([entry.text for entry in entries])
    except EmbeddingError:
        return None


async def _index(
    store: VectorStore, index: EmbeddingIndex, entries: list[IndexEntry], vectors: Vector | None
) -> None:
    async with store.exclusive():
        kept = await still_there(store, entries)
        vectors = None if vectors is None else vectors[kept]
        for collection, records in index.rows([entries[n] for n in kept], vectors).items():
            await store.upsert(collection, records)
