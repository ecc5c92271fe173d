"""Reading a LanceDB table in two steps, first where rows are and then the rows: whole, whatever happens in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lancedb
import pyarrow as pa

from agenthood.stores.filters import Equals
from agenthood.stores.lance import search as searching
from agenthood.stores.lance.index import IndexRules
from agenthood.stores.lance.store import LanceStore
from stores.backends import SHARED, TYPED, fields, full, record, unit

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

COUNT = 400
RULES = IndexRules(vectors_from=256, rows_per_partition=64)


async def test_many_ids_are_read_as_few_are(tmp_path: Path):
    """Reading by many ids at once, which looks at every id, gives what reading a few at a time gives."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(number) for number in range(COUNT)])
    await store.upsert(TYPED, [full(number, content="newer") for number in range(0, COUNT, 7)])
    await store.delete(TYPED, [full(number).id for number in range(0, COUNT, 11)])
    wanted = [full(number).id for number in range(50, COUNT + 50)] + ["", "no such id", "o'clock"]
    for vectors in (True, False):
        at_once = await store.get(TYPED, wanted, vectors=vectors)
        one_by_one = {}
        for start in range(0, len(wanted), 50):
            one_by_one |= await store.get(TYPED, wanted[start : start + 50], vectors=vectors)
        assert {id_: fields(row) for id_, row in at_once.items()} == {
            id_: fields(row) for id_, row in one_by_one.items()
        }
        assert len(at_once) == sum(number % 11 != 0 for number in range(50, COUNT))
    await store.close()


async def test_of_several_rows_of_an_id_the_newest_is_read(tmp_path: Path):
    """Another program adds rows without looking; among many ids, too, the newest of an id counts."""
    store = LanceStore(tmp_path)
    rows = [record(f"r{number}", vector=unit(number)) for number in range(COUNT)]
    await store.upsert(SHARED, rows)
    table = lancedb.connect(tmp_path).open_table(SHARED.name)
    added = [
        {"id": "r5", "vector": unit(5), "content": text, "metadata": "{}", "created_at": at}
        for text, at in (("newest", "2027"), ("old", "2020"))
    ]
    table.add(pa.Table.from_pylist(added, schema=table.schema))
    found = await store.get(SHARED, [row.id for row in rows])
    assert len(found) == COUNT
    assert found["r5"].content == "newest"
    await store.close()


async def test_a_search_misses_nothing_while_rows_are_rewritten(tmp_path: Path):
    """Two stores: one compacts and replaces rows without a pause, the other finds all of the nearest every time."""
    store, other = (LanceStore(tmp_path, index_rules=RULES) for _ in range(2))
    await store.upsert(TYPED, [full(number) for number in range(COUNT)])
    await store.maintain(TYPED)
    expected = [hit.record.id for hit in (await store.query(TYPED, unit(7)[None], limit=20))[0]]
    wanted = [full(number).id for number in range(COUNT)]
    busy = True

    async def rewrite() -> int:
        rounds = 0
        while busy:
            await other.upsert(TYPED, [full(number) for number in range(rounds % 5, COUNT, 5)])
            await other.maintain(TYPED)
            rounds += 1
        return rounds

    rewriting = asyncio.create_task(rewrite())
    for _ in range(60):
        for condition in (None, Equals("kind", "learned")):
            (hits,) = await store.query(TYPED, unit(7)[None], condition=condition, limit=20)
            assert [hit.record.id for hit in hits] == expected
        assert len(await store.get(TYPED, wanted)) == COUNT
    busy = False
    assert await rewriting > 1
    await store.close()
    await other.close()


async def test_a_filter_is_sifted_from_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Rows looked through for those that fulfil a condition are those a filtered search finds, common or rare."""
    store = LanceStore(tmp_path, index_rules=RULES)
    rows = [full(number) for number in range(COUNT)]
    for number, row in enumerate(rows):
        row.metadata["kind"] = "antipattern" if number % 4 else "learned"  # type: ignore[index]
        row.metadata["skill"] = "rare" if number % 50 == 0 else "skill"  # type: ignore[index]
    await store.upsert(TYPED, rows)
    await store.maintain(TYPED)
    conditions = [Equals("kind", "antipattern"), Equals("kind", "learned"), Equals("skill", "rare")]
    asked = [(unit(seed), condition) for seed in range(1_000, 1_020) for condition in conditions]

    async def found() -> list[list[str]]:
        return [
            [
                hit.record.id
                for hit in (await store.query(TYPED, query[None], condition=condition, limit=10))[0]
            ]
            for query, condition in asked
        ]

    filtered = await found()
    monkeypatch.setattr(searching, "_SIFTED_FROM", 0)  # the size from which it is worth while is no rule
    assert await found() == filtered
    assert all(len(ids) == 8 if n % 3 == 2 else len(ids) == 10 for n, ids in enumerate(filtered))
    await store.close()
