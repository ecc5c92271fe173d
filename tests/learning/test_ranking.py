"""The ranking of a recall, without any store."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.learning.ranking import K1, SEMANTIC_WEIGHT, B, Corpus, best_bm25, bm25, coverage

WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=8)
CORPUS = Corpus(10, 4.0, {"a": 1, "b": 5, "c": 10})


def test_a_rare_term_weighs_more() -> None:
    """ln(1 + (N - n + 0.5) / (n + 0.5)), positive even for a term that every record holds."""
    assert CORPUS.idf("a") == pytest.approx(math.log(1 + 9.5 / 1.5))
    assert CORPUS.idf("a") > CORPUS.idf("b") > CORPUS.idf("c") > 0
    assert CORPUS.idf("unseen") > CORPUS.idf("a")


def test_bm25_by_hand() -> None:
    """Two occurrences in a document of average length, and a term it does not hold."""
    expected = CORPUS.idf("a") * 2 * (K1 + 1) / (2 + K1 * (1 - B + B))
    assert bm25(["a", "a", "h"], ["a", "a", "x", "y"], CORPUS) == pytest.approx(expected)


@given(WORDS, WORDS)
def test_no_document_exceeds_the_best(query: list[str], document: list[str]) -> None:
    """The bound that coverage divides by holds, so its keyword half is at most its weight."""
    assert 0 <= bm25(query, document, CORPUS) <= best_bm25(query, CORPUS) + 1e-9


def test_coverage_by_hand() -> None:
    """Meaning above the background and the share of the reachable keywords."""
    weight = SEMANTIC_WEIGHT
    assert coverage(0.6, 2.0, 8.0, 0.2) == pytest.approx(weight * 0.5 + (1 - weight) * 0.25)
    assert coverage(None, 2.0, 8.0, 0.2) == pytest.approx((1 - weight) * 0.25)
    assert coverage(1.0, 8.0, 8.0, 0.2) == pytest.approx(1.0)


def test_without_reachable_keywords_meaning_decides() -> None:
    """A query of stop words only has no keyword half."""
    assert coverage(0.6, 0.0, 0.0, 0.2) == pytest.approx(SEMANTIC_WEIGHT * 0.5)


def test_coverage_without_room_above_the_background() -> None:
    """A median of 1, which no model of use has, leaves the words to decide."""
    assert coverage(1.0, 1.0, 2.0, 1.0) == coverage(None, 1.0, 2.0, 1.0)
