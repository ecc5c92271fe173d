"""Does an episode told in other words merge into the right lesson, into a wrong one, or into one where none fits?"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import common
import numpy as np
from changelog import embedded

from agenthood.embedding.lexical import lexical_vectors
from agenthood.formats import hash_pattern, pattern_text
from agenthood.learning.patterns import Candidate, IndexEntry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenthood import Hood

TITLE = "Merging at 0.85 with 200 stored lessons"
NOTE = "Episodes told in other words, in %: merged into the right lesson; into a wrong one; into one where none fits."
HEADING = ("rule", "stored", "draws", "found", "wrong", "false alarm")
REPOSITORIES = ("pypa/pip", "aio-libs/aiohttp")
THRESHOLD = 0.85
STORED = 200
DRAWS = 5


def run(folder: Path, limit: int | None) -> str:
    """Draw 200 pairs to store and 200 others to ask in vain, five times per repository; returns a table.

    found: the right lesson reaches 0.85 and is the best. wrong: another is the best, though the right one is
    stored. false alarm: one reaches 0.85 for a text whose lesson is not stored.
    """
    outcomes: dict[str, list[tuple[float, float, float]]] = {"match score": [], "raw cosine": []}
    pairs = common.changelog_pairs(folder)
    stored = min(STORED, (limit or STORED * 2) // 2)
    with common.empty_store() as hood:
        for repository in REPOSITORIES:
            for seed in range(DRAWS):
                drawn = random.Random(f"{repository} {seed}").sample(pairs[repository][:limit], 2 * stored)
                for rule, rates in draw(hood, f"{repository} {seed}", drawn).items():
                    outcomes[rule].append(rates)
    rows = [
        (
            rule,
            str(stored),
            str(len(rates)),
            *(common.percent(float(part)) for part in np.mean(rates, axis=0)),
        )
        for rule, rates in outcomes.items()
    ]
    return common.table(HEADING, rows)


def draw(hood: Hood, skill: str, pairs: Sequence[common.Pair]) -> dict[str, tuple[float, float, float]]:
    """Store the first half of `pairs` and ask with all of them; rule -> (found, wrong, false alarm)."""
    half = len(pairs) // 2
    store(hood, skill, [pair.learned for pair in pairs[:half]])
    found = candidates(hood, skill, [pair.asked for pair in pairs])
    calibration = hood.hood.index.calibration
    return {
        "match score": rates([[(c.score(calibration), _text(c)) for c in row] for row in found], pairs),
        "raw cosine": rates([[(c.semantic or 0.0, _text(c)) for c in row] for row in found], pairs),
    }


def store(hood: Hood, skill: str, texts: Sequence[str]) -> None:
    """Index texts as they are: learning them would merge some, and then there were fewer."""
    index, portal_store = hood.hood.index, hood.hood.store
    entries = []
    for text in texts:
        pattern = pattern_text("learned", "bench", skill, text)
        entries.append(IndexEntry(hash_pattern(pattern), None, "learned", "bench", skill, text, pattern))
    for collection, records in index.rows(entries, embedded(texts)).items():
        hood._call(portal_store.upsert, collection, records)  # noqa: SLF001  on the loop the store lives on


def candidates(hood: Hood, skill: str, texts: Sequence[str]) -> list[list[Candidate]]:
    """What the learner would look at for each text."""
    found: list[list[Candidate]] = hood._call(  # noqa: SLF001
        hood.hood.index.candidates,
        embedded(texts),
        lexical_vectors(texts),
        fields={"kind": "learned", "member": "bench", "skill": skill},
        limit=3,
    )
    return found


def rates(
    scored: Sequence[Sequence[tuple[float, str]]], pairs: Sequence[common.Pair]
) -> tuple[float, float, float]:
    """(found, wrong, false alarm) as shares of the texts they can happen to."""
    half = len(pairs) // 2
    taken = [max(row, default=(0.0, "")) for row in scored]
    accepted = [text if score >= THRESHOLD else None for score, text in taken]
    stored = list(zip(accepted[:half], pairs, strict=False))
    found = sum(text == pair.learned for text, pair in stored)
    wrong = sum(text is not None and text != pair.learned for text, pair in stored)
    alarms = sum(text is not None for text in accepted[half:])
    return found / half, wrong / half, alarms / half


def _text(candidate: Candidate) -> str:
    return candidate.record.content.split(":", 3)[3]
