"""A filter gives exactly the records for which `filters.matches` is true: random records, random filters."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agenthood.errors import InvalidInputError
from agenthood.stores.base import TYPED_FIELDS, Collection
from agenthood.stores.filters import AllOf, AnyOf, AtLeast, Equals, Not, OneOf, StartsWith, matches, where
from stores.backends import everything, record, unit
from stores.hostile import texts

if TYPE_CHECKING:
    from agenthood.stores.base import Record, VectorStore
    from agenthood.stores.filters import Filter

KEYS = (
    "type", *TYPED_FIELDS, "space", "a_b", "a%b", "axb", 'quo"te', "te", 'quo\\"te', "back\\slash", "slash", "it's", "",
    "{", '"', "te,", "te:",
)  # fmt: skip
OWN = ("id", "content", "created_at")
_numbers = count()  # each example has a collection of its own
TIMES = [f"2026-06-0{day}T00:00:00.000Z" for day in range(1, 6)]

values = (
    texts
    | st.sampled_from([",", ":", "{", "}", '"', ',"te":"x"', "x"])
    | st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
)
records = st.lists(
    st.builds(
        record,
        texts.filter(bool),
        texts,
        metadata=st.dictionaries(st.sampled_from(KEYS), values, max_size=6),
        created_at=st.sampled_from(TIMES),
        vector=st.none() | st.integers(0, 1_000).map(unit),
    ),
    min_size=10,
    max_size=25,
    unique_by=lambda row: row.id,
)


def conditions(rows: list[Record]) -> st.SearchStrategy[Filter]:
    """Filters over all fields, whose values mostly occur in `rows`, so that they match some and not others."""
    pool = {
        str(text) for row in rows for text in (row.id, row.content, row.created_at, *row.metadata.values())
    }
    known = st.sampled_from(sorted(pool))
    value = known | texts
    prefix = st.builds(lambda text, end: text[:end], known, st.integers(0, 4)) | value
    fields = st.sampled_from((*OWN, *KEYS))
    leaves = st.one_of(
        st.builds(Equals, fields, value),
        st.builds(OneOf, fields, st.lists(value, max_size=4).map(tuple)),
        st.builds(StartsWith, st.sampled_from(OWN), prefix),
        st.builds(AtLeast, st.sampled_from(OWN), prefix),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(AllOf, st.lists(inner, max_size=3).map(tuple)),
            st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Not, inner),
        ),
        max_leaves=6,
    )


async def _check(store: VectorStore, collection: Collection, rows: list[Record], condition: Filter) -> None:
    expected = {row.id for row in rows if matches(row, condition)}
    found = await everything(store, collection, condition)
    assert sorted(row.id for row in found) == sorted(expected), condition
    assert await store.ids(collection, condition=condition) == expected, condition
    assert await store.count(collection, condition) == len(expected), condition
    (hits,) = await store.query(collection, unit(0)[None], condition=condition, limit=100)
    with_vector = {row.id for row in rows if row.vector is not None}
    assert sorted(hit.record.id for hit in hits) == sorted(expected & with_vector), condition


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "shared"])
# Shrinking would write to the disk for minutes; the message names the filter.
@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    case=records.flatmap(
        lambda rows: st.tuples(st.just(rows), st.lists(conditions(rows), min_size=12, max_size=12))
    )
)
async def test_every_reader_agrees_with_the_definition(
    store: VectorStore, typed: bool, case: tuple[list[Record], list[Filter]]
):
    """Scan, ids, count and query agree with brute force for every kind of filter, nested as you like."""
    rows, asked = case
    collection = Collection(f"c{next(_numbers)}", 8, typed=typed)
    await store.upsert(collection, rows[::2])
    await store.upsert(collection, rows)
    for condition in asked:
        await _check(store, collection, rows, condition)


def test_what_filters_mean():
    """The definition itself, by hand: absent fields, other kinds of values, empty parts."""
    row = record("id'1", "text", metadata={"type": "t", "n": 1, "none": None})
    right: list[Filter] = [
        Equals("id", "id'1"), OneOf("type", ("x", "t")), StartsWith("content", ""), StartsWith("content", "te"),
        AtLeast("id", "id"), AllOf(()), Not(AnyOf(())), Not(Equals("absent", "")), Not(Equals("n", "1")),
        where(type="t"),
    ]  # fmt: skip
    wrong: list[Filter] = [
        Equals("absent", ""), Equals("n", "1"), Equals("none", "None"), OneOf("type", ()), StartsWith("content", "ext"),
        AtLeast("id", "ie"), AnyOf(()), Not(AllOf(())), where(type="t", n="1"),
    ]  # fmt: skip
    assert [matches(row, condition) for condition in right] == [True] * len(right)
    assert [matches(row, condition) for condition in wrong] == [False] * len(wrong)


async def test_a_pair_is_no_other_pair(store: VectorStore, collection: Collection):
    """A name that ends as another does, and texts that look like JSON, are told from the pair that is asked for."""
    cases: list[dict[str, Any]] = [
        {"te": "x"},
        {"type": "t", "te": "x"},
        {'quo"te': "x"},
        {"note": '{"te":"x"}'},
        {"note": ',"te":"x",'},
        {"{": "te", "note": "x"},
        {"note": "{", "te": "y"},
        {"te": 'x","te":"y'},
        {"\\": "te", ",": ":", "te\\": "x"},
    ]
    rows = [record(f"r{number}", metadata=metadata) for number, metadata in enumerate(cases)]
    await store.upsert(collection, rows)
    assert await store.ids(collection, condition=Equals("te", "x")) == {"r0", "r1"}
    assert await store.ids(collection, condition=OneOf('quo"te', ("x", "y"))) == {"r2"}
    assert await store.ids(collection, condition=Equals("{", "te")) == {"r5"}


@pytest.mark.parametrize("name", [":", ",", "}", "]", ":1,", ",x"])
def test_names_that_look_like_the_end_of_a_value_are_refused(name: str):
    """A filter on such a key could not be told from others: the error names it."""
    for kind, value in ((Equals, ","), (OneOf, (",",))):
        with pytest.raises(InvalidInputError, match=re.escape(repr(name))):
            kind(name, value)


async def test_prefixes_end_where_they_should(store: VectorStore, collection: Collection):
    """Neighbours in the order of code points are told apart, also at the gaps and the end of Unicode."""
    stems = (
        "",
        "a",
        "ab",
        "a\ud7ff",
        "a\ue000",
        "\U0010ffff",
        "a\U0010ffff",
        "a\U0010ffff\U0010ffff",
        "é",
        "A",
        "%",
        "_",
    )
    ids = [
        stem + end
        for stem in stems
        for end in ("", "!", "z", "\ud7ff", "\ue000", "\U0010ffff", "é", "%")
        if stem + end
    ]
    rows = [record(id_) for id_ in dict.fromkeys((*ids, "b", "ac", "`", "B", "ê"))]
    await store.upsert(collection, rows)
    for prefix in dict.fromkeys((*stems, *ids)):
        expected = {row.id for row in rows if row.id.startswith(prefix)}
        assert await store.ids(collection, condition=StartsWith("id", prefix)) == expected, prefix
