"""A simulated year of use: what was confirmed is still there, what nobody needed is in the archive, nothing is lost."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hoods import Clock, good, opened

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from agenthood.engine import AsyncHood
    from agenthood.records import Lesson

WEEKS = 52
NEW_A_WEEK, CONFIRMED_A_WEEK, RECALLED_A_WEEK = 6, 3, 4


@dataclass
class _Year:
    """What was done, counted plainly beside the store."""

    evidence: Counter[str] = field(default_factory=Counter)
    uses: Counter[str] = field(default_factory=Counter)
    latest: dict[str, datetime] = field(default_factory=dict)


def _text(rng: random.Random) -> str:
    """A text like no other: words of random letters share next to nothing."""
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(6))


async def _live(hood: AsyncHood, clock: Clock, rng: random.Random) -> _Year:
    year = _Year()
    for _ in range(WEEKS):
        new = [_text(rng) for _ in range(NEW_A_WEEK)]
        # Half of what is confirmed again is recent, half may be from any time and archived already.
        known = list(year.evidence)
        again = rng.sample(known[-20:], min(2, len(known))) + rng.sample(known, min(1, len(known)))
        learned = [*new, *again[:CONFIRMED_A_WEEK]]
        await hood.learn_many([good(text) for text in learned])
        year.evidence.update(learned)
        year.latest.update(dict.fromkeys(learned, clock.now))
        clock.wait(3)
        for text in rng.sample(list(year.evidence), RECALLED_A_WEEK):
            for lesson in await hood.recall(text, limit=1):
                year.uses[lesson.text] += 1
                year.latest[lesson.text] = clock.now
        clock.wait(4)
        await hood.maintain()
    return year


async def test_a_year_of_use(tmp_path: Path) -> None:
    """Some three hundred lessons, learned, confirmed, recalled and tidied weekly by a seeded schedule."""
    clock, rng = Clock(), random.Random(5)
    async with opened(tmp_path, clock=clock) as hood:
        year = await _live(hood, clock, rng)
    async with opened(tmp_path, clock=clock) as hood:
        assert hood.migration is None
        archive = {lesson.text: lesson for lesson in await hood.lessons(tier="archive")}
        every = {lesson.text: lesson for lesson in await hood.lessons()} | archive
        _assert_nothing_lost(every, year)
        confirmed = [text for text, count in year.evidence.items() if count > 1]
        assert len(confirmed) > 80
        assert not archive.keys() & set(confirmed)
        for text in confirmed:
            assert [lesson.text for lesson in await hood.recall(text, limit=1)] == [text]
        ages = {text: (clock.now - at).days for text, at in year.latest.items()}
        assert min(ages[text] for text in archive) >= 90
        forgotten = {text for text in every if ages[text] > 90 + 7 and year.evidence[text] == 1}
        assert forgotten <= archive.keys()
        assert len(forgotten) > 80
        await _assert_restorable(hood, sorted(archive)[:5], archive)


def _assert_nothing_lost(every: dict[str, Lesson], year: _Year) -> None:
    assert every.keys() == year.evidence.keys()
    assert {text: lesson.evidence for text, lesson in every.items()} == year.evidence
    assert {text: lesson.uses for text, lesson in every.items() if lesson.uses} == year.uses
    assert all(len(lesson.episodes) == lesson.evidence for lesson in every.values())


async def _assert_restorable(hood: AsyncHood, texts: list[str], archive: dict[str, Lesson]) -> None:
    for text in texts:
        assert text not in [lesson.text for lesson in await hood.recall(text)]
    await hood.restore(*(archive[text].id for text in texts))
    for text in texts:
        assert [lesson.text for lesson in await hood.recall(text, limit=1)] == [text]
