"""Forgetting: afterwards no look-up and no search through the files finds the lesson, and the others are whole."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

import agenthood
from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import InvalidInputError, StoreUnavailableError
from agenthood.formats import hash_pattern
from agenthood.memory.residual import BRIEF_LOCK_SECONDS
from agenthood.stores.base import SHARED, Record
from hoods import bad, bodies, files_with, good, opened, shared_rows, small

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import GoldenStore

# A word of its own, so that a search for it in files cannot meet another text.
SECRET = "rotated the zyxquartz credential after the outage"
WORD = "zyxquartz"
KEPT = "wrote the release notes from the commit log"


@pytest.mark.parametrize("dimension", [64, 1536])
async def test_nothing_is_left_on_disk(tmp_path: Path, dimension: int) -> None:
    """With its episodes, neither text nor any of its words is in any file, whatever the store went through."""
    embedder = HashedEmbedder(dimension=dimension)
    async with opened(tmp_path, embedder) as hood:
        receipts = await hood.learn_many([good(SECRET), good(KEPT), good(SECRET), good(f"{SECRET}!")])
        await hood.learn("an unrelated thing", score=0.9)
        await hood.maintain()
        await hood.learn_many([good(SECRET), good(KEPT)])
        assert files_with(tmp_path, SECRET) != []
    async with opened(tmp_path, HashedEmbedder(dimension=dimension)) as hood:
        done = await hood.forget(receipts[0].id or "", episodes=True)
        assert done.lessons == (receipts[0].id,)
        assert len(done.episodes) == 4
        assert done.signals == 2
        assert done.missing == ()
        assert files_with(tmp_path, WORD) == []
        assert files_with(tmp_path, "quartz credential") == []
    async with opened(tmp_path, HashedEmbedder(dimension=dimension)) as hood:
        assert sorted(lesson.text for lesson in await hood.lessons()) == ["an unrelated thing", KEPT]
        assert [lesson.text for lesson in await hood.recall(KEPT, limit=1)] == [KEPT]
        assert next(lesson for lesson in await hood.lessons() if lesson.text == KEPT).evidence == 2
        assert len(await bodies(hood, "ep:")) == 3
        assert list(await hood.recall(SECRET)) == []


async def test_every_index_that_ever_held_it_is_cleaned(tmp_path: Path) -> None:
    """Also the tables of models that are no longer in use."""
    for embedder in (small(), HashedEmbedder(), "lexical", small(revision="2")):
        async with opened(tmp_path, embedder) as hood:
            await hood.learn_many([good(SECRET), good(KEPT)])
    async with opened(tmp_path, small(revision="2")) as hood:
        assert len(await hood.store.collections()) == 5
        await hood.forget(next(one.id for one in await hood.lessons() if one.text == SECRET), episodes=True)
        assert files_with(tmp_path, WORD) == []
    for embedder in (small(), HashedEmbedder(), "lexical"):
        async with opened(tmp_path, embedder) as hood:
            assert [lesson.text for lesson in await hood.recall(KEPT, limit=1)] == [KEPT]


async def test_episodes_stay_unless_asked_for(tmp_path: Path) -> None:
    """They are the truth about what happened; only the lesson goes."""
    async with opened(tmp_path, small()) as hood:
        receipt = await hood.learn(SECRET, score=0.9)
        done = await hood.forget(receipt.id or "")
        assert (done.lessons, done.episodes) == ((receipt.id,), ())
    async with opened(tmp_path, small()) as hood:
        assert list(await bodies(hood, "ep:")) == [receipt.episode_id]
        assert await hood.lessons() == []
        assert files_with(tmp_path, f"learned:unknown:unknown:{SECRET}") == []


async def test_a_failure_of_the_same_text_keeps_its_episodes(tmp_path: Path) -> None:
    """Only episodes that no other lesson cites go with a lesson."""
    async with opened(tmp_path, small()) as hood:
        receipts = await hood.learn_many([good(SECRET), bad(SECRET), good(SECRET, member="qa")])
        done = await hood.forget(receipts[0].id or "", episodes=True)
        assert done.episodes == (receipts[0].episode_id,)
        left = {lesson.id: lesson.episodes for lesson in await hood.lessons()}
        assert left == {r.id: (r.episode_id,) for r in receipts[1:]}
        assert set(await bodies(hood, "ep:")) == {r.episode_id for r in receipts[1:]}


async def test_all_rows_of_one_pattern_go(tmp_path: Path) -> None:
    """Duplicates, the key of an old release, a pattern row of the TypeScript program: all of them."""
    pattern = f"learned:dev:test:{SECRET}"
    key = hash_pattern(pattern)
    content = f'{{"pattern":"{pattern}","score":0.9,"member":"dev","skill":"test"}}'
    async with opened(tmp_path, small()) as hood:
        for id_ in (
            f"ltm:learnings/{key.removeprefix('v1:')}",
            f"ltm:learnings/{key}",
            "ltm:learnings/odd key",
        ):
            await hood.store.upsert(SHARED, [_row(id_, content)])
        await hood.store.upsert(SHARED, [_row(f"pattern:{key}", content), _row("pattern:elsewhere", pattern)])
        await hood.migrate()
        (lesson,) = await hood.lessons()
        await hood.forget(lesson.id)
        assert files_with(tmp_path, WORD) == []
        assert [id_ for id_ in await shared_rows(hood) if id_.startswith(("ltm:l", "pattern:"))] == []


def _row(id_: str, content: str) -> Record:
    return Record(id_, content, {"type": "long_term"}, "2026-01-01T00:00:00.000Z")


async def test_unknown_ids_are_told(tmp_path: Path) -> None:
    """What no lesson has is missing, whatever else it may be; nothing but lessons can be forgotten."""
    async with opened(tmp_path, HashedEmbedder()) as hood:
        receipt = await hood.learn(SECRET, score=0.9)
        key = (receipt.id or "").partition("/")[2]
        others = ["ltm:learnings/none", "nonsense", "", "ltm:learner/status", f"ltm:antipatterns/{key}",
                  receipt.episode_id or "", f"pattern:{key}", f"ltm:spaces/{hood.index.space}"]  # fmt: skip
        before = set(await shared_rows(hood))
        done = await hood.forget(*others, *others)
        assert (done.lessons, sorted(done.missing)) == ((), sorted(others))
        assert set(await shared_rows(hood)) == before
        assert (await hood.forget()).lessons == ()


async def test_an_unusable_row_can_be_forgotten(tmp_path: Path) -> None:
    """A row under a lesson's key that holds no lesson goes by its id."""
    async with opened(tmp_path, small()) as hood:
        await hood.store.upsert(SHARED, [_row("ltm:learnings/broken", f"no json about {WORD}")])
        assert (await hood.forget("ltm:learnings/broken")).lessons == ("ltm:learnings/broken",)
        assert files_with(tmp_path, WORD) == []


