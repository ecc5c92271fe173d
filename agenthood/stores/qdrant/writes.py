"""Writing points: in batches below the server's limit, each acknowledged before the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.stores.base import LEXICAL_DIMENSION
from agenthood.stores.qdrant.payload import point_id, to_point
from agenthood.stores.qdrant.reads import IDS_AT_ONCE, chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agenthood.stores.base import Collection, Record
    from agenthood.stores.qdrant.reads import Reader

MOST_BYTES = 8_000_000
"""About how large a request is at most; servers refuse 32 MB."""
_BYTES_PER_NUMBER = 24


def batches(records: Sequence[Record], collection: Collection) -> Iterator[list[Record]]:
    """`records` in parts that fit into a request each; a record larger than that comes alone."""
    batch: list[Record] = []
    size = 0
    for record in records:
        bytes_ = _bytes(record, collection)
        if batch and size + bytes_ > MOST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += bytes_
    if batch:
        yield batch


async def upsert_points(reader: Reader, records: Sequence[Record], check: Callable[[], None]) -> None:
    """Insert or replace `records`, whose ids differ; `check` is called before each request."""
    from qdrant_client import models  # noqa: PLC0415  loaded by now

    for batch in batches(records, reader.collection):
        points = [models.PointStruct(**to_point(record, reader.collection)) for record in batch]
        check()
        await reader.connection.call(
            f"writing to {reader.collection.name!r}",
            lambda client, points=points: client.upsert(reader.stored_name, points, wait=True),  # type: ignore[misc]
        )


async def delete_points(reader: Reader, ids: Sequence[str], check: Callable[[], None]) -> int:
    """Remove the records with these ids; returns how many there were."""
    from qdrant_client import models  # noqa: PLC0415  loaded by now

    removed = 0
    for part in chunks(ids, IDS_AT_ONCE):
        removed += len(await reader.existing(part))
        doomed = models.PointIdsList(points=[point_id(id_) for id_ in part])
        check()
        await reader.connection.call(
            f"deleting from {reader.collection.name!r}",
            lambda client, doomed=doomed: client.delete(reader.stored_name, doomed, wait=True),  # type: ignore[misc]
        )
    return removed


def _bytes(record: Record, collection: Collection) -> int:
    """About how large a record is as JSON; texts may be escaped, and some are in it twice."""
    numbers = collection.dimension + (LEXICAL_DIMENSION if collection.lexical else 0)
    texts = len(record.id) * 4 + len(record.content) + len(record.terms or "") * 2
    texts += sum(len(key) + len(str(value)) for key, value in record.metadata.items()) * 2
    return numbers * _BYTES_PER_NUMBER + texts * 4 + 500
