"""Filling the index of a space: real TypeScript stores, kills, failures, limits in time, changed models."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import agenthood
from agenthood.embedding.lexical import LexicalEmbedder
from agenthood.embedding.testing import HashedEmbedder
from agenthood.formats import INDEX_VERSION_KEY, loads_object, storable
from agenthood.learning.calibration import reference_texts
from agenthood.learning.migration import is_current, read_marker, reindex_legacy_patterns
from agenthood.memory.long_term import long_term_record
from agenthood.stores.base import SHARED, Record
from agenthood.stores.lance.store import LanceStore
from hoods import files_with, good, opened, shared_rows, small

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenthood.embedding.base import Role, Vectors
    from agenthood.engine import AsyncHood
    from conftest import GoldenStore

LESSONS = {"a": 124, "b": 54}


async def _raw(folder: Path) -> list[tuple[Any, ...]]:
    """Every row of the shared table as it is stored, duplicates and all, without vectors."""
    import lancedb  # noqa: PLC0415  1 s

    table = await (await lancedb.connect_async(folder / "memory")).open_table("vectors")
    rows = (await table.query().to_arrow()).select(["id", "content", "metadata", "created_at"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def _long_term(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        row for row in rows if row[0].startswith(("ltm:", "ep:")) and not row[0].startswith("ltm:spaces/")
    ]


def _markers(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [loads_object(row[1]) for row in rows if row[0] == INDEX_VERSION_KEY]


async def _check_findable(hood: AsyncHood, lessons: int) -> None:
    """Every lesson has one index row in the active space, and its own text finds it, once."""
    everything = await hood.lessons()
    present = list((await hood.index.present()).values())
    assert len(everything) == lessons
    assert sorted(present) == sorted(storable(lesson.pattern) for lesson in everything)
    entries = [lesson.text if lesson.text.strip() else lesson.pattern for lesson in everything]
    vectors = await hood.space.embed(entries)
    found = await hood.index.find_similar(vectors, threshold=0.999, limit=200, scoring="cosine")
    for lesson, vector, matches in zip(everything, vectors, found, strict=True):
        if vector.any():
            assert [match.pattern for match in matches].count(storable(lesson.pattern)) == 1


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("dimension", [64, 1536])
async def test_a_store_left_by_typescript_becomes_findable(
    golden_store: GoldenStore, name: str, dimension: int
) -> None:
    """All its lessons, each once, with one marker; its long-term rows keep every byte; again embeds nothing."""
    folder = golden_store(name)
    before = await _raw(folder)
    embedder = HashedEmbedder(dimension=dimension)
    async with agenthood.open_async(folder, embedder=embedder) as hood:
        report = hood.migration
        assert report is not None
        assert (report.lessons, report.embedded, report.remaining) == (LESSONS[name], LESSONS[name], 0)
        assert (report.complete, report.present, report.reason) == (True, 0, "")
        await _check_findable(hood, LESSONS[name])
    after = await _raw(folder)
    assert _long_term(after) == _long_term(before)
    (marker,) = _markers(after)
    assert list(marker)[:3] == ["version", "migratedAt", "migrated"]
    assert (marker["version"], marker["migrated"], marker["space"]) == (2, LESSONS[name], str(embedder.space))
    again = HashedEmbedder(dimension=dimension)
    async with agenthood.open_async(folder, embedder=again) as hood:
        assert hood.migration is None
        assert again.texts_embedded == 1  # the canary
        assert (await hood.migrate()).embedded == 0
    assert len(_markers(await _raw(folder))) == 1


@pytest.mark.parametrize("name", ["a", "b"])
async def test_the_bundled_model_finds_every_lesson(golden_store: GoldenStore, name: str) -> None:
    """The same with the model that is used when nothing is configured; asking by its text gives the lesson first."""
    async with agenthood.open_async(golden_store(name), embedder="bundled", migration_seconds=100) as hood:
        assert hood.migration is not None
        assert hood.migration.embedded == LESSONS[name]
        await _check_findable(hood, LESSONS[name])
        for lesson in [one for one in await hood.lessons() if len(one.text.split()) > 3][:8]:
            found = await hood.recall(lesson.text, member=lesson.member, kind=lesson.kind, limit=3)
            assert lesson.id in [one.id for one in found]
            assert found.semantic


async def test_typescript_rows_keep_their_ids_in_the_shared_table(golden_store: GoldenStore) -> None:
    """In its own dimension the space takes over the rows in place; none is added under another key."""
    folder = golden_store("b")
    before = {row[0] for row in await _raw(folder) if row[0].startswith("pattern:")}
    async with agenthood.open_async(folder, embedder=HashedEmbedder()):
        pass
    after = [row for row in await _raw(folder) if row[0].startswith("pattern:")]
    assert {row[0] for row in after} >= before
    assert len(after) == len({row[0] for row in after})
    assert all(row[2].startswith('{"type":"learned_pattern"') for row in after)


_KILLED = """
import asyncio, sys
import agenthood
from agenthood.embedding.testing import HashedEmbedder

