"""The rules of learning: plain functions from scores and lessons to decisions, without any I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from agenthood.errors import InvalidInputError
from agenthood.formats import hash_pattern, pattern_text, shown, storable
from agenthood.records import Kind, Lesson, Trend

LEARNED_FROM = 0.8
"""A mean score from here up is learned from as what worked."""
ANTIPATTERN_BELOW = 0.4
"""A mean score below this is learned from as what failed."""
MATCH_THRESHOLD = 0.85
"""Match score, on the calibrated scale, from which an episode is evidence for a lesson that is there already."""
RECALL_THRESHOLD = 0.65
"""Match score from which a lesson is shown: one unrelated pair in thirty reaches it, and short questions do, too."""
MAX_CITED = 100
"""How many episode ids a lesson cites; the count goes on."""
MAX_COUNT = 2**53 - 1
"""The highest count kept, such as a lesson's evidence: the largest whole number that JavaScript keeps exact."""

RECENT_SCORES = 40
_SUFFIXES = tuple(f"~{n}" for n in range(2, 10))
_TREND_WINDOW = 10
_TREND_STEP = 0.05


def mean_score(scores: Mapping[str, float]) -> float | None:
    """The mean of `scores` in [0, 1], or None if there are none.

    Rounded to 9 decimals, so that three scores of 0.8 have mean 0.8 and not a hair less.

    Raises:
        InvalidInputError: a score that is no finite number in [0, 1].
    """
    for name, score in scores.items():
        if not _is_share(score):
            raise InvalidInputError(f"score {name!r:.80} is {shown(score)}: give a finite number from 0 to 1")
    return round(math.fsum(map(float, scores.values())) / len(scores), 9) if scores else None


def _is_share(score: Any) -> bool:  # noqa: ANN401  whatever a caller gives
    is_number = isinstance(score, Real) and not isinstance(score, bool)
    return is_number and bool(0 <= score <= 1)


def read_share(value: object) -> float | None:
    """What a row holds as a score, brought into [0, 1]; None for anything but a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return min(1.0, max(0.0, number)) if math.isfinite(number) else None


def read_count(value: object, *, least: int = 0) -> int:
    """What a row holds as a count, from `least` to `MAX_COUNT`; `least` for anything but a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        return least
    return min(MAX_COUNT, max(least, value))


def band(mean: float) -> Kind | None:
    """What is learned from an episode with this mean score; None in between."""
    if mean >= LEARNED_FROM:
        return "learned"
    return "antipattern" if mean < ANTIPATTERN_BELOW else None


def new_lesson(  # noqa: PLR0913  the fields of a lesson
    id_: str,
    kind: Kind,
    member: str,
    skill: str,
    episode: str,
    *,
    mean: float,
    episode_id: str,
    seen: str,
    outcome: str = "",
) -> Lesson:
    """A lesson supported by one episode."""
    return Lesson(
        id=id_,
        kind=kind,
        text=episode,
        pattern=pattern_text(kind, member, skill, episode),
        member=member,
        skill=skill,
        mean=mean,
        episodes=(episode_id,),
        first_seen=seen,
        last_seen=seen,
        outcome=outcome,
    )


def merged(lesson: Lesson, *, mean: float, episode_id: str, seen: str, outcome: str = "") -> Lesson:
    """`lesson` with one more episode as evidence: count, running mean, first and last seen, episodes, outcome.

    An archived lesson that is learned again is back in use.
    """
    count = min(MAX_COUNT, lesson.evidence + 1)
    return replace(
        lesson,
        evidence=count,
        mean=lesson.mean + (mean - lesson.mean) / count,
        episodes=(*lesson.episodes, episode_id)[-MAX_CITED:],
        first_seen=min(filter(None, (lesson.first_seen, seen))),
        last_seen=max(lesson.last_seen, seen),
        outcome=outcome or lesson.outcome,
        tier="working" if lesson.archived else lesson.tier,
    )


def stored_score(lesson: Lesson) -> float:
    """The `score` of the stored format: the mean, or 1 - mean for an anti-pattern."""
    return lesson.mean if lesson.kind == "learned" else 1 - lesson.mean


def first_keys(pattern: str) -> tuple[str, str]:
    """The keys a pattern lives under unless another pattern has its hash: that hash, and as old releases wrote it."""
    key = hash_pattern(pattern)
    return key, key.removeprefix("v1:")


def candidate_keys(pattern: str) -> tuple[str, ...]:
    """The keys a pattern may live under, in the order to try: its hash, that of old releases, then suffixes.

    Two patterns can share a hash, so the second one gets `~2`, the third `~3`. Eight suffixes are more than a
    31-bit hash needs at any size this engine is for.
    """
    key, legacy = first_keys(pattern)
    return (key, legacy, *[key + suffix for suffix in _SUFFIXES])


def choose_key(pattern: str, taken: Mapping[str, str]) -> tuple[str, bool]:
    """The key for `pattern` among keys already taken, and whether it is there already.

    Args:
        pattern: the pattern text.
        taken: key -> the pattern text stored under it.

    Raises:
        InvalidInputError: all suffixes hold other patterns.
    """
    free = None
    for key in candidate_keys(pattern):
        if key in taken:
            if storable(taken[key]) == storable(pattern):
                return key, True
        elif free is None and key.startswith("v1:"):
            free = key
    if free is None:
        raise InvalidInputError(f"pattern {pattern!r:.120} shares its key with too many others")
    return free, False


def check_same(lesson: Lesson, member: str, skill: str) -> None:
    """Make sure that a lesson found by its pattern text is of this member and skill.

    Colons in names make pattern texts ambiguous: member `a`, skill `b:c` writes the same as member `a:b`, skill `c`.

    Raises:
        InvalidInputError: it is another member's or skill's.
    """
    written = pattern_text(lesson.kind, lesson.member, lesson.skill, lesson.text)
    if written == lesson.pattern and (lesson.member, lesson.skill) != (member, skill):
        raise InvalidInputError(
            f"member {member!r:.80}, skill {skill!r:.80} writes the same pattern as member {lesson.member!r:.80}, "
            f"skill {lesson.skill!r:.80}: use names without a colon"
        )


def trend(recent: Sequence[float]) -> Trend:
    """Whether the mean of the last scores rises or falls against the same number before them, by over 0.05."""
    window = min(_TREND_WINDOW, len(recent) // 2)
    if not window:
        return "stable"
    latest, before = recent[-window:], recent[-2 * window : -window]
    change = round((math.fsum(latest) - math.fsum(before)) / window, 9)
    if abs(change) <= _TREND_STEP:
        return "stable"
    return "rising" if change > 0 else "falling"
