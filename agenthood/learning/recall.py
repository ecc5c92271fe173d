"""Recall: finding the lessons that bear on a text, by meaning, by wording and by keyword at once."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from agenthood.embedding.keywords import terms
from agenthood.embedding.lexical import lexical_vectors
from agenthood.errors import EmbeddingError, EmbeddingSpaceError, InvalidInputError
from agenthood.formats import storable, unstorable_reason, utc_now
from agenthood.learning.lessons import lesson_from, lesson_of_row
from agenthood.learning.ranking import Corpus, best_bm25, bm25, coverage, frequencies
from agenthood.learning.rules import RECALL_THRESHOLD
from agenthood.learning.salience import sunk
from agenthood.records import KINDS, SCORINGS, Kind, Lesson, Recall, RecalledLesson, Scoring
from agenthood.stores.base import SHARED, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.patterns import Candidate
    from agenthood.learning.spaces import ActiveSpace
    from agenthood.stores.base import Vector, VectorStore

NEAR = 0.1
"""How far below the threshold a near miss may be."""

_LOOKED_AT = 50
_MOST_LOOKED_AT = 2_000
# So many records that hold a term are looked at. If there are more, how many hold each term is told from these:
# exact for rare terms, whose records rank first, and too low for common ones, which hardly count.
_HOLDERS = 500
_MOST_TERMS = 32


@dataclass(frozen=True, slots=True)
class Query:
    """What to recall.

    Attributes:
        text: the text to find lessons for.
        limit: how many lessons at most, up to 2,000; at most 0 gives none.
        member: whose lessons come first; others' follow.
        skill: only lessons of this skill.
        kind: only lessons of this kind.
        threshold: lowest similarity on the scale of `scoring`, inclusive.
        scoring: the scale of `similarity`.
    """

    text: str
    limit: int = 5
    member: str | None = None
    skill: str | None = None
    kind: Kind | None = None
    threshold: float = RECALL_THRESHOLD
    scoring: Scoring = "calibrated"

    def check(self) -> None:
        """Refuse what cannot be recalled with.

        Raises:
            InvalidInputError: an unusable text, kind, scoring or threshold.
        """
        if not isinstance(self.text, str) or not self.text.strip():
            raise InvalidInputError(f"there is nothing to recall for in {self.text!r:.80}: give a text")
        if reason := unstorable_reason(self.text):
            raise InvalidInputError(f"the text cannot be searched for: {reason}")
        if not isinstance(self.limit, int) or isinstance(self.limit, bool):
            raise InvalidInputError(f"limit {self.limit!r:.80} is no whole number: give one like 5")
        if self.kind is not None and self.kind not in KINDS:
            raise InvalidInputError(f"kind {self.kind!r} is none of {', '.join(map(repr, KINDS))}")
        if self.scoring not in SCORINGS:
            raise InvalidInputError(f"scoring {self.scoring!r} is none of {', '.join(map(repr, SCORINGS))}")
        if not _is_number(self.threshold) or not -4 <= self.threshold <= 1:  # noqa: PLR2004  1 - l2 squared reaches -3
            raise InvalidInputError(f"threshold {self.threshold!r} is out of range: give one like 0.65")

    @property
    def fields(self) -> dict[str, str]:
        """The metadata a lesson must have."""
        named = {"kind": self.kind, "skill": self.skill}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(slots=True)
class _Found:
    candidates: list[Candidate] = field(default_factory=list)
    corpus: Corpus = field(default_factory=lambda: Corpus(0, 1.0, {}))
    semantic: bool = False
    reason: str = ""


Rank: TypeAlias = tuple[bool, float, int, str]
"""What answers are sorted by: one's own member first, then the coverage rule, evidence and id."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one layer of memory has for a query.

    Attributes:
        ranked: what passed the threshold, each with its rank, in no particular order.
        missed: the similarities of what did not.
        semantic: whether meaning was compared.
        reason: why the answer may be incomplete; empty otherwise.
    """

    ranked: list[tuple[Rank, RecalledLesson]]
    missed: list[float]
    semantic: bool
    reason: str


def together(query: Query, *answers: Answer) -> Recall:
    """One recall from the answers of several layers, the caller's own first.

    A lesson that two layers know is shown once, as the first knows it.
    """
    ranked: dict[tuple[str, ...], tuple[Rank, RecalledLesson]] = {}
    for layer, answer in enumerate(answers):
        for rank, lesson in answer.ranked:
            known = replace(lesson, shared=True) if layer else lesson
            ranked.setdefault((lesson.kind, lesson.member, lesson.skill, lesson.text), (rank, known))
    missed = [similarity for answer in answers for similarity in answer.missed]
    reason = next((answer.reason for answer in answers if answer.reason), "")
    return Recall(
        lessons=tuple(one for _, one in sorted(ranked.values(), key=lambda pair: pair[0]))[
            : max(0, query.limit)
        ],
        threshold=query.threshold,
        near_misses=sum(similarity >= query.threshold - NEAR for similarity in missed),
        nearest_miss=max(missed, default=None),
        semantic=all(answer.semantic for answer in answers),
        degraded=bool(reason),
        reason=reason,
    )


class Recaller:
    """Answers recalls on one store and pattern index."""

    def __init__(
        self,
        store: VectorStore,
        index: EmbeddingIndex,
        space: ActiveSpace,
        *,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Args: the `store`, its pattern `index`, the active `space` that embeds, and a `clock` giving UTC."""
        self._store = store
        self._index = index
        self._space = space
        self._clock = clock

    async def answer(self, query: Query) -> Answer:
        """The lessons for `query`: one's own member first, then by the coverage rule, then by evidence.

        A lesson that was long neither seen nor used ranks a little lower than its relevance says (`salience.sunk`).
        Without a working embedder wording and keywords alone decide; the answer says so.

        Raises:
            InvalidInputError: `Query.check` refused it.
            EmbeddingSpaceError: the model no longer answers as it did.
            StoreError: the store could not be searched.
        """
        query.check()
        words = list(dict.fromkeys(terms(query.text)))[:_MOST_TERMS]
        vector, reason = await self._embed(query.text)
        found = await self._find(query, words, vector)
        lessons = await self._lessons(found.candidates)
        shown, missed = self._split(query, found, words, lessons)
        now = self._clock()
        sinking = {lesson.id: sunk(lesson, now) for lesson in lessons.values()}
        ranked = [
            ((_others(query, one), sinking[one.id] - one.relevance, -one.evidence, one.id), one)
            for one in shown
        ]
        return Answer(ranked, missed, vector is not None and self._space.semantic, reason)

    async def recall(self, query: Query) -> Recall:
        """As `answer`, of this layer alone."""
        return together(query, await self.answer(query))

    async def _embed(self, text: str) -> tuple[Vector | None, str]:
        try:
            vector = await self._space.embed([text], role="query")
        except EmbeddingSpaceError:
            raise
        except EmbeddingError as exc:
            return None, f"only wording was compared: {exc}"
        self._index.calibration = self._space.calibration
        return vector, ""

    async def _find(self, query: Query, words: Sequence[str], vector: Vector | None) -> _Found:
        looked_at = min(max(_LOOKED_AT, query.limit), _MOST_LOOKED_AT)
        records = await self._index.count(query.fields)
        near, holders = await self._look(query.text, query.fields, words, vector, looked_at)
        if query.member is not None and records > looked_at:
            # One's own come first, so they must not be hidden by many of others that are as good.
            own = query.fields | {"member": query.member}
            own_near, own_holders = await self._look(query.text, own, words, vector, looked_at)
            near, holders = near | own_near, holders | own_holders
        corpus = Corpus(records, 1.0, frequencies(words, map(_terms_of, holders.values())))
        weights = {
            id_: math.fsum(map(corpus.idf, set(words).intersection(_terms_of(row))))
            for id_, row in holders.items()
        }
        best = sorted(weights, key=lambda id_: (-weights[id_], id_))[:looked_at]
        if query.member is not None:
            best += [id_ for id_ in weights if holders[id_].metadata.get("member") == query.member][
                :looked_at
            ]
        missing = [id_ for id_ in dict.fromkeys(best) if id_ not in near]
        compared = await self._index.compare(missing, vector, lexical_vectors([query.text])[0])
        candidates = [*near.values(), *compared]
        lengths = [len(_terms_of(candidate.record)) for candidate in candidates]
        average = sum(lengths) / max(1, len(lengths))
        return _Found(candidates, replace(corpus, average_length=average))

    async def _look(
        self, text: str, fields: Mapping[str, str], words: Sequence[str], vector: Vector | None, limit: int
    ) -> tuple[dict[str, Candidate], dict[str, Record]]:
        """The nearest patterns by meaning and wording, and those that hold a term, by row id."""
        (near, *_), holders = await asyncio.gather(
            self._index.candidates(vector, lexical_vectors([text]), fields=fields, limit=limit),
            self._index.search_terms(words, fields=fields, limit=max(_HOLDERS, limit)),
        )
        return {one.record.id: one for one in near}, {row.id: row for row in holders}

    async def _lessons(self, candidates: Sequence[Candidate]) -> dict[str, Lesson]:
        """Pattern row id -> its lesson, for the rows whose lesson is still there with the same text, not archived."""
        rows = [candidate.record for candidate in candidates]
        ids = {row.id: id_ for row in rows if (id_ := lesson_of_row(row)) is not None}
        stored = await self._store.get(SHARED, sorted(set(ids.values())))
        found: dict[str, Lesson] = {}
        for row in rows:
            record = stored.get(ids.get(row.id, ""))
            lesson = lesson_from(record) if record is not None else None
            if lesson is not None and storable(lesson.pattern) == row.content:
                if not lesson.archived:
                    found[row.id] = lesson
            elif "lesson" not in row.metadata and (orphan := lesson_from(row)) is not None:
                found[row.id] = orphan
        return found

    def _split(
        self, query: Query, found: _Found, words: Sequence[str], lessons: dict[str, Lesson]
    ) -> tuple[list[RecalledLesson], list[float]]:
        calibration = self._index.calibration
        q50 = calibration.q50 if calibration is not None else 0.0
        best = best_bm25(words, found.corpus)
        shown: list[RecalledLesson] = []
        missed: list[float] = []
        for candidate in found.candidates:
            if (lesson := lessons.get(candidate.record.id)) is None:
                continue
            similarity = self._similarity(candidate, query.scoring)
            if similarity < query.threshold:
                missed.append(similarity)
                continue
            keyword = bm25(words, _terms_of(candidate.record), found.corpus)
            relevance = coverage(candidate.semantic, keyword, best, q50)
            shown.append(_recalled(lesson, similarity, relevance, semantic=candidate.semantic is not None))
        return shown, missed

    def _similarity(self, candidate: Candidate, scoring: Scoring) -> float:
        if scoring == "calibrated":
            return candidate.score(self._index.calibration)
        return self._index.scale(
            candidate.lexical if candidate.semantic is None else candidate.semantic, scoring
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _terms_of(record: Record) -> list[str]:
    return (record.terms or "").split(" ")


def _others(query: Query, lesson: RecalledLesson) -> bool:
    return query.member is not None and lesson.member != query.member


def _recalled(lesson: Lesson, similarity: float, relevance: float, *, semantic: bool) -> RecalledLesson:
    return RecalledLesson(
        id=lesson.id,
        kind=lesson.kind,
        text=lesson.text,
        member=lesson.member,
        skill=lesson.skill,
        similarity=similarity,
        relevance=relevance,
        evidence=lesson.evidence,
        mean=lesson.mean,
        episodes=lesson.episodes,
        semantic=semantic,
        outcome=lesson.outcome,
    )
