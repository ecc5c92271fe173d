"""What a store promises to those who share it: scopes, the write lock, and writers at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agenthood.scope import Scope
from agenthood.stores.check_ground import Ground, UnmetError, axis_vector, sample, scan_all, shown_fields
from agenthood.stores.checksum import digest
from agenthood.stores.scoped import ScopedStore, scoped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.stores.base import Collection, Record, VectorStore


async def scopes(ground: Ground) -> None:
    """What one scope writes and deletes is no other's."""
    collection = ground.fresh()
    scopes = [
        Scope("acme", "shop"),
        Scope("acme", "shop", "agent"),
        Scope("acme", "other"),
        Scope("a%", "shop"),
    ]
    rows = {scope: [sample(n, content=f"{scope} {n}") for n in range(5)] for scope in scopes}
    for scope in scopes:
        await ScopedStore(ground.store, scope).upsert(collection, rows[scope])
    for scope in scopes:
        await _expect_own(ground, scope, collection, rows[scope])
    await ScopedStore(ground.store, scopes[0]).delete(collection, [row.id for row in rows[scopes[0]]])
    for scope in scopes:
        await _expect_own(ground, scope, collection, [] if scope == scopes[0] else rows[scope])
    ground.expect("records of all scopes", 15, await ground.other.count(scoped(collection)))


async def _expect_own(ground: Ground, scope: Scope, collection: Collection, rows: Sequence[Record]) -> None:
    seen = ScopedStore(ground.other, scope)
    (hits,) = await seen.query(collection, axis_vector(0)[None], limit=100)
    found = {
        "get": (await seen.get(collection, [sample(n).id for n in range(5)])).values(),
        "scan": await scan_all(seen, collection, None),
        "query": [hit.record for hit in hits],
        "search_terms": await seen.search_terms(collection, ["all"]),
    }
    expected = {row.content for row in rows}
    for how, records in found.items():
        ground.expect(f"what {scope} sees by {how}", expected, {row.content for row in records})
    ground.expect(f"what {scope} counts", len(rows), await seen.count(collection))


async def lock(ground: Ground) -> None:
    """Two holders through two handles, as two processes are; each is a task of its own, since those may enter again."""
    inside: list[int] = []
    most = entered = 0

    async def hold(store: VectorStore, number: int) -> None:
        nonlocal most, entered
        async with store.exclusive(ground.typed.name):
            inside.append(number)
            entered += 1
            most = max(most, len(inside))
            await asyncio.sleep(0.05)
            inside.remove(number)

    await asyncio.gather(
        *(asyncio.create_task(hold((ground.store, ground.other)[n % 2], n)) for n in range(4))
    )
    ground.expect("holders that had the lock", 4, entered)
    ground.expect("holders of the lock at once", 1, most)


async def writers(ground: Ground) -> None:
    """Six write the same ids at once: each id is there once, as one of them wrote it."""
    collection = ground.fresh()
    versions = [[sample(n, metadata={"type": "check", "by": by}) for n in range(10)] for by in range(6)]
    await asyncio.gather(
        *((ground.store, ground.other)[by % 2].upsert(collection, rows) for by, rows in enumerate(versions))
    )
    found = await scan_all(ground.other, collection, None)
    ground.expect(
        "ids after six wrote the same at once", [sample(n).id for n in range(10)], sorted(r.id for r in found)
    )
    ground.expect("their count", 10, await ground.other.count(collection))
    written = {digest(row) for rows in versions for row in rows}
    for row in found:
        if digest(row) not in written:
            raise UnmetError(f"expected a record as one of six wrote it, found {shown_fields(row)}")
