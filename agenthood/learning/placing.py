"""Where a pattern lives: the one decision on a lesson's id, for what is learned and for what is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agenthood.formats import PATTERN, hash_pattern, storable
from agenthood.learning import rules
from agenthood.learning.lessons import lesson_from, lesson_id, lesson_key
from agenthood.records import KINDS, Kind, Lesson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agenthood.learning.reading import GatheredReads
    from agenthood.stores.base import Record

_ROWS = (*(lesson_id(kind, "") for kind in KINDS), PATTERN)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pattern lives.

    Attributes:
        id: the id of its lesson.
        known: the lesson that is there already; None if the place is free.
    """

    id: str
    known: Lesson | None = None


@dataclass(slots=True)
class Held:
    """What the store holds under the keys of some patterns.

    Attributes:
        taken: lesson id -> pattern text stored there; empty for a row without a usable one.
        lessons: lesson id -> lesson.
    """

    taken: dict[str, str] = field(init=False, default_factory=dict)
    lessons: dict[str, Lesson] = field(init=False, default_factory=dict)
    # The hashes that `taken` has keys of, so that one look tells that a pattern is new.
    _hashes: set[str] = field(init=False, default_factory=set)

    def note(self, rows: Mapping[str, Record]) -> None:
        """Take long-term rows into account, then the lessons that only a pattern row knows."""
        for id_, row in rows.items():
            if not row.id.startswith(PATTERN):
                lesson = lesson_from(row)
                # A row without a usable pattern still occupies its key: what is there is never overwritten.
                self._take(id_, lesson.pattern if lesson else "")
                if lesson is not None:
                    self.lessons[id_] = lesson
        for row in rows.values():
            if row.id.startswith(PATTERN):
                self.note_orphan(row)

    def note_orphan(self, row: Record) -> None:
        """Take a lesson into account that only a pattern row knows; its key is as taken as any other."""
        orphan = lesson_from(row)
        if "lesson" not in row.metadata and orphan is not None and orphan.id not in self.taken:
            self.put(orphan)

    def put(self, lesson: Lesson) -> None:
        """Take a new or changed lesson into account, under its id."""
        self._take(lesson.id, lesson.pattern)
        self.lessons[lesson.id] = lesson

    def _take(self, id_: str, pattern: str) -> None:
        self.taken[id_] = pattern
        self._hashes.add(_hash_in(id_).partition("~")[0])

    def place(self, kind: Kind, member: str, skill: str, pattern: str) -> Place:
        """Where `pattern` lives, or will live if it is new.

        Args:
            kind: what is learned; with member and skill what `pattern` was written from.
            member: who did it.
            skill: in which skill.
            pattern: the pattern text; its rows (`rows_under`) have been noted.

        Raises:
            InvalidInputError: another member or skill writes the same pattern, or all its keys are taken.
        """
        key = hash_pattern(pattern)
        if key not in self._hashes:
            return Place(lesson_id(kind, key))  # as most do
        holders: dict[str, str] = {}
        for key in rules.candidate_keys(pattern):
            # The id of a pattern row does not tell the kind, so a key serves one lesson of either.
            ids = [id_ for one in KINDS if (id_ := lesson_id(one, key)) in self.taken]
            if ids:
                same = (id_ for id_ in ids if storable(self.taken[id_]) == storable(pattern))
                holders[key] = next(same, ids[0])
        key, exact = rules.choose_key(pattern, {key: self.taken[id_] for key, id_ in holders.items()})
        if not exact:
            return Place(lesson_id(kind, key))
        known = self.lessons[holders[key]]
        rules.check_same(known, member, skill)
        return Place(known.id, known)


async def look_up(reads: GatheredReads, held: Held, patterns: Sequence[str]) -> None:
    """Note every row that bears on where `patterns` live.

    Args:
        reads: what reads the shared table.
        held: where to note them.
        patterns: pattern texts.

    Raises:
        StoreError: the store could not be read.
    """
    held.note(await reads.get(rows_under(key for one in patterns for key in rules.first_keys(one))))
    shared = _sharing_a_key(held, patterns)
    if shared:
        held.note(await reads.get(rows_under(key for one in shared for key in rules.candidate_keys(one))))


def _sharing_a_key(held: Held, patterns: Sequence[str]) -> list[str]:
    """The patterns whose hash another pattern has, held or among these: they may live under a suffix."""
    first: dict[str, str] = {}
    shared: set[str] = set()
    for pattern in patterns:
        key = hash_pattern(pattern)
        if first.setdefault(key, pattern) != pattern:
            shared.add(key)
    for id_, text in held.taken.items():
        key = _hash_in(id_)
        if first.get(key, text) != text:
            shared.add(key)
    return [pattern for pattern in patterns if hash_pattern(pattern) in shared] if shared else []


def rows_under(keys: Iterable[str]) -> list[str]:
    """The ids of the rows in which a pattern with one of these keys may be: long-term rows, and pattern rows."""
    return [prefix + key for key in dict.fromkeys(keys) for prefix in _ROWS]


def _hash_in(id_: str) -> str:
    """The key in a lesson's id as it is written now, also where an old release wrote it without `v1:`."""
    return "v1:" + lesson_key(id_).removeprefix("v1:")
