"""How much a lesson counts now, and which tier it belongs in: plain functions of a lesson and a moment, no I/O.

    salience  = strength * retention                              in [0, 1]; 1 for a pinned lesson
    strength  = clarity * (1 - (1 - support) * (1 - use))
    clarity   = mean of a learned lesson, 1 - mean of an anti-pattern
    support   = evidence / (evidence + 1)
    use       = uses / (uses + 4)
    retention = 2 ** (-age / half-life of its tier), age since it was last seen or used

Decay re-ranks first and forgets last: a recall sinks what has faded (`sunk`), upkeep moves it down a tier, and only
what rests on a single episode is archived by it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from agenthood.errors import InvalidInputError
from agenthood.formats import parse_time
from agenthood.learning.rules import stored_score

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from agenthood.records import Lesson, Tier

HALF_LIFE: Mapping[Tier, timedelta] = {
    "archive": timedelta(days=30),
    "working": timedelta(days=30),
    "short": timedelta(days=90),
    "long": timedelta(days=365),
}
"""Time after which a lesson that is neither seen nor used counts half.

A convention, not a measurement: a month, a quarter and a year, each three to four times the one before, as the boxes of
a spaced-repetition card file grow (Leitner, "So lernt man lernen", 1972): what came up again is kept for longer.
"""
USE_HALF = 4
"""So many uses weigh as half of what use can: to be shown says less for a lesson than one episode more does."""

SHORT_EVIDENCE, LONG_EVIDENCE = 2, 5
"""Episodes a tier takes: confirmed once more is no accident, five times is a habit."""
SHORT_USES = 10
"""Uses that take a lesson into `short` without a second episode; never further, as use alone confirms nothing."""
CONFIRMED = 2
"""From so much evidence on decay never archives a lesson."""

PROMOTED_FROM = 0.5
"""A lesson rises while its retention is at least this: it was seen or used within one half-life."""
DEMOTED_BELOW = 0.25
"""A lesson sinks a tier below this: two half-lives passed, so that a single one has a margin on both sides."""
ARCHIVED_BELOW = 0.125
"""A lesson of a single episode is archived below this: three half-lives in `working`, 90 days."""
LEAST_STAY = timedelta(days=30)
"""How long a lesson stays as it was last written before decay archives it: what was just imported, restored or demoted
is not gone at the next upkeep, however old its episodes are. Nor is anything in the time after the first upkeep of a
store, where uses were not counted before."""

MOST_SUNK = 0.1
"""How far fading may lower the relevance of a recall: a near-tie is decided, a clearly better fit still leads."""

_UP: Mapping[Tier, Tier] = {"working": "short", "short": "long"}
_DOWN: Mapping[Tier, Tier] = {"long": "short", "short": "working"}


def salience(lesson: Lesson, now: datetime) -> float:
    """How much `lesson` counts at `now`, in [0, 1]; rises with clear scores, evidence, use and recency.

    Args:
        lesson: the lesson.
        now: aware, as all times here.
    """
    if lesson.pinned:
        return 1.0
    support = lesson.evidence / (lesson.evidence + 1)
    use = lesson.uses / (lesson.uses + USE_HALF)
    strength = stored_score(lesson) * (1 - (1 - support) * (1 - use))
    return round(min(1.0, max(0.0, strength)) * retention(lesson, now), 6)


def retention(lesson: Lesson, now: datetime) -> float:
    """What is left of `lesson` after the time it was neither seen nor used, in (0, 1]; 1 for a pinned one."""
    return 1.0 if lesson.pinned else 2.0 ** -(_age(lesson, now) / HALF_LIFE[lesson.tier])


def sunk(lesson: Lesson, now: datetime) -> float:
    """What a recall takes off the relevance of `lesson`, in [0, `MOST_SUNK`].

    In steps of a whole day: lessons of one day rank among themselves by how well they fit alone.
    """
    days = timedelta(days=_age(lesson, now).days)
    faded = 0.0 if lesson.pinned else 1 - 2.0 ** -(days / HALF_LIFE[lesson.tier])
    return round(MOST_SUNK * faded, 6)


def next_tier(lesson: Lesson, now: datetime, *, written: datetime | None = None) -> Tier:
    """The tier `lesson` belongs in at the next upkeep: one step up or down from its own, or the same.

    Args:
        lesson: the lesson; a pinned or archived one stays where it is.
        now: the time of the upkeep.
        written: when its row was last written, if known: for `LEAST_STAY` after that it is not archived.
    """
    if lesson.pinned or lesson.tier == "archive":
        return lesson.tier
    left = retention(lesson, now)
    if left >= PROMOTED_FROM and _earns(lesson, _UP.get(lesson.tier)):
        return _UP[lesson.tier]
    if lesson.tier in _DOWN:
        return _DOWN[lesson.tier] if left < DEMOTED_BELOW else lesson.tier
    stayed = written is None or now - written >= LEAST_STAY
    return "archive" if left < ARCHIVED_BELOW and lesson.evidence < CONFIRMED and stayed else lesson.tier


def _earns(lesson: Lesson, tier: Tier | None) -> bool:
    if tier == "short":
        return lesson.evidence >= SHORT_EVIDENCE or lesson.uses >= SHORT_USES
    return tier == "long" and lesson.evidence >= LONG_EVIDENCE


def expendable(lesson: Lesson, now: datetime) -> tuple[bool, float, str]:
    """The key to sort lessons by when some must go: unconfirmed ones first, then the least salient, ties by id."""
    return lesson.evidence >= CONFIRMED, salience(lesson, now), lesson.id


def _age(lesson: Lesson, now: datetime) -> timedelta:
    """Time since `lesson` was last seen or used, at least 0; 0 if no time of it can be read."""
    times = [at for text in (lesson.last_seen, lesson.last_used) if (at := read_time(text)) is not None]
    return max(now - max(times), timedelta()) if times else timedelta()


def read_time(text: str) -> datetime | None:
    """The time a row holds, or None if it holds none."""
    try:
        return parse_time(text)
    except InvalidInputError:
        return None
