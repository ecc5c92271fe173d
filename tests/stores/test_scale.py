"""At a size where an approximate index would be in play: filters and searches equal brute force, exactly."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agenthood.stores.base import Collection
from agenthood.stores.filters import AllOf, Equals, Not, OneOf, StartsWith, matches, where
from stores.backends import ON_SERVERS, WHOLE, Backend, record

if TYPE_CHECKING:
    from agenthood.stores.base import Record, UpsertResult
    from agenthood.stores.filters import Filter

ROWS = 50_000
LARGE = Collection("large", 16, typed=True, scoped=True)
SMALL_TENANT = "small"
"""Owns one record in a hundred, in a corner that is far from where the queries are."""


@dataclass(frozen=True)
class Loaded:
    """A backend with `ROWS` records, and their vectors as float64 of unit length."""

    backend: Backend
    rows: list[Record]
    vectors: np.ndarray


def _rows() -> tuple[list[Record], np.ndarray]:
    rng = np.random.default_rng(11)
    centres = rng.standard_normal((60, LARGE.dimension))
    points = centres[rng.integers(0, 60, ROWS)] + rng.standard_normal((ROWS, LARGE.dimension)) * 0.3
    # What is asked for below lies elsewhere: whoever filters after having searched finds nothing.
    points[::100] = centres[0] * -2 + rng.standard_normal((ROWS // 100, LARGE.dimension))
    points /= np.linalg.norm(points, axis=1)[:, None]
    kept = points.astype(np.float32)
    rows = [
        record(
            f"r{number:05d}",
            metadata={
                "type": "t",
                "kind": "learned" if number % 3 else "antipattern",
                "member": f"m{number % 7}",
                "tenant_id": f"t{number % 4}" if number % 100 else SMALL_TENANT,
                "note": f"n{number % 11}",
            },
            vector=kept[number],
        )
        for number in range(ROWS)
    ]
    exact = kept.astype(np.float64)
    return rows, exact / np.linalg.norm(exact, axis=1)[:, None]


# The servers are asked with as many in `test_postgres_scale.py` and, Qdrant's own engine, in `test_qdrant_engine.py`.
@pytest.fixture(scope="module", params=[name for name in WHOLE if name not in ON_SERVERS])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """Each backend, filled once with one bulk load."""
    backend = Backend(request.param, tmp_path_factory.mktemp("large"))
    rows, vectors = _rows()

    async def load() -> UpsertResult:
        async with backend.reopened() as store:
            result = await store.upsert(LARGE, rows)
            await store.maintain(LARGE)
            return result

    assert asyncio.run(load()).written == ROWS
    return Loaded(backend, rows, vectors)


CASES: tuple[Filter | None, ...] = (
    None,
    where(tenant_id=SMALL_TENANT),
    where(tenant_id=SMALL_TENANT, kind="learned"),
    where(tenant_id="t1", kind="antipattern", member="m3"),
    AllOf((where(tenant_id="t1"), Not(Equals("member", "m3")))),
    Not(Equals("tenant_id", "t1")),
    AllOf((where(tenant_id=SMALL_TENANT), Equals("note", "n5"))),
    OneOf("member", ("m1", "m2")),
    Equals("note", "n5"),
    AllOf((StartsWith("id", "r4"), Equals("kind", "learned"))),
    where(tenant_id="nobody"),
)


@pytest.mark.parametrize("condition", CASES, ids=[f"case{number}" for number in range(len(CASES))])
async def test_a_filter_is_brute_force(loaded: Loaded, condition: Filter | None):
    """Count, ids and the nearest of what matches are those of NumPy over all rows, however few match."""
    chosen = [n for n, row in enumerate(loaded.rows) if condition is None or matches(row, condition)]
    queries = loaded.vectors[[1, 25_001]] + 0.05
    queries /= np.linalg.norm(queries, axis=1)[:, None]
    async with loaded.backend.reopened() as store:
        assert await store.count(LARGE, condition) == len(chosen)
        assert await store.ids(LARGE, condition=condition) == {loaded.rows[n].id for n in chosen}
        found = await store.query(LARGE, queries.astype(np.float32), condition=condition, with_vectors=False)
    for query, hits in zip(queries.astype(np.float32).astype(np.float64), found, strict=True):
        scores = loaded.vectors[chosen] @ query / np.linalg.norm(query)
        expected = sorted(zip(-scores.round(6), (loaded.rows[n].id for n in chosen), strict=True))[:10]
        assert [hit.record.id for hit in hits] == [id_ for _, id_ in expected]
        assert [-hit.score for hit in hits] == pytest.approx([score for score, _ in expected], abs=2e-6)
