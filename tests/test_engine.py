"""The front door: opening and closing, settings, lists, status, upkeep."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import agenthood
from agenthood.config import load_settings
from agenthood.embedding.testing import HashedEmbedder
from agenthood.engine import AsyncHood
from agenthood.errors import ConfigError, InvalidInputError, StoreUnavailableError
from agenthood.learning.rules import MATCH_THRESHOLD
from embedding.fake_endpoint import serve
from hoods import bad, good, opened, shared_rows, small

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.config import Settings
    from agenthood.scope import Scope
    from agenthood.stores.base import VectorStore

TEXT = "fixed the flaky login test by mocking the clock"


async def test_it_can_be_awaited_or_entered(tmp_path: Path) -> None:
    """Both open the same store; closing twice and opening again are fine."""
    hood = await opened(tmp_path)
    await hood.learn(TEXT, score=0.9)
    assert await hood.start() is hood
    await hood.close()
    await hood.close()
    async with opened(tmp_path) as again:
        assert len(await again.lessons()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_store_that_is_not_open_says_so(tmp_path: Path, when: str) -> None:
    """Before opening and after closing every call is a clear error, and nothing is made on disk by it."""
    hood = opened(tmp_path)
    if when == "after":
        await hood.start()
        await hood.close()
    calls = [hood.learn(TEXT, score=0.9), hood.learn_many([good(TEXT)]), hood.recall(TEXT), hood.lessons(),
             hood.forget("x"), hood.status(), hood.health(), hood.migrate(), hood.maintain(),
             hood.import_([])]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError, match="not open: use `async with"):
            await call
    assert (tmp_path / ".agenthood").exists() == (when == "after")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = hood.nonsense  # type: ignore[attr-defined]


class _Closing(HashedEmbedder):
    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


class _Counted(AsyncHood):
    stores = 0

    def _new_store(self, settings: Settings, scope: Scope | None) -> VectorStore:
        self.stores += 1
        return super()._new_store(settings, scope)


async def test_tasks_that_open_it_together_open_one(tmp_path: Path) -> None:
    """Whoever comes while it is being opened waits for that; nothing is opened twice and then lost."""
    async with opened(tmp_path, "lexical") as hood:
        await hood.learn(TEXT, score=0.9)
    hood = _Counted(tmp_path / ".agenthood", embedder="lexical")
    assert await asyncio.gather(*(hood.start() for _ in range(3))) == [hood] * 3
    assert hood.stores == 1
    await hood.close()
    async with hood:
        assert hood.stores == 2


def test_it_is_opened_together_in_one_event_loop_after_another(tmp_path: Path) -> None:
    """As by tests with a loop each, or in a notebook."""
    hood = opened(tmp_path, "lexical")

    async def together() -> None:
        await asyncio.gather(*(hood.start() for _ in range(3)))
        await hood.learn(TEXT, score=0.9)
        await hood.close()

    for _ in range(2):
        asyncio.run(together())


async def test_opening_that_fails_releases_what_it_took(tmp_path: Path) -> None:
    """A path that cannot be a store is a named error, and the embedder is closed."""
    (tmp_path / ".agenthood").mkdir()
    (tmp_path / ".agenthood" / "memory").write_text("a file")
    embedder = _Closing(dimension=64)
    with pytest.raises(StoreUnavailableError):
        await opened(tmp_path, embedder)
    assert embedder.closed == 1


async def test_settings_are_no_dictionary(tmp_path: Path) -> None:
    """As in `config.json` they may be written; in Python they are an object, and the error says which."""
    settings: Any = {"mergeThreshold": 0.9}
    with pytest.raises(ConfigError, match=r"settings is \{'mergeThreshold': 0.9\}: give agenthood\.Settings"):
        await opened(tmp_path, settings=settings)


async def test_an_unknown_embedder_is_refused(tmp_path: Path) -> None:
    """With what there is to choose from."""
    with pytest.raises(ConfigError, match="choose one of"):
        await opened(tmp_path, "nonsense")


async def test_a_way_to_fail_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    """Whoever mistypes `closed` must not go on with the opposite."""
    with pytest.raises(
        ConfigError, match="must be one of 'open', 'closed', not 'close'; did you mean 'closed'"
    ):
        await opened(tmp_path, fail="close")


async def test_the_name_of_a_file_is_no_lines_to_import(tmp_path: Path) -> None:
    """It is refused by name, rather than each of its characters."""
    async with opened(tmp_path) as hood:
        with pytest.raises(InvalidInputError, match=r"lines is 'lessons.jsonl': give an open file"):
            await hood.import_("lessons.jsonl")


@pytest.mark.parametrize("learned", [0, 1])
async def test_what_cannot_be_written_to_is_no_place_for_an_export(tmp_path: Path, learned: int) -> None:
    """Such as the name of a file; it is refused with what to give, also where there is nothing to export."""
    binary = io.BytesIO()
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(TEXT)] * learned)
        for wrong in ("out.jsonl", tmp_path / "out.jsonl", None, binary):
            with pytest.raises(InvalidInputError, match="give a file opened for writing text") as caught:
                await hood.export(wrong)  # type: ignore[arg-type]
            assert repr(wrong)[:40] in str(caught.value)
    assert binary.getvalue() == b""


async def test_what_is_no_list_of_episodes_is_an_error(tmp_path: Path) -> None:
    """One episode, a text or nothing in place of many is named, with what to give."""
    async with opened(tmp_path) as hood:
        for wrong in (good(TEXT), TEXT, None, 3):
            with pytest.raises(InvalidInputError, match="give a list of EvalResult") as caught:
                await hood.learn_many(wrong)  # type: ignore[arg-type]
            assert repr(wrong)[:40] in str(caught.value)


async def test_another_embedder_gets_nothing_of_the_one_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the key, which belongs to another server, nor the model; the same kind named in code gets both."""
    folder = tmp_path / ".agenthood"
    folder.mkdir()
    with serve() as server:
        configured = {"kind": "openai", "apiKey": "sk-not-for-you", "model": "m", "baseUrl": server.base_url}
        (folder / "config.json").write_text(json.dumps({"embedder": configured}))
        monkeypatch.setenv("OLLAMA_HOST", server.base_url.removesuffix("/v1"))
        async with opened(tmp_path, "ollama"):
            pass
        assert server.requests
        assert {request["model"] for request in server.requests} == {"nomic-embed-text"}
        assert not any("Authorization" in headers for headers in server.headers)
        server.headers.clear()
        async with opened(tmp_path, "openai"):
            assert {headers["Authorization"] for headers in server.headers} == {"Bearer sk-not-for-you"}


