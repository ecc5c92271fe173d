"""The store as Node's LanceDB sees it: what one language writes, the other reads, and both go on writing.

The golden stores show what the TypeScript program left behind; here both sides are at work on one directory.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest

from agenthood.formats import hash_pattern
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import Equals
from agenthood.stores.lance.index import DEFAULT_RULES
from agenthood.stores.lance.purge import purge
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.lance.tail import join_tail
from hoods import files_with
from support import (
    CREATED,
    DIMENSION,
    PATTERN_METADATA,
    node_rows,
    node_scores,
    node_store,
    node_write,
    pattern_row,
    require_node,
    unit_vector,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = [
    {"name": "id", "type": "Utf8", "nullable": False},
    {"name": "vector", "type": f"FixedSizeList[{DIMENSION}]<Float32>", "nullable": True},
    {"name": "content", "type": "Utf8", "nullable": True},
    {"name": "metadata", "type": "Utf8", "nullable": True},
    {"name": "created_at", "type": "Utf8", "nullable": True},
]
TEXTS = [
    "plain words",
    "quotes ' '' \" ` and a backslash \\ at the end \\",
    "emoji 🚀, joined 👨‍👩‍👧, 路径包含中文字符, tidak berfungsi",
    "per cent % and under_score",
    "lines\nand\r\ntabs\t",
    "",
    "long " * 20_000,
]
HOSTILE_IDS = [
    "it's",
    'say "hi"',
    "back\\slash\\",
    "100%_done",
    "🚀",
    "'; DROP TABLE vectors; --",
    "two\nlines",
]


@pytest.fixture(autouse=True)
def _node() -> None:
    """Every test here needs Node."""
    require_node()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The LanceDB folder of a store that is not there yet."""
    return tmp_path / ".agenthood" / "memory"


@pytest.fixture
async def store(folder: Path):
    """Python's side of that store."""
    opened = LanceStore(folder)
    yield opened
    await opened.close()


def pattern_record(text: str, seed: int) -> Record:
    """The row of `pattern_row` as a record."""
    return Record(
        f"pattern:{hash_pattern(text)}", text, json.loads(PATTERN_METADATA), CREATED, vector=unit_vector(seed)
    )


def open_raw(folder: Path) -> Any:
    """The table through Python's LanceDB, without any code of ours in between."""
    return lancedb.connect(folder, read_consistency_interval=timedelta(0)).open_table("vectors")


# -- the format: Node and Python's LanceDB, and our store ---------------------------------------------------


async def test_both_make_the_same_table(folder, tmp_path, store):
    """A table made by either side has the same columns: names, order, types and what may be null."""
    node_write(tmp_path / "by-node", [])
    await store.ensure_collection(SHARED)
    assert node_store("schema", tmp_path / "by-node") == COLUMNS
    assert node_store("schema", folder) == COLUMNS
    by_node, by_python = (open_raw(path).schema for path in (tmp_path / "by-node", folder))
    assert by_node.names == by_python.names
    assert [field.type for field in by_node] == [field.type for field in by_python]
    assert [field.nullable for field in by_node] == [field.nullable for field in by_python]
    assert by_python.field("vector").type == pa.list_(pa.float32(), DIMENSION)


def test_python_reads_what_node_wrote(folder):
    """Every text comes back as it was, and every vector to the last bit; no vector is a zero vector."""
    texts = {f"row {n}": text for n, text in enumerate(TEXTS)}
    rows = [pattern_row(text, seed) | {"id": id_} for seed, (id_, text) in enumerate(texts.items())]
    del rows[0]["vector"]
    node_write(folder, rows)
    table = open_raw(folder).search().to_arrow()
    assert dict(zip(table["id"].to_pylist(), table["content"].to_pylist(), strict=True)) == texts
    assert set(table["metadata"].to_pylist()) == {PATTERN_METADATA}
    assert set(table["created_at"].to_pylist()) == {CREATED}
    vectors = np.stack(table["vector"].to_numpy())
    expected = np.stack([np.zeros(DIMENSION, np.float32), *map(unit_vector, range(1, len(TEXTS)))])
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected)


async def test_node_reads_what_python_wrote(folder, store):
    """The same the other way round, through our store; metadata arrives as compact JSON, `type` first."""
    metadata = {"type": "long_term", "key": "learnings/v1:x", "storedAt": CREATED, "note": 'é "q" 🚀'}
    records = [
        Record(f"row {n}", text, metadata, CREATED, vector=unit_vector(n) if n else None)
        for n, text in enumerate(TEXTS)
    ]
    await store.upsert(SHARED, records)
    rows = node_rows(folder)
    assert {id_: row["content"] for id_, row in rows.items()} == {
        record.id: record.content for record in records
    }
    assert {row["created_at"] for row in rows.values()} == {CREATED}
    assert {row["metadata"] for row in rows.values()} == {
        f'{{"type":"long_term","key":"learnings/v1:x","storedAt":"{CREATED}","note":"é \\"q\\" 🚀"}}'
    }
    assert [id_ for id_, row in rows.items() if row["zero_vector"]] == ["row 0"]
    for n in range(1, len(TEXTS)):
        np.testing.assert_array_equal(np.array(rows[f"row {n}"]["vector"], np.float32), unit_vector(n))
        assert rows[f"row {n}"]["norm"] == pytest.approx(1, abs=1e-6)


