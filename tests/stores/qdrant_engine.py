"""Qdrant's own engine, in process, behind the part of `AsyncQdrantClient` that the store uses.

`qdrant-edge-py` is built of the server's crates: indices, quantization, filters and conditional writes are the real
ones, which local mode ignores or imitates. Every request is built by the store and only translated here. Its calls hold
the GIL, so it runs in a process of its own: see `qdrant_engine_worker.py`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import qdrant_edge as edge

FULL_SCAN_THRESHOLD = 10_000
"""The server's default, in kilobytes."""


def filter_of(model: Any) -> edge.Filter | None:
    """The client's filter as the engine's."""
    if model is None:
        return None
    condition = _condition(model.model_dump(mode="json", exclude_none=True))
    assert isinstance(condition, edge.Filter)
    return condition


def _condition(given: dict[str, Any]) -> Any:
    if "has_id" in given:
        return edge.HasIdCondition(set(given["has_id"]))
    if "has_vector" in given:
        return edge.HasVectorCondition(given["has_vector"])
    if isinstance(given.get("is_empty"), dict):
        return edge.IsEmptyCondition(given["is_empty"]["key"])
    if "key" in given:
        match, range_ = given.get("match"), given.get("range")
        found = None
        if match is not None:
            found = edge.MatchValue(match["value"]) if "value" in match else edge.MatchAny(match["any"])
        return edge.FieldCondition(
            given["key"], match=found, range=edge.RangeFloat(**range_) if range_ else None
        )
    assert given.keys() <= {"must", "should", "must_not"}, given
    parts = {name: [_condition(part) for part in _listed(inner)] for name, inner in given.items()}
    return edge.Filter(**parts)


def _listed(parts: Any) -> list[dict[str, Any]]:
    return parts if isinstance(parts, list) else [parts]


def _params(given: Any) -> edge.SearchParams:
    quantization = given.quantization
    return edge.SearchParams(
        hnsw_ef=given.hnsw_ef,
        exact=bool(given.exact),
        quantization=edge.QuantizationSearchParams(
            rescore=quantization.rescore, oversampling=quantization.oversampling
        ),
    )


def _point(found: Any) -> SimpleNamespace:
    return SimpleNamespace(id=str(found.id), payload=found.payload, vector=found.vector)


@dataclass
class _Shard:
    shard: edge.EdgeShard
    config: SimpleNamespace