async def test_settings_reach_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds come from the configuration; what is given in code comes before it."""
    folder = tmp_path / ".agenthood"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"mergeThreshold": 0.99, "recallThreshold": 0.123}))
    async with opened(tmp_path) as hood:
        await hood.learn(TEXT, score=0.9)
        assert (await hood.learn(TEXT + " again today", score=0.9)).status == "stored"
        assert (await hood.recall(TEXT)).threshold == 0.123
    settings = load_settings(tmp_path / "elsewhere")
    async with opened(tmp_path / "two", settings=settings) as hood:
        await hood.learn(TEXT, score=0.9)
        merged = await hood.learn(TEXT + " again today", score=0.9)
        assert merged.status == "merged"
        assert MATCH_THRESHOLD <= (merged.similarity or 0) < 1


async def test_lists_can_be_filtered(tmp_path: Path) -> None:
    """By kind, member, skill and part of the text; latest first; limited."""
    async with opened(tmp_path) as hood:
        for n, result in enumerate(
            [good("Fixed the login"), bad("broke the cache", member="qa"), good("ran it", skill="ops")]
        ):
            await hood.learn(
                result.episode,
                scores=result.scores,
                member=result.member,
                skill=result.skill,
                timestamp=f"2026-05-0{n + 1}",
            )
        assert [one.text for one in await hood.lessons()] == ["ran it", "broke the cache", "Fixed the login"]
        assert [one.text for one in await hood.lessons(kind="antipattern")] == ["broke the cache"]
        assert [one.text for one in await hood.lessons(member="dev", skill="test")] == ["Fixed the login"]
        assert [one.text for one in await hood.lessons(contains="fixed THE")] == ["Fixed the login"]
        assert len(await hood.lessons(limit=2)) == 2
        assert await hood.lessons(limit=0) == []
        assert await hood.lessons(member="nobody") == []
        with pytest.raises(InvalidInputError, match="'good' is none of"):
            await hood.lessons(kind="good")  # type: ignore[arg-type]


async def test_status_tells_what_is_there(tmp_path: Path) -> None:
    """Lessons, episodes, what is indexed and what waits, the space and its calibration."""
    async with opened(tmp_path, small(fail_after=0)) as hood:
        await hood.learn_many([good(TEXT), bad(TEXT), good("half", 0.5)])
        status = await hood.status()
        assert (status.lessons, status.episodes) == ({"learned": 1, "antipattern": 1}, 3)
        assert (status.indexed, status.pending, status.calibration) == (0, 2, None)
        assert "fail_after" in status.reason
    async with opened(tmp_path, small()) as hood:
        status = await hood.status()
        assert (status.indexed, status.pending, status.reason) == (2, 0, "")
        assert status.calibration is not None
        assert status.space == str(small().space)
        assert status.learner.bands == {"learned": 1, "antipattern": 1, "skipped": 1}
        assert json.loads(json.dumps(status.to_dict()))["space"] == status.space


async def test_maintenance_finishes_the_index(tmp_path: Path) -> None:
    """Pending lessons are indexed once the model is back, and the tables are compacted."""
    embedder = small(fail_after=0)
    async with opened(tmp_path, embedder) as hood:
        for n in range(5):
            await hood.learn(f"{TEXT} {n}" * (n + 1), score=0.9)
        embedder.fail_after = None
        report = await hood.maintain()
        assert report.migration is not None
        assert report.migration.complete
        assert set(report.collections) == {collection.name for collection in await hood.store.collections()}
        assert report.collections["vectors"]["fragments_after"] <= 1
        assert (await hood.status()).pending == 0
        assert (await hood.maintain()).migration is None
        assert json.dumps(report.to_dict())


async def test_maintenance_reports_no_migration_that_found_nothing_to_do(tmp_path: Path) -> None:
    """Every lesson is findable, though no marker says so."""
    async with opened(tmp_path, small(), start_migration=False) as hood:
        await hood.learn(TEXT, score=0.9)
        assert (await hood.status()).pending == 0
        assert (await hood.maintain()).migration is None


async def test_maintenance_goes_on_without_residual_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What only hints cannot keep the store from being compacted; the log says what is wrong with it."""
    async with opened(tmp_path) as hood:
        (tmp_path / ".agenthood" / "residual.json").mkdir()
        assert set((await hood.maintain()).collections) == {
            one.name for one in await hood.store.collections()
        }
    assert "residual memory was not tidied" in caplog.text


