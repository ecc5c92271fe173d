"""The whole engine on a Qdrant store: learn, recall, forget, migrate, export and import, as on the default one."""

from __future__ import annotations

import asyncio
import io
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.config import load_settings
from agenthood.engine import AsyncHood
from agenthood.learning.spaces import ActiveSpace
from agenthood.stores.base import SHARED
from hoods import bad, bodies, good, shared_rows, small
from stores.qdrant_local import open_qdrant, remove_qdrant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from agenthood.embedding.base import Embedder


class HoodOnQdrant(AsyncHood):
    """A store whose parts stand on Qdrant; what is kept in the folder is what no store holds."""

    async def start(self) -> HoodOnQdrant:
        """Open the parts on the database of the folder."""
        (self.path / "memory").mkdir(parents=True, exist_ok=True)
        settings = load_settings(self.path)
        store = open_qdrant(self.path)
        assert self._wanted is not None
        assert not isinstance(self._wanted, str)
        space = ActiveSpace(self._wanted, store, deadline=settings.embedder.deadline)
        self._parts = await self._open(store, space, settings)
        await self._begin(self._parts)
        return self


@asynccontextmanager
async def opened(folder: Path, embedder: Embedder | None = None) -> AsyncIterator[AsyncHood]:
    """An open engine on the Qdrant database of `folder`."""
    async with HoodOnQdrant(folder, embedder=embedder or small()) as hood:
        yield hood


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[list[Path]]:
    """Two places for databases, removed afterwards."""
    made = [tmp_path / "one", tmp_path / "two"]
    yield made
    for folder in made:
        remove_qdrant(folder)


async def _exported(hood: AsyncHood) -> list[str]:
    file = io.StringIO()
    await hood.export(file)
    return file.getvalue().splitlines(keepends=True)


async def test_what_was_learned_is_recalled(folders: list[Path]):
    """Lessons are merged, told apart by kind and member, and found by another engine on the same database."""
    async with opened(folders[0]) as hood:
        receipts = await hood.learn_many(
            [good("fixed the login", member="qa"), bad("deployed without tests"), good("half done", 0.5)]
        )
        assert [receipt.status for receipt in receipts] == ["stored", "stored", "skipped"]
        again = await hood.learn("fixed the login", score=1.0, member="qa", skill="test")
        assert again.status == "merged"
        other = await hood.learn("fixed the login", score=0.1, member="qa", skill="test")
        assert other.status == "stored"
    async with opened(folders[0]) as hood:
        lessons = {(one.kind, one.text): one.evidence for one in await hood.lessons()}
        assert lessons == {
            ("learned", "fixed the login"): 2,
            ("antipattern", "fixed the login"): 1,
            ("antipattern", "deployed without tests"): 1,
        }
        found = await hood.recall("fixed the login", member="qa", kind="learned")
        assert [(one.text, one.kind) for one in found] == [("fixed the login", "learned")]
        assert found[0].semantic
        assert found[0].similarity == pytest.approx(1, abs=1e-3)
        status = await hood.status()
        assert (status.pending, status.episodes) == (0, 5)


async def test_what_is_forgotten_is_gone(folders: list[Path]):
    """A forgotten lesson is found by no reader and in no point, with its episodes if asked for."""
    async with opened(folders[0]) as hood:
        await hood.learn_many([good("fixed the login"), good("wrote the changelog")])
        (doomed,) = [one for one in await hood.lessons() if one.text == "fixed the login"]
        done = await hood.forget(doomed.id, episodes=True)
        assert done.lessons == (doomed.id,)
        assert len(done.episodes) == 1
        rows = [*(await shared_rows(hood)).values()]
        for collection in await hood.store.collections():
            rows += [row async for batch in hood.store.scan(collection) for row in batch]
        assert not [row.id for row in rows if "login" in row.id + row.content]
        assert [one.text for one in await hood.lessons()] == ["wrote the changelog"]
        assert "fixed the login" not in {one.text for one in await hood.recall("fixed the login")}


async def test_a_model_change_is_a_migration(folders: list[Path]):
    """Another model gets a collection of its own, filled from long-term memory; the old one goes when asked."""
    async with opened(folders[0]) as hood:
        await hood.learn_many([good(f"lesson number {number} on topic {number % 3}") for number in range(12)])
        before = {one.name for one in await hood.store.collections()}
    async with opened(folders[0], small(revision="2", salt="2")) as hood:
        report = await hood.migrate(drop_old=True)
        assert report.complete
        assert (await hood.recall("lesson number 7 on topic 1"))[0].semantic
        after = {one.name for one in await hood.store.collections()}
        assert before != after
        assert SHARED.name in after
        assert len(after) == len(before)
        assert (await hood.maintain()).migration is None


async def test_an_export_fills_an_empty_store(folders: list[Path]):
    """Lessons, episodes and other memory are equal in a new database, and nothing is counted twice."""
    async with opened(folders[0]) as hood:
        await hood.learn_many([good("fixed Aa"), good("fixed BB"), bad("重试上传 🎉\n'\"\\")])
        await hood.long_term.store("notes/plan", {"steps": [1, 2.5, None, "three"]})
        lines = await _exported(hood)
        expected = [replace(one, id="") for one in await hood.lessons()], await bodies(hood, "ep:")
    async with opened(folders[1]) as hood:
        assert (await hood.import_(lines)).stored == len(lines)
        assert (await hood.import_(lines)).skipped == len(lines)
        assert ([replace(one, id="") for one in await hood.lessons()], await bodies(hood, "ep:")) == expected
        assert await hood.long_term.retrieve("notes/plan") == {"steps": [1, 2.5, None, "three"]}
        assert await _exported(hood) == lines


async def test_evidence_is_lost_to_no_race(folders: list[Path]):
    """Four engines that learn the same lesson at once leave one lesson, with evidence of all."""

    async def learn(_: int) -> Any:
        async with opened(folders[0]) as hood:
            return await hood.learn("fixed the flaky test", score=0.9, member="dev", skill="test")

    receipts = await asyncio.gather(*map(learn, range(4)))
    assert sorted(receipt.status for receipt in receipts) == ["merged"] * 3 + ["stored"]
    async with opened(folders[0]) as hood:
        (lesson,) = await hood.lessons()
        assert lesson.evidence == 4
