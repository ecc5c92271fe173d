"""The engine and Node at work on one store: each uses what the other left, and neither gets in the way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood import AsyncHood, hash_pattern, open_async
from agenthood.embedding.testing import HashedEmbedder
from support import (
    CREATED,
    DIMENSION,
    node_rows,
    node_scores,
    node_store,
    node_write,
    pattern_row,
    require_node,
)

if TYPE_CHECKING:
    from pathlib import Path

EPISODES = [
    "fixed the flaky login test by mocking the clock",
    "路径包含中文字符的文件无法打开",
    "user's \"quoted\" title wasn't escaped 🚀",
]
BOTH = pytest.mark.parametrize("dimension", [512, DIMENSION])
"""Patterns in a table of their own, and on the shared one."""


@pytest.fixture(autouse=True)
def _node() -> None:
    """Every test here needs Node."""
    require_node()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store that is not there yet."""
    return tmp_path / ".agenthood"


def opened(home: Path, dimension: int, **options: Any) -> AsyncHood:
    """The engine on that store, with an embedder whose space has `dimension`."""
    return open_async(home, embedder=HashedEmbedder(dimension=dimension), **options)


def pattern_of(episode: str) -> str:
    """The pattern text of a lesson of these tests."""
    return f"learned:developer:test:{episode}"


def lesson_row(episode: str, created_at: str | None = CREATED) -> dict[str, Any]:
    """A lesson's long-term row as JSON, as the TypeScript program writes it."""
    pattern = pattern_of(episode)
    key = f"learnings/{hash_pattern(pattern)}"
    content = {"pattern": pattern, "score": 0.9, "member": "developer", "skill": "test"}
    metadata = {"type": "long_term", "key": key, "storedAt": created_at or CREATED}
    row = {"id": f"ltm:{key}", "content": json.dumps(content, ensure_ascii=False, separators=(",", ":"))}
    times = {} if created_at is None else {"created_at": created_at}
    return row | {"metadata": json.dumps(metadata, separators=(",", ":"))} | times


def episode_row(episode: str) -> dict[str, Any]:
    """An episode's row as the TypeScript program writes it."""
    content = {"episode": episode, "outcome": "ok", "timestamp": CREATED}
    metadata = {"type": "episodic", "recordedAt": CREATED}
    return {
        "id": "ep:1780272148000-nul8xw",
        "content": json.dumps(content, ensure_ascii=False, separators=(",", ":")),
        "metadata": json.dumps(metadata, separators=(",", ":")),
        "created_at": CREATED,
    }


async def learn(hood: AsyncHood, episode: str) -> Any:
    """Learn one good episode; the receipt."""
    return await hood.learn(episode, score=0.95, member="developer", skill="test", outcome="ok")


@BOTH
async def test_node_reads_what_the_engine_learned(home, dimension):
    """A lesson and its episode are rows that the TypeScript program understands."""
    async with opened(home, dimension) as hood:
        receipts = [await learn(hood, episode) for episode in EPISODES]
    rows = node_rows(home / "memory")
    for episode, receipt in zip(EPISODES, receipts, strict=True):
        key = f"learnings/{hash_pattern(pattern_of(episode))}"
        assert receipt.id == f"ltm:{key}"
        lesson = json.loads(rows[receipt.id]["content"])
        assert list(lesson)[:4] == ["pattern", "score", "member", "skill"]
        assert lesson["pattern"] == pattern_of(episode)
        assert lesson["score"] == pytest.approx(0.95)
        assert rows[receipt.id]["metadata"].startswith(f'{{"type":"long_term","key":"{key}","storedAt":"')
        assert rows[receipt.id]["zero_vector"]
        recorded = json.loads(rows[receipt.episode_id]["content"])
        assert (recorded["episode"], recorded["outcome"]) == (episode, "ok")
        assert rows[receipt.episode_id]["metadata"].startswith('{"type":"episodic","recordedAt":"')


async def test_node_finds_what_the_engine_learned(home):
    """The TypeScript search finds patterns of a 1536-dimensional space by the bare episode's vector."""
    embedder = HashedEmbedder(dimension=DIMENSION)
    async with opened(home, DIMENSION) as hood:
        for episode in EPISODES:
            await learn(hood, episode)
        await hood.maintain()
    rows = node_rows(home / "memory")
    for episode, vector in zip(EPISODES, await embedder.embed(EPISODES), strict=True):
        id_ = f"pattern:{hash_pattern(pattern_of(episode))}"
        assert next(iter(node_scores(home / "memory", vector).items())) == (id_, pytest.approx(1, abs=1e-6))
        assert rows[id_]["content"] == pattern_of(episode)
        assert rows[id_]["metadata"].startswith('{"type":"learned_pattern",')