async def test_the_start_can_leave_the_index_alone(tmp_path: Path) -> None:
    """Without the start migration nothing is written by opening but what the store itself needs."""
    async with opened(tmp_path, small(), start_migration=False) as hood:
        assert hood.migration is None
        assert "__index_version__" not in await shared_rows(hood)


async def test_a_store_stays_quick_to_open_as_it_grows(tmp_path: Path) -> None:
    """After many lessons one start renews the marker, so that those after it compare nothing."""
    texts = [f"word{n} note{n * 7919}" for n in range(1_100)]
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(text, member=text) for text in texts])
    async with opened(tmp_path) as hood:
        assert hood.migration is not None
        assert (hood.migration.embedded, hood.migration.lessons) == (0, 1_100)
    async with opened(tmp_path) as hood:
        assert hood.migration is None


async def test_the_other_memories_share_the_store(tmp_path: Path) -> None:
    """Long-term, episodic and residual memory of an open store are its own."""
    async with opened(tmp_path) as hood:
        await hood.long_term.store("notes/plan", [1, 2])
        await hood.episodic.record("did a thing", "it worked")
        await hood.learn(TEXT, score=0.9)
    async with opened(tmp_path) as hood:
        assert await hood.long_term.retrieve("notes/plan") == [1, 2]
        assert (await hood.status()).episodes == 2
        assert TEXT in hood.residual.to_prompt_hints()
        assert isinstance(hood, agenthood.AsyncHood)


async def test_looking_at_lessons_makes_no_tables(tmp_path: Path) -> None:
    """Those of a model that nothing was learned with yet: lists and exports do not need them."""
    async with opened(tmp_path, "lexical") as hood:
        await hood.learn(TEXT, score=0.9)
        before = await hood.store.collections()
    async with opened(tmp_path, small(pinned=True), start_migration=False) as hood:
        assert len(await hood.lessons()) == 1
        assert await hood.export(io.StringIO()) > 0
        assert await hood.store.collections() == before


async def test_a_store_removed_while_it_is_open_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Learning goes on in a new one, and the log says that what was there is gone."""
    async with opened(tmp_path) as hood:
        await hood.learn(TEXT, score=0.9)
        assert "removed" not in caplog.text
        shutil.rmtree(tmp_path / ".agenthood")
        await hood.learn("sped up the cache", score=0.9)
        assert "was removed while it was open" in caplog.text


async def test_a_store_removed_while_it_is_open_is_noticed_by_a_recall_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading makes the directory again: whoever learns afterwards finds one, and could not tell."""
    async with opened(tmp_path) as hood:
        await hood.learn(TEXT, score=0.9)
        shutil.rmtree(tmp_path / ".agenthood")
        assert not await hood.recall(TEXT)
        await hood.learn("sped up the cache", score=0.9)
    told = [one.getMessage() for one in caplog.records if "was removed while it was open" in one.getMessage()]
    assert told
    assert len(told) == len(set(told))
