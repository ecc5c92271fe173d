"""The whole engine on every backend: learning, recall, forgetting, a change of model, export and import."""

from __future__ import annotations

import io
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.engine import AsyncHood
from agenthood.learning.migration import is_current
from agenthood.learning.spaces import ActiveSpace
from agenthood.stores.base import SHARED
from hoods import bad, bodies, good, small
from stores.backends import Backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agenthood.config import Settings
    from agenthood.opening import Parts
    from agenthood.stores.base import VectorStore

TEXT = "fixed the flaky login test by mocking the clock"


class HoodOn(AsyncHood):
    """An engine whose rows are in `backend`."""

    def __init__(self, backend: Backend, embedder: Any) -> None:
        super().__init__(backend.folder / ".agenthood", embedder=embedder)
        self._backend = backend

    async def _open(self, store: VectorStore, space: ActiveSpace, settings: Settings) -> Parts:
        await store.close()
        store = self._backend.open()
        return await super()._open(store, ActiveSpace(space.embedder, store), settings)


@asynccontextmanager
async def opened(backend: Backend, embedder: Any = None) -> AsyncIterator[AsyncHood]:
    """The engine on what is in `backend`."""
    async with HoodOn(backend, embedder or small()) as hood:
        yield hood


async def test_learning_and_recall(backend: Backend):
    """What was learned, one by one or at once, is merged, counted, and found again by meaning and by word."""
    async with opened(backend) as hood:
        first = await hood.learn(TEXT, score=0.95, member="dev", skill="test", outcome="it passes")
        assert (first.status, first.kind) == ("stored", "learned")
        receipts = await hood.learn_many(
            [good(TEXT), bad(TEXT), *(good(f"wrote page {number} of the manual") for number in range(30))]
        )
        assert [receipt.status for receipt in receipts[:2]] == ["merged", "stored"]
        assert (await hood.learn("half done", score=0.6)).status == "skipped"
    async with opened(backend) as hood:
        lessons = {lesson.id: lesson for lesson in await hood.lessons()}
        assert lessons[first.id].evidence == 2
        found = await hood.recall(TEXT, limit=3, member="dev")
        assert {one.kind for one in found if one.text == TEXT} == {"learned", "antipattern"}
        assert not found.degraded
        assert [one.text for one in await hood.recall("page 17", limit=1)] == ["wrote page 17 of the manual"]
        assert (await hood.status()).pending == 0
        assert (await hood.health()).ok
        assert (await hood.maintain()).migration is None


async def test_forgetting(backend: Backend):
    """A forgotten lesson and its episodes are found by nobody, and its neighbours stay."""
    async with opened(backend) as hood:
        secret = await hood.learn("rotated the key of the payment gateway", score=0.9)
        await hood.learn(TEXT, score=0.9)
        forgotten = await hood.forget(secret.id, episodes=True)
        assert forgotten.lessons == (secret.id,)
    async with opened(backend) as hood:
        assert [lesson.text for lesson in await hood.lessons()] == [TEXT]
        assert "payment" not in str(await bodies(hood, ""))
        assert [one.text for one in await hood.recall("payment gateway key", threshold=0)] == [TEXT]
    assert [
        path for path in backend.folder.rglob("*") if path.is_file() and b"payment" in path.read_bytes()
    ] == []


async def test_a_change_of_model(backend: Backend):
    """Opened with another model every lesson is indexed in a collection of its own, and the old one can go."""
    async with opened(backend) as hood:
        await hood.learn_many([good(f"lesson number {number}") for number in range(40)])
        before = set(await hood.store.collections())
    async with opened(backend, small(revision="two")) as hood:
        assert hood.migration is not None
        assert hood.migration.embedded == 40
        assert await is_current(hood.store, hood.index)
        added = set(await hood.store.collections()) - before
        assert len(added) == 1
        assert [one.text for one in await hood.recall("lesson number 17", limit=1)] == ["lesson number 17"]
        await hood.migrate(drop_old=True)
        (old,) = before - {SHARED}
        assert set(await hood.store.collections()) == {SHARED, *added}
        assert await hood.store.find(old) is None


@pytest.mark.parametrize("name", ["sqlite", "lance"])
async def test_export_and_import_between_backends(backend: Backend, tmp_path: Path, name: str):
    """What one backend exports another imports, with the same lessons and episodes; twice changes nothing."""
    file = io.StringIO()
    async with opened(backend) as hood:
        await hood.learn_many([good("重试上传 🎉\n'\"\\"), good(TEXT), bad(TEXT), good("half done", 0.5)])
        await hood.long_term.store("notes/plan", {"steps": [1, 2.5, None, "three"]})
        count = await hood.export(file)
        expected = sorted((lesson.pattern, lesson.evidence) for lesson in await hood.lessons())
    lines = file.getvalue().splitlines(keepends=True)
    async with opened(Backend(name, tmp_path / "other")) as hood:
        assert (await hood.import_(lines)).stored == len(lines) == count
        assert (await hood.import_(lines)).skipped == count
        assert sorted((lesson.pattern, lesson.evidence) for lesson in await hood.lessons()) == expected
        assert await hood.long_term.retrieve("notes/plan") == {"steps": [1, 2.5, None, "three"]}
