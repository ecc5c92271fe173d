"""The check that a model still answers as it did, and the calibration of its space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import EmbedderUnavailableError, EmbeddingSpaceError
from agenthood.learning import spaces
from agenthood.learning.calibration import Calibration, reference_texts
from agenthood.learning.space_record import SpaceRecord, read_space, write_space
from hoods import bodies, opened, small

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenthood.embedding.base import Role, Vectors

CALIBRATION = 1 + len(reference_texts())


@pytest.mark.parametrize("dimension", [64, 1536])
async def test_a_model_that_answers_differently_is_an_error(tmp_path: Path, dimension: int) -> None:
    """Under the same space and name: opening says what to do, and changes nothing."""
    async with opened(tmp_path, HashedEmbedder(dimension=dimension)) as hood:
        await hood.learn("fixed the login", score=0.9)
    with pytest.raises(EmbeddingSpaceError, match=r"AGENTHOOD_EMBED_REVISION.*agenthood migrate"):
        async with opened(tmp_path, HashedEmbedder(dimension=dimension, salt="other")):
            pass
    async with opened(tmp_path, HashedEmbedder(dimension=dimension, salt="other", revision="2")) as hood:
        assert len(await hood.recall("fixed the login")) == 1
    async with opened(tmp_path, HashedEmbedder(dimension=dimension)) as hood:
        assert len(await hood.recall("fixed the login")) == 1


async def test_a_pinned_model_is_not_asked_at_the_start(tmp_path: Path) -> None:
    """Its space names the exact weights, so opening a store and looking at it embeds nothing."""
    embedder = small(pinned=True)
    async with opened(tmp_path, embedder) as hood:
        await hood.lessons()
        assert embedder.calls == 0
        await hood.learn("fixed the login", score=0.9)
        assert embedder.texts_embedded == CALIBRATION + 1
    again = small(pinned=True)
    async with opened(tmp_path, again) as hood:
        await hood.recall("login")
        assert hood.space.calibration is not None
        assert again.texts_embedded == 1


async def test_another_model_is_asked_once_at_the_start(tmp_path: Path) -> None:
    """One sentence when a store is opened; the calibration waits for the first need and is kept."""
    embedder = small()
    async with opened(tmp_path, embedder) as hood:
        assert embedder.texts_embedded == 1
        await hood.learn("fixed the login", score=0.9)
        assert embedder.texts_embedded == CALIBRATION + 1
    again = small()
    async with opened(tmp_path, again) as hood:
        assert again.texts_embedded == 1
        await hood.recall("login")
        assert again.texts_embedded == 2
        (record,) = (await bodies(hood, "ltm:spaces/")).values()
    assert record["space"] == str(again.space)
    assert len(record["canary"]) == 64
    assert record["calibration"]["texts"] == len(reference_texts())


async def test_a_model_that_is_down_at_the_start_degrades(tmp_path: Path) -> None:
    """The store opens, says why, and compares wording until the model is back, in the same process."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn("fixed the login", score=0.9)
    embedder = small(fail_after=0)
    async with opened(tmp_path, embedder) as hood:
        assert "fail_after" in hood.reason
        assert (await hood.recall("fixed the login")).degraded
        embedder.fail_after = None
        found = await hood.recall("fixed the login")
        assert (found.degraded, found.semantic, len(found)) == (False, True, 1)


