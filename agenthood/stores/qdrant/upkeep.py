"""What a server says of a collection: how far its optimizer is, how it is indexed, and who has how much in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenthood.stores.qdrant.conditions import Compiled
from agenthood.stores.qdrant.shapes import TENANT

if TYPE_CHECKING:
    from agenthood.stores.qdrant.reads import Reader

_MOST_TENANTS = 100


async def report(reader: Reader, info: Any) -> dict[str, Any]:  # noqa: ANN401  a CollectionInfo or None
    """Rows, and the state of the optimizer."""
    found: dict[str, Any] = {"rows": await reader.count(Compiled(clause=True, exact=True))}
    if info is None:
        return found
    optimizer = info.optimizer_status
    quantization = getattr(info.config.quantization_config, "scalar", None)
    return found | {
        "status": _text(info.status),
        "optimizer": _text(getattr(optimizer, "error", optimizer)),
        "segments": info.segments_count,
        "indexed_vectors": info.indexed_vectors_count or 0,
        "quantization": _text(quantization.type) if quantization is not None else None,
        "indices": sorted(info.payload_schema or {}),
    }


async def described(reader: Reader, info: Any) -> dict[str, Any]:  # noqa: ANN401  a CollectionInfo or None
    """The report, and for a scoped collection the rows of its largest tenants."""
    found = await report(reader, info)
    if reader.collection.scoped:
        facet = await reader.connection.call(
            f"counting the tenants of {reader.collection.name!r}",
            lambda client: client.facet(reader.stored_name, TENANT, limit=_MOST_TENANTS, exact=True),
        )
        found["tenants"] = {str(hit.value): hit.count for hit in facet.hits}
    return found


def _text(value: Any) -> str:  # noqa: ANN401  an enum of the client's, or text
    return str(getattr(value, "value", value))
