"""The pattern index: storing patterns and finding similar ones, in tables of our own and in the shared one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import InvalidInputError
from agenthood.formats import hash_pattern
from agenthood.learning.calibration import Calibration
from agenthood.learning.index import EmbeddingIndex
from agenthood.stores.base import SHARED, Collection
from agenthood.stores.lance.store import LanceStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from conftest import GoldenStore

PATTERNS = [f"{kind}:dev:test:step {n}" for n in range(6) for kind in ("learned", "antipattern")]


def _vectors(count: int, dimension: int, seed: int = 3) -> Any:
    rows = np.random.default_rng(seed).standard_normal((count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(params=[16, 1536])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EmbeddingIndex]:
    """An index of a small space in its own table, and one in the shared table; each holds `PATTERNS`."""
    store = LanceStore(tmp_path / "memory")
    found = EmbeddingIndex(store, HashedEmbedder(dimension=request.param).space)
    for pattern, vector in zip(PATTERNS, _vectors(len(PATTERNS), request.param), strict=True):
        assert await found.store_pattern(pattern, vector) == hash_pattern(pattern)
    await store.close()
    yield found  # a closed store opens again by itself: what follows reads from disk
    await store.close()


def _stored(index: EmbeddingIndex) -> Any:
    return _vectors(len(PATTERNS), index.space.dimension)


async def test_the_best_come_first(index: EmbeddingIndex) -> None:
    """Scores fall, the query's own pattern leads with 1, and the order is that of all cosines."""
    stored = _stored(index)
    found = await index.find_similar(stored[4], threshold=-1, limit=50, scoring="cosine")
    expected = sorted(zip((stored @ stored[4]).tolist(), PATTERNS, strict=True), reverse=True)
    assert [match.pattern for match in found] == [pattern for _, pattern in expected]
    assert [match.score for match in found] == pytest.approx([cosine for cosine, _ in expected], abs=1e-5)
    assert found[0].score == 1.0
    assert found[0].key == hash_pattern(PATTERNS[4])


async def test_the_threshold_is_inclusive(index: EmbeddingIndex) -> None:
    """Exactly at it counts, a millionth above does not."""
    stored = _stored(index)
    second = (await index.find_similar(stored[0], threshold=-1, limit=2, scoring="cosine"))[1].score
    for threshold, count in ((second, 2), (second + 1e-6, 1)):
        assert len(await index.find_similar(stored[0], threshold, 9, scoring="cosine")) == count
    assert len(await index.find_similar(stored[0], 1.0, scoring="cosine")) == 1


@pytest.mark.parametrize("limit", [0, -1, -100])
async def test_a_limit_below_one_gives_none(index: EmbeddingIndex, limit: int) -> None:
    """For one query and for several."""
    stored = _stored(index)
    assert await index.find_similar(stored[0], -1, limit) == []
    assert await index.find_similar(stored[:3], -1, limit) == [[], [], []]


async def test_many_queries_are_one_by_one(index: EmbeddingIndex) -> None:
    """In one call, as an array or a list, in order."""
    stored = _stored(index)
    single = [await index.find_similar(vector, -1, 4, scoring="cosine") for vector in stored]
    assert await index.find_similar(stored, -1, 4, scoring="cosine") == single
    assert await index.find_similar(list(stored), -1, 4, scoring="cosine") == single
    assert await index.find_similar(stored[:0], -1, 4) == []


async def test_filters_by_kind_member_and_skill(index: EmbeddingIndex) -> None:
    """Each excludes the others, and all that fit are found."""
    stored = _stored(index)
    found = await index.find_similar(stored[0], -1, 50, kind="antipattern", scoring="cosine")
    assert {match.pattern for match in found} == {p for p in PATTERNS if p.startswith("antipattern")}
    assert await index.find_similar(stored[0], -1, 50, member="qa") == []
    assert (
        len(await index.find_similar(stored[0], -1, 50, member="dev", skill="test", scoring="cosine")) == 12
    )


async def test_the_scales(index: EmbeddingIndex) -> None:
    """Calibrated once the space is; until then the cosine; squared L2 as the TypeScript program has it."""
    stored = _stored(index)
    cosines = [match.score for match in await index.find_similar(stored[0], -1, 5, scoring="cosine")]
    assert [m.score for m in await index.find_similar(stored[0], -1, 5)] == cosines
    squared = [match.score for match in await index.find_similar(stored[0], -3, 5, scoring="squared_l2")]
    assert squared == pytest.approx([2 * cosine - 1 for cosine in cosines], abs=2e-6)
    index.calibration = Calibration((0.1, 0.2, 0.3, 0.4), 300)
    calibrated = [match.score for match in await index.find_similar(stored[0], 0, 5)]
    assert calibrated == pytest.approx(index.calibration(cosines).tolist(), abs=1e-5)


