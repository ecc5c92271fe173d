"""The indices of large tables: built in time, never felt in an answer, and rebuilt where they hold what is gone."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lancedb
import numpy as np
import pytest

from agenthood.stores.base import Collection
from agenthood.stores.filters import Equals, StartsWith
from agenthood.stores.lance.index import IndexRules, keep_indexed
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.lance.upkeep import optimize
from stores.backends import SHARED, TYPED, full, record, unit
from stores.files import left

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agenthood.stores.base import Hit, Record, Vector

RULES = IndexRules(vectors_from=300, shared_from=300, ids_from=400, most_deltas=2, rows_per_partition=20)
PATTERNS = StartsWith("id", "pattern:")


@asynccontextmanager
async def opened(folder: Path, rules: IndexRules = RULES) -> AsyncIterator[LanceStore]:
    """A new store on `folder`, closed afterwards, so that its upkeep is done."""
    store = LanceStore(folder, index_rules=rules)
    yield store
    await store.close()


def pattern(number: int, **changes: Any) -> Record:
    """A pattern of the shared table, with a vector of unit length."""
    return record(f"pattern:{number:05d}", **({"vector": unit(number)} | changes))


async def indices(folder: Path, collection: Collection) -> dict[str, Any]:
    """What a reopened store says of the indices on vectors and ids."""
    async with opened(folder) as store:
        found = (await store.health()).detail[collection.name]["indices"]
    return {name: found[name] for name in ("vector_idx", "lexical_idx", "id_idx") if name in found}


def ranked(hits: list[Hit]) -> list[tuple[str, float]]:
    """Ids and scores."""
    return [(hit.record.id, pytest.approx(hit.score, abs=1e-6)) for hit in hits]


def nearest(query: Vector, ids: list[str], vectors: Vector, limit: int = 10) -> list[tuple[str, float]]:
    """What comparing with every vector gives."""
    scores = vectors.astype(np.float64) @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    best = sorted(zip(ids, scores.tolist(), strict=True), key=lambda pair: (-round(pair[1], 6), pair[0]))
    return best[:limit]


def index_folders(folder: Path) -> set[str]:
    """The folders that hold an index."""
    return {path.name for path in folder.glob("*.lance/_indices/*")}


async def test_a_table_of_our_own_is_indexed_from_its_size_on(tmp_path: Path):
    """Both vectors from the first size on, the ids from the second; what was built is there when it is reopened."""
    sizes = {299: set(), 300: {"vector_idx", "lexical_idx"}, 400: {"vector_idx", "lexical_idx", "id_idx"}}
    for size, expected in sizes.items():
        async with opened(tmp_path) as store:
            await store.upsert(TYPED, [full(number) for number in range(size)])
        found = await indices(tmp_path, TYPED)
        assert found.keys() == expected
        assert all(found[name]["type"] == "IVF_SQ" for name in found if name != "id_idx")


async def test_the_shared_table_is_indexed_by_its_patterns(tmp_path: Path):
    """Rows without a vector, of which there may be many, do not count."""
    async with opened(tmp_path) as store:
        await store.upsert(SHARED, [record(f"ltm:{number}") for number in range(350)])
        await store.upsert(SHARED, [pattern(number) for number in range(299)])
        assert "vector" not in (await store.maintain(SHARED))["indexed"]
    assert (await indices(tmp_path, SHARED)).keys() == {"id_idx"}
    async with opened(tmp_path) as store:
        await store.upsert(SHARED, [pattern(299)])
    assert (await indices(tmp_path, SHARED))["vector_idx"]["type"] == "IVF_FLAT"


@pytest.mark.parametrize("collection", [TYPED, SHARED], ids=["typed", "shared"])
async def test_rows_beside_the_index_are_found_at_once(tmp_path: Path, collection: Collection):
    """Rows that are new, changed or deleted since the index was built are answered for as they are."""
    make = full if collection.typed else pattern
    async with opened(tmp_path) as store:
        await store.upsert(collection, [make(number) for number in range(320)])
    async with opened(tmp_path) as store:
        await store.upsert(collection, [make(number) for number in range(320, 324)])
        await store.upsert(collection, [make(7, vector=unit(1_007))])
        await store.delete(collection, [make(8).id])
    async with opened(tmp_path) as store:
        assert (await store.health()).detail[collection.name]["indices"]["vector_idx"]["unindexed_rows"] == 5
        for unit_length in (True, False):
            for number in (320, 323, 1_007):
                (hits,) = await store.query(collection, unit(number)[None], limit=1, unit=unit_length)
                assert ranked(hits) == [(make(number % 1_000).id, 1.0)]
            for number in (7, 8):
                (hits,) = await store.query(collection, unit(number)[None], limit=1, unit=unit_length)
                assert hits[0].score < 0.999


async def test_a_selective_filter_at_a_real_size(tmp_path: Path):
    """At 12,000 rows the index changes no answer, also where a filter leaves one row in a hundred."""
    collection = Collection("large", 64, typed=True)
    rules = IndexRules(rows_per_partition=500)
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((60, 64))
    vectors = (centres[rng.integers(60, size=12_000)] + rng.standard_normal((12_000, 64))).astype(np.float32)
    members = [f"m{number}" for number in rng.integers(100, size=12_000)]
    ids = [f"r{number:05d}" for number in range(12_000)]
    async with opened(tmp_path, rules) as store:
        await store.upsert(
            collection,
            [
                record(id_, metadata={"type": "t", "member": member}, vector=vector)
                for id_, member, vector in zip(ids, members, vectors, strict=True)
            ],
        )
    queries = vectors[:20] + rng.standard_normal((20, 64)).astype(np.float32)
    chosen = [position for position, member in enumerate(members) if member == "m7"]
    async with opened(tmp_path, rules) as store:
        assert (await store.health()).detail["large"]["indices"]["vector_idx"]["unindexed_rows"] == 0
        few = await store.query(collection, queries, condition=Equals("member", "m7"))
        everywhere = await store.query(collection, queries)
    for query, some, all_ in zip(queries, few, everywhere, strict=True):
        assert ranked(some) == nearest(query, [ids[p] for p in chosen], vectors[chosen])
        assert ranked(all_) == nearest(query, ids, vectors)


async def test_deltas_that_pile_up_are_rebuilt(tmp_path: Path):
    """Each compaction adds a part to the index; with too many it is built anew, and the rows stay findable."""
    async with opened(tmp_path) as store:
        await store.upsert(SHARED, [pattern(number) for number in range(300)])
    seen = []
    table = await (await lancedb.connect_async(tmp_path)).open_table("vectors")
    for number in range(300, 308):
        async with opened(tmp_path) as store:
            await store.upsert(SHARED, [pattern(number)])
        await optimize(table, timedelta(minutes=10))
        rebuilt = "vector" in await keep_indexed(table, SHARED, RULES)
        stats = await table.index_stats("vector_idx")
        assert stats is not None
        seen.append((stats.num_indices, rebuilt))
    assert max(deltas for deltas, _ in seen) == RULES.most_deltas
    assert [deltas for deltas, rebuilt in seen if rebuilt] == [1] * sum(rebuilt for _, rebuilt in seen)
    assert 2 <= sum(rebuilt for _, rebuilt in seen) < len(seen)
    async with opened(tmp_path) as store:
        report = await store.maintain(SHARED)  # whoever asks for it has the time
        assert report["indices"]["vector_idx"]["deltas"] == 1
        (hits,) = await store.query(SHARED, unit(304)[None], limit=1, unit=True)
        assert ranked(hits) == [("pattern:00304", 1.0)]


async def test_what_has_grown_is_divided_anew(tmp_path: Path):
    """`maintain` rebuilds the index of vectors where more than a few rows came since, and else only extends it."""
    async with opened(tmp_path) as store:
        await store.upsert(SHARED, [pattern(number) for number in range(400)])
        await store.maintain(SHARED)
        for more, rebuilt in ((4, False), (40, True), (0, False)):
            count = await store.count(SHARED)
            await store.upsert(SHARED, [pattern(count + number) for number in range(more)])
            report = await store.maintain(SHARED)
            assert ("vector" in report["indexed"]) is rebuilt
            assert report["indices"]["vector_idx"]["unindexed_rows"] == 0


async def test_the_typescript_program_computes_what_it_did(tmp_path: Path):
    """Its search (l2 by default, 20 probes, no refinement, score = 1 - distance) gives the same with the index."""

    def as_typescript(query: Vector) -> list[tuple[str, float]]:
        table = lancedb.connect(tmp_path).open_table("vectors")
        found = table.search(query, vector_column_name="vector").select(["id", "_distance"]).limit(20)
        assert ("ANN" in found.explain_plan()) == indexed
        return [(row["id"], pytest.approx(1 - row["_distance"], abs=1e-6)) for row in found.to_list()]

    queries = [unit(number) for number in range(2_000, 2_020)]
    rows = [pattern(number) for number in range(500)]
    indexed = False
    async with opened(tmp_path, IndexRules()) as store:
        await store.upsert(SHARED, [*rows, *(record(f"ltm:{number}") for number in range(50))])
    before = [as_typescript(query) for query in queries]
    async with opened(tmp_path) as store:
        assert "vector" in (await store.maintain(SHARED))["indexed"]
        indexed = True
        assert [as_typescript(query) for query in queries] == before
        vectors = np.stack([unit(number) for number in range(500)])
        for unit_length in (True, False):
            found = await store.query(SHARED, np.stack(queries), condition=PATTERNS, unit=unit_length)
            assert [ranked(hits) for hits in found] == [
                nearest(query, [row.id for row in rows], vectors) for query in queries
            ]


@pytest.mark.parametrize("with_vector", [0, 1, 5])
async def test_too_few_vectors_to_train_on(tmp_path: Path, with_vector: int):
    """A large table of which few rows have a vector, or none, is searched right, and nothing fails."""
    rows = [full(number) for number in range(with_vector)]
    rows += [full(number, vector=None, lexical=None) for number in range(with_vector, 400)]
    async with opened(tmp_path) as store:
        await store.upsert(TYPED, rows)
        await store.maintain(TYPED)
    async with opened(tmp_path) as store:
        (hits,) = await store.query(TYPED, unit(0)[None])
        assert {hit.record.id for hit in hits} == {row.id for row in rows[:with_vector]}
    assert ("vector_idx" in await indices(tmp_path, TYPED)) == (with_vector > 0)


@pytest.mark.parametrize("collection", [TYPED, SHARED], ids=["typed", "shared"])
async def test_a_purge_rebuilds_them(tmp_path: Path, collection: Collection):
    """Neither the id nor the vector of a purged row is left in an index, and the others are found by it."""
    make = full if collection.typed else pattern
    secret = make(999, vector=unit(999))
    async with opened(tmp_path) as store:
        await store.upsert(collection, [*(make(number) for number in range(450)), secret])
    before = await indices(tmp_path, collection)
    held = index_folders(tmp_path)
    async with opened(tmp_path) as store:
        assert await store.purge(collection, [secret.id]) == 1
    assert not held & index_folders(tmp_path)
    assert left(tmp_path, [unit(999).tobytes()]) == set()
    assert (await indices(tmp_path, collection)).keys() == before.keys() >= {"vector_idx", "id_idx"}
    async with opened(tmp_path) as store:
        (hits,) = await store.query(collection, unit(5)[None], limit=1, unit=True)
        assert ranked(hits) == [(make(5).id, 1.0)]


async def test_a_purge_drops_what_it_cannot_rebuild(tmp_path: Path):
    """Where the rows that are left have no vectors to build an index of, the old one goes all the same."""
    rows = [full(number) for number in range(300)]
    rows += [full(number, vector=None, lexical=None) for number in range(300, 600)]
    async with opened(tmp_path) as store:
        await store.upsert(TYPED, rows)
    assert {"vector_idx", "lexical_idx"} <= (await indices(tmp_path, TYPED)).keys()
    async with opened(tmp_path) as store:
        assert await store.purge(TYPED, [row.id for row in rows[:300]]) == 300
        assert await store.query(TYPED, unit(0)[None]) == [[]]
    assert (await indices(tmp_path, TYPED)).keys() == {"id_idx"}
