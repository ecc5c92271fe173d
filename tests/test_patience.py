"""An embedder that is slow or down: no call waits long for it, and what it missed is made up for later."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from agenthood import catch_up
from agenthood.config import Settings
from agenthood.embedding import EmbedderSettings
from agenthood.embedding.patience import PatientEmbedder
from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import EmbedderUnavailableError
from agenthood.learning import spaces
from agenthood.records import MigrationReport
from embedding.fake_endpoint import DIMENSION, good, hang, serve, status
from hoods import good as well
from hoods import opened, small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from agenthood.embedding.base import Role, Vectors
    from agenthood.engine import AsyncHood
    from embedding.fake_endpoint import Server

TEXT = "fixed the flaky login test by mocking the clock"
OTHER = "sped up the cache of the build with a smaller key"


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


def settings(base_url: str, **options: Any) -> Settings:
    """An endpoint of known dimension that is waited for half a second."""
    chosen: dict[str, Any] = {
        "kind": "http",
        "model": "m",
        "base_url": base_url,
        "dimension": DIMENSION,
        "deadline": 0.5,
    }
    return Settings(EmbedderSettings(**(chosen | options)))


def connected(folder: Path, server: Server, **options: Any) -> AsyncHood:
    return opened(folder, None, settings=settings(server.base_url, **options))


async def soon(check: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


async def test_a_server_that_hangs_delays_one_call(tmp_path: Path, server: Server) -> None:
    """Opening waits its half second; recall and learning after it go on by wording at once, and say why."""
    async with connected(tmp_path, server) as hood:
        await hood.learn(TEXT, score=0.9)
    server.faults = [hang] * 50
    started = time.monotonic()
    async with connected(tmp_path, server) as hood:
        found = await hood.recall(TEXT)
        receipt = await hood.learn(OTHER, score=0.9)
        asked = len(server.requests)
        assert (found.degraded, found.semantic, found[0].text) == (True, False, TEXT)
        assert "0.5 s" in found.reason
        assert "asked again in" in found.reason
        assert (receipt.status, "0.5 s" in receipt.reason) == ("pending", True)
        assert "0.5 s" in (await hood.status()).reason
        await hood.recall(TEXT)
        assert len(server.requests) == asked
        assert time.monotonic() - started < 4
    assert time.monotonic() - started < 5


async def test_a_server_that_refuses_delays_one_call(tmp_path: Path, server: Server) -> None:
    """Attempts with pauses between them are not made again by the next call."""
    async with connected(tmp_path, server, deadline=5.0) as hood:
        await hood.learn(TEXT, score=0.9)
        server.faults = [status(503)] * 50
        await hood.recall(TEXT)
        started, asked = time.monotonic(), len(server.requests)
        assert (await hood.recall(TEXT)).degraded
        assert time.monotonic() - started < 0.5
        assert len(server.requests) == asked


async def test_a_late_answer_ends_the_pause(tmp_path: Path, server: Server) -> None:
    """A server that was loading its model is used as soon as it has answered, and is not cut off before."""

    def late(handler: Any, request: dict[str, Any]) -> None:
        time.sleep(1.2)
        good(handler, request)

    server.faults = [late]
    async with connected(tmp_path, server) as hood:
        assert "0.5 s" in hood.reason
        assert (await hood.recall(TEXT)).degraded
        await asyncio.sleep(1.2)
        assert (await hood.learn(TEXT, score=0.9)).status == "stored"
        assert (hood.reason, (await hood.recall(TEXT)).degraded) == ("", False)


async def test_an_explicit_migration_waits_for_the_model(tmp_path: Path, server: Server) -> None:
    """Whoever asks for it has the time, also while other calls would not ask again."""
    server.faults = [hang]
    async with connected(tmp_path, server) as hood:
        assert (await hood.learn(TEXT, score=0.9)).status == "pending"
        assert (await hood.migrate()).complete
        assert (await hood.status()).pending == 0


async def test_what_was_missed_is_made_up_for(tmp_path: Path, server: Server) -> None:
    """The recall that finds the model working again already finds what was learned without it."""
    async with connected(tmp_path, server, max_retries=0) as hood:
        await hood.learn(TEXT, score=0.9)
        server.faults = [status(503)]
        assert (await hood.learn(OTHER, score=0.9)).status == "pending"
        await asyncio.sleep(0.3)
        found = await hood.recall(OTHER)
        assert (found.degraded, found.reason, found[0].text, found[0].semantic) == (False, "", OTHER, True)
        assert ((await hood.status()).pending, hood.reason) == (0, "")


async def test_what_kept_the_index_from_being_looked_at_is_named(tmp_path: Path) -> None:
    """Where the store could not even be looked at, that reason is given and no advice that cannot help."""
    async with opened(tmp_path, small()) as hood:
        space = hood.space
        space.behind = True
        hood.parts.catch_up.report = MigrationReport(None, complete=False, reason="permission denied")
        assert hood.parts.catch_up.missing == "some lessons may not be found by meaning: permission denied"
        hood.parts.catch_up.report = MigrationReport(None, remaining=3, complete=False, reason="out of time")
        assert hood.parts.catch_up.missing.startswith("3 lessons cannot be found by meaning yet")


async def test_learning_makes_up_for_it_too(tmp_path: Path) -> None:
    """Without any recall, as in a long import, nothing stays pending."""
    embedder = small()
    async with opened(tmp_path, embedder) as hood:
        embedder.fail_after = 0
        assert (await hood.learn(OTHER, score=0.9)).status == "pending"
        assert "some lessons" in hood.parts.catch_up.missing
        embedder.fail_after = None
        assert (await hood.learn(TEXT, score=0.9)).status == "stored"
        assert (await hood.status()).pending == 0
        assert hood.parts.catch_up.missing == ""


async def test_a_store_opened_without_its_model_recovers(tmp_path: Path) -> None:
    """Whoever indexed the lessons meanwhile, recall stops saying that some are missing."""
    async with opened(tmp_path, "lexical") as hood:
        await hood.learn_many([well(TEXT), well(OTHER)])
    embedder = small(fail_after=0)
    async with opened(tmp_path, embedder) as hood:
        assert hood.migration is not None
        assert (hood.migration.complete, hood.migration.remaining) == (False, 2)
        async with opened(tmp_path, small()):
            pass
        embedder.fail_after = None
        found = await hood.recall(TEXT)
        assert (found.degraded, found.reason) == (False, "")
        assert hood.migration.complete


async def test_a_recovery_that_fails_is_not_tried_at_every_call(tmp_path: Path) -> None:
    """A model that answers single texts but not the migration's is asked for those again only later."""
    embedder = _Stingy(dimension=64)
    async with opened(tmp_path, embedder) as hood:
        await hood.learn(TEXT, score=0.9)
        embedder.most = 0
        await hood.learn_many([well(f"word{n} note{n * 7919}") for n in range(5)])
        embedder.most = 1
        for _ in range(3):
            found = await hood.recall(TEXT)
            assert found.degraded
            assert hood.parts.catch_up.missing.startswith("5 lessons")
        assert embedder.refused == 1 + 1
        assert catch_up.PAUSE > 1