class Slow(HashedEmbedder):
    async def embed(self, texts, *, role="document"):
        vectors = await super().embed(texts, role=role)
        if len(texts) not in (1, 455):
            print(len(texts), flush=True)
            await asyncio.sleep(0.3)
        return vectors

agenthood.open(sys.argv[1], embedder=Slow(dimension=int(sys.argv[2])), migration_seconds=60)
print("done", flush=True)
"""


@pytest.mark.parametrize("dimension", [64, 1536])
async def test_a_killed_migration_ends_as_an_undisturbed_one(
    golden_store: GoldenStore, dimension: int
) -> None:
    """Killed after its first batch, the next start embeds only the rest and leaves the same rows."""
    undisturbed, killed = golden_store("a"), golden_store("a")
    await asyncio.to_thread(_start_and_kill, killed, dimension)
    assert not _markers(await _raw(killed))
    embedder = HashedEmbedder(dimension=dimension)
    async with agenthood.open_async(killed, embedder=embedder) as hood:
        assert hood.migration is not None
        assert hood.migration.complete
        assert 0 < hood.migration.embedded < LESSONS["a"]
        await _check_findable(hood, LESSONS["a"])
        rows = await _index(hood)
    async with agenthood.open_async(undisturbed, embedder=HashedEmbedder(dimension=dimension)) as hood:
        assert await _index(hood) == rows
    assert _long_term(await _raw(killed)) == _long_term(await _raw(undisturbed))


def _start_and_kill(folder: Path, dimension: int) -> None:
    """Run a slow migration in a process and kill it when it has begun to embed its second batch."""
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(folder), str(dimension)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == ["16", "32"]
        os.kill(process.pid, signal.SIGKILL)


async def _index(hood: AsyncHood) -> list[tuple[str, str, Any]]:
    rows = [
        (record.id, record.content, sorted(record.metadata.items()))
        for collection in {hood.index.main, SHARED}
        async for batch in hood.store.scan(collection)
        for record in batch
        if record.id.startswith("pattern:")
    ]
    return sorted(rows)


async def test_an_embedder_that_fails_half_way_leaves_no_marker(golden_store: GoldenStore) -> None:
    """The report says why it stopped; a later start completes, embedding only what is missing."""
    folder = golden_store("a")
    async with agenthood.open_async(folder, embedder=small(fail_after=456 + 64)) as hood:
        report = hood.migration
        assert report is not None
        assert (report.complete, report.embedded, report.remaining) == (False, 48, 76)
        assert "fail_after" in report.reason
    assert not _markers(await _raw(folder))
    working = small()
    async with agenthood.open_async(folder, embedder=working) as hood:
        assert hood.migration is not None
        assert hood.migration.complete
        assert working.texts_embedded == 1 + 76
        await _check_findable(hood, LESSONS["a"])


async def test_a_marker_goes_before_work_begins(tmp_path: Path) -> None:
    """Where one of this space was there already, a run that stops half-way does not leave it."""
    async with opened(tmp_path, small(fail_after=0)) as hood:
        await hood.learn_many([good(text) for text in reference_texts()[:70]])
        assert await read_marker(hood.store) is not None
    async with opened(tmp_path, small(fail_after=456 + 64)) as hood:
        assert hood.migration is not None
        assert (hood.migration.complete, hood.migration.embedded) == (False, 48)
        assert await read_marker(hood.store) is None
    async with opened(tmp_path, small()) as hood:
        assert (await hood.status()).pending == 0


class _Stuck(HashedEmbedder):
    """An embedder that answers one batch and then hangs."""

    batches = 0

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        if len(texts) not in {1, len(reference_texts())}:  # the canary and the calibration
            self.batches += 1
            if self.batches > 1:
                await asyncio.sleep(1_000)
        return await super().embed(texts, role=role)


async def test_a_start_is_bounded_and_the_next_goes_on(golden_store: GoldenStore) -> None:
    """Past its time the start returns without a marker; what was done stays done, later starts complete it."""
    folder = golden_store("a")
    async with agenthood.open_async(folder, embedder=_Stuck(dimension=64), migration_seconds=2) as hood:
        first = hood.migration
        assert first is not None
        assert not first.complete
        assert first.embedded in {16, 0}  # 0 where the machine is too busy to get that far
        assert first.remaining == LESSONS["a"] - first.embedded
        assert "time" in first.reason
    assert not _markers(await _raw(folder))
    async with agenthood.open_async(folder, embedder=small()) as hood:
        assert hood.migration is not None
        assert (hood.migration.complete, hood.migration.present) == (True, first.embedded)
        assert hood.migration.embedded == first.remaining
        await _check_findable(hood, LESSONS["a"])


class _Interrupted(HashedEmbedder):
    """An embedder during whose work somebody else forgets a lesson."""

    interrupt: Any = None

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        if self.interrupt is not None and len(texts) == 2:
            await self.interrupt()
        return await super().embed(texts, role=role)


async def test_what_is_forgotten_while_it_is_embedded_stays_forgotten(tmp_path: Path) -> None:
    """Its text does not come back with the index rows that are written afterwards."""
    async with opened(tmp_path, small(fail_after=0)) as hood:
        receipts = await hood.learn_many([good("about the zyxquartz outage"), good("sped up the cache")])
    embedder = _Interrupted(dimension=64)
    async with (
        opened(tmp_path, embedder, start_migration=False) as hood,
        opened(tmp_path, "lexical") as other,
    ):
        embedder.interrupt = lambda: other.forget(receipts[0].id or "", episodes=True)
        assert (await hood.migrate()).complete
        assert list((await hood.index.present()).values()) == ["learned:dev:test:sped up the cache"]
        assert files_with(tmp_path, "zyxquartz") == []


class _Blocking(HashedEmbedder):
    """An embedder that lets nothing else run meanwhile."""

    pause = 0.0

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        time.sleep(self.pause)  # noqa: ASYNC251  that is its fault
        return await super().embed(texts, role=role)


async def test_the_limit_also_holds_for_an_embedder_that_never_waits(golden_store: GoldenStore) -> None:
    """The time is looked at between batches, too, and what was done until then is kept."""
    embedder = _Blocking(dimension=64)
    async with agenthood.open_async(golden_store("a"), embedder=embedder, start_migration=False) as hood:
        await hood.space.prepare()
        embedder.pause = 0.4
        report = await reindex_legacy_patterns(hood.store, hood.index, hood.space, seconds=1.0)
        assert not report.complete
        assert len(await hood.index.present()) == report.embedded >= 16


async def test_a_store_without_an_embedder_is_left_as_it_is(golden_store: GoldenStore) -> None:
    """With the model down nothing is removed, not even the old markers, and the store opens."""
    folder = golden_store("b")
    before = await _raw(folder)
    async with agenthood.open_async(folder, embedder=small(fail_after=0)) as hood:
        assert hood.migration is not None
        assert not hood.migration.complete
        assert len(await hood.lessons()) == LESSONS["b"]
    assert await _raw(folder) == before


async def test_a_changed_model_gets_a_collection_of_its_own(tmp_path: Path) -> None:
    """The old collection stays until it is asked to go, and going back costs nothing but a look."""
    texts = ["fixed the login", "sped up the cache", "wrote the release notes"]
    async with opened(tmp_path, small()) as hood:
        await hood.learn_many([good(text) for text in texts])
        old = hood.index.main.name
    async with opened(tmp_path, small(revision="2")) as hood:
        assert hood.migration is not None
        assert hood.migration.embedded == 3
        assert hood.index.main.name != old
        names = {collection.name for collection in await hood.store.collections()}
        assert {old, hood.index.main.name, "vectors"} <= names
    async with opened(tmp_path, small()) as hood:
        assert (await hood.migrate()).embedded == 0
        assert len(await hood.recall("sped up the cache", limit=1)) == 1
    async with opened(tmp_path, HashedEmbedder()) as hood:
        report = await hood.migrate(drop_old=True)
        assert report.complete
        left = {collection.name for collection in await hood.store.collections()}
        assert left == {"vectors", hood.index.main.name}
        assert len(await hood.recall("sped up the cache", limit=1)) == 1


async def test_vectors_that_the_shared_table_holds_are_not_made_again(tmp_path: Path) -> None:
    """A table of a 1536-dimensional space that was lost is filled from there, but for what was changed there."""
    texts = ["fixed the login", "sped up the cache", "wrote the release notes"]
    async with opened(tmp_path, HashedEmbedder()) as hood:
        receipts = await hood.learn_many([good(text) for text in texts])
        await hood.store.drop_collection(hood.index.main.name)
        id_ = "pattern:" + (receipts[0].id or "").removeprefix("ltm:learnings/")
        row = (await hood.store.get(SHARED, [id_]))[id_]
        await hood.store.upsert(SHARED, [replace(row, metadata={"type": "learned_pattern"})])
    embedder = HashedEmbedder()
    async with opened(tmp_path, embedder) as hood:
        assert embedder.texts_embedded == 1 + 1  # the canary, and the one that another program wrote
        for text in texts:
            (found,) = await hood.index.find_similar(await embedder.embed([text], role="document"), 0.99, 1)
            assert [match.pattern for match in found] == [f"learned:dev:test:{text}"]


async def test_nothing_is_dropped_while_something_is_missing(tmp_path: Path) -> None:
    """`drop_old` keeps the old collection where the new one could not be completed."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn("fixed the login", score=0.9)
        old = hood.index.main.name
    async with opened(tmp_path, small(revision="2", fail_after=0)) as hood:
        assert not (await hood.migrate(drop_old=True)).complete
        assert old in {collection.name for collection in await hood.store.collections()}


