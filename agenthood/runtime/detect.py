"""Proposes members for a task: by the words they share with it, and by what both mean."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agenthood.embedding.keywords import terms
from agenthood.embedding.lexical import LexicalEmbedder
from agenthood.errors import EmbeddingError
from agenthood.learning.calibration import LEXICAL, Calibration, reference_texts
from agenthood.learning.ranking import Corpus, best_bm25, bm25

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.embedding.base import Embedder
    from agenthood.learning.calibration import Scores
    from agenthood.runtime.members import Member

MEANING_WEIGHT = 0.5
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_WORD = re.compile(r"[^\W\u2e80-\U0010ffff]+|[\u2e80-\U0010ffff]+")
_MOST_WORDS = 6
_MEANING = "meaning"
_ALIKE = 0.6  # calibrated: one unrelated pair in ten is that close


@dataclass(frozen=True, slots=True)
class Proposal:
    """A member that may suit a task.

    Attributes:
        member: the member.
        score: in [0, 1], higher suits better; comparable within one task only.
        why: one line for a person.
    """

    member: Member
    score: float
    why: str


async def propose(
    task: str,
    members: Sequence[Member],
    *,
    embedder: Embedder | None = None,
    calibration: Calibration | None = None,
    limit: int = 3,
) -> list[Proposal]:
    """Propose members for `task`, the best first; equal scores keep the order of `members`.

    Args:
        task: what is to be done, in any language the embedder knows.
        members: whom to choose from.
        embedder: compares meaning; without it, or if it fails, only wording is compared.
        calibration: that of the embedder's space, which otherwise is measured, about a second with the
            bundled embedder.
        limit: how many at most. Where only wording is compared, none that shares no word with the task.
    """
    documents = [_profile(member) for member in members]
    if not task.strip() or not documents:
        return []
    # Headings help words to be found; in the meaning they blur what the member is for.
    purposes = [f"{member.name}: {member.description}" for member in members]
    closeness, compared = await _closeness(task, purposes, embedder, calibration)
    coverage = _coverage(task, documents)
    proposals = [
        Proposal(
            member,
            round((1 - MEANING_WEIGHT) * covered + MEANING_WEIGHT * close, 6),
            _why(_shared(task, document), close, compared),
        )
        for member, document, covered, close in zip(members, documents, coverage, closeness, strict=True)
        if covered > 0 or close >= _ALIKE or compared == _MEANING
    ]
    return sorted(proposals, key=lambda proposal: -proposal.score)[: max(limit, 0)]


def _profile(member: Member) -> str:
    return "\n".join([member.name, member.description, *_HEADING.findall(member.prompt)])


async def _closeness(
    task: str, documents: Sequence[str], embedder: Embedder | None, calibration: Calibration | None
) -> tuple[list[float], str]:
    """Calibrated likeness of the task to each document in [0, 1], and in what: meaning or wording."""
    if embedder is not None and embedder.semantic:
        try:
            known = calibration or Calibration.fit(await embedder.embed(reference_texts()))
            return _scores(known, await _cosines(task, documents, embedder)), _MEANING
        except EmbeddingError:
            pass  # a proposal by wording is better than none
    return _scores(LEXICAL, await _cosines(task, documents, LexicalEmbedder())), "wording"


async def _cosines(task: str, documents: Sequence[str], embedder: Embedder) -> Scores:
    query = await embedder.embed([task], role="query")
    rows = await embedder.embed(list(documents))
    return np.asarray(rows @ query[0], dtype=np.float64)


def _scores(calibration: Calibration, cosines: Scores) -> list[float]:
    return [float(score) for score in np.round(calibration(cosines), 6)]


def _coverage(task: str, documents: Sequence[str]) -> list[float]:
    """How much of what the task's words could score each document scores, in [0, 1]."""
    tokens = [terms(document) for document in documents]
    frequencies = Counter(term for one in tokens for term in set(one))
    corpus = Corpus(len(tokens), math.fsum(map(len, tokens)) / len(tokens), frequencies)
    query = terms(task)
    # Words that no member knows tell nothing about which member suits.
    best = best_bm25([term for term in query if term in frequencies], corpus)
    return [min(1.0, bm25(query, one, corpus) / best) if best > 0 else 0.0 for one in tokens]


def _shared(task: str, document: str) -> list[str]:
    """Words of the task, as they stand there, that the document has in some form."""
    known = set(terms(document))
    words = dict.fromkeys(word.lower() for word in _WORD.findall(task))
    return [word for word in words if not known.isdisjoint(terms(word))]


def _why(words: Sequence[str], close: float, compared: str) -> str:
    parts = []
    if words:
        more = f" and {len(words) - _MOST_WORDS} more" if len(words) > _MOST_WORDS else ""
        parts.append(f"matches {', '.join(words[:_MOST_WORDS])}{more}")
    if close >= _ALIKE:
        parts.append(f"close in {compared} ({close:.2f})")
    elif not words:
        parts.append(f"nearest in {compared}, though not close ({close:.2f})")
    return "; ".join(parts)
