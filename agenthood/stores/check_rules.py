"""The promises that `agenthood store check` looks at, one function each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from agenthood.stores.base import Record
from agenthood.stores.check_ground import (
    CREATED,
    DIMENSION,
    TEXTS,
    Ground,
    UnmetError,
    axis_vector,
    sample,
    scan_all,
)
from agenthood.stores.check_sharing import lock, scopes, writers
from agenthood.stores.filters import (
    AllOf,
    AnyOf,
    AtLeast,
    Equals,
    Filter,
    Not,
    OneOf,
    StartsWith,
    matches,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping


async def _comes_back(ground: Ground) -> None:
    rows = [*map(sample, range(24)), sample(24, vector=None, lexical=None, terms=None)]
    result = await ground.store.upsert(ground.typed, rows)
    ground.expect("records written", len(rows), result.written)
    await ground.expect_rows("what was written", ground.typed, rows)


async def _replaces(ground: Ground) -> None:
    collection = ground.fresh()
    await ground.store.upsert(collection, [sample(1), sample(2)])
    bare = Record(sample(1).id, "new", {"type": "other"}, CREATED.format(1))
    await ground.store.upsert(collection, [sample(1, content="not the last of its id"), bare])
    await ground.expect_rows("a record replaced", collection, [bare, sample(2)])
    old = await ground.other.search_terms(collection, ["word1"])
    ground.expect("records with a term of the replaced one", [], [row.id for row in old])


async def _bad_record(ground: Ground) -> None:
    collection = ground.fresh()
    bad = sample(2, vector=np.full(DIMENSION, np.nan, dtype=np.float32))
    result = await ground.store.upsert(collection, [sample(1), bad, sample(3)])
    ground.expect("records refused", [bad.id], [one.id for one in result.rejected])
    ground.expect("records written", 2, result.written)
    await ground.expect_rows("its neighbours", collection, [sample(1), sample(3)])


_CLOSE: Final = 1e-5
_CONDITIONS: Final[tuple[Filter, ...]] = (
    Equals("kind", "learned"),
    Equals("kind", "Learned"),
    where(kind="learned", member="member 1"),
    Equals("content", TEXTS[1]),
    Equals("z", "3"),
    OneOf("member", ("member 0", "member 2", "nobody")),
    OneOf("member", ()),
    StartsWith("id", "row-01"),
    StartsWith("id", "row_"),
    StartsWith("content", "it's 100% a"),
    AtLeast("created_at", CREATED.format(3)),
    Not(Equals("member", "member 1")),
    Not(Equals("absent", "x")),
    AnyOf((Equals("kind", "antipattern"), StartsWith("content", "北"))),
    AllOf((Not(OneOf("id", ("row-003",))), AtLeast("id", "row-002"), Equals("kind", "antipattern"))),
    AnyOf(()),
    AllOf(()),
)


async def _filters(ground: Ground) -> None:
    collection, rows = ground.fresh(), [sample(number) for number in range(60)]
    await ground.store.upsert(collection, rows)
    for condition in _CONDITIONS:
        expected = {row.id for row in rows if matches(row, condition)}
        what = f"filter {condition!r:.120}"
        ground.expect(what, expected, await ground.other.ids(collection, condition=condition))
        ground.expect(f"{what}, count", len(expected), await ground.other.count(collection, condition))
        scanned = await scan_all(ground.other, collection, condition)
        ground.expect(f"{what}, scan", expected, {row.id for row in scanned})
        (hits,) = await ground.other.query(
            collection, axis_vector(0)[None], condition=condition, limit=100, unit=True
        )
        ground.expect(f"{what}, query", expected, {hit.record.id for hit in hits})


async def _scores(ground: Ground) -> None:
    collection = ground.fresh()
    vectors = {
        "same": axis_vector(0),
        "long": 3 * axis_vector(0),
        "across": axis_vector(1),
        "opposite": -axis_vector(0),
    }
    await ground.store.upsert(
        collection, [sample(1, id=name, vector=vector) for name, vector in vectors.items()]
    )
    (hits,) = await ground.other.query(collection, axis_vector(0)[None], limit=10)
    scores = {hit.record.id: hit.score for hit in hits}
    for name, expected in {"same": 1.0, "long": 1.0, "across": 0.0, "opposite": -1.0}.items():
        found = scores.get(name)
        if found is None or abs(found - expected) > _CLOSE:
            raise UnmetError(f"the cosine of {name!r}: expected {expected}, found {found!r:.40}")


async def _order(ground: Ground) -> None:
    collection = ground.fresh()
    rows = [sample(number) for number in range(40)]
    rows += [sample(number, id=f"tie {9 - number % 10}", vector=axis_vector(2)) for number in range(40, 50)]
    await ground.store.upsert(collection, rows)
    for field, query in (
        ("vector", axis_vector(2)),
        ("vector", sample(7).vector),
        ("lexical", sample(7).lexical),
    ):
        assert query is not None  # noqa: S101  for the type checker
        scores = {row.id: float(getattr(row, field) @ query) for row in rows}
        best = sorted(rows, key=lambda row: (-round(scores[row.id], 5), row.id))
        found = (await ground.other.query(collection, query[None], field=field, limit=15))[0]  # type: ignore[arg-type]
        ids = [hit.record.id for hit in found]
        close = [scores[id_] for id_ in ids]
        expected = [row.id for row in best[:15]]
        gaps = [scores[row.id] for row in best[:15]]
        if len(close) != len(gaps) or not np.allclose(close, gaps, atol=_CLOSE):
            ground.expect(f"the nearest by {field}", expected, ids)
    (hits,) = await ground.other.query(collection, axis_vector(2)[None], limit=10)
    ties = [f"tie {number}" for number in range(10)]
    ground.expect("ten with one score, by id", ties, [hit.record.id for hit in hits])
    (hits,) = await ground.other.query(collection, axis_vector(2)[None], limit=4)
    ground.expect("the first four of them", ties[:4], [hit.record.id for hit in hits])


async def _unicode(ground: Ground) -> None:
    collection = ground.fresh()
    rows = [
        sample(number, id=f"id {text[:60]}", content=text, metadata={"type": "check", "text": text})
        for number, text in enumerate(TEXTS)
    ]
    await ground.store.upsert(collection, rows)
    await ground.expect_rows("texts of all kinds", collection, rows)
    for row in rows:
        for condition in (Equals("id", row.id), Equals("text", row.content)):
            found = await ground.other.ids(collection, condition=condition)
            ground.expect(f"filter {condition!r:.80}", {row.id}, found)


async def _deletes(ground: Ground) -> None:
    collection, rows = ground.fresh(), [sample(number) for number in range(30)]
    await ground.store.upsert(collection, rows)
    removed = await ground.store.delete(collection, [*(row.id for row in rows[:20]), "nobody"])
    ground.expect("records deleted", 20, removed)
    await ground.expect_rows("what was not deleted", collection, rows[20:])
    (hits,) = await ground.other.query(collection, axis_vector(0)[None], limit=100)
    ground.expect("hits after that", {row.id for row in rows[20:]}, {hit.record.id for hit in hits})
    held = await ground.other.search_terms(collection, ["all"])
    ground.expect("terms after that", [row.id for row in rows[20:]], [row.id for row in held])
    ground.expect("vectors after that", 10, len((await ground.other.matrix(collection)).ids))
    ground.expect("records purged", 10, await ground.store.purge(collection, [row.id for row in rows]))
    await ground.expect_rows("what was not purged", collection, [])


async def _terms(ground: Ground) -> None:
    collection, rows = ground.fresh(), [sample(number) for number in range(30)]
    rows.append(sample(30, terms="北 京 don't"))
    await ground.store.upsert(collection, rows)
    for asked in (["word7"], ["word7", "word8"], ["third1"], ["all"], ["京"], ["nothing"], ["word"], []):
        expected = [row.id for row in rows if set((row.terms or "").split()) & set(asked)]
        found = await ground.other.search_terms(collection, asked)
        ground.expect(f"records with one of {asked}", expected, [row.id for row in found])
    condition = Equals("kind", "learned")
    found = await ground.other.search_terms(collection, ["third1"], condition=condition)
    expected = [row.id for row in rows if "third1" in (row.terms or "") and matches(row, condition)]
    ground.expect("terms under a filter", expected, [row.id for row in found])


CHECKS: Final[Mapping[str, Callable[[Ground], Awaitable[None]]]] = {
    "records come back as they were": _comes_back,
    "an upsert replaces the whole record": _replaces,
    "a bad record is refused alone": _bad_record,
    "filters give what brute force gives": _filters,
    "similarity is the cosine": _scores,
    "the nearest come first, ties by id": _order,
    "texts of all scripts are kept": _unicode,
    "what is deleted is gone": _deletes,
    "scopes see only their own": scopes,
    "the write lock has one holder": lock,
    "writers at once lose and mix nothing": writers,
    "terms are found": _terms,
}
"""What is promised -> the function that raises `UnmetError` if it is not kept."""