async def test_ids_of_any_kind_mean_the_same_row_to_both(folder, store):
    """Either side finds, replaces and deletes the other's rows, whatever is in their ids."""
    node_write(folder, [pattern_row("old", 1) | {"id": id_} for id_ in HOSTILE_IDS])
    await store.upsert(SHARED, [Record(id_, "new", {"type": "x"}, CREATED) for id_ in HOSTILE_IDS])
    assert {id_: row["content"] for id_, row in node_rows(folder).items()} == dict.fromkeys(
        HOSTILE_IDS, "new"
    )
    node_store("upsert", folder, [pattern_row("newer", 1) | {"id": id_} for id_ in HOSTILE_IDS])
    found = await store.get(SHARED, HOSTILE_IDS)
    assert {id_: record.content for id_, record in found.items()} == dict.fromkeys(HOSTILE_IDS, "newer")
    node_store("delete", folder, HOSTILE_IDS[0])
    await store.delete(SHARED, HOSTILE_IDS[1:3])
    assert set(node_rows(folder)) == set(HOSTILE_IDS[3:])


async def test_two_node_rows_under_one_id_become_one(folder, store):
    """Node's plain `add` leaves two rows; the newest is read, and an upsert leaves one."""
    old = pattern_row("old", 1) | {"id": "ltm:k"}
    node_write(folder, [old | {"content": "newest", "created_at": "2026-06-02T00:00:00.000Z"}, old])
    assert (await store.get(SHARED, ["ltm:k"]))["ltm:k"].content == "newest"
    await store.upsert(SHARED, [Record("ltm:k", "replaced", {"type": "long_term"}, CREATED)])
    assert node_rows(folder)["ltm:k"]["content"] == "replaced"


# -- side by side: an open store, an index, scores ----------------------------------------------------------


async def test_an_open_store_sees_what_node_writes(folder, store):
    """Rows that Node adds while Python has the store open are there at the next look."""
    await store.upsert(SHARED, [pattern_record("learned:a:b:first", 1)])
    node_write(folder, [pattern_row("learned:a:b:second", 2)])
    assert await store.count(SHARED, Equals("type", "learned_pattern")) == 2
    hits = await store.query(SHARED, unit_vector(2)[None], limit=1)
    assert [(hit.record.content, round(hit.score, 6)) for hit in hits[0]] == [("learned:a:b:second", 1.0)]


async def test_node_scores_as_before_after_python_wrote(folder, store):
    """Scores of rows that Python left alone are the same before and after its writes and maintenance."""
    node_write(folder, [pattern_row(f"learned:a:b:{n}", n) for n in range(20)])
    before = node_scores(folder, unit_vector(3), limit=20)
    await store.upsert(SHARED, [pattern_record(f"learned:a:b:more {n}", 100 + n) for n in range(20)])
    await store.maintain(SHARED)
    after = node_scores(folder, unit_vector(3), limit=40)
    assert len(after) == 40
    assert {id_: after[id_] for id_ in before} == pytest.approx(before, abs=1e-6)
    assert next(iter(after.items())) == (
        f"pattern:{hash_pattern('learned:a:b:3')}",
        pytest.approx(1, abs=1e-6),
    )


async def test_node_finds_what_python_wrote(folder, store):
    """The TypeScript search finds Python's patterns by its own filter, and no other row."""
    keyed = Record("ltm:learnings/v1:x", "{}", {"type": "long_term"}, CREATED, vector=unit_vector(7))
    await store.upsert(SHARED, [pattern_record("learned:a:b:it's", 7), keyed])
    assert node_scores(folder, unit_vector(7)) == {
        f"pattern:{hash_pattern(chr(39).join(['learned:a:b:it', 's']))}": pytest.approx(1)
    }


async def test_node_goes_on_writing_after_python_maintained(folder, store):
    """Node adds, replaces and deletes rows of a table that Python compacted, and both see the same rows."""
    for n in range(5):
        await store.upsert(SHARED, [pattern_record(f"learned:a:b:{n}", n)])
    await store.maintain(SHARED)
    node_write(folder, [pattern_row("learned:a:b:from node", 50)])
    node_store("upsert", folder, [pattern_row("learned:a:b:1", 51)])
    node_store("delete", folder, f"pattern:{hash_pattern('learned:a:b:2')}")
    seen = {id_: row["content"] for id_, row in node_rows(folder).items()}
    assert sorted(seen.values()) == [f"learned:a:b:{n}" for n in ("0", "1", "3", "4", "from node")]
    records = [record async for batch in store.scan(SHARED) for record in batch]
    assert {record.id: record.content for record in records} == seen
    assert node_scores(folder, unit_vector(51), limit=1) == {
        f"pattern:{hash_pattern('learned:a:b:1')}": pytest.approx(1, abs=1e-6)
    }


