"""Records to Arrow tables and back, in the stored format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.formats import dumps_each, loads_object
from agenthood.stores.base import LEXICAL_DIMENSION, SCOPE_FIELDS, TYPED_FIELDS, Collection, Record, Vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

# Declared on `id` so that concurrent upserts of the same new id conflict instead of both inserting.
PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}

TEXT_COLUMNS = ("id", "content", "metadata", "created_at")
_METADATA_COLUMNS = {*TYPED_FIELDS, *SCOPE_FIELDS}
_OWN_COLUMNS = {*TEXT_COLUMNS, *_METADATA_COLUMNS, "terms", "vector", "lexical"}


def schema_of(collection: Collection) -> pa.Schema:
    """The table schema: the five shared columns in their order, then those of a typed collection."""
    import pyarrow as pa  # noqa: PLC0415  loads in 0.35 s

    fields = [
        pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("vector", pa.list_(pa.float32(), collection.dimension)),
        pa.field("content", pa.utf8()),
        pa.field("metadata", pa.utf8()),
        pa.field("created_at", pa.utf8()),
    ]
    fields += [pa.field(name, pa.utf8()) for name in collection.columns]
    if collection.typed:
        fields.append(pa.field("terms", pa.utf8()))
    if collection.lexical:
        fields.append(pa.field("lexical", pa.list_(pa.float32(), LEXICAL_DIMENSION)))
    return pa.schema(fields)


def collection_of(name: str, schema: pa.Schema) -> Collection | None:
    """The collection a table of this schema is, or None if it is none of ours."""
    import pyarrow as pa  # noqa: PLC0415

    if not {*TEXT_COLUMNS, "vector"} <= set(schema.names) or schema.field("id").nullable:
        return None
    vector = schema.field("vector").type
    if not pa.types.is_fixed_size_list(vector) or not pa.types.is_float32(vector.value_type):
        return None
    return Collection(
        name,
        vector.list_size,
        typed="terms" in schema.names,
        lexical="lexical" in schema.names,
        scoped={*SCOPE_FIELDS} <= set(schema.names),
    )


def to_table(records: Sequence[Record], schema: pa.Schema) -> pa.Table:
    """The records as an Arrow table with those columns of `schema` that are ours.

    A missing vector becomes zeros in the shared table, as the TypeScript program writes it, and null in ours.
    Columns that another program added stay as they are in rows that are replaced, and null in new ones.
    """
    import pyarrow as pa  # noqa: PLC0415

    ours = bool({"terms", *SCOPE_FIELDS} & set(schema.names))
    columns = []
    known = [field for field in schema if field.name in _OWN_COLUMNS]
    for field in known:
        if pa.types.is_fixed_size_list(field.type):
            vectors = [getattr(record, field.name) for record in records]
            columns.append(_vector_column(vectors, field.type.list_size, nulls=ours))
        else:
            columns.append(pa.array(_texts(records, field.name), pa.utf8()))
    return pa.table(columns, schema=pa.schema(known))


def _texts(records: Sequence[Record], column: str) -> Sequence[str | None]:
    if column == "metadata":
        return dumps_each([record.metadata for record in records])
    if column in _METADATA_COLUMNS:
        values = [record.metadata.get(column) for record in records]
        return [value if isinstance(value, str) else None for value in values]
    return [getattr(record, column) for record in records]


def _vector_column(vectors: Sequence[Vector | None], dimension: int, *, nulls: bool) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415

    values = np.zeros((len(vectors), dimension), dtype=np.float32)
    for row, vector in enumerate(vectors):
        if vector is not None:
            values[row] = vector
    missing = pa.array(np.array([vector is None for vector in vectors], dtype=bool)) if nulls else None
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), dimension, mask=missing)


def matrix_of(column: pa.ChunkedArray) -> Vector:
    """A vector column as float32 (rows, dimension); null rows are zero."""
    combined = column.combine_chunks()
    if combined.null_count:
        combined = combined.fill_null([0.0] * combined.type.list_size)
    flat = combined.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(len(combined), combined.type.list_size)


def to_records(table: pa.Table) -> list[Record]:
    """The rows of `table` as records, with whatever vectors and terms it has; all-zero vectors are None."""
    columns: dict[str, list[Any]] = {
        name: table[name].to_pylist() for name in (*TEXT_COLUMNS, "terms") if name in table.column_names
    }
    vectors = {name: _rows_of(table[name]) for name in ("vector", "lexical") if name in table.column_names}
    empty: list[None] = [None] * table.num_rows
    return [
        Record(
            id=id_,
            content=content or "",
            metadata=loads_object(metadata or ""),
            created_at=created_at or "",
            vector=vector,
            lexical=lexical,
            terms=terms,
        )
        for id_, content, metadata, created_at, terms, vector, lexical in zip(
            columns["id"],
            columns["content"],
            columns["metadata"],
            columns["created_at"],
            columns.get("terms", empty),
            vectors.get("vector", empty),
            vectors.get("lexical", empty),
            strict=True,
        )
    ]


def _rows_of(column: pa.ChunkedArray) -> list[Vector | None]:
    matrix = matrix_of(column)
    present: list[bool] = np.any(matrix, axis=1).tolist()
    return [row if there else None for row, there in zip(matrix, present, strict=True)]


def newest(records: Sequence[Record]) -> dict[str, Record]:
    """One record per id: the one with the newest `created_at`, the later row if they are equal."""
    best: dict[str, Record] = {}
    for record in records:
        known = best.get(record.id)
        if known is None or record.created_at >= known.created_at:
            best[record.id] = record
    return best
