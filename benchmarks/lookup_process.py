"""Looks things up in a store and prints what that took, as JSON: the part of `lookup` that has a process to itself.

lookup_process.py STORE QUERIES.npy DIMENSION
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import lookup
import numpy as np
from measure import each, peak_memory

import agenthood

if TYPE_CHECKING:
    from agenthood import AsyncHood

WARM_UP = 10
BATCH_SIZE = 100
BATCHES = 5
_LOWEST = -1.0


async def main(store: str, queries: str, dimension: str) -> dict[str, Any]:
    """Measure; the answer has for each way to ask the seconds of each call and the keys found."""
    asked = np.load(queries)
    async with agenthood.open_async(
        Path(store),
        settings=lookup.settings(),
        embedder=lookup.embedder(int(dimension)),
        start_migration=False,
    ) as hood:
        started = time.perf_counter()
        await find_similar(hood, asked[0])
        first = time.perf_counter() - started
        answer = {
            "first": first,
            "find_similar": await measured(lambda query: find_similar(hood, query), asked),
            "query": await measured(lambda query: plain(hood, query), asked),
            "selective": await measured(lambda query: find_similar(hood, query, lookup.MEMBER), asked),
        }
        size = min(BATCH_SIZE, len(asked))
        (rows, *_), times = await each(lambda part: many(hood, part), [asked[:size]] * BATCHES)
        answer["batch"] = {"seconds": [one / size for one in times.seconds], "keys": rows}
        answer["batch_size"] = size
    return answer | {"memory": peak_memory()}


async def measured(call: Callable[[Any], Awaitable[list[str]]], asked: Any) -> dict[str, Any]:
    """Seconds and keys of a call for each query, after a few that do not count."""
    await each(call, asked[:WARM_UP])
    keys, times = await each(call, asked)
    return {"seconds": times.seconds, "keys": keys}


async def find_similar(hood: AsyncHood, query: Any, member: int | None = None) -> list[str]:
    """The keys of the best lessons of the kind `learned`."""
    name = None if member is None else f"member-{member}"
    found = await hood.index.find_similar(query, _LOWEST, data.BEST, kind="learned", member=name)
    return [match.key for match in found]


async def many(hood: AsyncHood, queries: Any) -> list[list[str]]:
    """The same for several queries in one call."""
    found = await hood.index.find_similar(queries, _LOWEST, data.BEST, kind="learned")
    return [[match.key for match in matches] for matches in found]


async def plain(hood: AsyncHood, query: Any) -> list[str]:
    """The same through the store."""
    condition = hood.index.condition({"kind": "learned"})
    (hits,) = await hood.store.query(
        hood.index.main, query[None], condition=condition, limit=data.BEST, unit=True
    )
    return [hit.record.id for hit in hits]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
