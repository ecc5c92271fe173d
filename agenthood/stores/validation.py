"""What no backend may see, checked once for all of them: each fails on it in its own way, some silently."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agenthood.errors import InvalidInputError, InvalidRecordError
from agenthood.formats import unstorable_reason
from agenthood.stores.base import LEXICAL_DIMENSION, Collection, Record, Rejection, Vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Denormal and huge vectors poison a cosine search (facts measured on LanceDB: a denormal row ranks first
# everywhere), so the norm is bounded as well.
SMALLEST_NORM = 1e-6
LARGEST_NORM = 1e6


def vector_reason(vector: object, dimension: int) -> str | None:
    """Why `vector` cannot be stored or queried with, or None if it can."""
    try:
        array = np.asarray(vector).astype(np.float64, casting="same_kind", copy=False)
    except (TypeError, ValueError):
        return f"its vector is {type(vector).__name__} of something other than real numbers"
    if array.shape != (dimension,):
        return f"its vector has shape {array.shape!r} instead of ({dimension},): embed it with this collection's model"
    if not np.isfinite(array).all():
        return "its vector holds NaN or infinite values"
    if not array.any():
        return "its vector is all zero: give None where there is no embedding"
    with np.errstate(over="ignore", under="ignore"):
        norm = float(np.linalg.norm(array))
    if not SMALLEST_NORM < norm < LARGEST_NORM:
        return f"its vector has length {norm:.3g}, outside ({SMALLEST_NORM:g}, {LARGEST_NORM:g})"
    return None


def _text_reason(record: Record) -> str | None:
    texts = {
        "id": record.id,
        "content": record.content,
        "created_at": record.created_at,
        "terms": record.terms,
    }
    for name, text in texts.items():
        if name == "terms" and text is None:
            continue
        if not isinstance(text, str):
            return f"its {name} is {text!r:.80}, not text"
        if reason := unstorable_reason(text):
            return f"its {name} cannot be stored: {reason}"
    return None if record.id else "its id is empty"


def _metadata_reason(metadata: Mapping[Any, object]) -> str | None:
    """Why `metadata` is no flat JSON object of storable texts; filters compare only what is at its top."""
    try:
        entries = dict(metadata)
    except (TypeError, ValueError) as exc:
        return f"its metadata cannot be stored: {exc}"
    for key, value in entries.items():
        if not isinstance(key, str):
            return f"its metadata has the key {key!r:.80}, which is not text"
        if isinstance(value, float) and not math.isfinite(value):
            return f"its metadata cannot be stored: {value!r} under {key!r:.80} has no form in JSON"
        if not (value is None or isinstance(value, str | int | float)):
            return (
                f"its metadata cannot be stored: {type(value).__name__} under {key!r:.80} is neither text nor number; "
                "keep nested values in the content"
            )
        for text in (key, value):
            if isinstance(text, str) and (reason := unstorable_reason(text)):
                return f"its metadata under {key!r:.80} cannot be stored: {reason}"
    return None


def _reasons(record: Record, collection: Collection) -> Iterable[str | None]:
    yield _text_reason(record)
    yield _metadata_reason(record.metadata)
    if record.vector is not None:
        yield vector_reason(record.vector, collection.dimension)
    if record.lexical is not None:
        yield vector_reason(record.lexical, LEXICAL_DIMENSION)


def check_record(record: Record, collection: Collection) -> None:
    """Refuse a record no backend may see.

    Raises:
        InvalidRecordError: an empty id, NUL or lone surrogates in a text, metadata that is no flat JSON
            object, or a vector that is NaN, infinite, zero or of the wrong length.
    """
    for reason in _reasons(record, collection):
        if reason is not None:
            raise InvalidRecordError(str(record.id), reason)


def partition(
    records: Sequence[Record], collection: Collection
) -> tuple[list[Record], tuple[Rejection, ...]]:
    """The records to write, last of each id, and the rejected ones."""
    valid: dict[str, Record] = {}
    rejected = []
    sound = _sound([record.vector for record in records], collection.dimension)
    sound &= _sound([record.lexical for record in records], LEXICAL_DIMENSION)
    for record, sound_vectors in zip(records, sound.tolist(), strict=True):
        try:
            if not (sound_vectors and _has_sound_texts(record)):
                check_record(record, collection)
        except InvalidRecordError as exc:
            rejected.append(Rejection(exc.record_id, exc.reason))
        else:
            valid[record.id] = record
    return list(valid.values()), tuple(rejected)


def _sound(vectors: Sequence[Vector | None], dimension: int) -> npt.NDArray[np.bool_]:
    """Which vectors can surely be stored, seen for all at once; `vector_reason` decides on the others."""
    sound = np.array([vector is None for vector in vectors], dtype=np.bool_)
    fitting = {
        row: vector
        for row, vector in enumerate(vectors)
        if isinstance(vector, np.ndarray) and vector.dtype == np.float32 and vector.shape == (dimension,)
    }
    if fitting:
        matrix = np.stack(list(fitting.values()))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        # Well within the bounds, as these lengths are less exact; that of a vector with a NaN is within none.
        sound[list(fitting)] = (norms > 2 * SMALLEST_NORM) & (norms < LARGEST_NORM / 2)
    return sound


def _has_sound_texts(record: Record) -> bool:
    """Whether the texts of a record can surely be stored, seen for all at once; if not, each is looked at."""
    texts = [record.id, record.content, record.created_at, "" if record.terms is None else record.terms]
    try:
        for key, value in dict(record.metadata).items():
            texts.append(key)
            if isinstance(value, str):
                texts.append(value)
            elif value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
                return False
        return bool(record.id) and unstorable_reason("".join(texts)) is None
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False


def storable_ids(ids: Iterable[str]) -> list[str]:
    """`ids` without repetitions and without those no record can have, since backends fail on them."""
    return [id_ for id_ in dict.fromkeys(ids) if id_ and unstorable_reason(id_) is None]


def check_queries(vectors: Vector, dimension: int) -> Vector:
    """The query vectors as a float32 array of shape (n, dimension).

    Raises:
        InvalidInputError: one is zero, not finite or of the wrong length.
    """
    rows = np.atleast_2d(np.asarray(vectors)) if np.size(vectors) else np.zeros((0, dimension))
    for position, vector in enumerate(rows):
        if reason := vector_reason(vector, dimension):
            raise InvalidInputError(f"query {position} cannot be searched with: {reason}")
    return rows.astype(np.float32)
