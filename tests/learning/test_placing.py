"""Where a pattern lives, decided on what the store holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import InvalidInputError
from agenthood.formats import hash_pattern, pattern_text, utc_now
from agenthood.learning.lessons import lesson_id, lesson_record
from agenthood.learning.placing import Held, Place, look_up, rows_under
from agenthood.learning.reading import GatheredReads
from agenthood.learning.rules import candidate_keys, new_lesson
from agenthood.stores.base import SHARED, Record
from hoods import opened

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.records import Kind, Lesson

AT = "2026-06-01T00:00:00.000Z"


def _lesson(
    text: str, *, kind: Kind = "learned", member: str = "dev", skill: str = "test", key: str = ""
) -> Lesson:
    id_ = lesson_id(kind, key or hash_pattern(pattern_text(kind, member, skill, text)))
    return new_lesson(id_, kind, member, skill, text, mean=0.9, episode_id="ep:1-a", seen=AT)


def _held(*lessons: Lesson) -> Held:
    held = Held()
    held.note({lesson.id: lesson_record(lesson, at=utc_now()) for lesson in lessons})
    return held


def _place(held: Held, lesson: Lesson) -> Place:
    return held.place(lesson.kind, lesson.member, lesson.skill, lesson.pattern)


def test_a_new_pattern_lives_under_its_hash() -> None:
    """Where nothing is held its place is free."""
    lesson = _lesson("fixed it")
    assert _place(Held(), lesson) == Place(lesson.id)


def test_a_known_pattern_stays_where_it_is() -> None:
    """Also under the key of an old release, and where only a pattern row knows it."""
    lesson = _lesson("fixed it")
    old = _lesson("fixed it", key=hash_pattern(lesson.pattern).removeprefix("v1:"))
    assert _place(_held(old), lesson) == Place(old.id, old)
    held = Held()
    row = Record(f"pattern:{hash_pattern(lesson.pattern)}", lesson.pattern, {"type": "learned_pattern"}, AT)
    held.note({row.id: row})
    assert _place(held, lesson).known is not None


def test_two_patterns_of_one_hash_get_two_keys() -> None:
    """The second is suffixed, and nothing is overwritten; a row without a pattern occupies its key, too."""
    one, two = _lesson("Aa"), _lesson("BB")
    assert one.id == two.id
    assert _place(_held(one), two) == Place(f"{two.id}~2")
    held = Held()
    held.note({one.id: Record(one.id, "no json", {}, AT)})
    assert _place(held, one) == Place(f"{one.id}~2")


def test_a_pattern_under_a_suffix_stays_there() -> None:
    """Also where the key without one has become free: whoever had it was forgotten."""
    lesson = _lesson("Aa")
    second = replace(lesson, id=f"{lesson.id}~2")
    assert _place(_held(second), lesson) == Place(second.id, second)


def test_a_key_serves_one_kind() -> None:
    """A lesson of the other kind under the same key occupies it, as the pattern row's id does not tell the kind."""
    lesson = _lesson("fixed it")
    other = _lesson("something else", kind="antipattern", key=hash_pattern(lesson.pattern))
    assert _place(_held(other), lesson) == Place(f"{lesson.id}~2")


def test_a_pattern_row_of_a_lesson_that_has_gone_holds_nothing() -> None:
    """A row that names its lesson is only an index of it."""
    lesson = _lesson("fixed it")
    held = Held()
    metadata = {"type": "learned_pattern", "lesson": lesson.id}
    held.note_orphan(Record(f"pattern:{hash_pattern(lesson.pattern)}", lesson.pattern, metadata, AT))
    assert _place(held, lesson) == Place(lesson.id)


def test_names_with_a_colon_are_told() -> None:
    """Another member and skill that write the same pattern text are refused."""
    held = _held(_lesson("fixed it", member="a", skill="b:c"))
    with pytest.raises(InvalidInputError, match="without a colon"):
        _place(held, _lesson("fixed it", member="a:b", skill="c"))


def test_what_was_put_is_held() -> None:
    """A lesson stored since the rows were read counts as one that was there."""
    held, lesson = Held(), _lesson("fixed it")
    held.put(lesson)
    assert _place(held, lesson) == Place(lesson.id, lesson)


def test_rows_are_looked_for_under_both_kinds_and_the_pattern() -> None:
    """Every row in which the pattern may be."""
    assert sorted(rows_under(["v1:a", "v1:a"])) == [
        "ltm:antipatterns/v1:a",
        "ltm:learnings/v1:a",
        "pattern:v1:a",
    ]
    assert len(rows_under(candidate_keys("x"))) == 30


async def test_looking_up_finds_every_suffix(tmp_path: Path) -> None:
    """Where another pattern has the hash, the keys with suffixes are read, too."""
    one, two, three = _lesson("AaAa"), _lesson("BBBB"), _lesson("AaBB")
    stored = {one.id: one, f"{one.id}~2": replace(two, id=f"{one.id}~2")}
    async with opened(tmp_path) as hood:
        await hood.store.upsert(SHARED, [lesson_record(lesson, at=utc_now()) for lesson in stored.values()])
        held = Held()
        await look_up(GatheredReads(hood.store, SHARED), held, [two.pattern, three.pattern])
        assert _place(held, two).id == f"{one.id}~2"
        assert _place(held, three) == Place(f"{one.id}~3")
