"""Search by vector: exact cosines in the right order, equal to brute force, and only what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from agenthood.errors import InvalidInputError, StoreError
from agenthood.stores.base import LEXICAL_DIMENSION, Collection
from agenthood.stores.filters import AllOf, Equals, Not, OneOf, where
from stores.backends import SHARED, TYPED, axis, fields, full, record, unit

if TYPE_CHECKING:
    from agenthood.stores.base import Hit, Vector, VectorStore
    from agenthood.stores.filters import Filter
    from stores.backends import Backend


def ids(hits: list[Hit]) -> list[str]:
    """The ids of `hits`, in order."""
    return [hit.record.id for hit in hits]


def brute_force(vectors: dict[str, Vector], query: Vector, limit: int) -> tuple[list[str], list[float]]:
    """Ids and cosines by NumPy in float64; scores equal to six digits are ties, ordered by id."""
    matrix = np.array(list(vectors.values()), dtype=np.float64)
    wanted = query.astype(np.float64)
    scores = matrix @ wanted / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(wanted))
    order = sorted(zip(-scores.round(6), vectors, scores, strict=True))[:limit]
    return [id_ for _, id_, _ in order], [score for _, _, score in order]


async def test_scores_are_cosines(store: VectorStore, backend: Backend, collection: Collection):
    """Identical is 1, orthogonal 0, opposite -1, whatever the lengths; the hit is the whole record."""
    rows = [
        record("same", vector=axis(0) * 30), record("orthogonal", vector=axis(1)),
        record("opposite", vector=-axis(0) * 0.01), record("half", vector=axis(0) + axis(2) * 3**0.5),
    ]  # fmt: skip
    await store.upsert(collection, rows)
    async with backend.reopened() as again:
        (hits,) = await again.query(collection, axis(0)[None] * 5)
    assert ids(hits) == ["same", "half", "orthogonal", "opposite"]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.5, 0, -1], abs=1e-6)
    assert max(hit.score for hit in hits) <= 1
    assert fields(hits[0].record) == fields(rows[0])


async def test_records_without_a_vector_are_never_hits(
    store: VectorStore, backend: Backend, collection: Collection
):
    """Also not instead of those that point away from the query, however many there are and whatever the limit."""
    await store.upsert(collection, [record(f"none {number}") for number in range(300)])
    await store.upsert(collection, [record("away", vector=-axis(0)), record("aside", vector=axis(1))])
    async with backend.reopened() as again:
        assert ids((await again.query(collection, axis(0)[None], limit=2))[0]) == ["aside", "away"]
        assert ids((await again.query(collection, axis(0)[None], limit=500))[0]) == ["aside", "away"]


async def test_ties_are_ordered_by_id(store: VectorStore, backend: Backend, collection: Collection):
    """However many tie, and wherever the limit cuts, the smallest ids come first."""
    rows = [record(f"tie {number:03d}", vector=axis(0) * (1 + number % 3)) for number in range(150)]
    await store.upsert(collection, [record("best", vector=axis(0) + axis(1) * 0.5), *reversed(rows)])
    await store.upsert(collection, [record("zz worse", vector=axis(2))])
    expected = ["best", *(row.id for row in rows), "zz worse"]
    query = axis(0) + axis(1) * 0.5
    async with backend.reopened() as again:
        for limit in (1, 2, 5, 40, 151, 152, 1_000):
            assert ids((await again.query(collection, query[None], limit=limit))[0]) == expected[:limit]


async def test_scores_that_differ_by_rounding_alone_are_ties(store: VectorStore, backend: Backend):
    """Hundreds at one angle to the query, each in another direction: the smallest ids come first, however asked."""
    wide = Collection("wide", 64, typed=True)
    rng = np.random.default_rng(3)
    query = unit(1, 64).astype(np.float64)
    away = rng.standard_normal((400, 64))
    away -= np.outer(away @ query, query)
    away /= np.linalg.norm(away, axis=1)[:, None]
    rows = [
        record(f"r{number:03d}", vector=((0.6 * query + 0.8 * away[number]) * 7).astype(np.float32))
        for number in range(400)
    ]
    await store.upsert(wide, [rows[number] for number in rng.permutation(400)])
    async with backend.reopened() as again:
        for limit in (1, 5, 100):
            found = await again.query(wide, np.stack([query.astype(np.float32)] * 3), limit=limit)
            found += await again.query(wide, query[None], limit=limit)
            assert [ids(hits) for hits in found] == [[row.id for row in rows[:limit]]] * 4


async def test_no_hits_where_none_can_be(store: VectorStore, collection: Collection):
    """A limit of 0 or less, no queries, an empty collection and a filter that nothing matches give none."""
    two = np.stack([axis(0), axis(1)])
    assert await store.query(collection, two) == [[], []]
    await store.upsert(collection, [full(1)])
    for limit in (0, -1):
        assert await store.query(collection, two, limit=limit) == [[], []]
    assert await store.query(collection, np.zeros((0, 8), np.float32)) == []
    for nothing in (Equals("type", "none"), OneOf("id", ()), Not(AllOf(()))):
        assert await store.query(collection, two, condition=nothing) == [[], []]


@pytest.mark.parametrize("bad", [0, np.nan, np.inf, 1e-40, 1e30])
async def test_a_bad_query_is_refused(store: VectorStore, bad: float):
    """A query vector that has no direction is an error that names its position, also beside good ones."""
    queries = np.stack([axis(0), np.full(8, bad, np.float32)])
    with pytest.raises(InvalidInputError, match="query 1 cannot be searched with"):
        await store.query(TYPED, queries)


async def test_a_query_of_the_wrong_length_is_refused(store: VectorStore):
    """A query has the length of the field it is compared with."""
    for wrong, field in (
        (unit(1, 7), "vector"),
        (unit(1, LEXICAL_DIMENSION), "vector"),
        (unit(1), "lexical"),
    ):
        with pytest.raises(InvalidInputError, match="shape"):
            await store.query(TYPED, wrong[None], field=field)


async def test_the_lexical_field_is_searched_on_its_own(store: VectorStore, backend: Backend):
    """Each field ranks by its own vectors, and a record may have only one of the two."""
    await store.upsert(
        TYPED,
        [
            record("both", vector=axis(0), lexical=axis(0, LEXICAL_DIMENSION)),
            record("words", lexical=axis(1, LEXICAL_DIMENSION)),
            record("meaning", vector=axis(1)),
        ],
    )
    async with backend.reopened() as again:
        (hits,) = await again.query(TYPED, axis(1, LEXICAL_DIMENSION)[None], field="lexical")
        assert [(hit.record.id, hit.score) for hit in hits] == [("words", 1.0), ("both", 0.0)]
        assert hits[0].record.vector is None
        assert ids((await again.query(TYPED, axis(1)[None]))[0]) == ["meaning", "both"]


async def test_a_field_that_is_not_there_is_refused(store: VectorStore):
    """Searching lexical vectors where there are none is an error of ours."""
    await store.upsert(SHARED, [full(1)])
    with pytest.raises(StoreError, match="lexical"):
        await store.query(SHARED, unit(1, LEXICAL_DIMENSION)[None], field="lexical")


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "shared"])
async def test_it_equals_brute_force(store: VectorStore, backend: Backend, typed: bool):
    """At 3,000 rows, some updated, some deleted, with and without filters, many queries at once or one by one."""
    collection = Collection("many", 32, typed=typed)
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((40, 32))
    points = (centres[rng.integers(0, 40, 4_000)] + rng.standard_normal((4_000, 32)) * 0.4).astype(np.float32)

    def row(number: int, vector: Vector):
        metadata = {
            "type": "t",
            "kind": "ab"[number % 2],
            "member": f"m{number % 50}",
            "note": f"n{number % 7}",
        }
        return record(f"r{number * 7_919 % 10_007}", metadata=metadata, vector=vector)

    rows = [row(number, points[number]) for number in range(3_000)]
    await store.upsert(collection, rows[:2_000])
    await store.upsert(collection, rows[2_000:])
    changed = [row(number, points[3_000 + number]) for number in range(0, 1_000, 3)]
    await store.upsert(collection, changed)
    await store.delete(collection, [row.id for row in rows[1_500:1_700]])
    now = {row.id: row for row in (*rows, *changed)}
    for gone in rows[1_500:1_700]:
        del now[gone.id]

    queries = points[[5, 900, 2_500, 3_500]] * 3
    filters: list[tuple[Filter | None, object]] = [
        (None, bool),
        (where(kind="a"), lambda m: m["kind"] == "a"),
        (where(member="m3", note="n1"), lambda m: (m["member"], m["note"]) == ("m3", "n1")),
        (Not(OneOf("member", ("m1", "m2"))), lambda m: m["member"] not in {"m1", "m2"}),
    ]  # fmt: skip
    async with backend.reopened() as again:
        for condition, wanted in filters:
            vectors = {id_: row.vector for id_, row in now.items() if wanted(row.metadata)}
            for limit in (1, 10, 200):
                found = await again.query(collection, queries, condition=condition, limit=limit)
                for query, hits in zip(queries, found, strict=True):
                    expected_ids, scores = brute_force(vectors, query, limit)
                    assert ids(hits) == expected_ids
                    assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-6)
        alone = [(await again.query(collection, query, limit=10))[0] for query in queries]
        together = await again.query(collection, queries, limit=10)
        assert [ids(hits) for hits in alone] == [ids(hits) for hits in together]
        assert await again.query(collection, queries[:0]) == []


async def test_the_matrix_holds_what_a_search_would_look_at(
    store: VectorStore, backend: Backend, collection: Collection
):
    """Ids and vectors of the matching records that have one, in the same order; none where there are none."""
    assert (await store.matrix(collection)).vectors.shape == (0, 8)
    await store.upsert(
        collection, [*(full(number) for number in range(30)), record("none"), record("nothing")]
    )
    await store.upsert(collection, [full(3, vector=axis(3)), full(4, vector=None)])
    async with backend.reopened() as again:
        for condition, wanted in ((None, range(30)), (Equals("member", "member-1"), range(1, 30, 3))):
            read = await again.matrix(collection, condition=condition)
            ids_, vectors = read.ids, read.vectors
            expected = {full(n).id: axis(3) if n == 3 else unit(n) for n in wanted if n != 4}
            assert vectors.dtype == np.float32
            assert {id_: row.tolist() for id_, row in zip(ids_, vectors, strict=True)} == {
                id_: row.tolist() for id_, row in expected.items()
            }
        if collection.lexical:
            read = await again.matrix(collection, field="lexical")
            ids_, vectors = read.ids, read.vectors
            assert sorted(ids_) == [full(n).id for n in range(30)]
            assert vectors.shape == (30, LEXICAL_DIMENSION)