class EngineClient:
    """The client: each collection is a shard in a folder of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._shards: dict[str, _Shard] = {}

    def shard(self, name: str) -> edge.EdgeShard:
        """The engine's side of a collection."""
        if name not in self._shards:
            raise ValueError(f"Collection {name} not found")
        return self._shards[name].shard

    def close(self) -> None:
        """Close all shards and remove their files."""
        for one in self._shards.values():
            one.shard.close()
        self._folder.cleanup()

    async def info(self) -> SimpleNamespace:
        """Same as `AsyncQdrantClient.info`."""
        return SimpleNamespace(version="1.20.1-dev")

    async def collection_exists(self, name: str) -> bool:
        """Same as `AsyncQdrantClient.collection_exists`."""
        return name in self._shards

    async def get_collections(self) -> SimpleNamespace:
        """Same as `AsyncQdrantClient.get_collections`."""
        return SimpleNamespace(collections=[SimpleNamespace(name=name) for name in self._shards])

    async def create_collection(self, name: str, **given: Any) -> None:
        """Same as `AsyncQdrantClient.create_collection`."""
        if name in self._shards:
            raise ValueError(f"Collection {name} already exists")
        vectors, hnsw = given["vectors_config"], given.get("hnsw_config")
        int8 = given.get("quantization_config")
        config = edge.EdgeConfig(
            vectors={
                key: edge.EdgeVectorParams(size=one.size, distance=getattr(edge.Distance, one.distance.value))
                for key, one in vectors.items()
            }
            # A server takes a collection without vectors; a shard wants one, which may be left empty.
            or {"none": edge.EdgeVectorParams(size=1, distance=edge.Distance.Dot)},
            hnsw_config=edge.HnswIndexConfig(
                m=hnsw.m if hnsw else 16,
                ef_construct=100,
                full_scan_threshold=FULL_SCAN_THRESHOLD,
                payload_m=hnsw.payload_m if hnsw else None,
            ),
            quantization_config=edge.ScalarQuantizationConfig(
                type=edge.ScalarType.Int8, quantile=int8.scalar.quantile, always_ram=int8.scalar.always_ram
            )
            if int8
            else None,
            wal_enabled=False,
        )
        folder = Path(self._folder.name) / name
        folder.mkdir()
        params = SimpleNamespace(vectors=vectors)
        described = SimpleNamespace(metadata=given.get("metadata"), params=params, quantization_config=int8)
        self._shards[name] = _Shard(edge.EdgeShard.create(str(folder), config), described)

    async def create_payload_index(self, name: str, field: str, *, field_schema: Any, wait: bool) -> None:
        """Same as `AsyncQdrantClient.create_payload_index`."""
        assert wait
        if field_schema.type == "keyword":
            schema: Any = edge.KeywordIndexParams(
                is_tenant=field_schema.is_tenant, enable_hnsw=field_schema.enable_hnsw
            )
        else:
            schema = edge.IntegerIndexParams(
                lookup=field_schema.lookup, range=field_schema.range, enable_hnsw=field_schema.enable_hnsw
            )
        self.shard(name).update(edge.UpdateOperation.create_field_index(field, schema))

    async def get_collection(self, name: str) -> SimpleNamespace:
        """Same as `AsyncQdrantClient.get_collection`."""
        info = self.shard(name).info()
        return SimpleNamespace(
            config=self._shards[name].config,
            payload_schema=info.payload_schema,
            indexed_vectors_count=info.indexed_vectors_count,
            segments_count=info.segments_count,
            status="green",
            optimizer_status="ok",
        )

    async def upsert(
        self,
        name: str,
        points: list[Any],
        *,
        wait: bool,
        ordering: Any = None,  # noqa: ARG002  one shard
        update_filter: Any = None,
    ) -> None:
        """Same as `AsyncQdrantClient.upsert`."""
        assert wait
        rows = [edge.Point(id=one.id, vector=one.vector, payload=one.payload) for one in points]
        operation = edge.UpdateOperation.upsert_points(rows, condition=filter_of(update_filter))
        self.shard(name).update(operation)

    async def set_payload(self, name: str, payload: Any, *, points: Any, wait: bool, ordering: Any) -> None:  # noqa: ARG002  one shard
        """Same as `AsyncQdrantClient.set_payload`."""
        assert wait
        operation = edge.UpdateOperation.set_payload_by_filter(filter_of(points), payload)
        self.shard(name).update(operation)

    async def delete(self, name: str, points: Any, *, wait: bool, ordering: Any = None) -> None:  # noqa: ARG002  one shard
        """Same as `AsyncQdrantClient.delete`."""
        assert wait
        if hasattr(points, "filter"):
            operation = edge.UpdateOperation.delete_points_by_filter(filter_of(points.filter))
        else:
            operation = edge.UpdateOperation.delete_points(points.points)
        self.shard(name).update(operation)

    async def retrieve(
        self, name: str, ids: list[str], *, with_payload: Any = True, with_vectors: Any = False
    ) -> list[SimpleNamespace]:
        """Same as `AsyncQdrantClient.retrieve`."""
        found = self.shard(name).retrieve(ids, with_payload=with_payload, with_vector=with_vectors)
        return [_point(one) for one in found]

    async def scroll(  # noqa: PLR0913  one for each thing that can be asked
        self, name: str, *, scroll_filter: Any, limit: int, offset: Any, with_payload: Any, with_vectors: Any
    ) -> tuple[list[SimpleNamespace], Any]:
        """Same as `AsyncQdrantClient.scroll`."""
        request = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=filter_of(scroll_filter),
            with_payload=with_payload,
            with_vector=with_vectors,
        )
        found, following = self.shard(name).scroll(request)
        return [_point(one) for one in found], following

    async def count(self, name: str, *, count_filter: Any, exact: bool) -> SimpleNamespace:
        """Same as `AsyncQdrantClient.count`."""
        request = edge.CountRequest(exact=exact, filter=filter_of(count_filter))
        return SimpleNamespace(count=self.shard(name).count(request))

    async def query_batch_points(self, name: str, requests: list[Any]) -> list[SimpleNamespace]:
        """Same as `AsyncQdrantClient.query_batch_points`."""
        batch = [
            edge.QueryRequest(
                limit=one.limit,
                query=edge.Query.Nearest(one.query, using=one.using),
                with_vector=one.with_vector,
                with_payload=one.with_payload,
                filter=filter_of(one.filter),
                params=_params(one.params),
            )
            for one in requests
        ]
        answers = self.shard(name).query_batch(edge.QueryBatchRequest(batch))
        return [SimpleNamespace(points=[_point(one) for one in answer]) for answer in answers]

    async def facet(self, name: str, key: str, *, limit: int, exact: bool) -> SimpleNamespace:
        """Same as `AsyncQdrantClient.facet`."""
        return self.shard(name).facet(edge.FacetRequest(key, limit=limit, exact=exact))
