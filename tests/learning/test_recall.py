"""Recall on real stores: against a computation of every lesson, and by what the answer says of itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood.embedding.keywords import terms
from agenthood.embedding.lexical import lexical_vectors
from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import InvalidInputError
from agenthood.formats import utc_now
from agenthood.learning.calibration import match_score
from agenthood.learning.lessons import lesson_record
from agenthood.learning.ranking import Corpus, best_bm25, bm25, coverage
from agenthood.stores.base import SHARED
from hoods import bad, good, opened, small

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.engine import AsyncHood

TEXTS = [
    "fixed the flaky login test by mocking the clock",
    "fixed the login redirect by keeping the cookie",
    "sped up the login page by caching the avatar",
    "mocked the clock in the billing tests",
    "wrote the release notes from the commit log",
    "retried uploads with exponential backoff",
    "用缓存加快登录页面",
    "split the parser into a lexer and a grammar",
]


async def _fill(hood: AsyncHood) -> None:
    receipts = await hood.learn_many([good(text) for text in TEXTS])
    assert [receipt.status for receipt in receipts] == ["stored"] * len(TEXTS)


async def _computed(hood: AsyncHood, query: str) -> list[tuple[str, float, float]]:
    """(text, similarity, relevance) of every lesson, computed without the store's search, best first."""
    lessons = await hood.lessons()
    vectors = await hood.space.embed([query, *(lesson.text for lesson in lessons)])
    words = lexical_vectors([query, *(lesson.text for lesson in lessons)])
    documents = [terms(lesson.text) for lesson in lessons]
    asked = terms(query)
    corpus = Corpus(
        len(lessons),
        sum(map(len, documents)) / len(documents),
        {term: sum(term in document for document in documents) for term in asked},
    )
    calibration = hood.space.calibration
    assert calibration is not None
    cosines, near = vectors[1:] @ vectors[0], words[1:] @ words[0]
    found = [
        (
            lesson.text,
            float(match_score(cosine, lexical, calibration)),
            coverage(float(cosine), bm25(asked, document, corpus), best_bm25(asked, corpus), calibration.q50),
        )
        for lesson, cosine, lexical, document in zip(lessons, cosines, near, documents, strict=True)
    ]
    return sorted(found, key=lambda one: -one[2])


@pytest.mark.parametrize("dimension", [64, 1536])
@pytest.mark.parametrize(
    "query", ["the login test is flaky", "clock mocking", "缓存登录", "backoff for uploads failing"]
)
async def test_the_answer_is_what_comparing_everything_gives(
    tmp_path: Path, dimension: int, query: str
) -> None:
    """Order, similarity and relevance of all lessons, from either table, equal the computed ones."""
    async with opened(tmp_path, HashedEmbedder(dimension=dimension)) as hood:
        await _fill(hood)
    async with opened(tmp_path, HashedEmbedder(dimension=dimension)) as hood:
        found = await hood.recall(query, threshold=0.0, limit=50)
        expected = await _computed(hood, query)
    assert len(found) == len(TEXTS)
    assert [one.relevance for one in found] == pytest.approx(
        [relevance for *_, relevance in expected], abs=2e-6
    )
    computed = {text: (similarity, relevance) for text, similarity, relevance in expected}
    for one in found:
        assert (one.similarity, one.relevance) == pytest.approx(computed[one.text], abs=2e-6)


async def test_near_misses_are_counted(tmp_path: Path) -> None:
    """What falls below the threshold by at most 0.1 is counted, and the nearest of all told; at it, shown."""
    async with opened(tmp_path, small()) as hood:
        await _fill(hood)
        everything = await hood.recall("the login test is flaky", threshold=0.0, limit=50)
        scores = sorted((one.similarity for one in everything), reverse=True)
        found = await hood.recall("the login test is flaky", threshold=scores[1])
        assert [one.similarity for one in found] == scores[:2] or {one.similarity for one in found} == set(
            scores[:2]
        )
        near = sum(score >= scores[1] - 0.1 for score in scores[2:])
        assert (found.near_misses, found.nearest_miss) == (near, scores[2])
        none = await hood.recall("the login test is flaky", threshold=1.0)
        near = sum(score >= 0.9 for score in scores)
        assert (len(none), none.near_misses, none.nearest_miss) == (0, near, scores[0])
        assert everything.near_misses == 0
        assert everything.nearest_miss is None