async def test_a_pattern_again_replaces_its_row(index: EmbeddingIndex) -> None:
    """The same pattern has one row, with the newer vector."""
    fresh = _vectors(1, index.space.dimension, seed=9)[0]
    assert await index.store_pattern(PATTERNS[0], fresh) == hash_pattern(PATTERNS[0])
    found = await index.find_similar(fresh, 0.99, 50, scoring="cosine")
    assert [match.pattern for match in found] == [PATTERNS[0]]
    assert len(await index.present()) == len(PATTERNS)


async def test_two_patterns_of_one_key_live_side_by_side(index: EmbeddingIndex) -> None:
    """The second gets a suffix, and keeps it when it comes again."""
    first, second = "learned:developer:test:fixed Aa", "learned:developer:test:fixed BB"
    vectors = _vectors(2, index.space.dimension, seed=11)
    assert await index.store_pattern(first, vectors[0]) == "v1:1sbjzn"
    assert await index.store_pattern(second, vectors[1]) == "v1:1sbjzn~2"
    assert await index.store_pattern(second, vectors[1]) == "v1:1sbjzn~2"
    assert (await index.find_similar(vectors[0], 0.99, scoring="cosine"))[0].pattern == first
    assert (await index.find_similar(vectors[1], 0.99, scoring="cosine"))[0].pattern == second


@pytest.mark.parametrize("fault", ["zero", "nan", "infinite", "short"])
async def test_unusable_vectors_are_refused(index: EmbeddingIndex, fault: str) -> None:
    """In storing and in finding, by name, and nothing is stored."""
    vector = _stored(index)[0].copy()
    vector = {"zero": vector * 0, "nan": vector * np.nan, "infinite": vector * np.inf, "short": vector[:5]}[
        fault
    ]
    with pytest.raises(InvalidInputError):
        await index.store_pattern("learned:dev:test:never", vector)
    with pytest.raises(InvalidInputError):
        await index.find_similar(vector)
    assert len(await index.present()) == len(PATTERNS)


async def test_unusable_patterns_and_thresholds_are_refused(index: EmbeddingIndex) -> None:
    """A text that is no pattern, a threshold that is no number."""
    with pytest.raises(InvalidInputError, match="kind:member:skill"):
        await index.store_pattern("just a text", _stored(index)[0])
    with pytest.raises(InvalidInputError, match="threshold"):
        await index.find_similar(_stored(index)[0], float("nan"))


async def test_spaces_of_one_dimension_are_never_compared(tmp_path: Path) -> None:
    """In the shared table, rows of another space of the same dimension are not found."""
    store = LanceStore(tmp_path / "memory")
    one, other = (EmbeddingIndex(store, HashedEmbedder(model=model).space) for model in ("one", "other"))
    vector = _vectors(1, 1536)[0]
    await one.store_pattern("learned:dev:test:x", vector)
    assert await other.find_similar(vector, -1) == []
    assert len(await one.find_similar(vector, -1)) == 1
    assert len(await other.find_similar(vector, -1, any_space=True)) == 1
    await store.close()


async def test_the_typescript_programs_figures(golden_store: GoldenStore, shared: Path) -> None:
    """On a store it left, untouched, its neighbours come out with its scores."""
    store = LanceStore(golden_store("b") / "memory")
    index = EmbeddingIndex(store, HashedEmbedder().space)
    neighbours = json.loads((shared / "ts-store" / "b.neighbours.json").read_text(encoding="utf-8"))
    ids = [case["query_is_vector_of"] for case in neighbours]
    rows = await store.get(SHARED, ids, vectors=True)
    queries = [rows[id_].vector for id_ in ids]
    found = await index.find_similar(queries, -3, 3, scoring="squared_l2", any_space=True)  # type: ignore[arg-type]
    assert len(found) == len(neighbours) == 12
    for case, matches in zip(neighbours, found, strict=True):
        expected = [match["score"] for match in case["matches"]]
        assert [match.score for match in matches] == pytest.approx(expected, abs=1e-5)
        assert [match.pattern for match in matches] == [match["pattern"] for match in case["matches"]]
    assert await index.find_similar(queries, -3, 3) == [[]] * 12  # type: ignore[arg-type]
    await store.close()


async def test_a_shared_table_of_another_dimension_is_taken_as_it_is(tmp_path: Path) -> None:
    """Where the shared table was made with 8 dimensions, a space of 8 keeps its patterns there too."""
    store = LanceStore(tmp_path / "memory")
    shared = await store.ensure_collection(Collection("vectors", 8))
    index = EmbeddingIndex(store, HashedEmbedder(dimension=8).space, shared=shared)
    vector = _vectors(1, 8)[0]
    await index.store_pattern("learned:dev:test:x", vector)
    assert await store.ids(shared) == await store.ids(index.main) != set()
    assert [match.pattern for match in await index.find_similar(vector)] == ["learned:dev:test:x"]
    await store.close()
