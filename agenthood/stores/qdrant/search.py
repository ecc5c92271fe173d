"""Vector search: candidates from the server's index, exact cosines from their vectors, ties in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agenthood.stores.base import Hit, Vector, VectorField
from agenthood.stores.filters import matches
from agenthood.stores.qdrant.conditions import Compiled, compile_filter
from agenthood.stores.qdrant.payload import to_record
from agenthood.stores.scoring import SCORE_DIGITS, TIE_MARGIN, best_first, cosine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.stores.filters import Filter
    from agenthood.stores.qdrant.reads import Reader

_GROWTH = 4
_SMALLEST_EF = 128
OVERSAMPLING = 3.0
"""How many times the limit is taken by int8 before exact distances decide."""
_NUMBERS_AT_ONCE = 1_500_000
"""How many floats one answer may hold: some 20 MB of JSON."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a search: see `VectorStore.query`."""

    field: VectorField
    condition: Filter | None
    limit: int
    with_vectors: bool


def search_params(fetched: int) -> dict[str, Any]:
    """How the server searches, as JSON: int8 first, then exact distances of the best."""
    return {
        "hnsw_ef": max(_SMALLEST_EF, fetched),
        "quantization": {"rescore": True, "oversampling": OVERSAMPLING},
    }


async def search(reader: Reader, queries: Vector, asked: Asked) -> list[list[Hit]]:
    """The `limit` nearest records for each query by exact cosine, best first, ties by id."""
    compiled = compile_filter(asked.condition, reader.collection)
    found: list[list[Hit]] = [[] for _ in queries]
    open_ = [] if compiled.nothing else list(range(len(queries)))
    fetched = asked.limit + TIE_MARGIN
    while open_:
        answers = await _nearest(reader, queries[open_], asked, compiled, fetched)
        undecided = []
        for position, points in zip(open_, answers, strict=True):
            hits, complete = _ranked(points, queries[position], asked, compiled, fetched)
            found[position] = hits[: asked.limit]
            if not complete:
                undecided.append(position)
        open_ = undecided
        fetched *= _GROWTH
    return found


async def _nearest(
    reader: Reader, queries: Vector, asked: Asked, compiled: Compiled, fetched: int
) -> list[Sequence[Any]]:
    """The `fetched` points nearest to each query, in as many requests as keep each answer bearable."""
    from qdrant_client import models  # noqa: PLC0415  loaded by now

    names = reader.vectors if asked.with_vectors else [asked.field]
    payload = reader.payload(names)
    clause = compiled.with_()
    requests = [
        models.QueryRequest.model_validate(
            {
                "query": query.tolist(),
                "using": asked.field,
                "filter": clause,
                "limit": fetched,
                "params": search_params(fetched),
                "with_payload": payload,
                "with_vector": names,
            }
        )
        for query in queries
    ]
    size = max(1, _NUMBERS_AT_ONCE // (fetched * reader.collection.dimension))
    found: list[Sequence[Any]] = []
    for start in range(0, len(requests), size):
        part = requests[start : start + size]
        answers = await reader.connection.call(
            f"searching {reader.collection.name!r}",
            lambda client, part=part: client.query_batch_points(reader.stored_name, part),  # type: ignore[misc]
        )
        found += [answer.points for answer in answers]
    return found


def _ranked(
    points: Sequence[Any], query: Vector, asked: Asked, compiled: Compiled, fetched: int
) -> tuple[list[Hit], bool]:
    """The hits among `points`, best first; and whether none that belongs above the cut was left unread."""
    hits: list[Hit] = []
    worst = 1.0
    for point in points:
        record = to_record(point.payload, point.vector)
        score = cosine(record.lexical if asked.field == "lexical" else record.vector, query)
        if score is None:
            continue
        worst = min(worst, score)
        if compiled.exact or asked.condition is None or matches(record, asked.condition):
            bare = record if asked.with_vectors else replace(record, vector=None, lexical=None)
            hits.append(Hit(bare, score))
    hits.sort(key=best_first)
    enough = len(hits) >= asked.limit and hits[asked.limit - 1].score - worst > 10.0**-SCORE_DIGITS * 2
    return hits, len(points) < fetched or enough