class _Stingy(HashedEmbedder):
    most = 1_000
    refused = 0

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        if len(texts) > self.most:
            self.refused += 1
            raise EmbedderUnavailableError("too many")
        return await super().embed(texts, role=role)


class _Slow(HashedEmbedder):
    """A model that takes its time, in seconds, for a call with many texts."""

    bulk = 1.0
    ended = 0

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        if len(texts) > 50:
            await asyncio.sleep(self.bulk)
            self.ended += 1
        return await super().embed(texts, role=role)


async def test_a_slow_calibration_goes_on_beside_the_calls(tmp_path: Path) -> None:
    """They compare raw cosines until it is there; the next start has it."""
    embedder = _Slow(dimension=64)
    chosen = settings("http://127.0.0.1:9/v1")
    async with opened(tmp_path, embedder, settings=chosen) as hood:
        started = time.monotonic()
        assert (await hood.learn(TEXT, score=0.9)).status == "stored"
        assert (await hood.recall(TEXT)).semantic
        assert time.monotonic() - started < 0.9
        assert (await hood.status()).calibration is None
        await soon(lambda: hood.space.calibration is not None)
        assert (await hood.recall(TEXT))[0].similarity == 1.0
    async with opened(tmp_path, small(), settings=chosen) as hood:
        assert (await hood.status()).calibration is not None
    assert embedder.ended == 1


async def test_closing_ends_what_goes_on_beside(tmp_path: Path) -> None:
    """Neither a calibration nor a late answer keeps a store open."""
    embedder = _Slow(dimension=64)
    embedder.bulk = 60.0
    started = time.monotonic()
    async with opened(tmp_path, embedder, settings=settings("http://127.0.0.1:9/v1")) as hood:
        await hood.learn(TEXT, score=0.9)
    assert time.monotonic() - started < 5
    assert embedder.ended == 0
    assert spaces.CALIBRATION_PAUSE > 1


async def test_more_texts_may_take_longer() -> None:
    """The deadline is that of one text; a batch has half a second more for each further one."""
    patient = PatientEmbedder(small(), deadline=2.0)
    assert [patient.limit(n) for n in (0, 1, 3)] == [2.0, 2.0, 3.0]
    assert (await patient.embed([TEXT], seconds=1.0)).shape == (1, 64)
    await patient.aclose()
