"""The older matcher of the TypeScript program, kept for compatibility; the learner does not use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.errors import InvalidInputError
from agenthood.formats import PATTERN, dumps, iso, pattern_text, split_pattern, storable, utc_now
from agenthood.learning.lessons import lesson_from, lesson_key
from agenthood.learning.patterns import PATTERN_TYPE
from agenthood.learning.placing import Held, rows_under
from agenthood.learning.rules import MATCH_THRESHOLD, candidate_keys, mean_score
from agenthood.records import PatternMatch
from agenthood.redaction import redact
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import AllOf, AnyOf, Equals, where

if TYPE_CHECKING:
    from agenthood.embedding.base import Embedder
    from agenthood.records import Lesson
    from agenthood.stores.base import VectorStore

_WHOLE = "patternSpace"
"""The metadata key for the space of a row's vector; `space` is that of the index, which embeds bare episodes."""


class SemanticPatternMatcher:
    """Matches whole pattern texts, prefix and all, on the shared table.

    It embeds `{kind}:{member}:{skill}:{episode}` and writes rows whose content is JSON, as the older releases
    of the TypeScript program do. Its embedder must have the shared table's dimension.
    """

    def __init__(
        self,
        store: VectorStore,
        embedder: Embedder,
        *,
        threshold: float = MATCH_THRESHOLD,
        any_space: bool = False,
    ) -> None:
        """Put its parts together.

        Args:
            store: where the patterns are.
            embedder: what embeds them.
            threshold: the lowest cosine in [-1, 1] that counts as a match, inclusive.
            any_space: also compare with rows that name another space or none, as the TypeScript program
                writes them; only meaningful if they were embedded by the same model.
        """
        self._store = store
        self._embedder = embedder
        self._threshold = threshold
        self._any_space = any_space

    async def initialize(self) -> None:
        """Make sure the shared table exists."""
        await self._store.ensure_collection(SHARED)

    async def add_pattern(self, pattern: str, *, score: float, member: str, skill: str) -> str:
        """Store a pattern; the same pattern again replaces its row. Secrets of well-known shapes are redacted.

        Args:
            pattern: a pattern text, `{kind}:{member}:{skill}:{episode}`.
            score: how well it went, in [0, 1].
            member: who learned it.
            skill: in which skill.

        Returns:
            Its key, such as `v1:fn6jbb`; with a suffix if another pattern has that key already.

        Raises:
            InvalidInputError: no pattern text, an unusable score, or a vector the table has no room for.
            EmbeddingError: the embedder failed.
            StoreError: it could not be written.
        """
        mean_score({"score": score})
        kind, *names = split_pattern(pattern, member, skill)
        names = [redact(name) for name in names]
        pattern, member, skill = pattern_text(kind, *names), redact(member), redact(skill)
        content = dumps({"pattern": pattern, "score": score, "member": member, "skill": skill})
        metadata = {"type": PATTERN_TYPE, _WHOLE: str(self._embedder.space)}
        vector = (await self._embedder.embed([pattern]))[0]
        async with self._store.exclusive():
            held = Held()
            held.note(await self._store.get(SHARED, rows_under(candidate_keys(pattern))))
            key = lesson_key(held.place(kind, member, skill, pattern).id)
            record = Record(PATTERN + key, storable(content), metadata, iso(utc_now()), vector)
            result = await self._store.upsert(SHARED, [record])
        if result.rejected:
            raise InvalidInputError(f"pattern {pattern!r:.120} was refused: {result.rejected[0].reason}")
        return key

    async def match(self, pattern: str) -> tuple[Lesson, PatternMatch] | None:
        """The stored pattern most similar to `pattern`, or None if none reaches the threshold.

        Raises:
            EmbeddingError: the embedder failed.
            StoreError: the store could not be searched.
        """
        vector = await self._embedder.embed([redact(pattern)], role="query")
        hits = (await self._store.query(SHARED, vector, condition=self._condition(), limit=1))[0]
        if not hits or hits[0].score < self._threshold:
            return None
        lesson = lesson_from(hits[0].record)
        if lesson is None:
            return None
        key = hits[0].record.id.removeprefix(PATTERN)
        return lesson, PatternMatch(key, lesson.pattern, round(hits[0].score, 6))

    def _condition(self) -> AllOf:
        any_pattern = where(type=PATTERN_TYPE)
        if self._any_space:
            return any_pattern
        space = str(self._embedder.space)
        # The index embeds the bare episode, but with the same model: what it has made of a row still matches.
        return AllOf((*any_pattern.parts, AnyOf((Equals(_WHOLE, space), Equals("space", space)))))
