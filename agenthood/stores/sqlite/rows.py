"""Records to rows and back, and terms to words that SQLite's full-text search leaves as they are."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.formats import loads_object
from agenthood.stores.base import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agenthood.stores.base import Vector, VectorField
    from agenthood.stores.sqlite.schema import Tables

TEXTS = "r.id, r.content, r.metadata, r.created_at, r.terms"
"""What makes up a record, save its vectors, of a row named `r`."""
_TEXT_COUNT = 5

# Its tokenizer splits at ASCII punctuation and folds ASCII capitals; all else is part of a word.
_CHANGED = re.compile("[^0-9a-y\x80-\U0010ffff]")
_LONGEST_WORD = 1_000


def selection(tables: Tables, fields: Iterable[VectorField]) -> tuple[str, str]:
    """The columns of a record with these vectors, and the joins that bring the vectors to a row named `r`."""
    columns, joins = TEXTS, ""
    for field in fields:
        columns += f", {field}_.embedding"
        joins += f" left join {tables.vectors(field)} {field}_ on {field}_.rowid = r.rid"
    return columns, joins


def record_of(row: Sequence[Any], fields: Sequence[VectorField]) -> Record:
    """The record of a row that was selected with `selection`."""
    id_, content, metadata, created_at, terms = row[:_TEXT_COUNT]
    vectors = {
        field: vector_of(blob)
        for field, blob in zip(fields, row[_TEXT_COUNT:], strict=True)
        if blob is not None
    }
    return Record(id_, content, loads_object(metadata), created_at, terms=terms, **vectors)


def vector_of(blob: bytes) -> Vector:
    """The float32 (d,) vector in `blob`."""
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def blob_of(vector: Vector) -> bytes:
    """`vector` as sqlite-vec keeps it."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def text_of(record: Record, column: str) -> str | None:
    """The metadata value that a column holds."""
    value = record.metadata.get(column)
    return value if isinstance(value, str) else None


def words(terms: Iterable[str]) -> list[str]:
    """Each term as one word of full-text search; different ones for different terms."""
    return [_word(term) for term in terms]


def _word(term: str) -> str:
    word = _CHANGED.sub(lambda found: f"z{ord(found.group()):02x}", term)
    if len(word) <= _LONGEST_WORD:
        return word
    return "zz" + blake2b(term.encode(), digest_size=16).hexdigest()
