"""Records as points and back: ids, the payload that filters compare, and vectors that come back as they were.

A point's id is a UUID derived from ours, which the payload keeps. Vectors are compared by dot product, so those of
unit length (what embedders give) are stored as they are; of any other the point holds the direction, and the payload
the original bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.formats import dumps, loads_object
from agenthood.stores.base import Collection, Record, Vector

if TYPE_CHECKING:
    from collections.abc import Mapping

SPACE = uuid.UUID("6f1b4f0e-6f0c-5e0b-9a57-3d5c0a1e7d42")
"""The namespace of point ids: never to change, since an upsert finds its record by it."""
LONGEST_KEYWORD = 512
"""Longer texts are indexed by their hash."""
DEEPEST_HEAD = 8
"""So many beginnings of an id are indexed."""

TEXTS = ["id", "content", "metadata", "created_at", "terms_text"]
"""The parts of a payload that make up a record without vectors."""
_UNIT = 1e-6
_HEAD = re.compile(r"[:/]")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def point_id(id_: str) -> str:
    """The UUID of the point that holds the record `id_`."""
    return str(uuid.uuid5(SPACE, id_))


def keyword(text: str) -> str:
    """`text` as an index takes it: itself, or its hash if it is long."""
    return text if len(text) <= LONGEST_KEYWORD else "\uffff#" + digest(text)


def digest(text: str) -> str:
    """The SHA-256 of `text`, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def pair(key: str, value: str) -> str:
    """A metadata key and its text as one keyword."""
    return keyword(dumps([key, value]))


def heads(id_: str) -> list[str]:
    """The beginnings of an id that end with `:` or `/`, such as `ltm:` and `ltm:learnings/`; the first few."""
    ends = (found.end() for found in _HEAD.finditer(id_))
    return [keyword(id_[:end]) for end, _ in zip(ends, range(DEEPEST_HEAD), strict=False)]


def milliseconds(created_at: str) -> int | None:
    """A time of our one form in milliseconds, in the order of its text; None for any other text."""
    if _TIME.fullmatch(created_at) is None:
        return None
    try:
        moment = datetime.fromisoformat(created_at)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)


def payload_of(record: Record, collection: Collection) -> dict[str, Any]:
    """Everything of a record but its vectors."""
    found: dict[str, Any] = {
        "id": record.id,
        "content": record.content,
        "metadata": dumps(dict(record.metadata)),
        "created_at": record.created_at,
        "content_hash": digest(record.content),
        "created_ms": milliseconds(record.created_at),
        "heads": heads(record.id),
    }
    columns = column_names(collection)
    texts = {key: value for key, value in record.metadata.items() if isinstance(value, str)}
    found |= {key: keyword(value) for key, value in texts.items() if key in columns}
    found["pairs"] = [pair(key, value) for key, value in texts.items() if key not in columns]
    if collection.typed and record.terms is not None:
        found["terms_text"] = record.terms
        found["terms"] = [keyword(term) for term in dict.fromkeys(record.terms.split())]
    return {key: value for key, value in found.items() if value is not None}


def column_names(collection: Collection) -> tuple[str, ...]:
    """The metadata keys under which a payload keeps their value itself."""
    return ("type", *collection.columns)


def to_point(record: Record, collection: Collection) -> dict[str, Any]:
    """The record as the arguments of a `PointStruct`."""
    payload = payload_of(record, collection)
    vectors: dict[str, list[float]] = {}
    given = {"vector": record.vector, "lexical": record.lexical if collection.lexical else None}
    for name, vector in given.items():
        if vector is None:
            continue
        exact = np.asarray(vector, dtype=np.float32)
        length = float(np.linalg.norm(exact.astype(np.float64)))
        if abs(length - 1) > _UNIT:
            payload[f"{name}_bytes"] = base64.b64encode(exact.astype("<f4").tobytes()).decode()
            exact = (exact.astype(np.float64) / length).astype(np.float32)
        vectors[name] = exact.tolist()
    return {"id": point_id(record.id), "vector": vectors, "payload": payload}


def vector_of(name: str, vectors: object, payload: Mapping[str, Any]) -> Vector | None:
    """The vector `name` of a point as it was given, or None if it has none or it was not read."""
    found = vectors.get(name) if isinstance(vectors, dict) else None
    if found is None:
        return None
    if (original := payload.get(f"{name}_bytes")) is not None:
        return np.frombuffer(base64.b64decode(original), dtype="<f4").astype(np.float32)
    return np.asarray(found, dtype=np.float32)


def to_record(payload: Mapping[str, Any] | None, vectors: object = None) -> Record:
    """The record of a point, with whatever vectors of it were read."""
    given = payload or {}
    return Record(
        id=given.get("id", ""),
        content=given.get("content", ""),
        metadata=loads_object(given.get("metadata", "")),
        created_at=given.get("created_at", ""),
        vector=vector_of("vector", vectors, given),
        lexical=vector_of("lexical", vectors, given),
        terms=given.get("terms_text"),
    )