async def test_progress_reaches_the_total(golden_store: GoldenStore) -> None:
    """Embedded so far and to embed, after every batch."""
    told: list[tuple[int, int]] = []
    async with agenthood.open_async(golden_store("a"), embedder=small(), start_migration=False) as hood:
        await hood.migrate(on_progress=lambda *args: told.append(args))
    assert told == [(16, 124), (48, 124), (112, 124), (124, 124)]


async def test_a_lost_index_table_is_noticed(tmp_path: Path) -> None:
    """A marker does not hide that the rows it speaks of have gone."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn_many([good("fixed the login"), good("sped up the cache")])
        await hood.migrate()
        table = hood.index.main.name
    shutil.rmtree(tmp_path / ".agenthood" / "memory" / f"{table}.lance")
    async with opened(tmp_path, small()) as hood:
        assert (await hood.status()).indexed == 2


async def test_forgetting_does_not_leave_the_marker_behind(tmp_path: Path) -> None:
    """With fewer lessons than the marker says, one start counts anew and the next has nothing to do."""
    async with opened(tmp_path, small()) as hood:
        receipts = await hood.learn_many([good("fixed the login"), good("sped up the cache")])
        await hood.migrate()
        await hood.forget(receipts[0].id or "")
    async with opened(tmp_path, small()) as hood:
        assert await is_current(hood.store, hood.index)
    async with opened(tmp_path, small()) as hood:
        assert hood.migration is None


async def test_an_index_row_whose_lesson_was_deleted_is_no_lesson(tmp_path: Path) -> None:
    """A pattern row that names its long-term row does not bring a deleted lesson back."""
    async with opened(tmp_path, HashedEmbedder()) as hood:
        receipt = await hood.learn("fixed the login", score=0.9)
        await hood.store.delete(SHARED, [receipt.id or ""])
    async with opened(tmp_path, HashedEmbedder()) as hood:
        assert await hood.lessons() == []
        assert list(await hood.recall("fixed the login")) == []


async def test_learning_goes_on_after_a_migration(golden_store: GoldenStore) -> None:
    """An exact repeat of a TypeScript lesson is evidence for it, in either dimension."""
    folder = golden_store("a")
    for evidence, embedder in ((2, small()), (3, HashedEmbedder()), (4, LexicalEmbedder())):
        async with agenthood.open_async(folder, embedder=embedder) as hood:
            everything = sorted(await hood.lessons(kind="learned"), key=lambda one: one.id)
            lesson = next(one for one in everything if len(one.text.split()) > 3)
            assert lesson.evidence == evidence - 1
            receipt = await hood.learn(lesson.text, score=0.9, member=lesson.member, skill=lesson.skill)
            assert (receipt.status, receipt.id, receipt.evidence) == ("merged", lesson.id, evidence)


async def test_opening_a_missing_store_leaves_a_usable_one(tmp_path: Path) -> None:
    """A new store is complete at once."""
    async with opened(tmp_path, small()) as hood:
        assert hood.migration is not None
        assert hood.migration.complete
        assert INDEX_VERSION_KEY in await shared_rows(hood)


async def test_a_foreign_row_does_not_stop_a_migration(tmp_path: Path) -> None:
    """Rows that hold no lesson are counted and left."""
    store = LanceStore(tmp_path / ".agenthood" / "memory")
    rows = [Record("ltm:learnings/x", "[]", {"type": "long_term"}, "2026-01-01T00:00:00.000Z")]
    await store.upsert(SHARED, rows)
    await store.close()
    async with opened(tmp_path, small()) as hood:
        assert hood.migration is not None
        assert (hood.migration.complete, hood.migration.unusable, hood.migration.lessons) == (True, 1, 0)


async def test_old_rows_that_came_later_are_noticed(tmp_path: Path) -> None:
    """A lesson that another program added with a date before the marker is found at the next start."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good("fixed the login")])
        await hood.migrate()
    async with opened(tmp_path) as hood:
        assert hood.migration is None
        value = {
            "pattern": "learned:dev:test:sped up the cache",
            "score": 0.9,
            "member": "dev",
            "skill": "test",
        }
        old = long_term_record("learnings/v1:other", value, at=datetime(2020, 1, 1, tzinfo=UTC))
        await hood.store.upsert(SHARED, [old])
    async with opened(tmp_path) as hood:
        assert hood.migration is not None
        assert (hood.migration.embedded, hood.migration.complete) == (1, True)
    async with opened(tmp_path) as hood:
        assert hood.migration is None


async def test_without_an_embedder_old_lessons_are_found_by_their_words(golden_store: GoldenStore) -> None:
    """Where a changed model is down, what is not embedded yet is found by wording, and embedded once it works."""
    folder = golden_store("a")
    async with agenthood.open_async(folder, embedder=small(fail_after=0)) as hood:
        found = await hood.recall("implemented auth middleware", limit=50)
        assert found
        assert not found.semantic
        assert found.degraded
    async with agenthood.open_async(folder, embedder=small()) as hood:
        assert hood.migration is not None
        assert (hood.migration.embedded, hood.migration.complete) == (LESSONS["a"], True)
        await _check_findable(hood, LESSONS["a"])
