"""How often the changelog's wording of a change finds the lesson learned from its commit subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

import common
import numpy as np
import numpy.typing as npt

from agenthood.config import RECALL_THRESHOLD
from agenthood.embedding.keywords import terms
from agenthood.embedding.lexical import lexical_vectors
from agenthood.learning.ranking import Corpus, bm25

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenthood import Hood
    from agenthood.records import Receipt

Scores = npt.NDArray[np.float64]

TITLE = "Commit subjects learned, changelog texts asked"
NOTE = "Right lesson first / among the first five, in %."
HEADING = (
    "learned",
    "lessons",
    "agenthood",
    "from 0.65 up",
    "keywords alone",
    "meaning alone",
    "lexical vector alone",
)


def run(folder: Path, limit: int | None) -> str:
    """Measure on all pairs of each repository; returns a Markdown table."""
    return measured(folder, limit, step=1)


def measured(folder: Path, limit: int | None, *, step: int) -> str:
    """Measure on every `step`-th of the first `limit` pairs of each repository; returns a Markdown table."""
    with common.empty_store() as hood:
        rows = [
            measure(hood, repository, pairs[:limit:step])
            for repository, pairs in common.changelog_pairs(folder).items()
        ]
    return common.table(HEADING, rows)


def measure(hood: Hood, name: str, pairs: Sequence[common.Pair]) -> Sequence[str]:
    """Learn and recall `pairs` under a skill of their own; one row of the table.

    A hit is the lesson that the subject became or was merged into.

    Args:
        hood: an open store.
        name: for the first column.
        pairs: what is learned and asked.
    """
    asked = [pair.asked for pair in pairs]
    receipts = common.learn(hood, [pair.learned for pair in pairs], skill=name)
    recalls = common.recall_all(hood, asked, skill=name)
    rankings = [
        [[lesson.id for lesson in recall] for recall in recalls],
        [[lesson.id for lesson in recall if lesson.similarity >= RECALL_THRESHOLD] for recall in recalls],
        *ingredients(hood, name, asked),
    ]
    lessons = len({receipt.id for receipt in receipts})
    cells = [" / ".join(hit_rates(receipts, ranking)) for ranking in rankings]
    return (f"{name}, {len(pairs)} subjects", str(lessons), *cells)


def hit_rates(receipts: Sequence[Receipt], rankings: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Share of rankings with the right lesson first, and among the first five."""
    pairs = list(zip(receipts, rankings, strict=True))
    first = sum(receipt.id in ids[:1] for receipt, ids in pairs)
    five = sum(receipt.id in ids[:5] for receipt, ids in pairs)
    return common.percent(first / len(pairs)), common.percent(five / len(pairs))


def ingredients(hood: Hood, skill: str, asked: Sequence[str]) -> list[list[list[str]]]:
    """The same lessons ranked by keywords, by meaning and by lexical vectors alone, by brute force."""
    lessons = sorted(hood.lessons(skill=skill), key=lambda lesson: lesson.id)
    texts = [lesson.text for lesson in lessons]
    ids = [lesson.id for lesson in lessons]
    scores = (
        _keywords(texts, asked),
        embedded(asked) @ embedded(texts).T,
        lexical_vectors(asked) @ lexical_vectors(texts).T,
    )
    return [[[ids[i] for i in np.argsort(-row, kind="stable")[:5]] for row in matrix] for matrix in scores]


def _keywords(texts: Sequence[str], asked: Sequence[str]) -> Scores:
    documents = [terms(text) for text in texts]
    frequencies: dict[str, int] = {}
    for document in documents:
        for term in set(document):
            frequencies[term] = frequencies.get(term, 0) + 1
    corpus = Corpus(len(documents), sum(map(len, documents)) / len(documents), frequencies)
    return np.array([[bm25(terms(text), document, corpus) for document in documents] for text in asked])


def embedded(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """float32 (n, 512) from the bundled model."""
    import anyio  # noqa: PLC0415

    from agenthood.embedding.bundled import BundledEmbedder  # noqa: PLC0415

    return anyio.run(BundledEmbedder().embed, list(texts))
