"""Vector search in a LanceDB table: exact cosines, ties in order, no more than was asked for.

LanceDB's own refinement reads every candidate's vector, orders them by it, and then reads what is asked for. Here the
candidates are read once with all of it and ordered by scores that are exact and computed anyway.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agenthood.stores.base import Collection, Hit, Vector, VectorField
from agenthood.stores.filters import Filter, matches
from agenthood.stores.lance.rows import TEXT_COLUMNS, matrix_of, to_records
from agenthood.stores.scoring import TIE_MARGIN, Scores, apart, best_first, cosines

if TYPE_CHECKING:
    import numpy.typing as npt
    from lancedb.table import AsyncTable

_GROWTH = 4
# All partitions up to 800,000 rows. Of 122 partitions with real texts 100 hold 99.3 % of the ten nearest rows, 80 hold
# 98.2 % and 50 hold 94.9 %; finer partitions do no better.
_PROBES = 100
# A quarter more rows are read than are wanted, since the index of our own tables knows them by rounded distances. These
# moved a row by 4 places in the middle, by 11 in one of 100 searches among 10,000 to 1,000,000 clustered vectors.
_SPARE = 1.25
# From so many rows on, and up to such a limit, the nearest rows are looked through for those that fulfil a condition:
# somewhat more than twice as many. At 100,000 rows that saves 3 ms and, where too few fulfil it, costs a search of 5
# more, so it is given up for a condition that misses in two of five, the latest counting most.
_SIFTED_FROM = 10_000
_MOST_SIFTED = 20
_MISSES = 0.4
_MEMORY = 0.8
_MOST_NARROW = 256


def columns_of(collection: Collection, *, vectors: bool) -> list[str]:
    """The columns that make up a record of the collection."""
    columns = [*TEXT_COLUMNS]
    if collection.typed:
        columns.append("terms")
    if vectors:
        columns += ["vector", "lexical"] if collection.lexical else ["vector"]
    return columns


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a search: see `VectorStore.query`.

    Attributes:
        field: as there.
        condition: as there.
        selected: the condition as SQL, and what else leaves rows out.
        limit: as there.
        unit: as there.
        with_vectors: as there.
    """

    field: VectorField
    condition: Filter | None
    selected: str | None
    limit: int
    unit: bool
    with_vectors: bool


class SearchExperience:
    """What searching has told of collections: which are large, and which conditions few of the nearest rows fulfil.

    Of the conditions the least recently met are forgotten.
    """

    def __init__(self) -> None:
        self._missed: OrderedDict[tuple[str, Filter], float] = OrderedDict()
        self._large: set[str] = set()

    def forget(self, name: str) -> None:
        """The collection of this name is gone."""
        self._large.discard(name)
        for key in [key for key in self._missed if key[0] == name]:
            del self._missed[key]

    async def is_large(self, table: AsyncTable, collection: Collection) -> bool:
        """Whether the table has, or had once, so many rows that looking through the nearest is worth while."""
        if collection.name not in self._large and await table.count_rows() >= _SIFTED_FROM:
            self._large.add(collection.name)
        return collection.name in self._large

    def note(self, collection: Collection, condition: Filter, *, missed: bool) -> None:
        """Whether so many of the nearest rows did not fulfil it that others had to be searched for."""
        key = (collection.name, condition)
        self._missed[key] = _MEMORY * self._missed.pop(key, 0.0) + (1 - _MEMORY) * missed
        if len(self._missed) > _MOST_NARROW:
            self._missed.popitem(last=False)

    def is_narrow(self, collection: Collection, condition: Filter) -> bool:
        """Whether it was missed so often lately that it is not worth another try."""
        return self._missed.get((collection.name, condition), 0.0) > _MISSES


@dataclass(frozen=True, slots=True)
class _Nearest:
    """The nearest rows of one query, best first, ties by id.

    Attributes:
        hits: the rows.
        complete: whether there are no others.
    """

    hits: list[Hit]
    complete: bool

    def settles(self, hits: list[Hit], limit: int) -> bool:
        """Whether the `limit` best are among `hits`, which are some of these: no row beyond ties with the last."""
        return self.complete or (len(hits) >= limit and apart(hits[limit - 1], self.hits[-1]))


