"""The whole engine on Postgres: what it learns, recalls, forgets and moves there is what it does on LanceDB."""

from __future__ import annotations

import io
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings
from agenthood.engine import AsyncHood
from agenthood.learning import migration
from agenthood.learning.spaces import ActiveSpace
from agenthood.stores.base import SHARED
from hoods import SMALL, bad, good, opened, small
from stores.postgres_server import postgres_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agenthood.engine import AsyncHood as Hood

EPISODES = [
    good("fixed the flaky login test by mocking the clock"),
    good("fixed the flaky login test by mocking the clock", 1.0),
    bad("retried the upload without a limit until the server fell over"),
    good("half of the migration done", 0.5),
    good("重试上传 🎉\n'\"\\"),
    *(good(f"wrote chapter {number} of the manual on topic {number * 7919}") for number in range(30)),
]


@asynccontextmanager
async def on_postgres(folder: Path, embedder: Any) -> AsyncIterator[Hood]:
    """An open hood whose records are in Postgres, in a schema of the folder's own."""
    settings = Settings(EmbedderSettings())
    hood = AsyncHood(folder / ".agenthood", settings=settings)
    store = postgres_store(folder)
    space = ActiveSpace(embedder, store)
    hood._parts = await hood._open(store, space, settings)
    await hood._begin(hood._parts)
    (folder / ".agenthood" / "memory").mkdir(parents=True, exist_ok=True)
    try:
        yield hood
    finally:
        await hood.close()


async def _told(hood: Hood) -> list[Any]:
    """Receipts, lessons and recalls, as far as they must be the same on every store."""
    one = await hood.learn("fixed Aa", score=0.9, member="developer", skill="test", outcome="it passes")
    other = await hood.learn("fixed BB", score=0.9, member="developer", skill="test")
    receipts = [one, other, *await hood.learn_many(EPISODES)]
    again = await hood.learn_many(EPISODES[:3])
    lessons = sorted((one.kind, one.text, one.evidence, round(one.mean, 6)) for one in await hood.lessons())
    recalls = [
        [(one.text, round(one.similarity, 5)) for one in await hood.recall(text, limit=5)]
        for text in ("the login test fails now and then", "上传", "manual topic 7919", EPISODES[2].episode)
    ]
    return [[(r.status, r.reason) for r in (*receipts, *again)], lessons, recalls]


async def test_it_decides_as_on_lancedb(tmp_path: Path):
    """Receipts, lessons, evidence, and what is recalled in which order with which score are equal."""
    async with opened(tmp_path / "lance", small()) as hood:
        expected = await _told(hood)
    async with on_postgres(tmp_path / "postgres", small()) as hood:
        assert await _told(hood) == expected
        assert (await hood.status()).pending == 0
    assert any(expected[2])


async def test_what_is_forgotten_is_gone(tmp_path: Path):
    """A lesson that was forgotten with its episodes is in no row of any collection, and the others are."""
    async with on_postgres(tmp_path, small()) as hood:
        receipts = await hood.learn_many(EPISODES)
        done = await hood.forget(receipts[0].id or "", episodes=True)
        assert (len(done.lessons), len(done.episodes), done.missing) == (1, 2, ())
    async with on_postgres(tmp_path, small()) as hood:
        for collection in await hood.store.collections():
            async for batch in hood.store.scan(collection):
                assert not [row.id for row in batch if "flaky login" in row.content], collection
        assert len(await hood.lessons()) == 32
        assert (await hood.recall(EPISODES[-1].episode, limit=1))[0].text == EPISODES[-1].episode


async def test_a_changed_model_is_migrated(tmp_path: Path):
    """Another model gets a collection of its own, filled from the lessons; once that is so there is nothing to do."""
    async with on_postgres(tmp_path, small()) as hood:
        await hood.learn_many(EPISODES)
    async with on_postgres(tmp_path, small(revision="2")) as hood:
        assert hood.migration is not None
        assert (hood.migration.embedded, hood.migration.complete) == (33, True)
        assert await migration.is_current(hood.store, hood.index)
        names = [found.name for found in await hood.store.collections() if found.dimension == SMALL]
        assert len(names) == 2
        assert (await hood.recall(EPISODES[0].episode, limit=1))[0].similarity == pytest.approx(1, abs=1e-5)
        report = await hood.migrate(drop_old=True)
        assert report.complete
        assert len([found for found in await hood.store.collections() if found.dimension == SMALL]) == 1
        maintained = await hood.maintain()
        assert maintained.collections[SHARED.name]["rows"] > 60


async def test_it_moves_to_lancedb_and_back(tmp_path: Path):
    """An export from Postgres fills a LanceDB store with the same lessons, and the other way round."""

    async def exported(hood: Hood) -> list[str]:
        file = io.StringIO()
        await hood.export(file)
        return sorted(file.getvalue().splitlines(keepends=True))

    async with on_postgres(tmp_path / "one", small()) as hood:
        await hood.learn_many(EPISODES)
        lines = await exported(hood)
    async with opened(tmp_path / "two", small()) as hood:
        done = await hood.import_(lines)
        assert (done.stored, done.rejected) == (len(lines), ())
        assert await exported(hood) == lines
    async with on_postgres(tmp_path / "three", small()) as hood:
        assert (await hood.import_(lines)).stored == len(lines)
        assert await exported(hood) == lines
        assert (await hood.import_(lines)).skipped == len(lines)
