"""Episodic memory: appended in the TypeScript program's shapes, read back newest first."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import lancedb
import pytest

from agenthood.errors import InvalidInputError
from agenthood.memory.episodic import EpisodicMemory
from agenthood.memory.long_term import LongTermMemory
from agenthood.stores.base import SHARED, Record
from agenthood.stores.lance.store import LanceStore
from memory.strict import LONGEST, StrictStore, everything_below

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.fixture
def memory(store: LanceStore) -> EpisodicMemory:
    """A memory whose clock stands still."""
    return EpisodicMemory(store, clock=lambda: NOW)


async def test_an_episode_is_kept_in_the_typescript_shape(memory: EpisodicMemory, tmp_path: Path):
    """Id, content, metadata, time and zero vector are those of the other program; details come after."""
    at = datetime(2026, 6, 1, 8, 0, tzinfo=timezone(timedelta(hours=8)))
    id_ = await memory.record("fixed é", "ok", timestamp=at, details={"scores": {"a": 0.5}})
    assert re.fullmatch(r"ep:1780272000000-[0-9a-z]{6}", id_)
    (row,) = lancedb.connect(tmp_path / "memory").open_table("vectors").to_arrow().to_pylist()
    assert row == {
        "id": id_,
        "vector": [0.0] * 1536,
        "content": '{"episode":"fixed é","outcome":"ok","timestamp":"2026-06-01T00:00:00.000Z","scores":{"a":0.5}}',
        "metadata": '{"type":"episodic","recordedAt":"2026-11-30T12:00:00.123Z"}',
        "created_at": "2026-06-01T00:00:00.000Z",
    }


async def test_an_episode_comes_back(store: LanceStore, memory: EpisodicMemory):
    """By its id, from a reopened store; another kind of row and an unknown id are no episodes."""
    id_ = await memory.record("wrote 😀\n'quotes'", "so so", details={"member": "a", "scores": {"x": 1}})
    await LongTermMemory(store).store("key", 1)
    reopened = LanceStore(store.path)
    again = EpisodicMemory(reopened)
    found = await again.get_episode(id_)
    assert found is not None
    assert found.to_dict() == {
        "id": id_,
        "episode": "wrote 😀\n'quotes'",
        "outcome": "so so",
        "timestamp": "2026-11-30T12:00:00.123Z",
        "details": {"member": "a", "scores": {"x": 1}},
    }
    for other in ("ltm:key", "ep:1-abcdef", "", "ep:\0", "ep:\ud800"):
        assert await again.get_episode(other) is None
    await reopened.close()


async def test_a_time_without_a_zone_counts_as_utc(memory: EpisodicMemory):
    """As the documentation says."""
    id_ = await memory.record("x", timestamp=datetime(2026, 6, 1))  # noqa: DTZ001
    found = await memory.get_episode(id_)
    assert found is not None
    assert found.timestamp == "2026-06-01T00:00:00.000Z"
    assert id_.startswith("ep:1780272000000-")


async def test_the_same_episode_twice_is_two(memory: EpisodicMemory):
    """Episodes are only ever appended, also many at once within a millisecond."""
    ids = await asyncio.gather(*(memory.record("same", "ok") for _ in range(12)))
    assert len(set(ids)) == 12
    assert {episode.id for episode in await memory.recall(limit=100)} == set(ids)


async def test_recall_is_newest_first(memory: EpisodicMemory):
    """In the order of their times, not of their recording; cut at the limit."""
    for hour in (3, 1, 5, 2, 4):
        await memory.record(f"hour {hour}", timestamp=NOW + timedelta(hours=hour))
    assert [e.episode for e in await memory.recall()] == [f"hour {n}" for n in (5, 4, 3, 2, 1)]
    assert [e.episode for e in await memory.recall(limit=2)] == ["hour 5", "hour 4"]
    for limit in (0, -1):
        assert await memory.recall(limit=limit) == []


async def test_recall_since(memory: EpisodicMemory):
    """From a time on, that time included, whatever zone it is given in."""
    for hour in range(4):
        await memory.record(f"hour {hour}", timestamp=NOW + timedelta(hours=hour))
    since = (NOW + timedelta(hours=2)).astimezone(timezone(timedelta(hours=-7)))
    assert [e.episode for e in await memory.recall(since=since)] == ["hour 3", "hour 2"]
    assert [e.episode for e in await memory.recall(since=since.astimezone(UTC).replace(tzinfo=None))] == [
        "hour 3",
        "hour 2",
    ]
    assert await memory.recall(since=NOW + timedelta(days=1)) == []


async def test_recall_by_words(memory: EpisodicMemory):
    """Text or outcome, upper or lower case, wildcards literally, and not across the two."""
    await memory.record("Fixed LOGIN 100%", "Passed")
    await memory.record("other", "login_failed")
    assert {e.episode for e in await memory.recall(contains="login")} == {"Fixed LOGIN 100%", "other"}
    assert [e.episode for e in await memory.recall(contains="0%")] == ["Fixed LOGIN 100%"]
    assert [e.episode for e in await memory.recall(contains="LOGIN_")] == ["other"]
    assert [e.episode for e in await memory.recall(contains="passed")] == ["Fixed LOGIN 100%"]
    assert await memory.recall(contains="%passed") == []
    assert len(await memory.recall(contains="")) == 2


@pytest.mark.parametrize("bad", ["a\0", "a\ud800"])
async def test_bad_texts_are_refused(memory: EpisodicMemory, bad: str):
    """The error names the field; nothing is recorded."""
    with pytest.raises(InvalidInputError, match=r"^episode"):
        await memory.record(bad)
    with pytest.raises(InvalidInputError, match=r"^outcome"):
        await memory.record("good", bad)
    with pytest.raises(InvalidInputError, match="JSON"):
        await memory.record("good", details={"x": object()})
    assert await memory.recall() == []


@pytest.mark.parametrize("name", ["episode", "outcome", "timestamp"])
async def test_details_replace_no_part_of_the_episode(memory: EpisodicMemory, name: str):
    """Details under the name of one of its own parts are refused by that name; nothing is recorded."""
    with pytest.raises(InvalidInputError, match=f"cannot hold '{name}'"):
        await memory.record("right", "right", details={"member": "a", name: "wrong"})
    assert await memory.recall() == []


async def test_what_the_store_refuses_is_an_error(tmp_path: Path):
    """An episode that the store rejects is not reported as recorded."""
    store = StrictStore(tmp_path)
    memory = EpisodicMemory(store)
    with pytest.raises(InvalidInputError, match="refused: it is too long"):
        await memory.record("x" * LONGEST)
    id_ = await memory.record("short")
    assert [episode.id for episode in await memory.recall()] == [id_]
    await store.close()


async def test_secrets_are_redacted(memory: EpisodicMemory, tmp_path: Path):
    """In text, outcome and details."""
    secret = "sk-ant-" + "abcdefgh12345678" * 2
    await memory.record(f"a {secret}", f"b {secret}", details={"note": [secret]})
    assert secret.encode() not in everything_below(tmp_path)


async def test_what_other_programs_left(memory: EpisodicMemory, store: LanceStore):
    """Contents that are no object, or lack a field, are episodes with empty texts, dated by their row."""
    contents = {
        "ep:1-aaaaaa": "no json",
        "ep:2-aaaaaa": "[1]",
        "ep:3-aaaaaa": '{"episode":"e","extra":1}',
        "ep:4-aaaaaa": '{"episode":"f","outcome":null,"timestamp":null}',
        "ep:5-aaaaaa": '{"episode":5,"outcome":false,"timestamp":"2026-01-01"}',
    }
    created = "2026-06-01T00:00:00.000Z"
    await store.upsert(
        SHARED, [Record(id_, text, {"type": "episodic"}, created) for id_, text in contents.items()]
    )
    found = {e.id: e for e in await memory.recall()}
    assert [(e.episode, e.outcome, e.timestamp) for _, e in sorted(found.items())] == [
        ("", "", created),
        ("", "", created),
        ("e", "", created),
        ("f", "", created),
        ("5", "False", "2026-01-01"),
    ]
    assert found["ep:3-aaaaaa"].details == {"extra": 1}


@pytest.mark.parametrize("name", ["a", "b"])
async def test_real_stores_are_read(golden_store: Callable[[str], Path], shared: Path, name: str):
    """Every episode of a store of the TypeScript program, newest first."""
    listed = json.loads((shared / "ts-store" / f"{name}.rows.json").read_text(encoding="utf-8"))
    expected = {row["id"]: json.loads(row["content"]) for row in listed if row["id"].startswith("ep:")}
    store = LanceStore(golden_store(name) / "memory")
    found = await EpisodicMemory(store).recall(limit=1_000)
    assert {
        e.id: {"episode": e.episode, "outcome": e.outcome, "timestamp": e.timestamp} for e in found
    } == expected
    assert [e.timestamp for e in found] == sorted((e.timestamp for e in found), reverse=True)
    await store.close()
