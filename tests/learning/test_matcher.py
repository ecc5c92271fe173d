"""The older matcher, kept for compatibility."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood import SemanticPatternMatcher
from agenthood.embedding.testing import HashedEmbedder
from agenthood.stores.base import SHARED
from agenthood.stores.lance import LanceStore
from hoods import opened

if TYPE_CHECKING:
    from pathlib import Path

PATTERN = "learned:dev:test:fixed the flaky login test"


async def test_it_finds_what_it_added(tmp_path: Path) -> None:
    """By the whole pattern, from a reopened store, and nothing below its threshold."""
    store = LanceStore(tmp_path / ".agenthood" / "memory")
    matcher = SemanticPatternMatcher(store, HashedEmbedder())
    await matcher.initialize()
    assert await matcher.match(PATTERN) is None
    key = await matcher.add_pattern(PATTERN, score=0.9, member="dev", skill="test")
    assert await matcher.add_pattern(PATTERN, score=0.8, member="dev", skill="test") == key
    await store.close()
    found = await SemanticPatternMatcher(store, HashedEmbedder()).match(PATTERN)
    assert found is not None
    lesson, match = found
    assert (lesson.pattern, lesson.mean, match.key, match.score) == (PATTERN, 0.8, key, 1.0)
    assert await matcher.match("antipattern:qa:deploy:something else") is None
    assert len(await store.ids(SHARED)) == 1
    await store.close()


async def test_its_rows_become_lessons(tmp_path: Path) -> None:
    """The engine takes what only the matcher knows for a lesson and indexes it in its own view."""
    store = LanceStore(tmp_path / ".agenthood" / "memory")
    await SemanticPatternMatcher(store, HashedEmbedder()).add_pattern(
        PATTERN, score=0.9, member="dev", skill="test"
    )
    await store.close()
    async with opened(tmp_path, HashedEmbedder()) as hood:
        (lesson,) = await hood.lessons()
        assert lesson.pattern == PATTERN
        assert [one.similarity for one in await hood.recall("fixed the flaky login test")] == [1.0]
        assert (
            await hood.learn("fixed the flaky login test", score=1, member="dev", skill="test")
        ).evidence == 2
