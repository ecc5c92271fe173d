"""The `VectorStore` protocol: what every backend offers, and the values that go through it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from agenthood.stores.filters import Filter

Vector: TypeAlias = npt.NDArray[np.float32]
VectorField: TypeAlias = Literal["vector", "lexical"]

SHARED_DIMENSION = 1536
LEXICAL_DIMENSION = 256
TYPED_FIELDS = ("kind", "member", "skill")
"""Metadata keys that tables of our own keep as columns, to filter on."""
SCOPE_FIELDS = ("tenant_id", "project", "agent_id")
"""Metadata keys that scoped tables keep as columns: who may see a record."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of records whose vectors belong to one embedding space.

    Attributes:
        name: the table's name: lower-case letters, digits and underscores.
        dimension: length of `vector`.
        typed: True for a table of our own, which keeps `TYPED_FIELDS` and `terms` as columns.
        lexical: True if records also carry a lexical vector of `LEXICAL_DIMENSION`.
        scoped: True if records of many scopes share it: `SCOPE_FIELDS` are columns with an index, and a tenant's
            records are found among everyone's without reading theirs.
    """

    name: str
    dimension: int
    typed: bool = False
    lexical: bool = False
    scoped: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The metadata keys kept as columns: what a backend indexes for filters."""
        return (*(TYPED_FIELDS if self.typed else ()), *(SCOPE_FIELDS if self.scoped else ()))

    @property
    def ours(self) -> bool:
        """Whether nobody writes there without the write lock, as the TypeScript program does to the shared table."""
        return self.typed or self.scoped


