"""What kind of record a row is, and how much it counts: the metadata that records of many scopes carry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agenthood.formats import EPISODE, FOLDERS, LTM, PATTERN
from agenthood.learning.lessons import lesson_from
from agenthood.learning.salience import read_time, salience

if TYPE_CHECKING:
    from agenthood.stores.base import Record

_LESSONS = tuple(LTM + folder for folder in FOLDERS.values())
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def labels(record: Record) -> dict[str, str | float]:
    """`record_type`, `tier` and `salience` of a row as it is when it is written.

    `record_type` is `episode`, `lesson`, `pattern` or, for the rest, `state`. Tier and salience, in [0, 1], are a
    lesson's; what is none is neither moved nor fades: `long` and 1. A lesson that cannot be read counts 0.
    """
    if not record.id.startswith(_LESSONS):
        kinds = {EPISODE: "episode", PATTERN: "pattern"}
        found = next((kind for start, kind in kinds.items() if record.id.startswith(start)), "state")
        return {"record_type": found, "tier": "long", "salience": 1.0}
    lesson = lesson_from(record)
    if lesson is None:
        return {"record_type": "lesson", "tier": "working", "salience": 0.0}
    written = read_time(record.created_at) or _LONG_AGO
    return {"record_type": "lesson", "tier": lesson.tier, "salience": salience(lesson, written)}
