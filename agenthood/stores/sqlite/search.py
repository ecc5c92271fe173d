"""Vector search: exact cosines, ties in order, by whichever way is the faster one.

Both ways choose by float32 whom to look at, and nothing else: the scores are computed from the vectors themselves.
sqlite-vec compares one query with all vectors, with those of a tenant, or with those of some marks, in C: 100,000 x 256
take 70 ms, a tenant's 1,000 take 1 ms. Reading all of them and comparing them in NumPy takes 90 ms, or 140 ms where any
other filter chooses among them, and 1 ms for each further query. Where a filter leaves few, only those are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from agenthood.stores.base import Hit, Vector
from agenthood.stores.scoring import SCORE_DIGITS, TIE_MARGIN, best_first, cosines
from agenthood.stores.sqlite.rows import blob_of, record_of, selection
from agenthood.stores.sqlite.schema import PARTITION, mark
from agenthood.stores.sqlite.sql import Condition, compiled, json_list, marked
from agenthood.stores.sqlite.vectors import chosen, few, in_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from agenthood.stores.base import VectorField
    from agenthood.stores.filters import Filter
    from agenthood.stores.sqlite.schema import Tables
    from agenthood.stores.sqlite.vectors import Batch, Rows
    from agenthood.stores.sqlite.worker import Job

_MOST_NEAREST: Final = 4_096
"""sqlite-vec gives no more."""
_GROWTH: Final = 4
_TIE: Final = 10.0**-SCORE_DIGITS * 2


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a search: see `VectorStore.query`."""

    field: VectorField
    condition: Filter | None
    limit: int
    with_vectors: bool


def search(
    connection: apsw.Connection, tables: Tables, queries: Vector, asked: Asked, job: Job
) -> list[list[Hit]]:
    """The `limit` nearest records for each query by exact cosine, best first, ties by id."""
    looking = Search(connection, tables, asked, job)
    if looking.suits_sqlite_vec(len(queries)):
        return [looking.nearest(query) for query in queries]
    return looking.exhaustive(queries)


class Search:
    """One search: both of its ways give the same hits."""

    def __init__(self, connection: apsw.Connection, tables: Tables, asked: Asked, job: Job) -> None:
        """Args: `connection` in a transaction; `tables` to search; what is `asked`; the `job` this is part of."""
        self._connection = connection
        self._tables = tables
        self._asked = asked
        self._job = job
        self._where = compiled(asked.condition, tables)
        self._marked = marked(asked.condition, tables) if asked.condition else {}
        self._slack = _TIE + 2e-7 * math.sqrt(tables.width(asked.field))
        """By how much a float32 score may be wrong, and by how much scores differ that are no tie."""

    def suits_sqlite_vec(self, queries: int) -> bool:
        """Whether `nearest` can do it, and is the faster way."""
        if self._marked is None or queries > 1 or self._asked.limit + TIE_MARGIN > _MOST_NEAREST:
            return False
        if not self._marked or PARTITION in self._marked:
            return True
        enough = few(self._connection, self._tables) + 1
        return len(self._rows(enough)) >= enough

    def _rows(self, most: int = -1) -> Rows:
        """The rows that match, in ascending order."""
        statement = f"select r.rid from {self._tables.rows} r where {self._where.sql} limit {most}"
        found = [rid for (rid,) in self._connection.execute(statement, self._where.values)]
        return np.sort(np.array(found, dtype=np.int64))

    # -- by reading all that match ------------------------------------------------------------------------

    def exhaustive(self, queries: Vector) -> list[list[Hit]]:
        """The hits for each query, from all records that match."""
        directions = queries / np.linalg.norm(queries, axis=1)[:, None]
        best = [Best(self._asked.limit, self._slack) for _ in queries]
        for rids, vectors in self._batches():
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            scores = (vectors @ directions.T) / lengths[:, None]
            for position, one in enumerate(best):
                one.add(rids, scores[:, position])
        return [
            self._hits(query, one.rids().tolist())[: self._asked.limit]
            for query, one in zip(queries, best, strict=True)
        ]

    def _batches(self) -> Iterator[Batch]:
        where = self._connection, self._tables, self._asked.field
        tenant = (self._marked or {}).get(PARTITION)
        if self._asked.condition is None:
            return in_blocks(*where, None, self._job)
        return chosen(*where, self._rows(), tenant, self._job)

    # -- by sqlite-vec ------------------------------------------------------------------------------------

    def nearest(self, query: Vector) -> list[Hit]:
        """The hits for one query, from those that sqlite-vec finds nearest."""
        constraint = self._constraint()
        fetched = self._asked.limit + TIE_MARGIN
        while fetched <= _MOST_NEAREST:
            self._job.check()
            found: list[tuple[Any, ...]] = self._connection.execute(
                f"select rowid, distance from {self._tables.vectors(self._asked.field)} "
                f"where embedding match ? and k = ?{constraint.sql} order by distance",
                (blob_of(query), fetched, *constraint.values),
            ).fetchall()
            hits = self._hits(query, [rid for rid, _ in found])
            if len(hits) < len(found):  # two values have the same mark: a chance of one in 2**64
                break
            kept = hits[: self._asked.limit]
            if len(found) < fetched or kept[-1].score - (1.0 - found[-1][1]) > self._slack:
                return kept
            fetched *= _GROWTH
        return self.exhaustive(query[None])[0]

    def _constraint(self) -> Condition:
        marks = self._marked or {}
        return Condition("".join(f" and {name} = ?" for name in marks), tuple(map(mark, marks.values())))

    # -- hits ---------------------------------------------------------------------------------------------

    def _hits(self, query: Vector, rids: list[int]) -> list[Hit]:
        """The records of these rows that match, with exact scores, best first."""
        field = self._asked.field
        fields = self._tables.fields if self._asked.with_vectors else (field,)
        columns, joins = selection(self._tables, fields)
        rows = self._connection.execute(
            f"select {columns} from {self._tables.rows} r{joins} "
            f"where r.rid in (select value from json_each(?)) and {self._where.sql}",
            (json_list(rids), *self._where.values),
        )
        records = [record_of(row, fields) for row in rows]
        if not records:
            return []
        vectors = np.stack([getattr(record, field) for record in records])
        scores = cosines(vectors, np.broadcast_to(query, vectors.shape)).tolist()
        if not self._asked.with_vectors:
            records = [replace(record, vector=None, lexical=None) for record in records]
        return sorted((Hit(*found) for found in zip(records, scores, strict=True)), key=best_first)


class Best:
    """The rows with the highest scores among those added, and all that may tie with the last of them."""

    def __init__(self, limit: int, slack: float) -> None:
        """Args: `limit`, at least 1; the `slack` below the last of the best within which a row may tie with it."""
        self._limit = limit
        self._slack = slack
        self._rids = np.zeros(0, dtype=np.int64)
        self._scores = np.zeros(0, dtype=np.float32)

    def add(self, rids: Rows, scores: Vector) -> None:
        """Consider these rows too."""
        if len(self._scores) >= self._limit:
            above = scores >= self._scores.min() - self._slack
            rids, scores = rids[above], scores[above]
        self._rids, self._scores = np.concatenate([self._rids, rids]), np.concatenate([self._scores, scores])
        if len(self._scores) > self._limit:
            place = len(self._scores) - self._limit
            kept = self._scores >= np.partition(self._scores, place)[place] - self._slack
            self._rids, self._scores = self._rids[kept], self._scores[kept]

    def rids(self) -> Rows:
        """The rows, in no order."""
        return self._rids
