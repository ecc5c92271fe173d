"""The older matcher, kept for compatibility."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agenthood import SemanticPatternMatcher
from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import InvalidInputError
from agenthood.stores.base import SHARED
from agenthood.stores.lance.store import LanceStore
from hoods import files_with, opened

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


async def _matcher(tmp_path: Path, embedder: HashedEmbedder, **options: Any) -> SemanticPatternMatcher:
    matcher = SemanticPatternMatcher(LanceStore(tmp_path / ".agenthood" / "memory"), embedder, **options)
    await matcher.initialize()
    return matcher


async def test_patterns_with_one_hash_stay_side_by_side(tmp_path: Path) -> None:
    """The second of two patterns that share a key gets one of its own, and both are found."""
    matcher = await _matcher(tmp_path, HashedEmbedder())
    patterns = ["learned:developer:test:fixed Aa", "learned:developer:test:fixed BB"]
    keys = [await matcher.add_pattern(one, score=0.9, member="developer", skill="test") for one in patterns]
    assert keys == ["v1:1sbjzn", "v1:1sbjzn~2"]
    for pattern in patterns:
        found = await matcher.match(pattern)
        assert found is not None
        assert found[1].pattern == pattern


async def test_what_the_store_refuses_is_said(tmp_path: Path) -> None:
    """A vector that the shared table has no room for is an error, not a key of nothing."""
    matcher = await _matcher(tmp_path, HashedEmbedder(dimension=64))
    with pytest.raises(InvalidInputError, match="was refused"):
        await matcher.add_pattern(PATTERN, score=0.9, member="dev", skill="test")


@pytest.mark.parametrize(("pattern", "score"), [("no pattern", 0.9), (PATTERN, 7), (PATTERN, float("nan"))])
async def test_what_is_no_pattern_is_refused(tmp_path: Path, pattern: str, score: float) -> None:
    """Nothing that is no lesson is stored."""
    matcher = await _matcher(tmp_path, HashedEmbedder())
    with pytest.raises(InvalidInputError):
        await matcher.add_pattern(pattern, score=score, member="dev", skill="test")


async def test_vectors_of_another_model_are_not_compared(tmp_path: Path) -> None:
    """A row of another space counts only where the caller says that the model is the same."""
    writing = await _matcher(tmp_path, HashedEmbedder())
    key = await writing.add_pattern(PATTERN, score=0.9, member="dev", skill="test")
    other = HashedEmbedder(model="another")
    assert await (await _matcher(tmp_path, other)).match(PATTERN) is None
    found = await (await _matcher(tmp_path, other, any_space=True)).match(PATTERN)
    assert found is not None
    assert found[1].key == key


async def test_secrets_in_a_pattern_reach_no_file(tmp_path: Path) -> None:
    """A key in the pattern or in a name is redacted before it is embedded or stored."""
    secret = "sk-proj-" + "Ab1" * 16
    matcher = await _matcher(tmp_path, HashedEmbedder())
    pattern = f"learned:{secret}:test:called it with {secret} set"
    await matcher.add_pattern(pattern, score=0.9, member=secret, skill="test")
    assert await matcher.match(pattern) is not None
    assert files_with(tmp_path, "called it with") != []
    assert files_with(tmp_path, secret) == []
