"""Pinning, archiving and restoring on real stores, seen again after they were opened anew."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import EmbedderUnavailableError, InvalidInputError
from agenthood.formats import PATTERN, hash_pattern, utc_now
from agenthood.learning import migration
from agenthood.learning.lessons import lesson_key, lesson_record
from agenthood.stores.base import SHARED, Record
from hoods import Clock, bad, bodies, good, opened, shared_rows, small

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.engine import AsyncHood

ONE, TWO, THREE = (
    "fixed the flaky login test by mocking the clock",
    "wrote the release notes",
    "split the parser",
)
EMBEDDERS = pytest.mark.parametrize(
    "embedder", ["lexical", small(), HashedEmbedder(dimension=1536)], ids=["lexical", "small", "shared"]
)


async def _filled(hood: AsyncHood) -> list[str]:
    receipts = await hood.learn_many([good(ONE), good(TWO), good(ONE), bad(THREE)])
    return [receipts[n].id or "" for n in (0, 1, 3)]


async def _texts(hood: AsyncHood, query: str = ONE) -> list[str]:
    return [lesson.text for lesson in await hood.recall(query, threshold=0, limit=10)]


@EMBEDDERS
async def test_an_archived_lesson_is_out_of_look_ups_and_comes_back_whole(
    tmp_path: Path, embedder: Any
) -> None:
    """Neither recalled nor matched nor indexed; restored it is what it was, evidence and all."""
    async with opened(tmp_path, embedder) as hood:
        ids = await _filled(hood)
        before = await hood.lessons()
        done = await hood.archive(ids[0])
        assert (done.lessons, done.unchanged, done.missing) == ((ids[0],), (), ())
        assert not await _index_rows(hood, ids[0])
    async with opened(tmp_path, embedder) as hood:
        assert hood.migration is None, "a migration found something to do"
        assert ONE not in await _texts(hood)
        assert ids[0] not in [lesson.id for lesson in await hood.lessons()]
        (kept,) = await hood.lessons(tier="archive")
        assert kept == replace(next(one for one in before if one.id == ids[0]), tier="archive")
        status = await hood.status()
        assert (status.lessons, status.archived) == ({"learned": 1, "antipattern": 1}, 1)
        assert (status.indexed, status.pending) == (2, 0)
        # A rewording of it is a lesson of its own.
        (reworded,) = await hood.learn_many([good(ONE + " again")])
        assert reworded.status == "stored"
        assert (await hood.migrate()).embedded == 0
        assert not await _index_rows(hood, ids[0])
        back = await hood.restore(ids[0], ids[1])
        assert (back.lessons, back.unchanged, back.pending) == ((ids[0],), (ids[1],), 0)
    async with opened(tmp_path, embedder) as hood:
        assert hood.migration is None
        assert (await _texts(hood))[0] == ONE
        assert [one for one in await hood.lessons() if one.text != ONE + " again"] == before
        assert await hood.lessons(tier="archive") == []


async def _index_rows(hood: AsyncHood, id_: str) -> list[str]:
    row = PATTERN + lesson_key(id_)
    return [c.name for c in await hood.store.collections() if row in await hood.store.get(c, [row])]


@EMBEDDERS
async def test_learning_it_again_restores_it(tmp_path: Path, embedder: Any) -> None:
    """The exact text adds to its evidence, in a batch as alone, and it is found again."""
    clock = Clock(utc_now())
    async with opened(tmp_path, embedder, clock=clock) as hood:
        ids = await _filled(hood)
        await hood.archive(*ids)
        clock.wait(1)
        one, two, again = await hood.learn_many([good(ONE), good(TWO), good(ONE)])
        assert (one.status, one.id, one.evidence) == ("merged", ids[0], 3)
        assert "restored" in one.reason
        assert (two.evidence, again.evidence, again.reason) == (2, 4, "")
    async with opened(tmp_path, embedder) as hood:
        assert hood.migration is None
        assert await _texts(hood, TWO) == [TWO, ONE]
        assert [lesson.id for lesson in await hood.lessons(tier="archive")] == [ids[2]]


async def test_a_batch_restores_what_its_later_episodes_match(tmp_path: Path) -> None:
    """As one by one: a rewording after the exact text merges into the lesson just restored."""
    rewording = "by mocking the clock fixed the flaky login test"
    receipts = []
    for folder, size in (("one", 1), ("two", 2)):
        async with opened(tmp_path / folder, small()) as hood:
            await hood.archive(*await _filled(hood))
            batch = [good(ONE), good(rewording)]
            done = [await hood.learn_many(batch[n : n + size]) for n in range(0, 2, size)]
            receipts.append([(r.status, r.id, r.evidence) for part in done for r in part])
    assert receipts[0] == receipts[1]
    assert receipts[0][1][0] == "merged"


async def test_restored_without_an_embedder_it_waits(tmp_path: Path) -> None:
    """It is found by its words, counts as pending, and the next start with the embedder indexes it."""
    async with opened(tmp_path, small()) as hood:
        ids = await _filled(hood)
        await hood.archive(*ids)

    class Down(HashedEmbedder):
        async def embed(self, *_: Any, **__: Any) -> Any:
            raise EmbedderUnavailableError("it is down")

    async with opened(tmp_path, Down(dimension=64)) as hood:
        done = await hood.restore(ids[0])
        assert (done.lessons, done.pending) == ((ids[0],), 1)
        assert "it is down" in done.reason
        (again,) = await hood.learn_many([good(TWO)])
        assert (again.status, again.evidence) == ("pending", 2)
        assert (await hood.status()).pending == 2
        assert await _texts(hood) == [ONE, TWO]
    async with opened(tmp_path, small()) as hood:
        assert (await hood.status()).pending == 0
        assert (await hood.recall(ONE))[0].semantic


async def test_pins_hold_and_ids_are_told(tmp_path: Path) -> None:
    """Pinned, an archived lesson is restored; archived, a pinned one is unpinned; what nobody has is named."""
    async with opened(tmp_path) as hood:
        ids = await _filled(hood)
        await hood.archive(ids[0])
        done = await hood.pin(ids[0], ids[1], ids[1], "ltm:learnings/none", "ltm:other", "pattern:x")
        assert done.lessons == (ids[0], ids[1])
        assert done.missing == ("ltm:learnings/none", "ltm:other", "pattern:x")
    async with opened(tmp_path) as hood:
        assert {one.id for one in await hood.lessons() if one.pinned} == set(ids[:2])
        assert (await _texts(hood))[0] == ONE
        assert (await hood.pin(ids[0])).unchanged == (ids[0],)
        assert (await hood.unpin(ids[1], ids[2])).lessons == (ids[1],)
        await hood.archive(ids[0])
        (lesson,) = await hood.lessons(tier="archive")
        assert (lesson.id, lesson.pinned) == (ids[0], False)
        with pytest.raises(InvalidInputError, match="is no id"):
            await hood.pin(ids)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="none of 'working'"):
            await hood.lessons(tier="gone")  # type: ignore[arg-type]


async def test_the_stored_shape_changes_only_where_something_was_done(tmp_path: Path) -> None:
    """A lesson without tier, pin or use has the keys it always had; the others say so in both JSON texts."""
    async with opened(tmp_path) as hood:
        ids = await _filled(hood)
        plain = (await bodies(hood, ids[0]))[ids[0]]
        assert not plain.keys() & {"tier", "pinned", "uses", "lastUsed"}
        await hood.pin(ids[0])
        await hood.archive(ids[1])
        rows = await shared_rows(hood)
        assert json.loads(rows[ids[0]].content) == plain | {"pinned": True}
        assert rows[ids[0]].metadata.keys() == {"type", "key", "storedAt"}
        assert list(rows[ids[1]].metadata) == ["type", "key", "storedAt", "tier", "salience"]
        assert rows[ids[1]].metadata["tier"] == "archive"
        await hood.unpin(ids[0])
        await hood.restore(ids[1])
        rows = await shared_rows(hood)
        assert json.loads(rows[ids[0]].content) == plain
        assert rows[ids[1]].metadata.keys() == {"type", "key", "storedAt"}


async def test_a_pattern_row_of_another_program_does_not_bring_it_back(tmp_path: Path) -> None:
    """The TypeScript program re-indexes every lesson at its start: its rows are neither recalled nor counted."""
    embedder = HashedEmbedder(dimension=1536)
    async with opened(tmp_path, embedder) as hood:
        ids = await _filled(hood)
        await hood.archive(ids[0])
        (kept,) = await hood.lessons(tier="archive")
        key = PATTERN + hash_pattern(kept.pattern)
        vector = (await embedder.embed([ONE], role="document"))[0]
        row = Record(key, kept.pattern, {"type": "learned_pattern"}, "2026-11-30T00:00:00.000Z", vector)
        await hood.store.upsert(SHARED, [row])
    async with opened(tmp_path, embedder) as hood:
        assert ONE not in await _texts(hood)
        assert len(await hood.lessons()) == 2
        await hood.migrate()
        assert ONE not in await _texts(hood)
        assert key in await hood.store.get(SHARED, [key]), "its row was removed, and it would make it again"
        await hood.restore(ids[0])
        assert (await _texts(hood))[0] == ONE
        theirs = replace(row, id=PATTERN + lesson_key(ids[1]), content=_pattern(TWO))
        await hood.store.upsert(SHARED, [theirs])
        await hood.archive(ids[1])
        assert theirs.id in await hood.store.get(SHARED, [theirs.id])
        assert TWO not in await _texts(hood, TWO)


def _pattern(text: str) -> str:
    return f"learned:dev:test:{text}"


async def test_what_is_archived_while_a_migration_embeds_it_stays_out(tmp_path: Path) -> None:
    """Embedding takes its time, without the lock; what was decided meanwhile holds."""

    class Slow(HashedEmbedder):
        meanwhile: Any = None

        async def embed(self, texts: Any, **options: Any) -> Any:
            if self.meanwhile is not None and ONE in texts:
                meanwhile, self.meanwhile = self.meanwhile, None
                await meanwhile()
            return await super().embed(texts, **options)

    async with opened(tmp_path) as hood:  # under another model
        ids = await _filled(hood)
    embedder = Slow(dimension=64)
    async with opened(tmp_path, embedder, start_migration=False) as hood:
        embedder.meanwhile = lambda: hood.archive(ids[0])
        await hood.migrate()
        assert hood.index.main.name not in await _index_rows(hood, ids[0])
        assert await migration.is_current(hood.store, hood.index)
        assert (await hood.status()).indexed == 2


async def test_a_lesson_that_only_a_pattern_row_knows_can_be_archived(tmp_path: Path) -> None:
    """It gets a row of its own then, so that it can be restored."""
    async with opened(tmp_path, small()) as hood:
        await _filled(hood)
        row = Record(PATTERN + "v1:orphan", "learned:dev:test:tamed the cache", {"type": "learned_pattern"},
                     "2026-06-01T00:00:00.000Z")  # fmt: skip
        await hood.store.upsert(SHARED, [row])
        await hood.migrate()
        assert "tamed the cache" in await _texts(hood, "tamed the cache")
        assert (await hood.archive("ltm:learnings/v1:orphan")).lessons == ("ltm:learnings/v1:orphan",)
    async with opened(tmp_path, small()) as hood:
        assert "tamed the cache" not in await _texts(hood, "tamed the cache")
        assert (await hood.restore("ltm:learnings/v1:orphan")).pending == 0
        assert (await _texts(hood, "tamed the cache"))[0] == "tamed the cache"


@pytest.mark.parametrize("dimension", [64, 1536])
async def test_what_a_killed_archiving_left_in_the_index_is_removed(tmp_path: Path, dimension: int) -> None:
    """Long-term memory is written first: the next start takes the rows out, and until then they count for nothing."""
    embedder = HashedEmbedder(dimension=dimension)
    async with opened(tmp_path, embedder) as hood:
        ids = await _filled(hood)
        lesson = next(one for one in await hood.lessons() if one.id == ids[0])
        record = lesson_record(replace(lesson, tier="archive"), at=utc_now())
        await hood.store.upsert(SHARED, [record])
        assert ONE not in await _texts(hood)
        (reworded,) = await hood.learn_many([good("by mocking the clock fixed the flaky login test")])
        assert reworded.status == "stored"
        assert not await migration.is_current(hood.store, hood.index)
    async with opened(tmp_path, embedder) as hood:
        assert await migration.is_current(hood.store, hood.index)
        assert not await _index_rows(hood, ids[0])
        assert (await hood.status()).indexed == 3


async def test_an_archived_lesson_keeps_its_key(tmp_path: Path) -> None:
    """Another pattern with the same hash is indexed beside it, so that restoring it overwrites nothing."""
    colliding = ["fixed Aa", "fixed BB"]
    async with opened(tmp_path, small()) as hood:
        ids = [r.id or "" for r in await hood.learn_many([good(text) for text in colliding])]
        await hood.archive(ids[0])
        await hood.store.drop_collection(hood.index.main.name)
        assert (await hood.migrate()).embedded == 1
        await hood.restore(ids[0])
        assert {text for text in await _texts(hood, "fixed") if text in colliding} == set(colliding)
        assert (await hood.status()).pending == 0


async def test_export_and_import_keep_tier_pin_and_uses(tmp_path: Path) -> None:
    """Archived lessons are moved as such and not indexed; importing twice changes nothing."""
    clock = Clock(utc_now())
    async with opened(tmp_path / "one", small(), clock=clock) as hood:
        ids = await _filled(hood)
        await hood.recall(ONE)
        clock.wait(1)
        await hood.maintain()
        await hood.pin(ids[0])
        await hood.archive(ids[1])
        file = io.StringIO()
        await hood.export(file)
        every = [*await hood.lessons(), *await hood.lessons(tier="archive")]
    kept = {one.text: one for one in every}
    assert {text: (one.tier, one.pinned) for text, one in kept.items()} == {
        ONE: ("short", True), TWO: ("archive", False), THREE: ("working", False)
    }  # fmt: skip
    assert kept[ONE].uses == 1
    async with opened(tmp_path / "two", small()) as hood:
        lines = file.getvalue().splitlines()
        assert (await hood.import_(lines)).rejected == ()
        assert [*await hood.lessons(), *await hood.lessons(tier="archive")] == every
        assert TWO not in await _texts(hood, TWO)
        assert (await hood.status()).pending == 0
        assert (await hood.import_(lines)).stored == 0
        assert [*await hood.lessons(), *await hood.lessons(tier="archive")] == every
        await hood.archive(ids[2])
        fresh = {"type": "lesson", "kind": "antipattern", "text": THREE, "member": "dev", "skill": "test",
                 "mean": 0.1, "evidence": 1, "episodes": ["ep:1-abcdef"]}  # fmt: skip
        assert (await hood.import_([json.dumps(fresh)])).merged == 1
        assert (await _texts(hood, THREE))[0] == THREE
        bad_ones = await hood.import_(
            [json.dumps(fresh | {"tier": "attic"}), json.dumps(fresh | {"pinned": 1})]
        )
        assert "tier 'attic' is none of" in bad_ones.rejected[0][1]
        assert "pinned 1 is neither true nor false" in bad_ones.rejected[1][1]


async def test_forgetting_takes_archived_lessons_and_their_uses(tmp_path: Path) -> None:
    """Also the ids in the file of uses."""
    async with opened(tmp_path, small()) as hood:
        ids = await _filled(hood)
        await hood.recall(ONE)
        assert ids[0] in (tmp_path / ".agenthood" / "uses.jsonl").read_text()
        await hood.archive(ids[0])
        assert (await hood.forget(ids[0])).lessons == (ids[0],)
        assert not list((tmp_path / ".agenthood").glob("uses*"))
        assert await hood.lessons(tier="archive") == []
        (again,) = await hood.learn_many([good(ONE)])
        assert (again.status, again.evidence) == ("stored", 1)
