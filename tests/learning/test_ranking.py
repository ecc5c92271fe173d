"""The coverage rule: what decides the order of a recall."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.learning.ranking import SEMANTIC_WEIGHT, Corpus, best_bm25, bm25, coverage

CORPUS = Corpus(100, 4.0, {"cache": 3, "fix": 60, "login": 5, "test": 40})
TERMS = st.lists(st.sampled_from(["cache", "fix", "login", "test", "unseen", "other"]), max_size=12)


def test_words_that_are_rare_count_more_and_unseen_ones_most() -> None:
    """A term that few records hold tells more, and one that none holds would tell most."""
    assert CORPUS.idf("unseen") > CORPUS.idf("cache") > CORPUS.idf("login") > CORPUS.idf("fix") > 0


def test_a_long_query_can_still_reach_its_best() -> None:
    """Words beyond what a record of average length holds do not shrink the keyword half."""
    short = ["cache", "login", "a", "b"]
    assert best_bm25([*short, "fix", "test"], CORPUS) == best_bm25(short, CORPUS)
    assert best_bm25([*short, *short], CORPUS) == best_bm25(short, CORPUS)
    assert best_bm25(["cache"], CORPUS) < best_bm25(short, CORPUS)


def test_unmatched_words_leave_the_decision_to_meaning() -> None:
    """Where no word of the query is in the store, as across languages, the nearer meaning ranks first."""
    query = ["berhenti", "cache"]
    best = best_bm25(query, CORPUS)
    near = coverage(0.8, 0.0, best, 0.08)
    one_word = coverage(0.1, bm25(["cache"], ["fix"], CORPUS), best, 0.08)
    assert near > one_word


def test_without_a_vector_keywords_alone_rank() -> None:
    """A lesson that has no semantic vector yet gets the keyword part and nothing more."""
    best = best_bm25(["cache"], CORPUS)
    keyword = bm25(["cache"], ["cache"], CORPUS)
    assert coverage(None, keyword, best, 0.08) == pytest.approx(
        (1 - SEMANTIC_WEIGHT) * keyword / best, abs=1e-6
    )
    assert coverage(None, 0.0, 0.0, 0.08) == 0


@given(TERMS, TERMS, st.floats(-1, 1))
def test_the_score_is_at_most_one(query: list[str], record: list[str], cosine: float) -> None:
    """No query and record reach more than 1, and what matches nothing has no keyword part."""
    keyword = bm25(query, record, CORPUS)
    best = best_bm25(query, CORPUS)
    assert coverage(cosine, keyword, best, 0.08) <= 1
    assert keyword >= 0
    assert (keyword > 0) == bool(set(query) & set(record))
