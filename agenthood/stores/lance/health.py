"""What a LanceDB table tells of itself, without being changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from agenthood.stores.base import SCOPE_FIELDS
from agenthood.stores.lance.index import vector_columns, with_vectors
from agenthood.stores.lance.upkeep import describe
from agenthood.stores.places import MOST_TENANTS

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

    from agenthood.stores.base import Collection

_TENANT = SCOPE_FIELDS[0]
_QUANTIZED: Final = {"SQ": "int8", "PQ": "product", "RQ": "binary"}


async def told(table: AsyncTable, *, collection: Collection) -> dict[str, Any]:
    """What `Health.collections` says of a table, and its fragments and version."""
    found = await describe(table)
    columns = [f"{column}_idx" for column in vector_columns(collection)]
    indexed = [found["indices"][name] for name in columns if name in found["indices"]]
    missing = [index["unindexed_rows"] for index in indexed]
    if len(indexed) < len(columns):
        missing.append(await with_vectors(table, collection))
    found["unindexed_rows"] = max(missing)
    kinds = [_QUANTIZED.get(index["type"].replace("_", "").upper()[-2:]) for index in indexed]
    found["quantization"] = next((kind for kind in kinds if kind), None)
    if collection.scoped:
        found["tenants"] = await _tenants(table)
    return found


async def _tenants(table: AsyncTable) -> dict[str, int]:
    """Tenant -> rows, the largest first."""
    counts: Counter[str] = Counter()
    async for batch in await table.query().select([_TENANT]).to_batches():
        for pair in batch.column(_TENANT).value_counts().to_pylist():
            counts[pair["values"]] += pair["counts"]
    ranked = sorted(
        (item for item in counts.items() if item[0] is not None), key=lambda one: (-one[1], one[0])
    )
    return dict(ranked[:MOST_TENANTS])
