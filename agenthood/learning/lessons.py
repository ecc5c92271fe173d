"""Lessons as long-term memory and pattern rows hold them, whatever wrote those rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError
from agenthood.formats import FOLDERS, LTM, PATTERN, hash_pattern, loads_object, split_pattern, storable
from agenthood.learning.rules import read_count, read_share, stored_score
from agenthood.learning.salience import salience
from agenthood.memory.long_term import long_term_record
from agenthood.records import KINDS, TIERS, UNKNOWN, Kind, Lesson
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import AllOf, AnyOf, Equals, StartsWith

if TYPE_CHECKING:
    from agenthood.stores.base import VectorStore

LESSON_ROWS = AnyOf(tuple(StartsWith("id", LTM + folder) for folder in FOLDERS.values()))
ARCHIVED_ROWS = AllOf((LESSON_ROWS, Equals("tier", "archive")))
PATTERN_ROWS = StartsWith("id", PATTERN)


def lesson_id(kind: Kind, key: str) -> str:
    """The id of the long-term row of a lesson: `ltm:learnings/{key}` or `ltm:antipatterns/{key}`."""
    return f"{LTM}{FOLDERS[kind]}{key}"


def lesson_key(id_: str) -> str:
    """The key part of a lesson's id."""
    return id_.partition("/")[2]


def lesson_record(lesson: Lesson, *, at: datetime) -> Record:
    """The long-term row of a lesson: the shared keys first, ours after them."""
    value: dict[str, Any] = {
        "pattern": lesson.pattern,
        "score": stored_score(lesson),
        "member": lesson.member,
        "skill": lesson.skill,
        "evidence": lesson.evidence,
        "mean": lesson.mean,
        "firstSeen": lesson.first_seen,
        "lastSeen": lesson.last_seen,
        "episodes": list(lesson.episodes),
        "outcome": lesson.outcome,
    }
    # A lesson that nothing was done to keeps the shape it had before there were tiers.
    value |= {
        name: kept
        for name, kept, usual in (
            ("tier", lesson.tier, "working"),
            ("pinned", lesson.pinned, False),
            ("uses", lesson.uses, 0),
            ("lastUsed", lesson.last_used, ""),
        )
        if kept != usual
    }
    record = long_term_record(lesson.id.removeprefix(LTM), value, at=at)
    if lesson.tier == "working":
        return record
    return replace(
        record, metadata={**record.metadata, "tier": lesson.tier, "salience": salience(lesson, at)}
    )


def lesson_from(record: Record) -> Lesson | None:
    """The lesson a long-term row or a pattern row holds, or None if it holds no usable pattern.

    A pattern row holds the bare pattern text or, from the older matcher, the same JSON as a long-term row.
    """
    body = loads_object(record.content)
    pattern = body.get("pattern")
    if record.id.startswith(PATTERN) and not body:
        pattern = record.content
    if not isinstance(pattern, str) or not pattern:
        return None
    member, skill = (_text(body.get(name)) for name in ("member", "skill"))
    try:
        kind, found_member, found_skill, episode = split_pattern(pattern, member, skill)
    except InvalidInputError:
        if record.id.startswith(PATTERN):
            return None
        kind, found_member, found_skill, episode = _folder_kind(record.id), UNKNOWN, UNKNOWN, pattern
    seen = record.created_at
    return Lesson(
        id=record.id if record.id.startswith(LTM) else lesson_id(kind, record.id.removeprefix(PATTERN)),
        kind=kind,
        text=episode,
        pattern=pattern,
        member=member or found_member,
        skill=skill or found_skill,
        mean=_mean(body or record.metadata, kind),
        evidence=read_count(body.get("evidence"), least=1),
        episodes=tuple(e for e in _list(body.get("episodes")) if isinstance(e, str)),
        first_seen=_text(body.get("firstSeen")) or seen,
        last_seen=_text(body.get("lastSeen")) or seen,
        outcome=_text(body.get("outcome")) or "",
        tier=tier if (tier := body.get("tier")) in TIERS else "working",
        pinned=body.get("pinned") is True,
        uses=read_count(body.get("uses")),
        last_used=_text(body.get("lastUsed")) or "",
    )


def lesson_of_row(row: Record) -> str | None:
    """The lesson id an index row stands for, named in it or derived from it; None for an unusable row."""
    named = row.metadata.get("lesson")
    if isinstance(named, str):
        return named
    orphan = lesson_from(row)
    return orphan.id if orphan is not None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _folder_kind(id_: str) -> Kind:
    return next((kind for kind in KINDS if id_.startswith(LTM + FOLDERS[kind])), "learned")


def _mean(body: Mapping[str, Any], kind: Kind) -> float:
    for name, turned in (("mean", False), ("score", kind == "antipattern")):
        if (share := read_share(body.get(name))) is not None:
            return 1 - share if turned else share
    return 1.0 if kind == "learned" else 0.0


@dataclass(slots=True)
class LessonBook:
    """All lessons of a store, each distinct pattern once.

    Attributes:
        lessons: pattern text -> lesson.
        orphans: pattern texts that only a pattern row knows.
        unusable: how many long-term rows under a lesson's key hold no usable pattern.
    """

    lessons: dict[str, Lesson] = field(default_factory=dict)
    orphans: set[str] = field(default_factory=set)
    unusable: int = 0

    @property
    def active(self) -> dict[str, Lesson]:
        """Those of the lessons that look-ups find."""
        return {pattern: lesson for pattern, lesson in self.lessons.items() if not lesson.archived}

    @property
    def archived(self) -> list[Lesson]:
        """The others."""
        return [lesson for lesson in self.lessons.values() if lesson.archived]

    def add(self, record: Record) -> None:
        """Take a long-term row into account; of two rows with one pattern the better supported one stays."""
        lesson = lesson_from(record)
        if lesson is None:
            self.unusable += 1
            return
        known = self.lessons.get(lesson.pattern)
        if known is None or _preference(lesson) > _preference(known):
            self.lessons[lesson.pattern] = lesson

    def add_orphan(self, record: Record) -> None:
        """Take a pattern row of the shared table into account: a lesson of evidence 1 if nothing else knows it.

        A row that names its long-term row is none: where that has gone, somebody has deleted the lesson.
        """
        lesson = None if "lesson" in record.metadata else lesson_from(record)
        if lesson is None or lesson.pattern in self.lessons:
            return
        # A pattern row keeps its text with what backends cannot store replaced; compare on that.
        if not any(storable(known) == lesson.pattern for known in self._sharing_key(lesson)):
            self.lessons[lesson.pattern] = lesson
            self.orphans.add(lesson.pattern)

    def _sharing_key(self, lesson: Lesson) -> Iterable[str]:
        return () if "\ufffd" not in lesson.pattern else self.lessons


def _preference(lesson: Lesson) -> tuple[int, bool, str]:
    return lesson.evidence, lesson_key(lesson.id) == hash_pattern(lesson.pattern), lesson.last_seen


async def read_book(store: VectorStore) -> LessonBook:
    """All lessons: the distinct usable patterns of long-term rows, then those that only a pattern row knows."""
    book = LessonBook()
    async for batch in store.scan(SHARED, condition=LESSON_ROWS):
        for record in batch:
            book.add(record)
    async for batch in store.scan(SHARED, condition=PATTERN_ROWS):
        for record in batch:
            book.add_orphan(record)
    return book
