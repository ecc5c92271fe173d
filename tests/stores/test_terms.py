"""Search by terms: exactly the records whose `terms` hold one of them, and the best of them where there are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agenthood.stores.filters import Equals, Not
from stores.backends import TYPED, full, record

if TYPE_CHECKING:
    from agenthood.stores.base import VectorStore
    from stores.backends import Backend


async def found(store: VectorStore, *terms: str) -> list[str]:
    """The ids of what holds one of `terms`."""
    return [row.id for row in await store.search_terms(TYPED, terms)]


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
    others = ["test_case", "test-case", "case", "none", "*", "te*"]
    async with backend.reopened() as again:
        for term in ["test", "testing", "Test", "tést", "tes", "the", "te", *others]:
            holders = sorted(id_ for id_, text in rows.items() if term in text.split())
            assert await found(again, term) == holders, term


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
        for number, term in enumerate(terms):
            assert await found(again, term) == [f"{number:02d}"], term
        assert await found(again, *terms) == [f"{number:02d}" for number in range(len(terms))]


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
            assert {term: await found(again, term) for term in expected} == expected
            await again.maintain(TYPED)


async def test_a_filter_comes_before_the_limit(store: VectorStore, backend: Backend):
    """What a filter leaves out takes nobody's place; a limit of 0 or less keeps none."""
    await store.upsert(TYPED, [full(number) for number in range(300)])
    async with backend.reopened() as again:
        for condition in (Equals("member", "member-1"), Not(Equals("member", "member-1"))):
            expected = sorted(await again.ids(TYPED, condition=condition))
            rows = await again.search_terms(TYPED, ["all"], condition=condition, limit=len(expected))
            assert [row.id for row in rows] == expected
        for terms, limit in ((["all"], 0), (["all"], -5), ([], 10), (["\0"], 10)):
            assert await again.search_terms(TYPED, terms, limit=limit) == []


async def test_more_than_five_hundred_hits(store: VectorStore):
    """The limit is as high as one asks, and 500 unless one does."""
    await store.upsert(TYPED, [full(number) for number in range(2_500)])
    assert len(await store.search_terms(TYPED, ["all"], limit=5_000)) == 2_500
    assert len(await store.search_terms(TYPED, ["all"])) == 500


async def test_at_the_limit_the_best(store: VectorStore, backend: Backend):
    """Where more records hold a term than may be given, those with rarer ones of the terms, or more of them, are."""
    await store.upsert(TYPED, [full(number) for number in range(400)])
    await store.maintain(TYPED)
    await store.upsert(TYPED, [full(number) for number in range(400, 500)])
    wanted = [full(number).id for number in (7, 130, 250, 460)]
    terms = ["all", "third1", "word7", "word130", "word250", "word460"]
    async with backend.reopened() as again:
        assert [row.id for row in await again.search_terms(TYPED, terms, limit=4)] == wanted
        more = {row.id for row in await again.search_terms(TYPED, terms, limit=100)}
        third = {full(number).id for number in range(500) if number % 3 == 1}
        assert len(more) == 100
        assert more >= set(wanted)
        assert more - set(wanted) <= third


async def test_records_come_whole(store: VectorStore, backend: Backend):
    """The records are given with content, metadata and terms, without vectors, sorted by id."""
    await store.upsert(TYPED, [full(number) for number in range(60)])
    await store.upsert(TYPED, [record("none"), record("odd", terms="it's 登 OR")])
    async with backend.reopened() as again:
        rows = await again.search_terms(TYPED, ["word7", "third1", "unknown", "\0", "", "\ud800", "登"])
    wanted = [full(n) for n in range(60) if n == 7 or n % 3 == 1]
    assert [row.id for row in rows] == sorted(["odd", *(row.id for row in wanted)])
    assert {row.id: (row.content, dict(row.metadata), row.terms, row.vector) for row in rows[1:]} == {
        row.id: (row.content, dict(row.metadata), row.terms, None) for row in wanted
    }


words = st.sampled_from(["a", "A", "ab", "b", "c", "the", "登", "登录", "é", "e", "-", "😀"])
unknown = st.text(max_size=2).filter(lambda text: text.split() in ([], [text]))


@settings(max_examples=6, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    held=st.lists(st.lists(words, max_size=5), min_size=30, max_size=60),
    asked=st.lists(st.lists(words | unknown, max_size=4), min_size=8, max_size=8),
)
async def test_below_the_limit_exactly_the_holders(
    store: VectorStore, held: list[list[str]], asked: list[list[str]]
):
    """For any terms, with fewer holders than the limit, the answer is what looking through all records gives."""
    await store.delete(TYPED, list(await store.ids(TYPED)))
    rows = {f"r{number:02d}": terms for number, terms in enumerate(held)}
    await store.upsert(TYPED, [record(id_, terms=" ".join(terms)) for id_, terms in rows.items()])
    for terms in asked:
        assert await found(store, *terms) == sorted(
            id_ for id_, text in rows.items() if set(text) & set(terms)
        )
