"""How a recall ranks what it found: keyword coverage plus meaning above the background. No I/O."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# BM25 constants as in Robertson & Zaragoza, "The Probabilistic Relevance Framework" (2009); the usual defaults.
K1 = 1.2
B = 0.75
SEMANTIC_WEIGHT = 0.25
"""Share of meaning in the coverage score; `benchmarks/quality.py` measures it on wording and across languages."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What BM25 knows of all searchable records.

    Attributes:
        records: how many there are.
        average_length: mean number of terms per record.
        frequencies: term -> how many records hold it.
    """

    records: int
    average_length: float
    frequencies: Mapping[str, int]

    def idf(self, term: str) -> float:
        """How rare `term` is: ln(1 + (N - n + 0.5) / (n + 0.5)), positive for any n."""
        n = self.frequencies.get(term, 0)
        return math.log(1 + (max(self.records, n) - n + 0.5) / (n + 0.5))


def frequencies(query: Sequence[str], documents: Iterable[Sequence[str]]) -> dict[str, int]:
    """How many of `documents` hold each term of the query; each document's terms may repeat."""
    return Counter(term for document in documents for term in set(document).intersection(query))


def bm25(query: Sequence[str], document: Sequence[str], corpus: Corpus) -> float:
    """BM25 of a document for the distinct terms of a query, at least 0."""
    counts = Counter(document)
    length = 1 - B + B * len(document) / max(corpus.average_length, 1.0)
    return math.fsum(
        corpus.idf(term) * counts[term] * (K1 + 1) / (counts[term] + K1 * length)
        for term in dict.fromkeys(query)
        if counts[term]
    )


def best_bm25(query: Sequence[str], corpus: Corpus) -> float:
    """The best bm25 the query could reach: idf * (k1 + 1) over its rarest terms, also those no record holds.

    As many terms count as a record of average length holds. With all terms a query longer than the records, such as
    a paragraph about lessons of a line, could reach its best nowhere, and keywords would hardly count.
    """
    reachable = sorted((corpus.idf(term) for term in dict.fromkeys(query)), reverse=True)
    return math.fsum(reachable[: max(1, round(corpus.average_length))]) * (K1 + 1)


def coverage(cosine: float | None, keyword: float, best: float, q50: float) -> float:
    """The score a recall ranks by, at most 1.

    0.25 * (cos - q50) / (1 - q50) + 0.75 * bm25 / the best bm25 the query could reach. Both halves are relative
    to the query, so when few of its words exist in the store, as across languages, meaning decides by itself.

    Args:
        cosine: of the semantic vectors in [-1, 1], or None if meaning could not be compared.
        keyword: bm25 of the record.
        best: `best_bm25` of the query.
        q50: median cosine of unrelated texts in the space.
    """
    lexical = min(1.0, keyword / best) if best > 0 else 0.0
    if cosine is None:
        return round((1 - SEMANTIC_WEIGHT) * lexical, 6)
    semantic = (cosine - q50) / (1 - q50) if q50 < 1 else 0.0
    return round(SEMANTIC_WEIGHT * semantic + (1 - SEMANTIC_WEIGHT) * lexical, 6)
