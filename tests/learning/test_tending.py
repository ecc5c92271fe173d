"""Upkeep of lessons on real stores: uses counted once, tiers moved, the number bounded, whatever kills it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings
from agenthood.embedding.testing import HashedEmbedder
from agenthood.formats import iso, utc_now
from agenthood.learning import migration
from agenthood.learning.archiving import archived, write
from agenthood.learning.salience import HALF_LIFE, MOST_SUNK
from agenthood.learning.tending import tend
from agenthood.records import Tidied
from hoods import Clock, bad, good, opened, small

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.engine import AsyncHood
    from agenthood.records import Lesson

TEXTS = [
    "fixed the flaky login test by mocking the clock",
    "wrote the release notes from the commit log",
    "split the parser into a lexer and a grammar",
    "retried uploads with exponential backoff",
    "sped up the settings page by caching avatars",
    "renamed the billing module in small steps",
]


async def _by_text(hood: AsyncHood) -> dict[str, Lesson]:
    every = [*await hood.lessons(), *await hood.lessons(tier="archive")]
    return {lesson.text: lesson for lesson in every}


def _bounded(most: int) -> dict[str, Any]:
    settings = Settings(EmbedderSettings(kind="lexical"), max_lessons=most)
    return {"settings": settings, "embedder": "lexical"}


async def test_lessons_rise_and_fade(tmp_path: Path) -> None:
    """Confirmed ones rise a tier at a time, unconfirmed ones are archived, what was shown stays a while longer."""
    clock = Clock()
    async with opened(tmp_path, small(), clock=clock) as hood:
        await hood.learn_many([good(text) for text in [TEXTS[0]] * 5 + [TEXTS[1]] * 2 + TEXTS[2:4]])
        assert (await hood.maintain()).lessons == Tidied(promoted=2)
        assert (await hood.maintain()).lessons == Tidied(promoted=1)
        assert (await hood.maintain()).lessons == Tidied()
        clock.wait(60)
        assert TEXTS[2] in [one.text for one in await hood.recall(TEXTS[2], limit=1)]
        clock.wait(31)
        report = await hood.maintain()
        assert report.lessons == Tidied(archived=1, uses=1)
        assert report.migration is None
    async with opened(tmp_path, small(), clock=clock) as hood:
        assert hood.migration is None
        found = await _by_text(hood)
        assert [found[text].tier for text in TEXTS[:4]] == ["long", "short", "working", "archive"]
        used = found[TEXTS[2]]
        assert (used.uses, used.last_used) == (1, iso(clock.now - timedelta(days=31)))
        clock.wait(3_000)
        for expected in (Tidied(demoted=2, archived=1), Tidied(demoted=1), Tidied()):
            assert (await hood.maintain()).lessons == expected
        assert [one.text for one in await hood.recall(TEXTS[0], limit=1)] == [TEXTS[0]]
        assert (await _by_text(hood))[TEXTS[0]].tier == "working"


async def test_the_first_upkeep_of_an_old_store_archives_nothing(tmp_path: Path) -> None:
    """Nobody had counted its uses: a month of use shows what is still needed."""
    clock = Clock()
    async with opened(tmp_path, clock=clock) as hood:
        await hood.learn_many([good(text) for text in TEXTS[:3]])
        clock.wait(400)
        assert (await hood.maintain()).lessons == Tidied()
        clock.wait(15)
        await hood.recall(TEXTS[0], limit=1)
        assert (await hood.maintain()).lessons == Tidied(uses=1)
        clock.wait(15)
        assert (await hood.maintain()).lessons == Tidied(archived=2)
        assert [lesson.text for lesson in await hood.lessons()] == [TEXTS[0]]


async def test_pinned_lessons_are_left_alone(tmp_path: Path) -> None:
    """For years; one that is pinned in the archive, as an import may bring it, is put back."""
    clock = Clock()
    async with opened(tmp_path, small(), clock=clock) as hood:
        ids = [r.id or "" for r in await hood.learn_many([good(text) for text in TEXTS[:3]])]
        await hood.pin(ids[0])
        await hood.maintain()
        lesson = (await _by_text(hood))[TEXTS[1]]
        await hood.archive(lesson.id)
        await write(hood.store, [replace(archived(lesson), pinned=True)], at=clock.now)
        clock.wait(3_000)
        report = await hood.maintain()
        assert report.lessons == Tidied(archived=1, restored=1)
        assert report.migration is not None
        assert [one.text for one in await hood.recall(TEXTS[1], limit=1)] == [TEXTS[1]]
        found = await _by_text(hood)
        assert [found[text].tier for text in TEXTS[:3]] == ["working", "working", "archive"]


async def test_a_stale_lesson_ranks_below_a_fresh_one_that_is_as_near(tmp_path: Path) -> None:
    """Relevance and similarity are told as they are; a much better fit still leads, and nothing drops out."""
    clock = Clock()
    async with opened(tmp_path, small(), clock=clock) as hood:
        await hood.learn_many([good(TEXTS[0]), good(TEXTS[0])])
        clock.wait(80)
        await hood.learn_many([bad(TEXTS[0]), good(TEXTS[1])])
        found = await hood.recall(TEXTS[0], threshold=0)
        assert [(one.kind, one.evidence) for one in found[:2]] == [("antipattern", 1), ("learned", 2)]
        assert found[0].relevance == found[1].relevance > found[2].relevance + MOST_SUNK
        assert found[0].similarity == found[1].similarity
    async with opened(tmp_path, small(), clock=clock) as hood:
        await hood.maintain()  # both were used just now
        again = await hood.recall(TEXTS[0], threshold=0)
        assert [one.kind for one in again[:2]] == ["learned", "antipattern"]


async def test_sessions_count_what_they_show(tmp_path: Path) -> None:
    """Once each, though two look-ups are made for one session, and none for what the block has no room for."""
    clock = Clock()
    async with opened(tmp_path, small(), clock=clock) as hood:
        await hood.learn_many([good(text) for text in TEXTS])
        async with hood.session(TEXTS[0], member="dev", skill="test") as session:
            pass
        shown = {lesson.text for lesson in session.lessons}
        assert TEXTS[0] in shown
        async with hood.session(TEXTS[0], max_bytes=1) as session:
            assert not session.block
        async with hood.session(TEXTS[0], limit=0):
            pass
        assert (await hood.maintain()).lessons.uses == len(shown)
        assert {text for text, one in (await _by_text(hood)).items() if one.uses} == shown
        assert (await hood.maintain()).lessons.uses == 0


async def test_the_least_salient_go_first_when_there_are_too_many(tmp_path: Path) -> None:
    """Unconfirmed before confirmed, then by salience; pinned ones never, archived ones do not count."""
    clock = Clock()
    days = [3, 1, 2, 9, 0, 20]  # since each was learned
    async with opened(tmp_path, clock=clock, **_bounded(4)) as hood:
        await hood.learn_many([good(text) for text in TEXTS])
        lessons = await _by_text(hood)
        aged = [
            replace(lessons[text], last_seen=iso(clock.now - timedelta(days=age)), evidence=1 + (n == 3))
            for n, (text, age) in enumerate(zip(TEXTS, days, strict=True))
        ]
        await write(hood.store, aged, at=clock.now)
        await hood.pin(lessons[TEXTS[5]].id)
        report = await hood.maintain()
        assert (report.lessons.archived, report.migration) == (2, None)
        assert {text for text, one in (await _by_text(hood)).items() if one.archived} == {TEXTS[0], TEXTS[2]}
    async with opened(tmp_path, clock=clock, **_bounded(1)) as hood:
        assert (await hood.maintain()).lessons.archived == 3
        assert [lesson.text for lesson in await hood.lessons()] == [TEXTS[5]]
        assert (await hood.status()).archived == 5
        assert (await hood.maintain()).lessons == Tidied()


async def test_confirmed_lessons_go_last(tmp_path: Path) -> None:
    """However faded, a confirmed lesson outlasts a fresh one that rests on one episode."""
    clock = Clock()
    async with opened(tmp_path, clock=clock, **_bounded(1)) as hood:
        await hood.learn_many([good(TEXTS[0]), good(TEXTS[0])])
        clock.wait(50)
        await hood.learn_many([good(TEXTS[1])])
        assert (await hood.maintain()).lessons.archived == 1
        assert [lesson.text for lesson in await hood.lessons()] == [TEXTS[0]]


async def test_learning_and_upkeep_at_once_lose_nothing(tmp_path: Path) -> None:
    """A bound archives what another process is just learning again: every episode counts, and the index agrees."""
    async with opened(tmp_path, **_bounded(2)) as one, opened(tmp_path, **_bounded(2)) as two:

        async def learn() -> None:
            for _ in range(12):
                for receipt in await two.learn_many([good(text) for text in TEXTS]):
                    assert receipt.status in {"stored", "merged"}

        async def tidy() -> None:
            while not learning.done():
                await tend(one.store, one.index, one.parts.uses, now=utc_now(), max_lessons=2)

        learning = asyncio.create_task(learn())
        await asyncio.gather(learning, tidy())
        found = await _by_text(one)
        assert {text: lesson.evidence for text, lesson in found.items()} == dict.fromkeys(TEXTS, 12)
        active = {text for text, lesson in found.items() if not lesson.archived}
        assert {lesson.text for lesson in await two.recall("login test", threshold=0, limit=20)} == active
        await one.maintain()
        assert len(await one.lessons()) == 2
    async with opened(tmp_path, **_bounded(2)) as hood:
        assert hood.migration is None


async def test_uses_of_a_clock_that_ran_ahead_do_not_stop_the_count(tmp_path: Path) -> None:
    """They count as of now, and later ones are counted again."""
    clock = Clock()
    async with opened(tmp_path, clock=clock) as hood:
        (receipt,) = await hood.learn_many([good(TEXTS[0])])
        clock.wait(100)
        await hood.recall(TEXTS[0])
        clock.wait(-100)
        assert (await hood.maintain()).lessons.uses == 1
        clock.wait(1)
        hood.parts.uses.note([receipt.id or "", "ltm:learnings/none", "\x00"])
        assert (await hood.maintain()).lessons.uses == 1
        (lesson,) = await hood.lessons()
        assert (lesson.uses, lesson.last_used) == (2, iso(clock.now))


# A store that dies at a given change, before it or just after it.
DYING = """
import asyncio, os, signal, sys
from datetime import datetime
from pathlib import Path
from agenthood.embedding.testing import HashedEmbedder
from agenthood.learning.index import EmbeddingIndex
from agenthood.learning.tending import tend
from agenthood.memory.uses import UseLog
from agenthood.stores.lance.store import LanceStore

