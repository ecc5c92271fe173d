"""Records to rows and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.formats import dumps, loads_object
from agenthood.stores.base import Collection, Record, Rejection, Vector
from agenthood.stores.postgres.keys import key, long
from agenthood.stores.postgres.sql import ID, TENANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agenthood.stores.postgres.connections import Rows

LOCAL = "local"
"""The tenant of records that name none."""


def tenant_of(record: Record, default: str) -> str:
    """Whose record it is: as its metadata say, else `default`."""
    named = record.metadata.get(TENANT)
    return named if isinstance(named, str) else default


def of_tenant(records: Sequence[Record], tenant: str | None) -> tuple[list[Record], tuple[Rejection, ...]]:
    """The records that a store opened for `tenant` may write, and the rejected ones."""
    if tenant is None:
        return list(records), ()
    own = [record for record in records if tenant_of(record, tenant) == tenant]
    refused = (record for record in records if tenant_of(record, tenant) != tenant)
    return own, tuple(
        Rejection(
            record.id, f"it belongs to tenant {tenant_of(record, tenant)!r:.80}, this store to {tenant!r:.80}"
        )
        for record in refused
    )


def _metadata_key(record: Record, name: str) -> str | None:
    value = record.metadata.get(name)
    return key(value) if isinstance(value, str) else None


def columns(collection: Collection, tenant: str | None) -> dict[str, tuple[str, Callable[[Record], Any]]]:
    """Column -> how it is taken from a parameter array, and the value that a record has for it.

    In the expression `{}` stands for the column of the array, which is of texts unless the column is a vector.
    """
    found: dict[str, tuple[str, Callable[[Record], Any]]] = {
        "id": ("{}", lambda record: key(record.id)),
        "full_id": ("{}", lambda record: long(record.id)),
        TENANT: ("{}", lambda record: key(tenant_of(record, tenant or LOCAL))),
        "content": ("{}", lambda record: record.content),
        "metadata": ("{}", lambda record: dumps(dict(record.metadata))),
        "attributes": ("{}::jsonb", lambda record: dumps(dict(record.metadata))),
        "created_at": ("{}", lambda record: record.created_at),
        "vector": ("{}", lambda record: exact(record.vector)),
    }
    for name in collection.columns:
        if name != TENANT:
            found[name] = ("{}", lambda record, name=name: _metadata_key(record, name))  # type: ignore[misc]
    if collection.typed:
        found["terms"] = ("{}", lambda record: record.terms)
        found["words"] = ("string_to_array({}, ' ')", _words)
    if collection.lexical:
        found["lexical"] = ("{}", lambda record: exact(record.lexical))
    return found


def exact(vector: Vector | None) -> Vector | None:
    """The vector as float32, whatever it was given as."""
    return None if vector is None else np.asarray(vector, dtype=np.float32)


def _words(record: Record) -> str | None:
    return (
        None if record.terms is None else " ".join(key(term) for term in dict.fromkeys(record.terms.split()))
    )


def selected(collection: Collection, *, vectors: bool, also: Iterable[str] = ()) -> list[str]:
    """The expressions that `to_records` reads, and the vectors in `also`."""
    listed = [f"{ID} as id", "content", "metadata", "created_at"]
    if collection.typed:
        listed.append("terms")
    wanted = {*also} | ({"vector", "lexical"} if vectors else set())
    return listed + [name for name in vector_columns(collection) if name in wanted]


def vector_columns(collection: Collection) -> tuple[str, ...]:
    """The vectors that a record of the collection may have."""
    return ("vector", "lexical") if collection.lexical else ("vector",)


def names(expressions: Sequence[str]) -> list[str]:
    """The names of the columns that `selected` gives."""
    return [expression.rpartition(" ")[2] for expression in expressions]


def to_records(rows: Rows, expressions: Sequence[str]) -> list[Record]:
    """The rows, read with `expressions`, as records."""
    fields = names(expressions)
    found = []
    for row in rows:
        values = dict(zip(fields, row, strict=True))
        values["metadata"] = loads_object(values["metadata"])
        found.append(Record(**values))
    return found
