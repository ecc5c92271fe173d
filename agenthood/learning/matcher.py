"""The older matcher of the TypeScript program, kept for compatibility; the learner does not use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.formats import PATTERN, dumps, hash_pattern, iso, storable, utc_now
from agenthood.learning.index import PATTERN_TYPE
from agenthood.learning.lessons import lesson_from
from agenthood.records import PatternMatch
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import where

if TYPE_CHECKING:
    from agenthood.embedding.base import Embedder
    from agenthood.records import Lesson
    from agenthood.stores.base import VectorStore


class SemanticPatternMatcher:
    """Matches whole pattern texts, prefix and all, on the shared table.

    It embeds `{kind}:{member}:{skill}:{episode}` and writes rows whose content is JSON, as the older releases
    of the TypeScript program do. Its embedder must have the shared table's dimension.
    """

    def __init__(self, store: VectorStore, embedder: Embedder, *, threshold: float = 0.85) -> None:
        """Args: the `store`, the `embedder`, and the lowest cosine in [-1, 1] that counts as a match, inclusive."""
        self._store = store
        self._embedder = embedder
        self._threshold = threshold

    async def initialize(self) -> None:
        """Make sure the shared table exists."""
        await self._store.ensure_collection(SHARED)

    async def add_pattern(self, pattern: str, *, score: float, member: str, skill: str) -> str:
        """Store a pattern; the same pattern again replaces its row. Returns its key."""
        key = hash_pattern(pattern)
        content = dumps({"pattern": pattern, "score": score, "member": member, "skill": skill})
        vector = (await self._embedder.embed([pattern]))[0]
        record = Record(PATTERN + key, storable(content), {"type": PATTERN_TYPE}, iso(utc_now()), vector)
        await self._store.upsert(SHARED, [record])
        return key

    async def match(self, pattern: str) -> tuple[Lesson, PatternMatch] | None:
        """The stored pattern most similar to `pattern`, or None if none reaches the threshold."""
        vector = await self._embedder.embed([pattern], role="query")
        hits = (await self._store.query(SHARED, vector, condition=where(type=PATTERN_TYPE), limit=1))[0]
        if not hits or hits[0].score < self._threshold:
            return None
        lesson = lesson_from(hits[0].record)
        if lesson is None:
            return None
        key = hits[0].record.id.removeprefix(PATTERN)
        return lesson, PatternMatch(key, lesson.pattern, round(hits[0].score, 6))