class Dying(LanceStore):
    left = int(sys.argv[2])

    async def _step(self, change):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        done = await change
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    async def upsert(self, collection, records):
        return await self._step(super().upsert(collection, records))

    async def delete(self, collection, ids):
        return await self._step(super().delete(collection, ids))

async def main():
    folder = Path(sys.argv[1])
    store = Dying(folder / "memory")
    index = EmbeddingIndex(store, HashedEmbedder(dimension=int(sys.argv[3])).space)
    now = datetime.fromisoformat(sys.argv[4])
    print(await tend(store, index, UseLog(folder / "uses.jsonl"), now=now, max_lessons=2))
    await store.close()

asyncio.run(main())
"""


def _tend(folder: Path, steps: int, dimension: int, clock: Clock) -> int:
    command = [
        sys.executable,
        "-c",
        DYING,
        str(folder / ".agenthood"),
        str(steps),
        str(dimension),
        iso(clock.now),
    ]
    return subprocess.run(command, check=False, timeout=60).returncode


@pytest.mark.parametrize(
    ("dimension", "steps"),
    [
        pytest.param(64, 2, id="uses counted, their file still there"),
        pytest.param(64, 4, id="archived, still in the index"),
        pytest.param(1536, 6, id="out of the shared table, still in its own"),
    ],
)
async def test_killed_at_a_change_the_next_upkeep_finishes_it(
    tmp_path: Path, dimension: int, steps: int
) -> None:
    """No use is counted twice or lost, no evidence, and look-ups agree with long-term memory again."""
    clock, embedder = Clock(), HashedEmbedder(dimension=dimension)
    async with opened(tmp_path, embedder, clock=clock) as hood:
        await hood.learn_many([good(text) for text in [*TEXTS[:5], TEXTS[0]]])
        await hood.maintain()
        clock.wait(95)
        await hood.recall(TEXTS[3], limit=1)
        await hood.recall(TEXTS[4], limit=1)
    assert _tend(tmp_path, steps, dimension, clock) == -signal.SIGKILL
    async with opened(tmp_path, embedder, clock=clock) as hood:
        # The start alone makes the index agree with what was archived until then.
        assert await migration.is_current(hood.store, hood.index)
        status = await hood.status()
        assert (status.indexed, status.pending) == (5 - status.archived, 0)
        await hood.maintain()
        found = await _by_text(hood)
        assert [found[text].archived for text in TEXTS[:3]] == [False, True, True]
        assert [found[text].uses for text in TEXTS[:5]] == [0, 0, 0, 1, 1]
        assert [found[text].evidence for text in TEXTS[:5]] == [2, 1, 1, 1, 1]
        recalled = {one.text for one in await hood.recall(TEXTS[1], threshold=0, limit=10)}
        assert recalled == {text for text, one in found.items() if not one.archived}
        assert await hood.index.count({}) == len(recalled)


def test_the_half_lives_are_what_the_tests_wait_for() -> None:
    """Or they would pass for another reason."""
    assert [HALF_LIFE[tier].days for tier in ("working", "short", "long")] == [30, 90, 365]
