"""What no backend may see, checked once for all of them: each fails on it in its own way, some silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agenthood.errors import InvalidInputError, InvalidRecordError
from agenthood.formats import dumps, unstorable_reason
from agenthood.stores.base import LEXICAL_DIMENSION, Collection, Record, Rejection, Vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Denormal and huge vectors poison a cosine search (facts measured on LanceDB: a denormal row ranks first
# everywhere), so the norm is bounded as well.
SMALLEST_NORM = 1e-6
LARGEST_NORM = 1e6


def vector_reason(vector: Vector, dimension: int) -> str | None:
    """Why `vector` cannot be stored or queried with, or None if it can."""
    array = np.asarray(vector)
    if array.shape != (dimension,):
        return f"its vector has shape {array.shape!r} instead of ({dimension},): embed it with this collection's model"
    if not np.isfinite(array).all():
        return "its vector holds NaN or infinite values"
    norm = float(np.linalg.norm(array.astype(np.float64)))
    if norm == 0:
        return "its vector is all zero: give None where there is no embedding"
    if not SMALLEST_NORM < norm < LARGEST_NORM:
        return f"its vector has length {norm:.3g}, outside ({SMALLEST_NORM:g}, {LARGEST_NORM:g})"
    return None


def _text_reason(record: Record) -> str | None:
    texts: dict[str, object] = {
        "id": record.id,
        "content": record.content,
        "created_at": record.created_at,
        "terms": record.terms or "",
    }
    for name, text in texts.items():
        if not isinstance(text, str):
            return f"its {name} is {text!r:.80}, not text"
        if reason := unstorable_reason(text):
            return f"its {name} cannot be stored: {reason}"
    if not record.id:
        return "its id is empty"
    try:
        dumps(dict(record.metadata))
    except (InvalidInputError, TypeError, ValueError) as exc:
        return f"its metadata cannot be stored: {exc}"
    return unstorable_reason("".join(_strings(record.metadata)))


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def check_record(record: Record, collection: Collection) -> None:
    """Refuse a record no backend may see.

    Raises:
        InvalidRecordError: an empty id, NUL or lone surrogates in a text, metadata that is no JSON, or a
            vector that is NaN, infinite, zero or of the wrong length.
    """
    reason = _text_reason(record)
    if reason is None and record.vector is not None:
        reason = vector_reason(record.vector, collection.dimension)
    if reason is None and record.lexical is not None:
        reason = vector_reason(record.lexical, LEXICAL_DIMENSION)
    if reason is not None:
        raise InvalidRecordError(record.id, reason)


def partition(
    records: Sequence[Record], collection: Collection
) -> tuple[list[Record], tuple[Rejection, ...]]:
    """The records to write, last of each id, and the rejected ones."""
    valid: dict[str, Record] = {}
    rejected = []
    for record in records:
        try:
            check_record(record, collection)
        except InvalidRecordError as exc:
            rejected.append(Rejection(record.id, exc.reason))
        else:
            valid[record.id] = record
    return list(valid.values()), tuple(rejected)


def check_queries(vectors: Vector, dimension: int) -> Vector:
    """The query vectors as a float32 array of shape (n, dimension).

    Raises:
        InvalidInputError: one is zero, not finite or of the wrong length.
    """
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    for position, vector in enumerate(array):
        if reason := vector_reason(vector, dimension):
            raise InvalidInputError(f"query {position} cannot be searched with: {reason}")
    return array
