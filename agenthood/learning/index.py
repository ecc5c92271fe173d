"""The pattern index: vectors of episode texts in one embedding space. A cache, rebuildable from long-term memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np

from agenthood.embedding.keywords import terms
from agenthood.embedding.lexical import lexical_vectors
from agenthood.errors import InvalidInputError
from agenthood.formats import PATTERN, iso, split_pattern, storable, utc_now
from agenthood.learning.held import HeldVectors
from agenthood.learning.patterns import (
    LEXICAL_SPACE,
    PATTERN_TYPE,
    Candidate,
    IndexEntry,
    collection_for,
    half_cosine,
)
from agenthood.learning.rules import MATCH_THRESHOLD, candidate_keys, choose_key
from agenthood.records import SCORINGS, Kind, PatternMatch, Scoring
from agenthood.redaction import redact
from agenthood.stores.base import SHARED, Collection, Hit, Record, Vector, VectorField
from agenthood.stores.filters import Filter, where
from agenthood.stores.validation import vector_reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agenthood.embedding.base import EmbeddingSpace
    from agenthood.learning.calibration import Calibration
    from agenthood.stores.base import VectorStore

_CANDIDATES = 50
_MOST_HITS = 10_000


class EmbeddingIndex:
    """Stores patterns and finds similar ones in one embedding space.

    Every pattern has a row with its semantic vector, its lexical vector and its keyword terms in the table of the
    space. A space with the dimension of the shared table keeps its vectors there too, for the TypeScript program.

    Attributes:
        space: the embedding space.
        calibration: its calibration, if known.
        main: the table of the space, which is searched.
        mirror: the shared table, if the patterns are kept there too.
        held: its vectors, kept in memory while it is small.
    """

    def __init__(
        self,
        store: VectorStore,
        space: EmbeddingSpace,
        *,
        shared: Collection = SHARED,
        calibration: Calibration | None = None,
    ) -> None:
        """Args: the `store`, the `space`, the `shared` table as it is, and the space's `calibration` if known."""
        self.space = space
        self.calibration = calibration
        self.main = collection_for(space)
        self._lexical_only = space == LEXICAL_SPACE
        self._store = store
        self.held = HeldVectors(store, self.main)
        self.use(shared)

    def use(self, shared: Collection | None) -> None:
        """Work with the `shared` table as it is, or without; a store that was down when opened tells it later."""
        fits = shared is not None and self.space.dimension == shared.dimension
        self.mirror = shared if fits else None

    @property
    def _words_field(self) -> VectorField:
        return "vector" if self._lexical_only else "lexical"

    # -- writing ----------------------------------------------------------------------------------------

    async def store_pattern(self, pattern: str, embedding: Vector, *, lesson: str | None = None) -> str:
        """Index one pattern under its key, secrets redacted; the same pattern again replaces its row.

        Args:
            pattern: a pattern text, `{kind}:{member}:{skill}:{episode}`.
            embedding: float (dimension,), finite and not zero; the vector of the episode text.
            lesson: id of the lesson's long-term row, if it has one.

        Returns:
            The key, such as `v1:fn6jbb`; with a suffix if another pattern has that key already.

        Raises:
            InvalidInputError: no pattern text, or an unusable vector.
            StoreError: it could not be written.
        """
        pattern = redact(pattern)
        kind, member, skill, episode = split_pattern(pattern)
        vector = np.asarray(embedding, dtype=np.float32)
        if reason := vector_reason(vector, self.space.dimension):
            raise InvalidInputError(f"pattern {pattern!r:.120} cannot be indexed: {reason}")
        async with self._store.exclusive():
            ids = [PATTERN + key for key in candidate_keys(pattern)]
            rows = await self._store.get(self.main, ids)
            if self.mirror is not None:
                rows |= await self._store.get(self.mirror, ids)
            taken = {id_.removeprefix(PATTERN): record.content for id_, record in rows.items()}
            key, _ = choose_key(pattern, taken)
            entry = IndexEntry(key, lesson, kind, member, skill, episode, pattern)
            unit = (vector / np.linalg.norm(vector)).reshape(1, -1)
            for collection, records in self.rows([entry], unit).items():
                result = await self._store.upsert(collection, records)
                if result.rejected:
                    raise InvalidInputError(
                        f"pattern {pattern!r:.120} was refused: {result.rejected[0].reason}"
                    )
        return key

    def rows(
        self, entries: Sequence[IndexEntry], vectors: Vector | None, words: Vector | None = None
    ) -> dict[Collection, list[Record]]:
        """The rows to upsert for `entries`, per collection.

        Args:
            entries: the patterns.
            vectors: float32 (n, dimension), their semantic vectors; None leaves them pending: findable by
                their words, and embedded by the next migration.
            words: float32 (n, LEXICAL_DIMENSION), their lexical vectors if known already.
        """
        if words is None:
            words = lexical_vectors([entry.text for entry in entries])
        rows: dict[Collection, list[Record]] = {}
        space = "" if vectors is None else str(self.space)
        semantic, lexical = _rows_or_none(vectors, len(entries)), _rows_or_none(words, len(entries))
        created_at = iso(utc_now())
        for entry, vector, word in zip(entries, semantic, lexical, strict=True):
            row = self._row(entry, space, created_at, vector, word)
            rows.setdefault(self.main, []).append(row)
            if self.mirror is not None and vectors is not None:
                rows.setdefault(self.mirror, []).append(replace(row, lexical=None, terms=None))
        return rows

    @staticmethod
    def _row(
        entry: IndexEntry, space: str, created_at: str, vector: Vector | None, word: Vector | None
    ) -> Record:
        # The order of the keys is part of the stored format: equal rows have equal metadata text.
        metadata: dict[str, str | float] = {
            "type": PATTERN_TYPE,
            "kind": entry.kind,
            "member": storable(entry.member),
            "skill": storable(entry.skill),
            "space": space,
        }
        if entry.lesson is not None:
            metadata["lesson"] = storable(entry.lesson)
        else:
            metadata["mean"] = entry.mean
        return Record(
            id=PATTERN + storable(entry.key),
            content=storable(entry.pattern),
            metadata=metadata,
            created_at=created_at,
            vector=vector,
            lexical=word,
            terms=" ".join(terms(entry.text)),
        )

    # -- reading ----------------------------------------------------------------------------------------

    @overload
    async def find_similar(
        self, embedding: Vector, threshold: float = ..., limit: int = ..., *, kind: Kind | None = ...,
        member: str | None = ..., skill: str | None = ..., scoring: Scoring = ..., any_space: bool = ...,
    ) -> list[PatternMatch]: ...  # fmt: skip
    @overload
    async def find_similar(
        self, embedding: Sequence[Vector], threshold: float = ..., limit: int = ..., *, kind: Kind | None = ...,
        member: str | None = ..., skill: str | None = ..., scoring: Scoring = ..., any_space: bool = ...,
    ) -> list[list[PatternMatch]]: ...  # fmt: skip
    async def find_similar(  # noqa: PLR0913  the filters of a look-up
        self,
        embedding: Vector | Sequence[Vector],
        threshold: float = MATCH_THRESHOLD,
        limit: int = 5,
        *,
        kind: Kind | None = None,
        member: str | None = None,
        skill: str | None = None,
        scoring: Scoring = "calibrated",
        any_space: bool = False,
    ) -> list[PatternMatch] | list[list[PatternMatch]]:
        """The patterns most similar to one embedding, or to each of several in one call.

        Args:
            embedding: float (dimension,) for one query, (n, dimension) for several.
            threshold: the lowest score that counts, inclusive, on the scale of `scoring`.
            limit: how many per query at most; at most 0 gives none.
            kind: only patterns of this kind. Look-ups that merge must name it: a pattern and the
                anti-pattern of the same episode have the same vector.
            member: only patterns of this member.
            skill: only patterns of this skill.
            scoring: `calibrated` [0, 1]; `cosine` [-1, 1]; `squared_l2`, 1 - squared distance, as the
                TypeScript program reports. A space without calibration reports cosines for `calibrated`.
            any_space: also compare with rows of the shared table that carry another space or none, as the
                TypeScript program writes them and as it compares them; only meaningful with its own vectors.

        Returns:
            Matches best first, ties by key; for several queries one list for each.

        Raises:
            InvalidInputError: an unusable vector or threshold.
            StoreError: the store could not be searched.
        """
        queries = np.asarray(embedding, dtype=np.float32)
        given: object = threshold
        if not isinstance(given, int | float) or not np.isfinite(given):
            raise InvalidInputError(f"threshold {threshold!r:.80} is no finite number: give one like 0.85")
        if scoring not in SCORINGS:
            raise InvalidInputError(f"scoring {scoring!r:.80} is none of {', '.join(map(repr, SCORINGS))}")
        named = {"kind": kind, "member": member, "skill": skill}
        fields = {name: value for name, value in named.items() if value is not None}
        collection, condition = self.main, self.condition(fields)
        if any_space:
            collection, condition = self.mirror or self.main, self.condition({"type": PATTERN_TYPE, **fields})
        hits = await self._store.query(
            collection,
            np.atleast_2d(queries),
            condition=condition,
            limit=min(limit, _MOST_HITS),
            unit=not any_space,
            with_vectors=False,
        )
        found = [self._matches(row, threshold, scoring) for row in hits]
        return found[0] if queries.ndim == 1 else found

    def _matches(self, hits: Sequence[Hit], threshold: float, scoring: Scoring) -> list[PatternMatch]:
        scored = [
            PatternMatch(
                hit.record.id.removeprefix(PATTERN), hit.record.content, self.scale(hit.score, scoring)
            )
            for hit in hits
        ]
        return [match for match in scored if match.score >= threshold]

    def scale(self, cosine: float, scoring: Scoring) -> float:
        """A cosine on the scale of `scoring`, rounded to 6 decimals."""
        if scoring == "calibrated" and self.calibration is not None:
            return round(float(self.calibration(cosine)), 6)
        # For unit vectors the squared distance is 2 - 2 cos.
        return round(2 * cosine - 1 if scoring == "squared_l2" else cosine, 6)

    @staticmethod
    def condition(fields: Mapping[str, str]) -> Filter | None:
        """The filter for the patterns whose metadata equal `fields`; None where that is all of them."""
        return where(**{name: storable(value) for name, value in fields.items()}) if fields else None

    async def candidates(
        self, semantic: Vector | None, words: Vector, *, fields: Mapping[str, str], limit: int = _CANDIDATES
    ) -> list[list[Candidate]]:
        """For each query, the patterns nearest by meaning and those nearest by wording, with both cosines.

        Args:
            semantic: float32 (n, dimension), or None to compare wording only; zero rows are not searched.
            words: float32 (n, LEXICAL_DIMENSION); zero rows are not searched.
            fields: metadata the patterns must have, such as kind, member and skill.
            limit: how many by each of the two.
        """
        found: list[dict[str, Record]] = [{} for _ in words]
        condition = self.condition(fields)
        searches = [self._search(self._words_field, words, condition, limit, found)]
        if semantic is not None and not self._lexical_only:
            searches.append(self._search("vector", semantic, condition, limit, found))
        await asyncio.gather(*searches)
        return [
            self._compared(list(rows.values()), None if semantic is None else semantic[n], words[n])
            for n, rows in enumerate(found)
        ]

    async def _search(
        self,
        field: VectorField,
        queries: Vector,
        condition: Filter | None,
        limit: int,
        found: list[dict[str, Record]],
    ) -> None:
        usable = np.flatnonzero(queries.any(axis=1))
        if not len(usable):
            return
        hits = await self._store.query(
            self.main, queries[usable], field=field, condition=condition, limit=limit, unit=True
        )
        for position, row in zip(usable, hits, strict=True):
            found[position].update((hit.record.id, hit.record) for hit in row)

    def _compared(self, records: list[Record], semantic: Vector | None, words: Vector) -> list[Candidate]:
        return [
            Candidate(
                record,
                None if self._lexical_only or semantic is None else half_cosine(record.vector, semantic),
                half_cosine(record.vector if self._lexical_only else record.lexical, words) or 0.0,
            )
            for record in records
        ]

    async def compare(self, ids: Sequence[str], semantic: Vector | None, words: Vector) -> list[Candidate]:
        """The patterns with these row ids as candidates for one query.

        Args:
            ids: pattern row ids.
            semantic: float32 (1, dimension) of the query, or None.
            words: float32 (LEXICAL_DIMENSION,) of the query.
        """
        if not ids:
            return []
        rows = await self._store.get(self.main, ids, vectors=True)
        return self._compared(list(rows.values()), None if semantic is None else semantic[0], words)

    async def search_terms(
        self, words: Sequence[str], *, fields: Mapping[str, str], limit: int
    ) -> list[Record]:
        """The rows of the patterns that hold at least one of the terms; at `limit`, the best by keyword."""
        return await self._store.search_terms(self.main, words, condition=self.condition(fields), limit=limit)

    async def count(self, fields: Mapping[str, str]) -> int:
        """How many patterns have these metadata."""
        return await self._store.count(self.main, self.condition(fields))

    async def present(self) -> dict[str, str]:
        """Pattern row id -> pattern text of every pattern that has its vectors."""
        found: dict[str, str] = {}
        condition = where(type=PATTERN_TYPE, space=str(self.space))
        async for batch in self._store.scan(self.main, condition=condition):
            found.update((record.id, record.content) for record in batch)
        return found

    async def mirrored(self, entries: Sequence[IndexEntry]) -> dict[int, Vector]:
        """The vectors that the shared table holds already: position in `entries` -> float32 (dimension,)."""
        if self.mirror is None:
            return {}
        ids = [PATTERN + storable(entry.key) for entry in entries]
        rows = await self._store.get(self.mirror, ids, vectors=True)
        return {
            n: row.vector
            for n, (id_, entry) in enumerate(zip(ids, entries, strict=True))
            if (row := rows.get(id_)) is not None
            and row.vector is not None
            and row.content == storable(entry.pattern)
            and row.metadata.get("space") == str(self.space)
        }


def _rows_or_none(vectors: Vector | None, count: int) -> list[Vector | None]:
    """The rows of `vectors`, None for those that are zero."""
    if vectors is None:
        return [None] * count
    present: list[bool] = np.any(vectors, axis=1).tolist()
    return [row if there else None for row, there in zip(vectors, present, strict=True)]
