"""Bad records are refused by name and take nobody down; odd but valid texts are taken as they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood.errors import InvalidInputError
from agenthood.stores.base import LEXICAL_DIMENSION, Record
from agenthood.stores.filters import AllOf, AtLeast, Equals, Not, OneOf, StartsWith
from stores.backends import SHARED, TYPED, WHOLE, everything, fields, full, record, unit
from stores.hostile import HOSTILE, MEGABYTE

if TYPE_CHECKING:
    from agenthood.stores.base import Collection, VectorStore
    from stores.backends import Backend

TESTED = WHOLE  # a view hands all this on as it is


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _with(position: int, value: float) -> np.ndarray:
    vector = unit(1).copy()
    vector[position] = value
    return vector


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "NUL in content": ({"content": "a\0b"}, "NUL.*position 1"),
    "surrogate in content": ({"content": "a\ud800b"}, "ud800.*position 1"),
    "content not text": ({"content": 5}, "content is 5, not text"),
    "created_at not text": ({"created_at": None}, "created_at is None, not text"),
    "NUL in created_at": ({"created_at": "\0"}, "created_at.*NUL"),
    "surrogate in terms": ({"terms": "a \udfff"}, "terms.*udfff"),
    "terms not text": ({"terms": ["a"]}, "terms is \\['a'\\], not text"),
    "NaN": ({"vector": _with(3, np.nan)}, "NaN or infinite"),
    "infinite": ({"vector": _with(0, -np.inf)}, "NaN or infinite"),
    "zero": ({"vector": np.zeros(8, np.float32)}, "all zero: give None"),
    "denormal": ({"vector": np.full(8, 1e-40, np.float32)}, "length"),
    "tiny float64": ({"vector": np.full(8, 1e-300)}, "length"),
    "huge": ({"vector": np.full(8, 1e30, np.float32)}, "length"),
    "huge float64": ({"vector": np.full(8, 1e300)}, "length"),
    "too short": ({"vector": unit(1, 7)}, r"shape \(7,\) instead of \(8,\)"),
    "too long": ({"vector": unit(1, 9)}, r"shape \(9,\) instead of \(8,\)"),
    "empty vector": ({"vector": np.zeros(0, np.float32)}, r"shape \(0,\)"),
    "matrix": ({"vector": unit(1)[None]}, r"shape \(1, 8\)"),
    "texts as vector": ({"vector": ["a"] * 8}, "real numbers"),
    "ragged vector": ({"vector": [[1.0], [1.0, 2.0]]}, "real numbers"),
    "complex vector": ({"vector": unit(1) * 1j}, "real numbers"),
    "bad lexical": ({"lexical": unit(1)}, r"shape \(8,\)"),
    "NaN in lexical": ({"lexical": np.full(LEXICAL_DIMENSION, np.nan)}, "NaN"),
    "list in metadata": ({"metadata": {"type": "t", "tags": ["a"]}}, "list under 'tags'.*content"),
    "object in metadata": ({"metadata": {"type": "t", "who": {"a": 1}}}, "dict under 'who'"),
    "tuple in metadata": ({"metadata": {"pair": (1, 2)}}, "tuple under 'pair'"),
    "no JSON in metadata": ({"metadata": {"what": object()}}, "metadata cannot be stored"),
    "bytes in metadata": ({"metadata": {"what": b"x"}}, "metadata cannot be stored"),
    "NaN in metadata": ({"metadata": {"what": float("nan")}}, "metadata cannot be stored"),
    "deep metadata": ({"metadata": {"what": _nested(100_000)}}, "metadata cannot be stored"),
    "NUL in metadata": ({"metadata": {"what": "\0"}}, "under 'what'.*NUL"),
    "surrogate in metadata": ({"metadata": {"what": "\udc00"}}, "under 'what'.*udc00"),
    "NUL in metadata key": ({"metadata": {"wh\0at": "x"}}, "NUL"),
    "number as metadata key": ({"metadata": {1: "x"}}, "key 1"),
    "list as metadata": ({"metadata": [1]}, "metadata cannot be stored"),
}  # fmt: skip


async def test_a_bad_record_is_refused_by_name(store: VectorStore):
    """A record no backend may see is rejected with its id and the reason, in one line, whatever is wrong with it."""
    result = await store.upsert(TYPED, [record(name, **changes) for name, (changes, _) in BAD.items()])
    assert result.written == 0
    assert [rejection.id for rejection in result.rejected] == list(BAD)
    for rejection, (_, reason) in zip(result.rejected, BAD.values(), strict=True):
        assert "\n" not in rejection.reason
        assert re.search(reason, rejection.reason), (rejection, reason)


async def test_bad_ids_are_refused(store: VectorStore):
    """An id that is empty, no text, or that no backend can hold is rejected and named as far as it can be."""
    ids: list[Any] = ["", "a\0", "\ud800", 5, None]
    result = await store.upsert(TYPED, [Record(id_, "content", {}, "") for id_ in ids])
    assert [rejection.id for rejection in result.rejected] == ["", "a\0", "\ud800", "5", "None"]
    assert result.written == 0


async def test_one_bad_record_takes_nobody_down(store: VectorStore, backend: Backend, collection: Collection):
    """Of a batch full of bad records exactly those are rejected, in order, and the rest is written."""
    bad = [record(f"bad {name}", **changes) for name, (changes, _) in BAD.items()]
    good = [full(number) for number in range(len(bad))]
    result = await store.upsert(collection, [row for pair in zip(good, bad, strict=True) for row in pair])
    assert [rejection.id for rejection in result.rejected] == [row.id for row in bad]
    assert result.written == len(good)
    async with backend.reopened() as again:
        assert await again.ids(collection) == {row.id for row in good}


async def test_a_bad_record_does_not_hide_a_good_one(store: VectorStore, collection: Collection):
    """A valid record is kept though a later one of the same id is refused."""
    result = await store.upsert(collection, [record("a", "good"), record("a", "bad", vector=unit(1, 3))])
    assert (result.written, len(result.rejected)) == (1, 1)
    assert (await store.get(collection, ["a"]))["a"].content == "good"


async def test_plain_lists_and_float64_are_vectors_too(store: VectorStore, backend: Backend):
    """What converts to float32 without loss of meaning is taken."""
    vectors: dict[str, Any] = {
        "list": [1.0, 0, 0, 0, 0, 0, 0, 0],
        "float64": np.eye(8)[1],
        "integers": np.eye(8, dtype=np.int64)[2],
        "strided": np.eye(16, dtype=np.float32)[6, ::2],
    }
    result = await store.upsert(TYPED, [record(name, vector=vector) for name, vector in vectors.items()])
    assert result.rejected == ()
    async with backend.reopened() as again:
        found = await again.get(TYPED, list(vectors), vectors=True)
    assert {name: int(row.vector.argmax()) for name, row in found.items() if row.vector is not None} == {
        "list": 0, "float64": 1, "integers": 2, "strided": 3,
    }  # fmt: skip


async def test_hostile_ids(store: VectorStore, backend: Backend, collection: Collection):
    """Every odd id is stored, read, filtered by, replaced and deleted on its own, without touching another."""
    await store.upsert(collection, [record(id_, f"<{id_}>") for id_ in HOSTILE])
    async with backend.reopened() as again:
        assert await again.ids(collection) == set(HOSTILE)
        for id_ in HOSTILE:
            assert {key: row.content for key, row in (await again.get(collection, [id_])).items()} == {
                id_: f"<{id_}>"
            }
            assert await again.ids(collection, condition=Equals("id", id_)) == {id_}
            await again.upsert(collection, [record(id_, "new")])
        rows = await everything(again, collection)
        assert sorted((row.id, row.content) for row in rows) == sorted((id_, "new") for id_ in HOSTILE)
        for number, id_ in enumerate(HOSTILE):
            assert await again.delete(collection, [id_]) == 1
            assert await again.count(collection) == len(HOSTILE) - number - 1


async def test_hostile_contents_and_metadata(store: VectorStore, backend: Backend, collection: Collection):
    """Every odd text comes back equal as content, as metadata value and as metadata key, and can be filtered by."""
    rows = [
        record(str(number), text, metadata={"member": text, "note": text, f"key {text}": "x"}, vector=unit(1))
        for number, text in enumerate(HOSTILE)
    ]  # fmt: skip
    await store.upsert(collection, rows)
    async with backend.reopened() as again:
        found = await again.get(collection, [row.id for row in rows], vectors=True)
        assert [fields(found[row.id]) for row in rows] == [fields(row) for row in rows]
        for row in rows:
            text = row.content
            for name, value in (("content", text), ("member", text), ("note", text), (f"key {text}", "x")):
                assert await again.ids(collection, condition=Equals(name, value)) == {row.id}, (name, value)
            condition = AllOf((Equals("note", text), Equals("member", text)))
            (hits,) = await again.query(collection, unit(1)[None], condition=condition)
            assert [hit.record.id for hit in hits] == [row.id]


async def test_a_megabyte(store: VectorStore, backend: Backend, collection: Collection):
    """Ids, contents and metadata of 1 MB work, also in filters."""
    big = record(MEGABYTE, MEGABYTE, metadata={"type": "t", "member": MEGABYTE, "note": MEGABYTE})
    await store.upsert(collection, [big, record("small")])
    async with backend.reopened() as again:
        assert fields((await again.get(collection, [MEGABYTE]))[MEGABYTE]) == fields(big)
        for name in ("id", "content", "member", "note"):
            assert await again.count(collection, Equals(name, MEGABYTE)) == 1
            assert await again.count(collection, Not(Equals(name, MEGABYTE))) == 1
        assert await again.count(collection, StartsWith("id", MEGABYTE)) == 1
        assert await again.delete(collection, [MEGABYTE]) == 1
        assert await again.ids(collection) == {"small"}


async def test_filters_that_no_record_can_satisfy(store: VectorStore, collection: Collection):
    """NUL and lone surrogates in a filter's values match nothing, or sort where they belong, and never fail."""
    await store.upsert(collection, [record("a", "\ud7ff"), record("b", "\ue000"), record("c", "😀")])
    for text in ("\0", "\ud800", "a\ud800"):
        for name in ("id", "content", "member", "note"):
            assert await store.ids(collection, condition=Equals(name, text)) == set()
            assert await store.ids(collection, condition=OneOf(name, (text,))) == set()
            assert await store.count(collection, Not(OneOf(name, (text, "x")))) == 3
        assert await store.ids(collection, condition=StartsWith("content", text)) == set()
    assert await store.ids(collection, condition=OneOf("id", ("\ud800", "a"))) == {"a"}
    assert await store.ids(collection, condition=AtLeast("content", "\ud800x")) == {"b", "c"}
    assert await store.search_terms(TYPED, ["\0", "\ud800", ""]) == []


@pytest.mark.parametrize("kind", [StartsWith, AtLeast])
def test_prefixes_and_ranges_are_for_own_fields(kind: type[StartsWith | AtLeast]):
    """A metadata key, or SQL in the place of a field, is refused when the filter is built."""
    for name in ("kind", "member", "metadata", "id) OR (1=1", ""):
        with pytest.raises(InvalidInputError, match="cannot be compared this way"):
            kind(name, "x")


async def test_sql_in_the_place_of_a_field_is_a_metadata_key(store: VectorStore):
    """A field name is never run as SQL."""
    name = "id) OR (1=1"
    await store.upsert(SHARED, [record("a"), record("b", metadata={name: "x"})])
    assert await store.ids(SHARED, condition=Equals(name, "x")) == {"b"}
    assert await store.ids(SHARED, condition=OneOf("metadata) OR true --", ("x", "y"))) == set()
