"""What a collection is on the server: how it is made and indexed, and how another process learns what it is.

Collections are named `{namespace}_{collection}`; their metadata say what they are. Vectors are kept in float32 and
searched in int8, with exact distances for the best of it. Where many tenants share a collection the graph is built per
tenant (`payload_m`) and not over all (`m` 0), so that a tenant's search never wades through the others'.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agenthood.errors import ConfigError
from agenthood.stores.base import LEXICAL_DIMENSION, SCOPE_FIELDS, TYPED_FIELDS, Collection
from agenthood.stores.qdrant.payload import column_names

if TYPE_CHECKING:
    from collections.abc import Mapping

TENANT = SCOPE_FIELDS[0]
OWNER = "agenthood"
"""The key of a collection's metadata under which it says what it is."""
QUANTILE = 0.99
PAYLOAD_M = 16
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


def checked_namespace(namespace: str) -> str:
    """`namespace` if collections can be named after it.

    Raises:
        ConfigError: they cannot.
    """
    if _NAMESPACE.fullmatch(namespace) is None:
        raise ConfigError(
            f"store.namespace {namespace!r:.80} cannot begin the name of a collection: "
            "use up to 64 letters, digits, '_' and '-'"
        )
    return namespace


def creation(collection: Collection, namespace: str) -> dict[str, Any]:
    """The JSON with which the collection is made: the arguments of `create_collection` without its name."""
    vectors = {"vector": _vectors(collection.dimension)}
    if collection.lexical:
        vectors["lexical"] = _vectors(LEXICAL_DIMENSION)
    made: dict[str, Any] = {
        "vectors": vectors,
        "quantization_config": {"scalar": {"type": "int8", "quantile": QUANTILE, "always_ram": True}},
        "metadata": {
            OWNER: {
                "namespace": namespace,
                "name": collection.name,
                "typed": collection.typed,
                "scoped": collection.scoped,
            }
        },
    }
    if collection.scoped:
        made["hnsw_config"] = {"m": 0, "payload_m": PAYLOAD_M}
    return made


def indices(collection: Collection) -> dict[str, dict[str, Any]]:
    """The indices of the payload: name -> JSON of its parameters."""
    keywords = [*column_names(collection), "heads", "pairs", "content_hash"]
    if collection.typed:
        keywords.append("terms")
    # Every indexed field costs a graph of its own, over all records if they share a value: only those that searches
    # filter by are worth one.
    searched = SCOPE_FIELDS if collection.scoped else TYPED_FIELDS
    found: dict[str, dict[str, Any]] = {
        name: {"type": "keyword", "enable_hnsw": name in searched} for name in keywords
    }
    if collection.scoped:
        found[TENANT]["is_tenant"] = True
    found["created_ms"] = {"type": "integer", "lookup": False, "range": True, "enable_hnsw": False}
    return found


def collection_of(namespace: str, name: str, info: Any) -> Collection | None:  # noqa: ANN401  a CollectionInfo
    """The collection that a server describes so, or None if it is none of ours.

    Another namespace may begin as ours does, and a snapshot restored under another name still says what it was.
    """
    told = (info.config.metadata or {}).get(OWNER)
    vectors: Mapping[str, Any] | object = info.config.params.vectors
    if not isinstance(told, dict) or (told.get("namespace"), told.get("name")) != (namespace, name):
        return None
    if not isinstance(vectors, dict) or "vector" not in vectors:
        return None
    return Collection(
        name,
        vectors["vector"].size,
        typed=bool(told.get("typed")),
        lexical="lexical" in vectors,
        scoped=bool(told.get("scoped")),
    )


def _vectors(size: int) -> dict[str, Any]:
    return {"size": size, "distance": "Dot"}
