"""Long-term memory: what is kept under a key, in the TypeScript program's shapes, and what it left there."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import lancedb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenthood.errors import InvalidInputError, StoreUnavailableError
from agenthood.memory.long_term import LongTermMemory
from agenthood.stores.base import SHARED, Record
from agenthood.stores.lance.store import LanceStore
from memory.strict import LONGEST, StrictStore, everything_below

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.fixture
def memory(store: LanceStore) -> LongTermMemory:
    """A memory whose clock stands still."""
    return LongTermMemory(store, clock=lambda: NOW)


def rows(folder: Path) -> list[dict[str, Any]]:
    """Every row as another program reads it."""
    found: list[dict[str, Any]] = lancedb.connect(folder).open_table("vectors").to_arrow().to_pylist()
    return found


async def test_a_value_is_kept_in_the_typescript_shape(memory: LongTermMemory, tmp_path: Path):
    """Id, compact content, metadata in their order, time and zero vector are those of the other program."""
    await memory.store("learnings/v1:x", {"pattern": "é 😀", "score": 0.5, "member": "a"})
    (row,) = rows(tmp_path / "memory")
    assert row == {
        "id": "ltm:learnings/v1:x",
        "vector": [0.0] * 1536,
        "content": '{"pattern":"é 😀","score":0.5,"member":"a"}',
        "metadata": '{"type":"long_term","key":"learnings/v1:x","storedAt":"2026-11-30T12:00:00.123Z"}',
        "created_at": "2026-11-30T12:00:00.123Z",
    }


async def test_storing_again_replaces(memory: LongTermMemory, tmp_path: Path):
    """One row per key, with the latest value."""
    for value in ("first", ["second"], {"third": None}):
        await memory.store("key", value)
        assert await memory.retrieve("key") == value
    assert len(rows(tmp_path / "memory")) == 1


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(kept=st.dictionaries(texts.filter(bool), values, min_size=1, max_size=8))
async def test_any_json_under_any_key(store: LanceStore, kept: dict[str, Any]):
    """Every JSON value comes back from a reopened store, under whatever key, and each key deletes itself alone."""
    memory = LongTermMemory(store)
    for key, value in kept.items():
        await memory.store(key, value)
    reopened = LanceStore(store.path)
    again = LongTermMemory(reopened)
    assert await again.keys() == sorted(kept)
    for key, value in kept.items():
        assert await again.retrieve(key) == value
    for number, key in enumerate(sorted(kept)):
        assert await again.delete(key)
        assert not await again.delete(key)
        assert await again.keys() == sorted(kept)[number + 1 :]
    await reopened.close()


async def test_values_with_odd_texts(memory: LongTermMemory):
    """NUL and lone surrogates inside a value are kept: JSON has an escape for them."""
    value = {"nul": "a\0b", "lone": "\ud83d", "\udc00": 1}
    await memory.store("odd", value)
    assert await memory.retrieve("odd") == value


async def test_keys_by_prefix(memory: LongTermMemory):
    """A prefix is taken literally, and other kinds of rows are no keys."""
    for key in ("a_b", "axb", "a_b/c", "A_b", "%"):
        await memory.store(key, 1)
    await memory._store.upsert(SHARED, [Record("ep:1-a", "{}", {"type": "episodic"}, "2026")])
    assert await memory.keys("a_b") == ["a_b", "a_b/c"]
    assert await memory.keys("%") == ["%"]
    assert await memory.keys("none") == []
    assert await memory.keys() == sorted(["a_b", "axb", "a_b/c", "A_b", "%"])


async def test_an_unknown_key(memory: LongTermMemory):
    """There is nothing under it, and nothing to delete; also under keys nobody can store."""
    for key in ("unknown", "", "nul\0", "\ud800"):
        assert await memory.retrieve(key) is None
        assert not await memory.delete(key)


@pytest.mark.parametrize("key", ["", "a\0", "a\ud800"])
async def test_bad_keys_are_refused(memory: LongTermMemory, key: str):
    """The error says what is wrong with the key; nothing is kept."""
    with pytest.raises(InvalidInputError, match=r"key"):
        await memory.store(key, 1)
    assert await memory.keys() == []


@pytest.mark.parametrize(
    "value", [math.nan, [math.inf], pytest.param(object(), id="object"), {1, 2}], ids=repr
)
async def test_values_without_json_are_refused(memory: LongTermMemory, value: object):
    """And what was there before stays."""
    await memory.store("key", "before")
    with pytest.raises(InvalidInputError, match="cannot be stored as JSON"):
        await memory.store("key", value)
    assert await memory.retrieve("key") == "before"


async def test_what_the_store_refuses_is_an_error(tmp_path: Path):
    """A value that the store rejects is not taken for stored; what was there before stays."""
    store = StrictStore(tmp_path)
    memory = LongTermMemory(store)
    await memory.store("key", "before")
    with pytest.raises(InvalidInputError, match="'key' was refused: it is too long"):
        await memory.store("key", "x" * LONGEST)
    assert await memory.retrieve("key") == "before"
    await store.close()


async def test_secrets_are_redacted(memory: LongTermMemory, tmp_path: Path):
    """No file of the store holds a secret of a well-known shape."""
    secret = "sk-ant-" + "abcdefgh12345678" * 2
    await memory.store("key", {"note": f"use {secret}", "list": [{"password": "hunter2hunter2"}]})
    found = json.dumps(await memory.retrieve("key"))
    assert "[redacted" in found
    data = everything_below(tmp_path)
    assert secret.encode() not in data
    assert b"hunter2hunter2" not in data


async def test_secrets_in_keys_are_redacted(memory: LongTermMemory, tmp_path: Path):
    """The value is found and removed under the key it was stored by, and no file holds the secret."""
    secret = "sk-ant-" + "abcdefgh12345678" * 2
    await memory.store(f"notes/{secret}", 1)
    assert await memory.retrieve(f"notes/{secret}") == 1
    assert await memory.keys("notes/") == ["notes/[redacted:anthropic]"]
    assert secret.encode() not in everything_below(tmp_path)
    assert await memory.delete(f"notes/{secret}")
    assert await memory.keys() == []


async def test_a_key_of_another_program_is_found_as_it_is(store: LanceStore, memory: LongTermMemory):
    """Though it holds what looks like a secret."""
    key = "sk-ant-" + "abcdefgh12345678" * 2
    await store.upsert(SHARED, [Record(f"ltm:{key}", "2", {"type": "long_term"}, NOW.isoformat())])
    assert await memory.retrieve(key) == 2
    assert await memory.delete(key)
    assert await memory.retrieve(key) is None


async def test_the_newest_of_several_rows_counts(store: LanceStore, memory: LongTermMemory, tmp_path: Path):
    """Where another program only added, the newest row is the value, and storing leaves one row."""
    await store.ensure_collection(SHARED)
    table = lancedb.connect(tmp_path / "memory").open_table("vectors")
    for hour, content in ((2, '"newest"'), (0, '"old"'), (1, '"middle"')):
        stamp = (NOW + timedelta(hours=hour)).isoformat()
        row = {
            "id": "ltm:k",
            "vector": [0.0] * 1536,
            "content": content,
            "metadata": "{}",
            "created_at": stamp,
        }
        table.add([row])
    assert await memory.retrieve("k") == "newest"
    assert await memory.keys() == ["k"]
    await memory.store("k", "mine")
    assert await memory.retrieve("k") == "mine"
    assert len(rows(tmp_path / "memory")) == 1


async def test_contents_that_are_no_json(memory: LongTermMemory, caplog: pytest.LogCaptureFixture):
    """They read as nothing, with a line in the log that names the key; the row stays."""
    await memory._store.upsert(SHARED, [Record("ltm:bad", "no {json", {"type": "long_term"}, "2026")])
    assert await memory.retrieve("bad") is None
    assert "'bad'" in caplog.text
    assert await memory.keys() == ["bad"]


@pytest.mark.parametrize("name", ["a", "b"])
async def test_real_stores_are_read(golden_store: Callable[[str], Path], shared: Path, name: str):
    """Every key of a store of the TypeScript program reads as its newest row says."""
    listed = json.loads((shared / "ts-store" / f"{name}.rows.json").read_text(encoding="utf-8"))
    newest: dict[str, tuple[str, str]] = {}
    for row in listed:
        if row["id"].startswith("ltm:") and row["created_at"] >= newest.get(row["id"], ("", ""))[0]:
            newest[row["id"]] = (row["created_at"], row["content"])
    store = LanceStore(golden_store(name) / "memory")
    memory = LongTermMemory(store)
    assert await memory.keys() == sorted(id_.removeprefix("ltm:") for id_ in newest)
    for id_, (_, content) in newest.items():
        try:
            expected = json.loads(content)
        except ValueError:
            expected = None
        assert await memory.retrieve(id_.removeprefix("ltm:")) == expected
    await store.close()


async def test_an_unusable_store_is_an_error(tmp_path: Path):
    """A write that cannot be made never passes for one that was."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    memory = LongTermMemory(LanceStore(tmp_path / "file"))
    with pytest.raises(StoreUnavailableError):
        await memory.store("key", 1)
    with pytest.raises(StoreUnavailableError):
        await memory.retrieve("key")
