"""The learner's running counts: how many episodes fell in each band, whose they were, and how they went lately."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenthood.formats import LTM, iso, loads_object
from agenthood.learning import rules
from agenthood.memory.long_term import long_term_record
from agenthood.records import LearnerStatus

if TYPE_CHECKING:
    from agenthood.learning.intake import Intake
    from agenthood.learning.reading import GatheredReads
    from agenthood.stores.base import Record

STATUS_KEY = "learner/status"
"""The key of long-term memory that the counts are kept under."""


async def read_tally(reads: GatheredReads) -> Tally:
    """The counts so far; `reads` reads the shared table."""
    id_ = LTM + STATUS_KEY
    return Tally.read((await reads.get([id_])).get(id_))


@dataclass(slots=True)
class Tally:
    """The counts.

    Attributes:
        bands: episodes per band: `learned`, `antipattern`, `skipped`.
        members: episodes per member.
        last_update: ISO 8601 time of the last judged episode.
        recent: mean scores of the latest judged episodes, oldest first.
    """

    bands: dict[str, int] = field(default_factory=lambda: {"learned": 0, "antipattern": 0, "skipped": 0})
    members: dict[str, int] = field(default_factory=dict)
    last_update: str | None = None
    recent: list[float] = field(default_factory=list)

    @classmethod
    def read(cls, record: Record | None) -> Tally:
        """The counts a row holds; what is unreadable in it counts from zero."""
        tally = cls()
        body = loads_object(record.content) if record is not None else {}
        for mine, name in ((tally.bands, "bands"), (tally.members, "members")):
            stored = body.get(name)
            if isinstance(stored, dict):
                mine.update({key: rules.read_count(value) for key, value in stored.items()})
        recent = body.get("recent")
        if isinstance(recent, list):
            tally.recent = [share for score in recent if (share := rules.read_share(score)) is not None]
        last = body.get("lastUpdate")
        tally.last_update = last if isinstance(last, str) else None
        return tally

    def count(self, intake: Intake, now: datetime) -> None:
        """Take one judged episode into account."""
        for counts, name in ((self.bands, intake.kind or "skipped"), (self.members, intake.member)):
            counts[name] = min(rules.MAX_COUNT, counts.get(name, 0) + 1)
        self.recent.append(intake.mean)
        del self.recent[: -rules.RECENT_SCORES]
        self.last_update = iso(now)

    def record(self, now: datetime) -> Record:
        """The row that keeps the counts."""
        body: dict[str, Any] = {
            "bands": self.bands,
            "members": self.members,
            "lastUpdate": self.last_update,
            "recent": self.recent,
        }
        return long_term_record(STATUS_KEY, body, at=now)

    def status(self) -> LearnerStatus:
        """The counts as the learner reports them."""
        return LearnerStatus(self.bands, self.members, self.last_update, rules.trend(self.recent))