async def search(
    table: AsyncTable, collection: Collection, queries: Vector, asked: Asked, experience: SearchExperience
) -> list[list[Hit]]:
    """The `limit` nearest rows for each query by exact cosine, best first, ties by id."""
    wanted = asked.limit + TIE_MARGIN
    if _may_sift(collection, queries, asked, experience) and await experience.is_large(table, collection):
        (row,) = await _nearest(table, collection, queries, asked, 2 * (asked.limit + 1), None)
        sifted = _sifted(row, asked)
        experience.note(collection, cast("Filter", asked.condition), missed=sifted is None)
        if sifted is not None:
            return [sifted]
    while True:
        rows = await _nearest(table, collection, queries, asked, wanted, asked.selected)
        if all(row.settles(row.hits, asked.limit) for row in rows):
            return [row.hits[: asked.limit] for row in rows]
        wanted *= _GROWTH


def _may_sift(collection: Collection, queries: Vector, asked: Asked, experience: SearchExperience) -> bool:
    return (
        asked.condition is not None
        and collection.typed
        and len(queries) == 1
        and asked.limit <= _MOST_SIFTED
        and not experience.is_narrow(collection, asked.condition)
    )


def _sifted(row: _Nearest, asked: Asked) -> list[Hit] | None:
    """The hits among the nearest of all rows; None if too few of them fulfil the condition.

    An index looks at every row's bit of a condition, which at 100,000 rows takes longer than the rest of the search.
    """
    fitting = [hit for hit in row.hits if matches(hit.record, cast("Filter", asked.condition))]
    return fitting[: asked.limit] if row.settles(fitting, asked.limit) else None


async def _nearest(  # noqa: PLR0913, PLR0917  one search
    table: AsyncTable,
    collection: Collection,
    queries: Vector,
    asked: Asked,
    wanted: int,
    condition: str | None,
) -> list[_Nearest]:
    """The `wanted` nearest rows of each query that fulfil `condition`."""
    # What the shared table's index holds is exact.
    fetched = int(wanted * _SPARE) if collection.typed else wanted
    found = await _read(table, collection, queries, asked, fetched, condition)
    positions = _positions(found)
    scores = cosines(matrix_of(found[asked.field]), queries if len(queries) == 1 else queries[positions])
    records = found if asked.with_vectors else found.drop_columns([asked.field])
    return [
        _best(records, scores, np.flatnonzero(positions == position), fetched, wanted)
        for position in range(len(queries))
    ]


def _best(
    found: Any,  # noqa: ANN401  a pyarrow.Table
    scores: Scores,
    rows: npt.NDArray[np.intp],
    fetched: int,
    wanted: int,
) -> _Nearest:
    """The `wanted` best of those of the rows found that belong to one query."""
    # Another program may have left NaN or infinity, and the shared table has zeros where there is no vector.
    usable = rows[np.isfinite(scores[rows])]
    best = usable[np.argsort(-scores[usable], kind="stable")][:wanted]
    hits: dict[str, Hit] = {}
    for record, score in zip(to_records(found.take(best)), scores[best].tolist(), strict=True):
        _keep_newest(hits, Hit(record, score))
    return _Nearest(sorted(hits.values(), key=best_first), len(rows) < fetched and len(usable) <= wanted)


async def _read(  # noqa: PLR0913, PLR0917  one search
    table: AsyncTable,
    collection: Collection,
    queries: Vector,
    asked: Asked,
    limit: int,
    condition: str | None,
) -> Any:  # noqa: ANN401  a pyarrow.Table
    """For each query the `limit` rows that the index takes for the nearest."""
    # The vector searched by is needed in any case: scores are computed from it.
    columns = [*dict.fromkeys([*columns_of(collection, vectors=asked.with_vectors), asked.field])]
    # The shared table's index is l2, which for unit vectors ranks as cosine does. Where there may be others
    # cosine is asked for, which passes that index over.
    distance = "l2" if asked.unit and not collection.typed else "cosine"
    nearest = (
        table.query()
        .nearest_to(list(queries))
        .column(asked.field)
        .distance_type(distance)
        .select([*columns, "_distance"])
        .limit(limit)
    )
    if condition:  # in any partitions, or a selective one would leave too few rows
        nearest = nearest.where(condition).maximum_nprobes(0).minimum_nprobes(_PROBES)
    else:
        nearest = nearest.nprobes(_PROBES)
    return await nearest.to_arrow()


def _positions(found: Any) -> npt.NDArray[np.intp]:  # noqa: ANN401  a pyarrow.Table
    """Of which query each row found is; LanceDB does not say so if there is one."""
    if "query_index" not in found.column_names:
        return np.zeros(found.num_rows, dtype=np.intp)
    return np.asarray(found["query_index"].to_numpy(), dtype=np.intp)


def _keep_newest(row: dict[str, Hit], hit: Hit) -> None:
    known = row.get(hit.record.id)
    if known is None or hit.record.created_at >= known.record.created_at:
        row[hit.record.id] = hit