async def test_what_only_a_pattern_row_knows_can_be_forgotten(tmp_path: Path) -> None:
    """Such a lesson has an id as any other, and does not come back at the next start."""
    pattern = f"learned:dev:test:{SECRET}"
    async with opened(tmp_path, small()) as hood:
        await hood.store.upsert(SHARED, [_row(f"pattern:{hash_pattern(pattern)}", pattern)])
        await hood.migrate()
        (lesson,) = await hood.lessons()
        assert (await hood.forget(lesson.id)).lessons == (lesson.id,)
        assert files_with(tmp_path, WORD) == []
    async with opened(tmp_path, small()) as hood:
        assert await hood.lessons() == []


async def test_forgetting_in_a_typescript_store(golden_store: GoldenStore) -> None:
    """A lesson with duplicate rows goes from every file; the others and all other memory keep their rows."""
    folder = golden_store("a")
    async with agenthood.open_async(folder, embedder=HashedEmbedder()) as hood:
        lessons = await hood.lessons()
        doomed = next(
            one
            for one in sorted(lessons, key=lambda one: one.id)
            if len(one.text) > 25 and one.text.replace(" ", "").isalnum()
        )
        before = await shared_rows(hood)
        pattern = doomed.pattern
        assert files_with(folder, pattern) != []
        await hood.forget(doomed.id, episodes=True)
        assert files_with(folder, pattern) == []
        assert {one.id for one in await hood.lessons()} == {one.id for one in lessons} - {doomed.id}
        after = await shared_rows(hood)
        assert {i: r.content for i, r in after.items()} == {
            i: r.content for i, r in before.items() if i in after
        }
        assert all(pattern in before[id_].content for id_ in before.keys() - after.keys())


async def test_forgetting_again_learns_again(tmp_path: Path) -> None:
    """A forgotten lesson can be learned anew, with evidence 1."""
    async with opened(tmp_path, small()) as hood:
        receipt = await hood.learn(SECRET, score=0.9)
        await hood.learn(SECRET, score=0.9)
        await hood.forget(receipt.id or "", episodes=True)
        again = await hood.learn(SECRET, score=0.9)
        assert (again.status, again.id, again.evidence) == ("stored", receipt.id, 1)
        assert len(await hood.recall(SECRET)) == 1


async def test_signals_of_merged_rewordings_go(tmp_path: Path) -> None:
    """Residual memory forgets every wording the lesson was learned from, though the episodes stay."""
    reworded = f"{SECRET}!"
    async with opened(tmp_path, small()) as hood:
        receipts = await hood.learn_many([good(SECRET), good(reworded), good(KEPT)])
        assert receipts[1].id == receipts[0].id
        done = await hood.forget(receipts[0].id or "")
        assert (done.signals, done.episodes) == (2, ())
        assert [signal.text for signal in hood.residual.get_active()] == [KEPT]


async def test_a_locked_residual_memory_stops_it_before_anything_is_changed(tmp_path: Path) -> None:
    """The event loop goes on meanwhile, the wait is short, and the lesson is still there whole."""
    async with opened(tmp_path) as hood:
        receipt = await hood.learn(SECRET, score=0.9)
        with FileLock(tmp_path / ".agenthood" / "residual.json.lock"):
            slowest = asyncio.create_task(_slowest_turn())
            with pytest.raises(StoreUnavailableError, match=r"residual\.json"):
                await hood.forget(receipt.id or "")
            slowest.cancel()
            assert await slowest < BRIEF_LOCK_SECONDS / 2
        assert [lesson.text for lesson in await hood.recall(SECRET)] == [SECRET]
        assert (await hood.forget(receipt.id or "")).signals == 1


async def _slowest_turn() -> float:
    """How long, in seconds, the event loop kept others waiting at most, until this is cancelled."""
    slowest = 0.0
    try:
        while True:
            start = time.monotonic()
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.monotonic() - start)
    except asyncio.CancelledError:
        return slowest


@pytest.mark.parametrize("id_", [["ltm:learnings/v1:a"], None, 5, b"ltm:learnings/v1:a"])
async def test_an_id_that_is_no_text_is_refused(tmp_path: Path, id_: Any) -> None:
    """A list given as one id is told what to do."""
    async with opened(tmp_path) as hood:
        with pytest.raises(InvalidInputError, match=r"forget\(\*ids\)"):
            await hood.forget(id_)
