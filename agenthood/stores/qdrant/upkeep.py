"""What a server says of a collection: how far its optimizer is, how it is indexed, and who has how much in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenthood.stores.places import MOST_TENANTS
from agenthood.stores.qdrant.conditions import Compiled
from agenthood.stores.qdrant.shapes import TENANT

if TYPE_CHECKING:
    from agenthood.stores.qdrant.reads import Reader


async def report(reader: Reader, info: Any) -> dict[str, Any]:  # noqa: ANN401  a CollectionInfo or None
    """Rows, and the state of the optimizer."""
    found: dict[str, Any] = {"rows": await reader.count(Compiled(clause=True, exact=True))}
    if info is None:
        return found
    optimizer = info.optimizer_status
    quantization = getattr(info.config.quantization_config, "scalar", None)
    payload = {
        name: {"type": _text(index.data_type), "unindexed_rows": max(0, found["rows"] - index.points)}
        for name, index in sorted((info.payload_schema or {}).items())
    }
    unindexed = await _unindexed(reader, info.indexed_vectors_count or 0)
    return found | {
        "status": _text(info.status),
        "optimizer": _text(getattr(optimizer, "error", optimizer)),
        "segments": info.segments_count,
        "indexed_vectors": info.indexed_vectors_count or 0,
        "unindexed_rows": unindexed,
        "quantization": _text(quantization.type) if quantization is not None else None,
        "indices": {name: {"type": "hnsw", "unindexed_rows": unindexed} for name in reader.vectors} | payload,
    }


async def _unindexed(reader: Reader, indexed: int) -> int:
    """How many rows have vectors that are in no graph; the server tells only of all vectors together."""
    everything = Compiled(clause=True, exact=True)
    vectors = sum([await reader.count(everything, {"has_vector": name}) for name in reader.vectors])
    return max(0, -(-(vectors - indexed) // len(reader.vectors)))


async def described(reader: Reader, info: Any) -> dict[str, Any]:  # noqa: ANN401  a CollectionInfo or None
    """The report, and for a scoped collection the rows of its largest tenants."""
    found = await report(reader, info)
    if reader.collection.scoped:
        facet = await reader.connection.call(
            f"counting the tenants of {reader.collection.name!r}",
            lambda client: client.facet(reader.stored_name, TENANT, limit=MOST_TENANTS, exact=True),
        )
        found["tenants"] = {str(hit.value): hit.count for hit in facet.hits}
    return found


def _text(value: Any) -> str:  # noqa: ANN401  an enum of the client's, or text
    return str(getattr(value, "value", value))
