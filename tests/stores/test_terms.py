"""Search by term: exactly the records whose `terms` hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.stores.filters import Equals, Not
from stores.backends import TYPED, full, record

if TYPE_CHECKING:
    from agenthood.stores.base import VectorStore
    from stores.backends import Backend


async def test_a_term_finds_exactly_its_records(store: VectorStore, backend: Backend):
    """A term is not found inside another one, in another case, with an accent, or by its stem."""
    rows = {
        "a": "test testing Test",
        "b": "testing",
        "c": "tést",
        "d": "the te",
        "e": "test_case",
        "f": "test-case",
    }
    await store.upsert(TYPED, [record(id_, terms=text) for id_, text in rows.items()])
    await store.upsert(TYPED, [record("none"), record("empty", terms="")])
    asked = [
        "test",
        "testing",
        "Test",
        "tést",
        "tes",
        "the",
        "te",
        "test_case",
        "test-case",
        "case",
        "none",
        "*",
        "te*",
    ]
    async with backend.reopened() as again:
        found = await again.match_terms(TYPED, asked)
    assert found == {
        term: sorted(id_ for id_, text in rows.items() if term in text.split()) for term in asked
    }


async def test_terms_in_any_script(store: VectorStore, backend: Backend):
    """CJK, emoji, marks of query languages and very long terms are terms like any other."""
    terms = [
        "登", "录", "登录", "中文", "ログイン", "😀", "👨\u200d👩\u200d👧",
        "a'b", 'a"b', "a\\b", "a:b", "a+b", "-a", "(a)", "a~2",
        "a^2", "AND", "OR", "NOT", "%", "_", "{{x}}", "w" * 5_000, "ß", "İ", "a",
    ]  # fmt: skip
    await store.upsert(
        TYPED, [record(f"{n:02d}", terms=f"before {term} after") for n, term in enumerate(terms)]
    )
    async with backend.reopened() as again:
        found = await again.match_terms(TYPED, terms)
    assert found == {term: [f"{n:02d}"] for n, term in enumerate(terms)}


async def test_terms_follow_every_write(store: VectorStore, backend: Backend):
    """Records written, replaced and deleted after the index was built, and after it was rebuilt, count at once."""
    await store.upsert(TYPED, [full(number) for number in range(50)])
    await store.maintain(TYPED)
    await store.upsert(TYPED, [full(50), full(3, terms="other")])
    await store.delete(TYPED, [full(4).id])
    expected = {
        "all": sorted(full(n).id for n in range(51) if n not in {3, 4}),
        "word3": [],
        "word4": [],
        "word50": [full(50).id],
        "other": [full(3).id],
    }
    for _ in range(2):
        async with backend.reopened() as again:
            assert await again.match_terms(TYPED, list(expected)) == expected
            await again.maintain(TYPED)


async def test_filter_and_limit(store: VectorStore, backend: Backend):
    """A filter is applied before the limit; the limit keeps that many per term; 0 or less keeps none."""
    await store.upsert(TYPED, [full(number) for number in range(300)])
    async with backend.reopened() as again:
        for condition in (Equals("member", "member-1"), Not(Equals("member", "member-1"))):
            expected = sorted(await again.ids(TYPED, condition=condition))
            assert (await again.match_terms(TYPED, ["all"], condition=condition))["all"] == expected
        cut = await again.match_terms(TYPED, ["all", "third1", "word7"], limit=20)
        assert [len(cut[term]) for term in ("all", "third1", "word7")] == [20, 20, 1]
        assert cut["all"] == sorted(set(cut["all"]))
        third = set((await again.match_terms(TYPED, ["third1"]))["third1"])
        assert len(third) == 100
        assert set(cut["third1"]) <= third
        for limit in (0, -5):
            assert await again.match_terms(TYPED, ["all"], limit=limit) == {"all": []}
        assert await again.match_terms(TYPED, []) == {}


async def test_more_than_a_thousand_hits(store: VectorStore):
    """The limit is as high as one asks."""
    await store.upsert(TYPED, [full(number) for number in range(2_500)])
    assert len((await store.match_terms(TYPED, ["all"], limit=5_000))["all"]) == 2_500
    assert len((await store.match_terms(TYPED, ["all"]))["all"]) == 1_000


async def test_all_terms_at_once(store: VectorStore, backend: Backend):
    """The records that hold any of the terms, whole but without vectors, by id; under a filter, up to the limit."""
    await store.upsert(TYPED, [full(number) for number in range(60)])
    await store.upsert(TYPED, [record("none"), record("odd", terms="it's 登 OR")])
    async with backend.reopened() as again:
        found = await again.search_terms(TYPED, ["word7", "third1", "unknown", "\0", "", "\ud800", "登"])
        wanted = [full(n) for n in range(60) if n == 7 or n % 3 == 1]
        assert [row.id for row in found] == sorted(["odd", *(row.id for row in wanted)])
        assert {row.id: (row.content, dict(row.metadata), row.terms, row.vector) for row in found[1:]} == {
            row.id: (row.content, dict(row.metadata), row.terms, None) for row in wanted
        }
        only = await again.search_terms(TYPED, ["all"], condition=Equals("member", "member-2"))
        assert [row.id for row in only] == [full(n).id for n in range(2, 60, 3)]
        assert len(await again.search_terms(TYPED, ["all", "word3"], limit=10)) == 10
        for terms, limit in ((["all"], 0), (["all"], -1), ([], 10), (["\0"], 10)):
            assert await again.search_terms(TYPED, terms, limit=limit) == []