def test_node_uses_and_keeps_an_index_that_python_built(folder):
    """An exact l2 index made by Python is listed by Node, gives the same scores, takes Node's new rows."""
    node_write(folder, [pattern_row(f"learned:a:b:{n}", n) for n in range(300)])
    before = node_scores(folder, unit_vector(3), limit=5)
    config = lancedb.index.IvfFlat(distance_type="l2", num_partitions=1)
    open_raw(folder).create_index("vector", config=config)
    assert {index["type"] for index in node_store("indices", folder)} == {"IvfFlat"}
    assert node_scores(folder, unit_vector(3), limit=5) == pytest.approx(before, abs=1e-6)
    node_write(folder, [pattern_row("learned:a:b:from node", 500)])
    assert node_scores(folder, unit_vector(500), limit=1) == {
        f"pattern:{hash_pattern('learned:a:b:from node')}": pytest.approx(1, abs=1e-6)
    }
    assert node_scores(folder, unit_vector(3), limit=5) == pytest.approx(before, abs=1e-6)


def test_node_scores_the_golden_store_as_the_program_did(golden_store, shared):
    """Our Node script finds the neighbours that the TypeScript program found, with its scores."""
    folder = golden_store("b") / "memory"
    rows = {row["id"]: row for row in node_store("read", folder) if row["id"].startswith("pattern:")}
    for case in json.loads((shared / "ts-store" / "b.neighbours.json").read_text(encoding="utf-8")):
        query = {"vector": rows[case["query_is_vector_of"]]["vector"], "limit": len(case["matches"])}
        found = node_store("search", folder, query)
        assert [hit["content"] for hit in found] == [match["pattern"] for match in case["matches"]]
        expected = [match["score"] for match in case["matches"]]
        assert [hit["score"] for hit in found] == pytest.approx(expected, abs=1e-5)


class Interrupted:
    """A table in which, just before rows are written anew, another program does something."""

    def __init__(self, table: Any, meanwhile: Callable[[], None]) -> None:
        self._table = table
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    @property
    def _inner(self) -> Any:
        return Interrupted(self._table._inner, self._meanwhile)

    async def execute_merge_insert(self, *what: Any) -> Any:
        """As the table's, but late."""
        self._meanwhile()
        return await self._table.execute_merge_insert(*what)


@pytest.mark.parametrize("changed", ["vector", "content"])
async def test_a_purge_undoes_nothing_that_node_writes_meanwhile(
    folder: Path, store: LanceStore, changed: str
):
    """Node takes no lock: what it changes between a row's being read and written anew stays, if only its vector."""
    kept = Record("kept", "the same", {"type": "long_term"}, CREATED, vector=unit_vector(1))
    await store.upsert(SHARED, [kept, replace(kept, id="gone", content="secret")])
    row = {
        "id": "kept",
        "content": "another" if changed == "content" else kept.content,
        "metadata": node_rows(folder)["kept"]["metadata"],
        "created_at": CREATED,
        "vector": unit_vector(2 if changed == "vector" else 1).tolist(),
    }
    raw = await (await lancedb.connect_async(folder)).open_table("vectors")
    table = Interrupted(raw, lambda: node_store("upsert", folder, [row]) and None)
    await purge(table, SHARED, ["gone"], folder / "vectors.lance", DEFAULT_RULES)
    found = (await store.get(SHARED, ["kept"], vectors=True))["kept"]
    assert found.content == row["content"]
    np.testing.assert_array_equal(found.vector, np.array(row["vector"], np.float32))
    assert files_with(folder, "secret") == []


async def test_joining_undoes_nothing_that_node_writes_meanwhile(folder: Path, store: LanceStore):
    """What Node replaces between a row's being read and written anew stays, if only its vector, and is not doubled."""
    rows = [
        Record(f"r{n}", "the same", {"type": "long_term"}, CREATED, vector=unit_vector(1)) for n in range(9)
    ]
    for row in rows:
        await store.upsert(SHARED, [row])
    there = node_rows(folder)["r4"]
    theirs = {
        "id": "r4", "content": "the same", "metadata": there["metadata"], "created_at": CREATED,
        "vector": unit_vector(2).tolist(),
    }  # fmt: skip
    raw = await (await lancedb.connect_async(folder)).open_table("vectors")
    table: Any = Interrupted(raw, lambda: node_store("upsert", folder, [theirs]) and None)
    assert await join_tail(table, 6_000) is not None
    found = await store.get(SHARED, [row.id for row in rows], vectors=True)
    assert {id_: row.vector.tolist() for id_, row in found.items()} == {
        row.id: unit_vector(2 if row.id == "r4" else 1).tolist() for row in rows
    }
    assert await store.count(SHARED) == len(node_rows(folder)) == 9
    assert (await raw.stats())["fragment_stats"]["num_fragments"] < 9