async def test_ones_own_lessons_come_first(tmp_path: Path) -> None:
    """The member asked for leads, though others' lessons fit better; then they follow by fit."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn_many(
            [good(text, member="qa" if n else "dev") for n, text in enumerate(reversed(TEXTS))]
        )
        query = "the login test is flaky"
        free = [one.text for one in await hood.recall(query, threshold=0.0, limit=50)]
        mine = await hood.recall(query, threshold=0.0, limit=50, member="dev")
    own = TEXTS[-1]
    assert free[0] == TEXTS[0] != own
    assert [one.text for one in mine] == [own, *(text for text in free if text != own)]


async def test_both_kinds_are_shown_and_evidence_breaks_ties(tmp_path: Path) -> None:
    """A success and a failure of one text are equally near; the better supported comes first."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn_many([bad("deploy on friday"), good("deploy on friday"), good("deploy on friday")])
        found = await hood.recall("deploy on friday")
        assert [(one.kind, one.evidence) for one in found] == [("learned", 2), ("antipattern", 1)]
        assert found[0].relevance == found[1].relevance
        assert len(found[0].episodes) == 2
        assert found[1].mean == pytest.approx(0.1)


async def test_filters_and_limits(tmp_path: Path) -> None:
    """Kind and skill exclude, the limit cuts, zero and below give none."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn_many(
            [good("deploy on friday"), bad("deploy on friday"), good("deploy on friday", skill="ops")]
        )
        assert [one.kind for one in await hood.recall("deploy friday", kind="antipattern")] == ["antipattern"]
        assert [one.skill for one in await hood.recall("deploy friday", skill="ops")] == ["ops"]
        assert len(await hood.recall("deploy friday", kind="learned")) == 2
        assert len(await hood.recall("deploy friday", limit=2)) == 2
        assert len(await hood.recall("deploy friday", limit=0)) == 0
        assert len(await hood.recall("deploy friday", limit=-1)) == 0
        assert len(await hood.recall("deploy friday", skill="absent")) == 0


async def test_the_scale_follows_the_scoring(tmp_path: Path) -> None:
    """Raw cosine and the TypeScript program's number, each with a threshold on its own scale."""
    async with opened(tmp_path, small()) as hood:
        await _fill(hood)
        vectors = await hood.space.embed(["login test", TEXTS[0]])
        cosine = float(np.dot(vectors[0].astype(np.float64), vectors[1]))
        for scoring, expected in (("cosine", cosine), ("squared_l2", 2 * cosine - 1)):
            found = await hood.recall("login test", scoring=scoring, threshold=-3)  # type: ignore[arg-type]
            assert next(one for one in found if one.text == TEXTS[0]).similarity == pytest.approx(
                expected, abs=2e-6
            )


async def test_what_the_index_keeps_of_a_lost_lesson_is_never_shown(tmp_path: Path) -> None:
    """Where another writer deleted or replaced the long-term row, the index row no longer counts."""
    async with opened(tmp_path, small()) as hood:
        receipts = await hood.learn_many([good("deploy on friday"), good("deploy on a monday morning")])
        await hood.store.delete(SHARED, [receipts[0].id or ""])
        lesson = next(one for one in await hood.lessons() if one.id == receipts[1].id)
        other = replace(lesson, text="quite another", pattern="learned:dev:test:quite another")
        await hood.store.upsert(SHARED, [lesson_record(other, at=utc_now())])
        assert len(await hood.recall("deploy on friday", threshold=0.0)) == 0
        near = await hood.learn_many([good("Deploy on a Monday morning!")])
        again = await hood.learn_many([good("deploy on friday"), good("deploy on a monday morning")])
        assert [receipt.status for receipt in near + again] == ["stored", "stored", "merged"]
    async with opened(tmp_path, small()) as hood:
        texts = sorted(lesson.text for lesson in await hood.lessons())
        assert texts == ["Deploy on a Monday morning!", "deploy on friday", "quite another"]
        assert {one.text for one in await hood.recall("quite another", threshold=0.99)} == {"quite another"}


