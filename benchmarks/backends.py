"""Measures look-ups on each store backend, under filters, and how many of the true nearest they find; prints Markdown.

.venv/bin/python benchmarks/backends.py lancedb                                          embedded, in a temporary folder
.venv/bin/python benchmarks/backends.py lancedb postgres=postgresql://user@host/database  beside a server
.venv/bin/python benchmarks/backends.py lancedb --sizes 1000 --queries 20                 smaller
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.stores.base import Collection, Record
from agenthood.stores.factory import create_store
from agenthood.stores.filters import where
from agenthood.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.stores.base import Vector, VectorStore
    from agenthood.stores.filters import Filter

LIMIT = 10
TENANTS = 20
CENTRES = 500
SPREAD = 0.6
BATCH = 2_000
FILTERS: dict[str, Filter | None] = {
    "no filter": None,
    "kind": where(kind="learned"),
    "tenant": where(tenant_id="t3"),
    "tenant, kind": where(tenant_id="t3", kind="learned"),
}


@dataclass(frozen=True)
class Rows:
    """The rows of a size: around centres, as texts of few subjects are, and queries like them."""

    vectors: Vector
    queries: Vector

    @classmethod
    def made(cls, count: int, dimension: int, queries: int) -> Rows:
        """So many rows and queries, the same for the same sizes."""
        rng = np.random.default_rng(count)
        centres = rng.standard_normal((CENTRES, dimension))
        points = centres[rng.integers(0, CENTRES, count + queries)]
        points = points + rng.standard_normal(points.shape) * SPREAD
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        points = points.astype(np.float32)
        return cls(points[:count], points[count:])

    def record(self, number: int) -> Record:
        """One row of it: a kind of two, a tenant of twenty."""
        metadata = {
            "type": "learned_pattern",
            "kind": ("learned", "antipattern")[number % 2],
            "member": "developer",
            "skill": "test",
            "tenant_id": f"t{number // 2 % TENANTS}",
            "project": "p",
            "agent_id": "a",
        }
        return Record(
            f"row-{number:07d}",
            f"episode {number}",
            metadata,
            "2026-06-01T00:00:00.000Z",
            self.vectors[number],
        )

    def nearest(self, name: str, query: Vector) -> set[str]:
        """The ids of the true nearest under a filter."""
        numbers = np.arange(len(self.vectors))
        chosen = np.ones(len(numbers), dtype=bool)
        if "kind" in name:
            chosen &= numbers % 2 == 0
        if "tenant" in name:
            chosen &= numbers // 2 % TENANTS == 3
        numbers = numbers[chosen]
        scores = self.vectors[numbers] @ query
        return {f"row-{number:07d}" for number in numbers[np.argsort(-scores)[:LIMIT]]}


async def measure(store: VectorStore, count: int, dimension: int, queries: int) -> list[list[str]]:
    """Fill a collection, index it, look up; one line of the table per filter."""
    rows = Rows.made(count, dimension, queries)
    collection = Collection(f"benchmark_{count}_{dimension}", dimension, typed=True, scoped=True)
    await store.drop_collection(collection.name)
    started = time.perf_counter()
    for start in range(0, count, BATCH):
        batch = [rows.record(number) for number in range(start, min(count, start + BATCH))]
        await store.upsert(collection, batch)
    filled = time.perf_counter() - started
    started = time.perf_counter()
    await store.maintain(collection)
    indexed = time.perf_counter() - started
    single = []
    for number in range(20):
        started = time.perf_counter()
        await store.upsert(collection, [rows.record(number)])
        single.append(time.perf_counter() - started)
    lines = []
    for name, condition in FILTERS.items():
        seconds, share = await look_up(store, collection, rows, name, condition)
        p50, p95 = (f"{np.quantile(seconds, share) * 1e3:.1f}" for share in (0.5, 0.95))
        wrote = (f"{count / filled:,.0f}", f"{np.median(single) * 1e3:.1f}", f"{indexed:.1f}")
        lines.append([f"{count:,}", name, p50, p95, f"{share:.3f}", *wrote])
    await store.drop_collection(collection.name)
    return lines


async def look_up(
    store: VectorStore, collection: Collection, rows: Rows, name: str, condition: Filter | None
) -> tuple[list[float], float]:
    """Seconds of each look-up, one query at a time, and the share of the true nearest found."""
    seconds, shares = [], []
    await store.query(collection, rows.queries[:1], condition=condition, limit=LIMIT)
    for query in rows.queries:
        started = time.perf_counter()
        (hits,) = await store.query(collection, query[None], condition=condition, limit=LIMIT, unit=True)
        seconds.append(time.perf_counter() - started)
        wanted = rows.nearest(name, query)
        shares.append(len(wanted & {hit.record.id for hit in hits}) / len(wanted))
    return seconds, float(np.mean(shares))


def settings_of(asked: str) -> StoreSettings:
    """`name` or `name=url` as settings; everything is kept apart from what the server else holds."""
    name, _, url = asked.partition("=")
    return StoreSettings(backend=name, url=url or None, namespace="agenthood_benchmark", timeout=600)


async def run(options: argparse.Namespace) -> list[list[str]]:
    lines: list[list[str]] = []
    for asked in options.backends:
        settings = settings_of(asked)
        with tempfile.TemporaryDirectory() as folder:
            store = create_store(settings, Path(folder))
            for count in options.sizes:
                print(f"{settings.backend}: {count:,} rows", file=sys.stderr)
                found = await measure(store, count, options.dimension, options.queries)
                lines += [[settings.backend, *line] for line in found]
            await store.close()
    return lines


def table(lines: Sequence[Sequence[Any]]) -> str:
    """The lines below their heading, as Markdown."""
    heading = (
        "backend", "rows", "filter", "p50 ms", "p95 ms", f"recall@{LIMIT}", "upserts/s", "one upsert ms", "maintain s",
    )  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in [heading, ["---"] * len(heading), *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the backends asked for; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("backends", nargs="+", help="a name, or name=url")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--queries", type=int, default=100)
    print(table(asyncio.run(run(parser.parse_args(arguments)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