async def test_node_finds_what_the_engine_migrated(home):
    """A migrated lesson is found by the bare episode's vector too, and the row Node made is the one replaced."""
    folder = home / "memory"
    node_write(folder, [lesson_row(EPISODES[0]), pattern_row(pattern_of(EPISODES[0]), 1)])
    async with opened(home, DIMENSION):
        vector = (await HashedEmbedder(dimension=DIMENSION).embed(EPISODES[:1]))[0]
    id_ = f"pattern:{hash_pattern(pattern_of(EPISODES[0]))}"
    assert node_scores(folder, vector) == {id_: pytest.approx(1, abs=1e-6)}


@pytest.mark.parametrize(("dimension", "start_migration"), [(512, True), (DIMENSION, False)])
async def test_rows_left_alone_score_as_before(home, dimension, start_migration):
    """Learning, maintenance and migration into another space leave the scores of Node's patterns alone."""
    folder = home / "memory"
    node_write(folder, [pattern_row(pattern_of(f"episode {n}"), n) for n in range(30)])
    query = np.array(pattern_row("", 3)["vector"], np.float32)
    before = node_scores(folder, query, limit=100)
    async with opened(home, dimension, start_migration=start_migration) as hood:
        for episode in EPISODES:
            await learn(hood, episode)
        await hood.store.maintain(hood.index.main)
        if start_migration:
            await hood.maintain()
    after = node_scores(folder, query, limit=100)
    assert len(before) == 30
    assert {id_: after[id_] for id_ in before} == pytest.approx(before, abs=1e-6)


@BOTH
async def test_the_engine_learns_from_what_node_left(home, dimension):
    """Node's lessons, with or without a pattern row, are migrated, recalled and merged into."""
    folder = home / "memory"
    node_write(folder, [lesson_row(EPISODES[0]), lesson_row(EPISODES[1]), episode_row(EPISODES[0])])
    node_write(folder, [pattern_row(pattern_of(EPISODES[0]), 1), pattern_row(pattern_of(EPISODES[2]), 2)])
    async with opened(home, dimension) as hood:
        assert (hood.migration.lessons, hood.migration.embedded, hood.migration.complete) == (3, 3, True)
        assert {lesson.text for lesson in await hood.lessons()} == set(EPISODES)
        for episode in EPISODES:
            assert (await hood.recall(episode))[0].text == episode
        assert (await hood.episodic.get_episode("ep:1780272148000-nul8xw")).episode == EPISODES[0]
        receipts = [await learn(hood, episode) for episode in EPISODES]
    assert [(receipt.status, receipt.evidence) for receipt in receipts] == [("merged", 2)] * 3
    rows = node_rows(folder)
    assert json.loads(rows[lesson_row(EPISODES[1])["id"]]["content"])["pattern"] == pattern_of(EPISODES[1])


@BOTH
async def test_a_lesson_node_adds_beside_an_open_engine_is_merged_into(home, dimension):
    """A lesson that Node adds while the engine is open gains evidence; there is no second one."""
    async with opened(home, dimension) as hood:
        await learn(hood, EPISODES[1])
        node_write(home / "memory", [lesson_row(EPISODES[0])])
        receipt = await learn(hood, EPISODES[0])
        assert (receipt.status, receipt.evidence) == ("merged", 2)
        assert len(await hood.lessons()) == 2


@BOTH
async def test_node_goes_on_writing_after_the_engine_maintained(home, dimension):
    """After maintenance Node adds and replaces lessons; the next start embeds what is new, once."""
    async with opened(home, dimension) as hood:
        await learn(hood, EPISODES[0])
        await hood.maintain()
    node_write(home / "memory", [lesson_row(EPISODES[1], created_at=None)])
    node_store("upsert", home / "memory", [pattern_row(pattern_of(EPISODES[1]), 1)])
    async with opened(home, dimension) as hood:
        assert (hood.migration.lessons, hood.migration.embedded, hood.migration.complete) == (2, 1, True)
        assert (await hood.recall(EPISODES[1]))[0].text == EPISODES[1]
    async with opened(home, dimension) as hood:
        assert hood.migration is None
