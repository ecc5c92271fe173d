"""The rules of learning, without any store."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.errors import InvalidInputError
from agenthood.learning import rules
from agenthood.records import Lesson

if TYPE_CHECKING:
    from pathlib import Path

SHARE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("mean", "kind"),
    [
        (1.0, "learned"), (0.8, "learned"), (math.nextafter(0.8, 0), None), (0.4, None),
        (math.nextafter(0.4, 0), "antipattern"), (0.0, "antipattern"),
    ],
)  # fmt: skip
def test_bands_are_exact_at_their_edges(mean: float, kind: str | None) -> None:
    """0.8 itself is learned from, 0.4 itself is not a failure."""
    assert rules.band(mean) == kind


@pytest.mark.parametrize("score", [0.8, 0.4, 0.1, 0.7])
@pytest.mark.parametrize("count", [1, 3, 7, 10])
def test_equal_scores_have_that_mean(score: float, count: int) -> None:
    """Three scores of 0.8 have mean 0.8, not a hair less, so that the edge of a band holds."""
    assert rules.mean_score({str(n): score for n in range(count)}) == score


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, -0.01, 1.01, True, "1", None, 10**400, 1j])
def test_unusable_scores_are_refused(score: Any) -> None:
    """A score that is no finite number in [0, 1] is refused by name."""
    with pytest.raises(InvalidInputError, match="'quality' is"):
        rules.mean_score({"fine": 0.5, "quality": score})


@pytest.mark.parametrize("score", [0, 1, Fraction(1, 2), np.float32(0.5), np.float64(1)])
def test_any_kind_of_number_is_a_score(score: Any) -> None:
    """Whole numbers, fractions and NumPy scalars count."""
    assert rules.mean_score({"score": score}) == float(score)


def test_no_scores_have_no_mean() -> None:
    """Empty scores are not an average of zero."""
    assert rules.mean_score({}) is None


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(), st.none(), st.just(10**400)))
def test_whatever_a_row_holds_is_read_as_a_share_or_left_out(value: Any) -> None:
    """A finite number is brought into [0, 1]; everything else is nothing."""
    found = rules.read_share(value)
    if isinstance(value, bool | str) or value is None or value == 10**400 or not math.isfinite(value):
        assert found is None
    else:
        assert found == min(1, max(0, value))


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(), st.none()), st.integers(0, 1))
def test_whatever_a_row_holds_is_read_as_a_count(value: Any, least: int) -> None:
    """A whole number stays within what can be counted on; everything else is the least."""
    found = rules.read_count(value, least=least)
    whole = isinstance(value, int) and not isinstance(value, bool)
    assert found == (min(rules.MAX_COUNT, max(least, value)) if whole else least)


def test_evidence_stops_at_what_can_be_counted() -> None:
    """At the limit one more episode moves the mean and the times, and raises nothing."""
    lesson = rules.merged(_lesson(evidence=rules.MAX_COUNT), mean=0, episode_id="ep:1", seen="2026")
    assert lesson.evidence == rules.MAX_COUNT


def _lesson(**fields: Any) -> Lesson:
    values = {"id": "ltm:learnings/v1:a", "kind": "learned", "text": "x", "pattern": "learned:m:s:x"}
    return Lesson(**(values | {"member": "m", "skill": "s", "mean": 0.9} | fields))


@given(st.lists(SHARE, min_size=1, max_size=30))
def test_the_running_mean_is_the_mean(means: list[float]) -> None:
    """Merging episode by episode gives the count and mean of all of them."""
    lesson = rules.new_lesson("id", "learned", "m", "s", "x", mean=means[0], episode_id="ep:0", seen="2026")
    for n, mean in enumerate(means[1:], start=1):
        lesson = rules.merged(lesson, mean=mean, episode_id=f"ep:{n}", seen="2026")
    assert lesson.evidence == len(means)
    assert lesson.mean == pytest.approx(sum(means) / len(means))
    assert lesson.episodes == tuple(f"ep:{n}" for n in range(len(means)))


def test_merging_widens_the_time_seen() -> None:
    """An older episode moves the first time, a newer one the last, in any order."""
    lesson = _lesson(first_seen="2026-05", last_seen="2026-06")
    lesson = rules.merged(lesson, mean=1, episode_id="ep:1", seen="2026-04")
    lesson = rules.merged(lesson, mean=1, episode_id="ep:2", seen="2026-07")
    assert (lesson.first_seen, lesson.last_seen) == ("2026-04", "2026-07")


def test_only_the_latest_episodes_are_cited() -> None:
    """The count goes on where the list of episodes stops."""
    lesson = _lesson(evidence=1, episodes=("ep:0",))
    for n in range(1, rules.MAX_CITED + 5):
        lesson = rules.merged(lesson, mean=1, episode_id=f"ep:{n}", seen="2026")
    assert lesson.evidence == rules.MAX_CITED + 5
    assert len(lesson.episodes) == rules.MAX_CITED
    assert lesson.episodes[-1] == f"ep:{rules.MAX_CITED + 4}"


def test_the_stored_score_of_a_failure_is_turned() -> None:
    """The shared format keeps 1 - mean for an anti-pattern."""
    assert rules.stored_score(_lesson(mean=0.9)) == 0.9
    assert rules.stored_score(_lesson(kind="antipattern", mean=0.1)) == 0.9


@pytest.mark.parametrize(
    ("recent", "trend"),
    [
        ([], "stable"), ([0.9], "stable"), ([0.1, 0.9], "rising"), ([0.9, 0.1], "falling"),
        ([0.5, 0.55], "stable"), ([0.5] * 10 + [0.6] * 10, "rising"), ([0.9] * 20 + [0.5] * 20, "stable"),
        ([0.9] * 10 + [0.5] * 10, "falling"), ([0.1] * 30 + [0.9] * 5, "rising"),
    ],
)  # fmt: skip
def test_the_trend_compares_the_latest_with_those_before(recent: list[float], trend: str) -> None:
    """The last ten against the ten before; a change of at most 0.05 is none."""
    assert rules.trend(recent) == trend


def test_a_free_key_is_the_hash() -> None:
    """A pattern alone goes under its hash."""
    assert rules.choose_key("learned:developer:test:fixed Aa", {}) == ("v1:1sbjzn", False)


def test_a_pattern_is_found_under_the_key_of_an_old_release() -> None:
    """Old releases wrote keys without `v1:`; the same pattern there is the same lesson."""
    pattern = "learned:developer:test:fixed Aa"
    assert rules.choose_key(pattern, {"1sbjzn": pattern}) == ("1sbjzn", True)


def test_collisions_get_suffixes_until_they_run_out() -> None:
    """Every further pattern of one hash gets the next suffix; what is there is found again."""
    taken: dict[str, str] = {}
    for n in range(9):
        key, found = rules.choose_key("learned:developer:test:fixed Aa", taken)
        assert not found
        taken[key] = f"other {n}"
    assert list(taken) == ["v1:1sbjzn", *(f"v1:1sbjzn~{n}" for n in range(2, 10))]
    with pytest.raises(InvalidInputError, match="too many others"):
        rules.choose_key("learned:developer:test:fixed Aa", taken)
    taken["v1:1sbjzn~5"] = "learned:developer:test:fixed Aa"
    assert rules.choose_key("learned:developer:test:fixed Aa", taken) == ("v1:1sbjzn~5", True)


def test_the_real_collisions_go_side_by_side(shared: Path) -> None:
    """For every pair of `collisions.json` the second pattern gets a key of its own, whichever comes second."""
    for pair in json.loads((shared / "ts-store" / "collisions.json").read_text(encoding="utf-8")):
        for first, second in ((pair["first"], pair["second"]), (pair["second"], pair["first"])):
            assert rules.choose_key(first, {}) == (pair["key"], False)
            assert rules.choose_key(second, {pair["key"]: first}) == (pair["key"] + "~2", False)


def test_names_with_colons_do_not_make_two_lessons_one() -> None:
    """Two ways to read one pattern text are told apart by the names, which a caller must then change."""
    lesson = _lesson(member="a", skill="b:c", text="x", pattern="learned:a:b:c:x")
    rules.check_same(lesson, "a", "b:c")
    with pytest.raises(InvalidInputError, match="without a colon"):
        rules.check_same(lesson, "a:b", "c")