SHARED = Collection("vectors", SHARED_DIMENSION)
"""The table shared with the TypeScript program: all key-value rows, and the patterns of a 1536-dimensional space."""


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One row of a collection.

    Attributes:
        id: unique within its collection; any text without NUL and lone surrogates.
        content: the text stored.
        metadata: a flat JSON object; `type` comes first and says what the row is.
        created_at: ISO 8601 in UTC with milliseconds and `Z`.
        vector: float32 (dimension,) or None.
        lexical: float32 (LEXICAL_DIMENSION,) or None; only where the collection has one.
        terms: space-separated keyword terms; only in typed collections.
    """

    id: str
    content: str
    metadata: Mapping[str, Any]
    created_at: str
    vector: Vector | None = None
    lexical: Vector | None = None
    terms: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Hit:
    """One record found by `query`.

    Attributes:
        record: the record, with the vectors it has if they were asked for.
        score: cosine in [-1, 1], higher is closer.
    """

    record: Record
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The vectors of many records.

    Attributes:
        ids: the ids of the records.
        vectors: float32 (n, dimension of the field).
        owners: for each record its metadata under `TYPED_FIELDS`, in that order; None where one is absent.
    """

    ids: list[str]
    vectors: Vector
    owners: list[tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that was refused; its neighbours in the batch were written."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """What an upsert wrote.

    Attributes:
        written: how many records were inserted or replaced.
        rejected: what was refused, in the order given.
        version: the collection's version that this made, as `VectorStore.version` gives it; None if unknown.
    """

    written: int
    rejected: tuple[Rejection, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What a backend says of itself.

    Attributes:
        backend: its kind, such as `lancedb`.
        ok: True if it answered, and nothing is known that would keep it from being written to.
        detail: name -> value: `path` or `address` (without a password); `version` of the server or library and of
            its extension, once it was asked; `row_level_security` of a server, `in force` or why not. Each other
            value is a mapping and describes the collection of that name, see `collections`.
        problem: what is wrong and the next step; empty if ok.
    """

    backend: str
    ok: bool
    detail: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def collections(self) -> dict[str, Mapping[str, Any]]:
        """Collection -> what is known of it.

        `rows`; `indices`, name -> at least its `type` and `unindexed_rows`; `unindexed_rows`, how many rows searches
        by meaning compare one by one although an index could serve them; `quantization`, the type of number in which
        an index holds vectors, None where they are exact; and, where scopes share the collection, `tenants`, tenant
        -> rows, of the hundred largest. Backends add more.
        """
        return {name: value for name, value in self.detail.items() if isinstance(value, dict)}


class VectorStore(Protocol):
    """A store of records, searched by vector, by term and by filter.

    Rules every backend keeps: an upsert is by id and replaces the whole record; a higher score is closer;
    ties are ordered by id; a filter returns exactly what `filters.matches` says; an unknown id is simply
    absent from the answer, and so is everything in a collection that does not exist: only `ensure_collection` and
    `upsert` make one. Several rows under one id, as other writers leave them, are read as the one with
    the newest `created_at`. Every method raises `StoreUnavailableError` if the store cannot be reached and
    `StoreError` if it refuses; one that is cancelled leaves no thread and no connection behind.
    """

    async def find(self, collection: Collection) -> Collection | None:
        """The collection as it is, or None if there is none; makes nothing.

        Raises:
            StoreError: a table of that name cannot serve as `collection`.
        """
        ...

    async def ensure_collection(self, collection: Collection) -> Collection:
        """Create the collection unless it exists. Safe from several processes at once.

        Returns:
            The collection as it is: the shared table may have been made with another dimension.

        Raises:
            StoreError: a typed collection exists with another dimension.
        """
        ...

    async def collections(self) -> tuple[Collection, ...]:
        """The collections that exist, by name."""
        ...

    async def drop_collection(self, name: str) -> None:
        """Remove a collection with all its records; nothing happens if there is none.

        Through a `ScopedStore` the records of its scope are removed, and the collection stays for the others'.
        """
        ...

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """Insert or replace `records` by id, in one commit.

        An invalid record is rejected by name and the rest is written. Of several records with one id in
        `records`, the last wins. Duplicates already stored under an id are collapsed into one.
        """
        ...

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """The records with these ids; unknown ids are absent.

        Args:
            collection: where to look.
            ids: any number of ids.
            vectors: whether to read the vectors as well.
        """
        ...

    async def query(  # noqa: PLR0913  one for each thing that can be asked
        self,
        collection: Collection,
        vectors: Vector,
        *,
        field: VectorField = "vector",
        condition: Filter | None = None,
        limit: int = 10,
        unit: bool = False,
        with_vectors: bool = True,
    ) -> list[list[Hit]]:
        """The nearest records for each query vector, best first, ties by id.

        Args:
            collection: where to search.
            vectors: float32 (n, dimension of the field), finite and not zero.
            field: which vector of the records to compare with.
            condition: only records that match it are considered.
            limit: how many hits per query; at most 0 gives none.
            unit: promises that the records which match `condition` have vectors of unit length or none, so
                that an index by distance may serve.
            with_vectors: whether the records found carry their vectors; without them less is read.

        Returns:
            One list of hits per query. Records without a vector are never hits.

        Raises:
            InvalidInputError: a query vector is zero, not finite or of the wrong length.
        """
        ...

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> Matrix:
        """The vectors of all matching records that have one, read at once."""
        ...

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """The records whose `terms` hold at least one of these, without vectors, sorted by id.

        All of them if they are fewer than `limit`; else those the backend's keyword search ranks best.
        """
        ...

    def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """All matching records in batches, in no particular order, one per id."""
        ...

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """The ids of all matching records: `scan` without reading the records."""
        ...

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """Remove the records with these ids; returns how many there were. Old versions may keep them."""
        ...

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """Remove the records with these ids from the collection and from everything kept on disk.

        Also from old versions and indices: afterwards a search through an embedded store's files finds nothing.
        Returns how many there were.
        """
        ...

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """How many records match; duplicates under one id count once each."""
        ...

    async def version(self, collection: Collection) -> int | None:
        """A number that every commit which changes a record raises, one of this store's own by one.

        Whoever holds the write lock may compare it with what this store object said before: equal numbers mean equal
        records. Without the lock it may come out too high while the store tidies up.

        None where there is no collection, or the backend keeps no such number: then nothing may be kept in memory.
        """
        ...

    def exclusive(self, scope: str = "") -> AbstractAsyncContextManager[None]:
        """Hold the write lock of a scope: one holder at a time among all processes, machines, tasks and threads.

        Everything that reads, decides and writes holds it, so that no evidence is lost to a race. A task that
        holds it may enter again, and so may the tasks it started meanwhile; whoever dies gives it back.

        Args:
            scope: whose records are written; an embedded store has one lock for all.

        Raises:
            StoreUnavailableError: it could not be had in time.
        """
        ...

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """Compact, index and clean up the collection; returns what was done and found."""
        ...

    async def health(self) -> Health:
        """Whether the store answers, and what is in it. Never raises, and makes no collection."""
        ...

    async def close(self) -> None:
        """Release handles and locks; closing twice is fine."""
        ...
