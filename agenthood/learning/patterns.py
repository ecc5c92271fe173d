"""The parts of the pattern index: what is indexed, where it lives, and what a look-up finds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from agenthood.embedding.lexical import LexicalEmbedder
from agenthood.formats import PATTERN
from agenthood.learning.calibration import match_score
from agenthood.learning.lessons import lesson_key
from agenthood.learning.similar import exact_cosine
from agenthood.stores.base import SHARED, Collection, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.embedding.base import EmbeddingSpace
    from agenthood.learning.calibration import Calibration
    from agenthood.records import Kind, Lesson
    from agenthood.stores.base import Vector, VectorStore

LEXICAL_SPACE = LexicalEmbedder().space
PATTERN_TYPE = "learned_pattern"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One pattern to index.

    Attributes:
        key: its key, such as `v1:fn6jbb`.
        lesson: id of the lesson's long-term row, or None if only a pattern row knows it.
        kind: `learned` or `antipattern`.
        member: who learned it.
        skill: in which skill.
        episode: the bare episode text.
        pattern: the whole pattern text.
        mean: mean score in [0, 1], kept in the row only if no long-term row has it.
    """

    key: str
    lesson: str | None
    kind: Kind
    member: str
    skill: str
    episode: str
    pattern: str
    mean: float = 1.0

    @property
    def text(self) -> str:
        """What is embedded: the bare episode; the whole pattern where the episode is blank, as old stores have it."""
        return self.episode if self.episode.strip() else self.pattern

    @classmethod
    def of(cls, lesson: Lesson, *, key: str | None = None, orphan: bool = False) -> IndexEntry:
        """The entry of a lesson, under its own key or another; `orphan` if it has no long-term row."""
        key, id_ = key or lesson_key(lesson.id), None if orphan else lesson.id
        return cls(
            key, id_, lesson.kind, lesson.member, lesson.skill, lesson.text, lesson.pattern, lesson.mean
        )


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An indexed pattern that may match a query.

    Attributes:
        record: its row.
        semantic: cosine of the semantic vectors in [-1, 1], or None where one is missing.
        lexical: cosine of the lexical vectors in [-1, 1]; 0 where one is missing.
    """

    record: Record
    semantic: float | None
    lexical: float

    @property
    def key(self) -> str:
        """The pattern's key."""
        return self.record.id.removeprefix(PATTERN)

    def score(self, calibration: Calibration | None) -> float:
        """The match score in [0, 1]: the larger of the calibrated cosines."""
        if self.semantic is None:
            return float(match_score(-1.0, self.lexical, None))
        return float(match_score(self.semantic, self.lexical, calibration))


def collection_for(space: EmbeddingSpace) -> Collection:
    """The collection that holds the patterns of `space`, named after it."""
    slug = re.sub(r"[^a-z0-9]+", "_", f"{space.backend}_{space.model}".lower()).strip("_")[:40]
    digest = sha256(str(space).encode()).hexdigest()[:10]
    name = f"patterns_{slug}_{space.dimension}_{digest}"
    return Collection(name, space.dimension, typed=True, lexical=space != LEXICAL_SPACE)


async def still_there(store: VectorStore, entries: Sequence[IndexEntry]) -> list[int]:
    """The positions of the entries whose lesson was neither forgotten nor archived while they were embedded."""
    rows = await store.get(SHARED, [entry.lesson for entry in entries if entry.lesson is not None])
    kept = {id_ for id_, row in rows.items() if row.metadata.get("tier") != "archive"}
    return [n for n, entry in enumerate(entries) if entry.lesson is None or entry.lesson in kept]


def half_cosine(stored: Vector | None, query: Vector) -> float | None:
    """The cosine of a stored vector and a query; None where one of them is missing."""
    return None if stored is None or not query.any() else exact_cosine(stored, query)