async def test_a_model_changed_while_it_was_down_is_noticed_later(tmp_path: Path) -> None:
    """Unreachable at the start, different afterwards: recall says so, learning waits."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn("fixed the login", score=0.9)
    embedder = small(salt="other", fail_after=0)
    async with opened(tmp_path, embedder) as hood:
        embedder.fail_after = None
        with pytest.raises(EmbeddingSpaceError):
            await hood.recall("fixed the login")
        assert (await hood.learn("sped up the cache", score=0.9)).status == "pending"


class _NoBulk(HashedEmbedder):
    """A model that answers a few texts, but not as many as a calibration takes."""

    limited = True

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        if self.limited and len(texts) > 50:
            raise EmbedderUnavailableError("quota")
        return await super().embed(texts, role=role)


async def test_without_a_calibration_scores_are_raw(tmp_path: Path) -> None:
    """A calibration that fails stops neither learning nor recall, and a later start makes up for it."""
    async with opened(tmp_path, _NoBulk(dimension=64)) as hood:
        assert (await hood.learn("fixed the login", score=0.9)).status == "stored"
        assert (await hood.learn("fixed the login", score=0.9)).evidence == 2
        found = await hood.recall("fixed the login")
        assert (found.semantic, found[0].similarity) == (True, 1.0)
        assert (await hood.status()).calibration is None
    embedder = _NoBulk(dimension=64)
    embedder.limited = False
    async with opened(tmp_path, embedder) as hood:
        await hood.recall("fixed the login")
        assert (await hood.status()).calibration == Calibration.fit(await small().embed(reference_texts()))


async def test_a_failed_calibration_is_not_tried_at_every_call(tmp_path: Path) -> None:
    """Calls between two attempts go straight to the model."""
    embedder = _NoBulk(dimension=64)
    async with opened(tmp_path, embedder) as hood:
        await hood.learn("fixed the login", score=0.9)
        before = embedder.calls
        await hood.recall("login")
        assert embedder.calls == before + 1
    assert spaces.CALIBRATION_PAUSE > 0


UNIT = [1.0] + [0.0] * 63


@pytest.mark.parametrize(
    "part",
    [
        {"canary": 5},
        {"canary": "abc"},
        {"canary": ["x"] * 64},
        {"canary": [None] * 64},
        {"canary": [[1]] * 64},
        {"canary": [10**400] * 64},
        {"canary": [1e300] * 64},
        {"canary": [0] * 64},
        {"canary": UNIT[:63]},
        {"calibration": 5},
        {"calibration": {"quantiles": [1, 1, 1, 1], "texts": 455}},
        {"calibration": {"quantiles": "abcd", "texts": "x"}},
        {"calibration": {"quantiles": [0.1, 0.2], "texts": 455}},
        {"calibration": {"quantiles": [0.1, 0.2, 0.3, 10**400], "texts": 455}},
    ],
    ids=range(14),
)
async def test_a_damaged_row_of_a_space_is_made_anew(tmp_path: Path, part: dict[str, object]) -> None:
    """Its other part stays as it is, and the store works as before."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn("fixed the login", score=0.9)
        key = f"spaces/{hood.index.space}"
        first = await hood.long_term.retrieve(key)
        await hood.long_term.store(key, first | part)
    async with opened(tmp_path, small()) as hood:
        assert (await hood.recall("fixed the login"))[0].similarity == 1.0
        assert (await hood.learn("sped up the cache", score=0.9)).status == "stored"
        assert await hood.long_term.retrieve(key) == first


async def test_what_another_process_wrote_first_counts(tmp_path: Path) -> None:
    """A part that is there is neither replaced nor lost by whoever read the row before."""
    ours, theirs = Calibration((0.1, 0.2, 0.3, 0.4), 300), Calibration((0.2, 0.3, 0.4, 0.5), 300)
    async with opened(tmp_path, small()) as hood:
        store, space = hood.store, hood.index.space
        canary = (await read_space(store, space)).canary
        assert canary is not None
        await write_space(store, space, SpaceRecord(calibration=theirs))
        written = await write_space(store, space, SpaceRecord(-canary, ours))
        for record in (written, await read_space(store, space)):
            assert record.calibration == theirs
            assert record.canary is not None
            assert (record.canary == canary).all()


async def test_two_that_calibrate_at_once_agree(tmp_path: Path) -> None:
    """A calibration that fails does not take away the one that succeeded meanwhile."""
    failing = _NoBulk(dimension=64)
    async with opened(tmp_path, failing) as one, opened(tmp_path, small()) as other:
        await other.learn("fixed the login", score=0.9)
        await one.learn("sped up the cache", score=0.9)
        assert (await one.status()).calibration is not None
        assert (await read_space(one.store, one.index.space)).calibration is not None


class _Same(HashedEmbedder):
    """A model that gives one and the same vector for every text."""

    value = 1.0

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        await super().embed(texts, role=role)
        return np.full((len(texts), 64), self.value, np.float32)


@pytest.mark.parametrize(("value", "word"), [(1.0, "same vector for every text"), (0.0, "vector of zeros")])
async def test_a_model_that_tells_nothing_apart_is_not_used(tmp_path: Path, value: float, word: str) -> None:
    """Lessons wait for a better one and are found by their words; the next opening says the same."""
    for times in (1, 2):
        embedder = _Same(dimension=64)
        embedder.value = value
        async with opened(tmp_path, embedder) as hood:
            receipt = await hood.learn(f"fixed {times} of the logins", score=0.9)
            assert word in receipt.reason
            found = await hood.recall("fixed of the logins", threshold=0)
            assert (len(found), found.degraded, found.semantic) == (times, True, False)
            assert word in found.reason
            assert (await hood.status()).pending == times
            asked = embedder.texts_embedded
            await hood.recall("fixed the login")
            assert embedder.texts_embedded <= asked + 1
    async with opened(tmp_path, small(revision="2")) as hood:
        assert (await hood.recall("fixed the login")).semantic
        assert (await hood.status()).pending == 0
