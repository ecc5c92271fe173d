"""What comes of a batch: its parts as they are decided on, what of them is on disk, and the receipts of the rest."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agenthood.errors import AgenthoodError
from agenthood.formats import shown
from agenthood.learning.preparing import AT_A_TIME
from agenthood.records import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agenthood.learning.batch import Batch, Decided
    from agenthood.learning.intake import Intake
    from agenthood.learning.tally import Tally
    from agenthood.stores.base import Record

_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class Part:
    """Some episodes of a batch, decided on.

    Attributes:
        rows: what is to be written.
        receipts: one for each.
        news: those that count.
    """

    rows: Decided
    receipts: list[Receipt]
    news: list[Intake]


@dataclass(slots=True)
class Kept:
    """What of a batch is on disk.

    Attributes:
        receipts: one for each episode, in order.
        news: those of the episodes that count.
    """

    receipts: list[Receipt] = field(default_factory=list)
    news: list[Intake] = field(default_factory=list)


async def decided(
    batch: Batch, tally: Tally, episodes: Iterable[tuple[Intake, str]], before: Mapping[str, Record]
) -> Part:
    """Decide on episodes, each with the id it has or gets; `before` has those that were learned already."""
    receipts, news = [], []
    for number, (intake, id_) in enumerate(episodes):
        if number % AT_A_TIME == 0:
            await asyncio.sleep(0)
        if id_ in before:
            receipts.append(batch.pass_over(intake, before[id_]))
            continue
        receipts.append(receipt := batch.decide(intake, id_))
        if _is_news(intake, receipt):
            tally.count(intake, batch.now)
            news.append(intake)
    return Part(batch.take(tally.record(batch.now)), receipts, news)


def _is_news(intake: Intake, receipt: Receipt) -> bool:
    """Whether an episode counts: neither refused nor evidence for its lesson already."""
    return receipt.status != "rejected" and (intake.kind is None or receipt.status != "skipped")


def not_learned(intakes: Sequence[Intake], error: Exception) -> list[Receipt]:
    """The receipts of a batch that `error` ended; it is logged."""
    if isinstance(error, AgenthoodError):
        _log.warning("not learned, %d in number: %s", len(intakes), error)
        return refused(intakes, str(error))
    _log.error("not learned, %d in number", len(intakes), exc_info=error)
    return refused(intakes, f"learning failed unexpectedly: {shown(error, 200)}")


def refused(intakes: Sequence[Intake], reason: str) -> list[Receipt]:
    """The receipts of a batch of which nothing was learned."""
    return [Receipt("rejected", kind=intake.kind, score=intake.mean, reason=reason) for intake in intakes]
