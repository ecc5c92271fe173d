"""The backends that the contract suite runs over, and the records it fills them with.

A further backend adds a line to `BACKENDS`: how to open a store at a folder of the test's own.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.scope import Scope
from agenthood.stores.base import LEXICAL_DIMENSION, Collection, Record
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.scoped import ScopedStore
from agenthood.stores.sqlite.store import SqliteStore
from stores.postgres_server import postgres_store
from stores.qdrant_local import SERVER, open_qdrant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from agenthood.stores.base import Vector, VectorStore
    from agenthood.stores.filters import Filter

BACKENDS: Mapping[str, Callable[[Path], VectorStore]] = {
    "lance": lambda folder: LanceStore(folder / "memory"),
    "scoped": lambda folder: ScopedStore(LanceStore(folder / "memory"), Scope("acme", "shop", "agent 7")),
    "postgres": postgres_store,
    "qdrant": open_qdrant,
    "sqlite": lambda folder: SqliteStore(folder / "memory.sqlite"),
}

ONE_PROCESS = frozenset({"qdrant"} if SERVER is None else ())
"""Backends that other processes do not see."""
ON_SERVERS = frozenset({"postgres", "qdrant"})
"""Backends that keep nothing below the test's folder: what a server's files hold is not for our tests to search."""

VIEWS = frozenset({"scoped"})
"""Backends that show one scope of tables which are everyone's: dropping one removes its own records."""
WHOLE = tuple(name for name in BACKENDS if name not in VIEWS)
"""The others, whose scoped collections show the records of all scopes."""

TYPED = Collection("patterns", 8, typed=True, lexical=True)
SHARED = Collection("vectors", 8)
"""As `stores.base.SHARED`, with short vectors."""

CREATED = "2026-06-01T00:00:00.000Z"


@dataclass(frozen=True)
class Backend:
    """One backend at one place, which survives its stores."""

    name: str
    folder: Path

    def open(self) -> VectorStore:
        """A new store object on the same data."""
        return BACKENDS[self.name](self.folder)

    @asynccontextmanager
    async def reopened(self) -> AsyncIterator[VectorStore]:
        """A new store object, closed afterwards: what it shows is what was really kept."""
        store = self.open()
        try:
            yield store
        finally:
            await store.close()


def unit(seed: int, dimension: int = 8) -> Vector:
    """float32 (dimension,) of unit length, the same for the same seed."""
    values = np.random.default_rng(seed).standard_normal(dimension)
    return (values / np.linalg.norm(values)).astype(np.float32)


def axis(position: int, dimension: int = 8) -> Vector:
    """A vector along one axis."""
    return np.eye(dimension, dtype=np.float32)[position]


def record(id_: str, content: str = "", **changes: Any) -> Record:
    """A valid record of type `t`; `changes` replace its fields."""
    values: dict[str, Any] = {"metadata": {"type": "t"}, "created_at": CREATED} | changes
    return Record(id_, content or f"content of {id_[:40]}", **values)


def full(number: int, **changes: Any) -> Record:
    """A record with everything a typed collection keeps, different for each number."""
    values: dict[str, Any] = {
        "metadata": {"type": "t", "kind": "learned", "member": f"member-{number % 3}", "skill": "skill"},
        "vector": unit(number),
        "lexical": unit(number, LEXICAL_DIMENSION),
        "terms": f"all word{number} third{number % 3}",
    } | changes
    return record(f"row-{number:05d}", **values)


async def everything(
    store: VectorStore, collection: Collection, condition: Filter | None = None
) -> list[Record]:
    """All records that `scan` gives, with vectors, in its order."""
    found: list[Record] = []
    async for batch in store.scan(collection, condition=condition, vectors=True):
        found += batch
    return found


def fields(row: Record) -> tuple[object, ...]:
    """A record as something that `==` compares."""
    vectors = (None if vector is None else vector.tolist() for vector in (row.vector, row.lexical))
    return (row.id, row.content, dict(row.metadata), row.created_at, row.terms, *vectors)
