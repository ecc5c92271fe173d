"""The whole engine on every backend: what it learns, recalls, forgets, migrates and moves is the same on each."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.learning.migration import is_current
from agenthood.stores.base import SHARED
from engines import ENGINES, engine
from hoods import bad, bodies, good, small
from stores.qdrant_local import remove_qdrant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agenthood.engine import AsyncHood

TEXT = "fixed the flaky login test by mocking the clock"
EPISODES = [
    good(TEXT),
    good(TEXT, 1.0),
    bad("retried the upload without a limit until the server fell over"),
    good("half of the migration done", 0.5),
    good("重试上传 🎉\n'\"\\"),
    good("fixed Aa"),
    good("fixed BB"),
    *(good(f"wrote chapter {number} of the manual on topic {number * 7919}") for number in range(20)),
]
SCOPES: dict[str, dict[str, str]] = {
    **{backend: {} for backend in ENGINES},
    "lancedb-agent": {"tenant": "acme", "project": "shop", "agent": "seven"},
}


@dataclass(frozen=True)
class Engines:
    """One backend, opened as often as is asked for."""

    backend: str
    options: dict[str, str]
    folder: Path

    def open(self, embedder: Any = None, place: str = "one") -> AsyncHood:
        """The engine on the database at `place`."""
        return engine(self.backend, self.folder / place, embedder, **self.options)


@pytest.fixture(params=list(SCOPES))
def on(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engines]:
    """Each backend, as its settings choose it, and one as an agent of its own sees it."""
    yield Engines(request.param.partition("-")[0], SCOPES[request.param], tmp_path)
    for place in ("one", "two"):
        remove_qdrant(tmp_path / place)


async def _told(hood: AsyncHood) -> list[Any]:
    """Receipts, lessons and recalls, as far as they must be the same on every store."""
    one = await hood.learn("fixed Aa", score=0.9, member="developer", skill="test", outcome="it passes")
    receipts = [one, *await hood.learn_many(EPISODES), *await hood.learn_many(EPISODES[:3])]
    lessons = sorted((one.kind, one.text, one.evidence, round(one.mean, 6)) for one in await hood.lessons())
    recalls = [
        [(one.text, one.kind, round(one.similarity, 4)) for one in await hood.recall(text, limit=5)]
        for text in ("the login test fails now and then", "上传", "manual topic 7919", EPISODES[2].episode)
    ]
    return [[(r.status, r.reason) for r in receipts], lessons, recalls]


async def _exported(hood: AsyncHood) -> list[str]:
    file = io.StringIO()
    await hood.export(file)
    return sorted(file.getvalue().splitlines(keepends=True))


@pytest.mark.parametrize("backend", ENGINES[1:])
async def test_it_decides_as_on_lancedb(backend: str, tmp_path: Path):
    """Receipts, lessons, evidence, and what is recalled in which order with which score are equal."""
    async with engine("lancedb", tmp_path / "lancedb") as hood:
        expected = await _told(hood)
    async with engine(backend, tmp_path / "other") as hood:
        assert await _told(hood) == expected
    async with engine(backend, tmp_path / "other") as hood:
        status = await hood.status()
        assert (status.store, status.pending, status.episodes) == (backend, 0, len(EPISODES) + 4)
        assert (await hood.health()).ok
        assert (await hood.maintain()).migration is None
    assert all(expected[2])


async def test_what_is_forgotten_is_gone(on: Engines):
    """A lesson forgotten with its episodes is in no row of any collection and in no file; its neighbours stay."""
    async with on.open() as hood:
        receipts = await hood.learn_many(EPISODES)
        done = await hood.forget(receipts[0].id or "", episodes=True)
        assert (len(done.lessons), len(done.episodes), done.missing) == (1, 2, ())
    async with on.open() as hood:
        for collection in await hood.store.collections():
            async for batch in hood.store.scan(collection):
                assert not [row.id for row in batch if "flaky login" in row.id + row.content], collection
        assert len(await hood.lessons()) == len(EPISODES) - 3
        assert (await hood.recall(EPISODES[-1].episode, limit=1))[0].text == EPISODES[-1].episode
    files = [path for path in on.folder.rglob("*") if path.is_file() and b"flaky login" in path.read_bytes()]
    assert files == []


async def test_a_change_of_model(on: Engines):
    """Opened with another model every lesson is indexed in a collection of its own, and the old one can go."""
    async with on.open() as hood:
        await hood.learn_many(EPISODES)
        before = set(await hood.store.collections())
    async with on.open(small(revision="two")) as hood:
        assert hood.migration is not None
        assert (hood.migration.embedded, hood.migration.complete) == (len(EPISODES) - 2, True)
        assert await is_current(hood.store, hood.index)
        assert len(set(await hood.store.collections()) - before) == 1
        assert (await hood.recall(EPISODES[-1].episode, limit=1))[0].text == EPISODES[-1].episode
        assert (await hood.migrate(drop_old=True)).complete
        (old,) = before - {SHARED}
        assert await hood.store.count(old) == 0
        assert await hood.store.count(hood.index.main) == len(EPISODES) - 2
        assert (await hood.maintain()).migration is None


async def test_it_moves_to_another_backend_and_back(on: Engines, tmp_path: Path):
    """An export fills an empty store of another backend, whose export fills one of the first; twice changes nothing."""
    async with on.open() as hood:
        await hood.learn_many(EPISODES[:7])
        await hood.long_term.store("notes/plan", {"steps": [1, 2.5, None, "three"]})
        lines = await _exported(hood)
    async with engine("sqlite" if on.backend == "lancedb" else "lancedb", tmp_path / "three") as hood:
        done = await hood.import_(lines)
        assert (done.stored, done.rejected) == (len(lines), ())
        assert await _exported(hood) == lines
    async with on.open(place="two") as hood:
        assert (await hood.import_(lines)).stored == len(lines)
        assert (await hood.import_(lines)).skipped == len(lines)
        assert await _exported(hood) == lines
        assert await hood.long_term.retrieve("notes/plan") == {"steps": [1, 2.5, None, "three"]}
        assert len(await bodies(hood, "ep:")) == 7


async def test_evidence_is_lost_to_no_race(on: Engines):
    """Engines that learn the same lesson at once leave one lesson, with the evidence of all."""

    async def learn() -> str:
        async with on.open() as hood:
            return (await hood.learn(TEXT, score=0.9, member="dev", skill="test")).status

    assert sorted(await asyncio.gather(*(learn() for _ in range(4)))) == ["merged"] * 3 + ["stored"]
    async with on.open() as hood:
        assert [lesson.evidence for lesson in await hood.lessons()] == [4]
