"""The ids that episodes are recorded under."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from agenthood.formats import iso, new_episode_id
from agenthood.memory.episodic import episode_from

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from agenthood.learning.intake import Intake
    from agenthood.learning.reading import GatheredReads
    from agenthood.stores.base import Record


def draw_ids(
    moments: Iterable[datetime], taken: Container[str], draw: Callable[[datetime], str] = new_episode_id
) -> list[str]:
    """Fresh episode ids, one for each of `moments`, all different and none of them in `taken`.

    Args:
        moments: when the episodes happened; many may share a moment, and then only six characters tell them apart.
        taken: ids that others have.
        draw: makes an id for a moment.
    """
    drawn: dict[str, None] = {}
    for moment in moments:
        id_ = draw(moment)
        while id_ in drawn or id_ in taken:
            id_ = draw(moment)
        drawn[id_] = None
    return list(drawn)


async def episode_ids(
    reads: GatheredReads, intakes: Sequence[Intake], now: datetime, draw: Callable[[datetime], str]
) -> tuple[list[str], dict[str, Record]]:
    """The ids the episodes have or get: a fresh one is like no other of the batch or on the store.

    Args:
        reads: what reads the shared table.
        intakes: the episodes.
        now: when those happened that do not say it.
        draw: makes an id for a moment.

    Returns:
        The ids, and the rows of those that were learned before, when it was not known whether they were.
    """
    ids = {n: intake.episode_id for n, intake in enumerate(intakes) if intake.episode_id is not None}
    drawn_before = {n: intake.drawn for n, intake in enumerate(intakes) if intake.drawn is not None}
    found = await reads.get(list(drawn_before.values())) if drawn_before else {}
    before = {id_: row for n, id_ in drawn_before.items() if (row := found.get(id_)) and _is(intakes[n], row)}
    ids |= {n: id_ for n, id_ in drawn_before.items() if id_ not in found or id_ in before}
    taken = set(ids.values())
    while missing := [n for n in range(len(intakes)) if n not in ids]:
        drawn = draw_ids([intakes[n].at or now for n in missing], taken, draw)
        stored = await reads.get(drawn)
        taken.update(drawn)
        ids |= {n: id_ for n, id_ in zip(missing, drawn, strict=True) if id_ not in stored}
    return [ids[n] for n in range(len(intakes))], before


def _is(intake: Intake, row: Record) -> bool:
    """Whether `row` records this very episode."""
    episode = episode_from(row)
    return episode.episode == intake.episode and (intake.at is None or episode.timestamp == iso(intake.at))