@pytest.mark.parametrize("text", ["", "  \n", None, 7, "a\x00", "\udc00"])
async def test_there_is_nothing_to_recall_for(tmp_path: Path, text: Any) -> None:
    """An empty or unusable text is the caller's mistake."""
    async with opened(tmp_path) as hood:
        with pytest.raises(InvalidInputError):
            await hood.recall(text)


@pytest.mark.parametrize(
    "options",
    [{"kind": "good"}, {"scoring": "l2"}, {"threshold": math.nan}, {"threshold": 2}, {"threshold": -5}],
)
async def test_unusable_options_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """By name, with what would do."""
    async with opened(tmp_path) as hood:
        with pytest.raises(InvalidInputError, match=next(iter(options))):
            await hood.recall("deploy", **options)


@pytest.mark.parametrize(
    "text", ["!!!", "the of and", "🎉", "x" * 20_000, "SELECT '; DROP TABLE vectors; --", "\\%_*?(\"'"]
)
async def test_any_other_text_is_answered(tmp_path: Path, text: str) -> None:
    """Stop words, signs, long and hostile texts find what fits, or nothing."""
    async with opened(tmp_path, small()) as hood:
        await _fill(hood)
        assert len(await hood.recall(text)) <= 5
        assert len(await hood.recall(f"{text} {TEXTS[5]}", threshold=0.0, limit=1)) == 1


async def test_an_empty_store_recalls_nothing(tmp_path: Path) -> None:
    """No lessons, no misses, nothing degraded."""
    async with opened(tmp_path, small()) as hood:
        found = await hood.recall("anything")
    assert (list(found), found.near_misses, found.nearest_miss, found.degraded) == ([], 0, None, False)
    assert found.to_prompt() == ""


async def test_the_wording_embedder_says_that_it_compares_wording(tmp_path: Path) -> None:
    """It finds, and nobody is told that meaning was compared."""
    async with opened(tmp_path) as hood:
        await _fill(hood)
        found = await hood.recall("flaky login test")
    assert found[0].text == TEXTS[0]
    assert (found.semantic, found[0].semantic, found.degraded) == (False, False, False)


async def test_the_block_names_the_lessons(tmp_path: Path) -> None:
    """What goes into a prompt holds the texts and stays under its cap."""
    async with opened(tmp_path) as hood:
        await _fill(hood)
        found = await hood.recall("flaky login test", threshold=0.3)
    assert TEXTS[0] in found.to_prompt()
    assert len(found.to_prompt(max_bytes=600).encode()) <= 600
    assert found.to_dict()["lessons"][0]["text"] == TEXTS[0]
    assert list(found[0:2]) == list(found)[0:2]


async def test_ones_own_lesson_is_not_hidden_by_many_others(tmp_path: Path) -> None:
    """With more equally good lessons of others than are looked at, one's own still comes first."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good("restarted the build", member=f"m{n:03d}") for n in range(120)])
    async with opened(tmp_path) as hood:
        for member in ("m000", "m119"):
            found = await hood.recall("restarted the build", member=member, limit=3)
            assert found[0].member == member


async def test_a_large_limit_is_met(tmp_path: Path) -> None:
    """A limit above the usual number of candidates looks at as many as it asks for."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good("restarted the build", member=f"m{n:03d}") for n in range(120)])
        assert len(await hood.recall("restarted the build", limit=110)) == 110


@pytest.mark.parametrize(
    "wrong", [{"limit": "5"}, {"limit": True}, {"threshold": "0.5"}, {"scoring": "bogus"}]
)
async def test_wrong_options_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """An option that cannot be used is refused by name."""
    async with opened(tmp_path) as hood:
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            await hood.recall("restarted the build", **wrong)
