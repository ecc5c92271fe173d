"""The rules of salience: what raises it, what lowers it, and where a lesson goes next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.formats import iso
from agenthood.learning import salience as rules
from agenthood.learning.rules import MAX_COUNT, new_lesson
from agenthood.learning.salience import HALF_LIFE, MOST_SUNK, next_tier, retention, salience, sunk
from agenthood.records import KINDS, TIERS, Lesson, Tier

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
COUNTS = st.one_of(st.integers(1, 30), st.integers(1, MAX_COUNT))
AGES = st.floats(-10, 4_000).map(lambda days: timedelta(days=days))


def _lesson(**fields: object) -> Lesson:
    lesson = new_lesson("ltm:x", "learned", "m", "s", "text", mean=0.9, episode_id="ep:1-a", seen=iso(NOW))
    return replace(lesson, **fields)  # type: ignore[arg-type]


@st.composite
def _lessons(draw: st.DrawFn) -> Lesson:
    return _lesson(
        kind=draw(st.sampled_from(KINDS)),
        mean=draw(st.floats(0, 1)),
        evidence=draw(COUNTS),
        uses=draw(COUNTS) - 1,
        tier=draw(st.sampled_from(TIERS)),
        last_seen=iso(NOW - draw(AGES)),
        last_used=draw(st.sampled_from(["", iso(NOW - draw(AGES)), "no time"])),
        pinned=draw(st.booleans()),
    )


@given(_lessons())
def test_salience_and_retention_have_bounds(lesson: Lesson) -> None:
    """Both lie in [0, 1], whatever a row holds; a pinned lesson counts full and does not sink."""
    assert 0 <= salience(lesson, NOW) <= 1
    assert 0 <= retention(lesson, NOW) <= 1
    assert 0 <= sunk(lesson, NOW) <= MOST_SUNK
    pinned = replace(lesson, pinned=True)
    assert (salience(pinned, NOW), retention(pinned, NOW), sunk(pinned, NOW)) == (1, 1, 0)


@given(_lessons(), st.floats(0, 1), COUNTS, COUNTS, AGES)
def test_salience_rises_with_all_that_speaks_for_a_lesson(
    lesson: Lesson, mean: float, evidence: int, uses: int, age: timedelta
) -> None:
    """A clearer score, more evidence, more uses, a later episode or use: none of them lowers it."""
    before = salience(lesson, NOW)
    clearer = max(lesson.mean, mean) if lesson.kind == "learned" else min(lesson.mean, mean)
    for better in (
        replace(lesson, mean=clearer),
        replace(lesson, evidence=max(lesson.evidence, evidence)),
        replace(lesson, uses=max(lesson.uses, uses)),
        replace(lesson, last_seen=max(lesson.last_seen, iso(NOW - age))),
        replace(lesson, pinned=True),
    ):
        assert salience(better, NOW) >= before
    assert salience(lesson, NOW + abs(age)) <= before


@given(_lessons(), AGES)
def test_a_higher_tier_fades_more_slowly(lesson: Lesson, age: timedelta) -> None:
    """The same lesson has never lost more in a higher tier."""
    later = NOW + abs(age)
    order: tuple[Tier, ...] = ("working", "short", "long")
    left = [retention(replace(lesson, tier=tier), later) for tier in order]
    assert left == sorted(left)


@pytest.mark.parametrize("tier", TIERS)
def test_half_is_left_after_a_half_life(tier: Tier) -> None:
    """The names of the constants say what they do."""
    lesson = _lesson(tier=tier)
    assert retention(lesson, NOW + HALF_LIFE[tier]) == 0.5
    assert salience(lesson, NOW + HALF_LIFE[tier]) == pytest.approx(salience(lesson, NOW) / 2, abs=1e-6)
    assert sunk(lesson, NOW + HALF_LIFE[tier]) == MOST_SUNK / 2


def test_lessons_of_one_day_do_not_sink() -> None:
    """Up to a whole day old they rank as they did before there was decay; a use makes a lesson fresh again."""
    assert sunk(_lesson(), NOW + DAY - timedelta(seconds=1)) == 0
    old = NOW + 100 * DAY
    assert sunk(_lesson(), old) > 0.08
    assert sunk(_lesson(last_used=iso(old)), old) == 0


@given(_lessons(), st.one_of(st.none(), AGES))
def test_a_tier_changes_by_one_step_or_not_at_all(lesson: Lesson, age: timedelta | None) -> None:
    """Pinned and archived lessons stay; confirmed ones are never archived; what is promoted is not demoted next."""
    written = None if age is None else NOW - age
    tier = next_tier(lesson, NOW, written=written)
    if lesson.pinned or lesson.archived:
        assert tier == lesson.tier
        return
    order: tuple[Tier, ...] = ("archive", "working", "short", "long")
    step = order.index(tier) - order.index(lesson.tier)
    assert abs(step) <= 1
    if tier == "archive":
        assert lesson.evidence < rules.CONFIRMED
    after = next_tier(replace(lesson, tier=tier), NOW, written=NOW)
    assert (order.index(after) - order.index(tier)) * step >= 0, "it goes to and fro"


@given(st.integers(2, MAX_COUNT), st.lists(st.integers(0, 400), max_size=20))
def test_what_was_confirmed_is_never_archived(evidence: int, gaps: list[int]) -> None:
    """However long nobody comes by, and however often upkeep runs."""
    lesson, now = _lesson(evidence=evidence), NOW
    for days in gaps:
        now += days * DAY
        lesson = replace(lesson, tier=next_tier(lesson, now))
    assert not lesson.archived


@pytest.mark.parametrize(
    ("fields", "days", "expected"),
    [
        ({}, 89, "working"),
        ({}, 91, "archive"),
        ({"last_used": iso(NOW + 80 * DAY)}, 91, "working"),
        ({"evidence": 2}, 0, "short"),
        ({"evidence": 2}, 31, "working"),
        ({"evidence": 2}, 3_000, "working"),
        ({"uses": 10}, 1, "short"),
        ({"uses": 1_000, "tier": "short"}, 1, "short"),
        ({"evidence": 4, "tier": "short"}, 1, "short"),
        ({"evidence": 5, "tier": "short"}, 1, "long"),
        ({"evidence": 5, "tier": "short"}, 91, "short"),
        ({"evidence": 5, "tier": "short"}, 181, "working"),
        ({"evidence": 5, "tier": "long"}, 729, "long"),
        ({"evidence": 5, "tier": "long"}, 731, "short"),
    ],
)
def test_where_a_lesson_goes(fields: dict[str, object], days: int, expected: Tier) -> None:
    """The table in the documentation, at its edges."""
    assert next_tier(_lesson(**fields), NOW + days * DAY) == expected


def test_what_was_just_written_is_not_archived() -> None:
    """An imported history is old from the start, and a restored lesson still is."""
    now = NOW + 400 * DAY
    assert next_tier(_lesson(), now, written=now - 29 * DAY) == "working"
    assert next_tier(_lesson(), now, written=now - 30 * DAY) == "archive"
