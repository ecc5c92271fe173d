"""The tables behind a collection, and the catalogue that says which collections there are.

A collection has a number, from which the names of its tables are made: `rows_7` holds the records, `vector_7` and
`lexical_7` their vectors by `rid`, `terms_7` their terms. A collection made anew has a new number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from agenthood.errors import StoreError
from agenthood.stores.base import LEXICAL_DIMENSION, Collection, VectorField
from agenthood.stores.fitting import fitting

if TYPE_CHECKING:
    import apsw

CATALOGUE: Final = """
create table collections (
    number integer primary key autoincrement,
    name text not null unique,
    dimension integer not null,
    typed integer not null,
    lexical integer not null,
    scoped integer not null,
    version integer not null default 0
) strict
"""
PARTITION: Final = "tenant_id"
"""The column by which vectors lie together."""

# sqlite-vec keeps vectors in blocks. A tenant with one record takes a whole one, so they are small where there are
# tenants; larger ones are read a little faster (100,000 x 256: 47 ms in blocks of 128, 63 ms in blocks of 16).
_BLOCK_BYTES = 131_072
_SCOPED_BLOCK_BYTES = 16_384
_MOST_IN_BLOCK = 1_024


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a collection.

    Attributes:
        collection: the collection as it is.
        number: what their names end in.
    """

    collection: Collection
    number: int

    @property
    def rows(self) -> str:
        """The table of records."""
        return f"rows_{self.number}"

    @property
    def terms(self) -> str:
        """The full-text table; only of typed collections."""
        return f"terms_{self.number}"

    @property
    def fields(self) -> tuple[VectorField, ...]:
        """The vectors a record may have."""
        return ("vector", "lexical") if self.collection.lexical else ("vector",)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `rows` that hold metadata, each with an index."""
        return ("type", *self.collection.columns)

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns beside a vector, by which it is searched: each holds the `mark` of a metadata value."""
        return tuple(name for name in self.collection.columns if name != PARTITION)

    def vectors(self, field: VectorField) -> str:
        """The table of vectors.

        Raises:
            StoreError: the collection has none.
        """
        if field not in self.fields:
            raise StoreError(
                f"collection {self.collection.name!r} has no {field} vectors: search its 'vector'"
            )
        return f"{field}_{self.number}"

    def width(self, field: VectorField) -> int:
        """The dimension of a vector."""
        return LEXICAL_DIMENSION if field == "lexical" else self.collection.dimension


@lru_cache(maxsize=4_096)
def mark(value: str | None) -> int:
    """A 64-bit number that stands for a metadata value, 0 for an absent one.

    sqlite-vec takes no NULL, and compares texts of more than 12 bytes at half the speed of a search without a filter.
    """
    if value is None:
        return 0
    return int.from_bytes(
        blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True
    )


def find(connection: apsw.Connection, wanted: Collection) -> Tables | None:
    """The tables of `wanted`, or None if there are none.

    Raises:
        StoreError: the collection of that name cannot serve as `wanted`.
    """
    row = connection.execute(
        "select number, dimension, typed, lexical, scoped from collections where name = ?", (wanted.name,)
    ).fetchone()
    if row is None:
        return None
    number, dimension, *flags = row
    return Tables(fitting(wanted, _collection(wanted.name, dimension, *flags)), number)


def every(connection: apsw.Connection) -> list[Tables]:
    """The tables of all collections, by name."""
    rows = connection.execute(
        "select number, name, dimension, typed, lexical, scoped from collections order by name"
    )
    return [Tables(_collection(*described), number) for number, *described in rows]


def _collection(name: str, dimension: int, typed: int, lexical: int, scoped: int) -> Collection:
    return Collection(name, dimension, typed=bool(typed), lexical=bool(lexical), scoped=bool(scoped))


def ensure(connection: apsw.Connection, wanted: Collection) -> Tables:
    """The tables of `wanted`, made if there are none; within a transaction.

    Raises:
        StoreError: the collection of that name cannot serve as `wanted`.
    """
    return find(connection, wanted) or _create(connection, wanted)


def _create(connection: apsw.Connection, wanted: Collection) -> Tables:
    values = (wanted.name, wanted.dimension, wanted.typed, wanted.lexical, wanted.scoped)
    connection.execute(
        "insert into collections (name, dimension, typed, lexical, scoped) values (?, ?, ?, ?, ?)", values
    )
    tables = Tables(wanted, connection.last_insert_rowid())
    # Far from the versions of a collection that had this name before.
    connection.execute("update collections set version = number << 32 where number = ?", (tables.number,))
    texts = "".join(f", {name} text" for name in (*tables.columns, "terms"))
    connection.execute(
        f"create table {tables.rows} (rid integer primary key, id text not null unique, content text not null, "
        f"metadata text not null, created_at text not null{texts}) strict"
    )
    for name in (*tables.columns, "created_at"):
        connection.execute(f"create index {tables.rows}_{name} on {tables.rows} ({name})")
    for field in tables.fields:
        create_vectors(connection, tables, field)
    if wanted.typed:
        # The terms come already normalised and separated, in characters that this tokenizer leaves alone.
        connection.execute(f"create virtual table {tables.terms} using fts5(tokens, tokenize = 'ascii')")
        connection.execute(f"insert into {tables.terms} ({tables.terms}, rank) values ('secure-delete', 1)")
    return tables


def version(connection: apsw.Connection, tables: Tables) -> int:
    """How often the collection was written to, from some number on."""
    found: int = connection.execute("select version from collections where number = ?", (tables.number,)).get
    return found


def raise_version(connection: apsw.Connection, tables: Tables) -> int:
    """The version that the transaction makes, which changed records."""
    found: int = connection.execute(
        "update collections set version = version + 1 where number = ? returning version", (tables.number,)
    ).get
    return found


def create_vectors(connection: apsw.Connection, tables: Tables, field: VectorField) -> None:
    """Make the table of vectors `field`."""
    width, scoped = tables.width(field), tables.collection.scoped
    columns = [f"{PARTITION} integer partition key"] if scoped else []
    columns += [f"{name} integer" for name in tables.marks]
    columns.append(f"embedding float[{width}] distance_metric=cosine")
    fitting_in = (_SCOPED_BLOCK_BYTES if scoped else _BLOCK_BYTES) // (4 * width)
    columns.append(f"chunk_size={max(8, min(_MOST_IN_BLOCK, fitting_in // 8 * 8))}")
    connection.execute(f"create virtual table {tables.vectors(field)} using vec0({', '.join(columns)})")


def drop(connection: apsw.Connection, name: str) -> None:
    """Remove a collection with its tables; within a transaction."""
    for tables in every(connection):
        if tables.collection.name != name:
            continue
        doomed = [tables.rows, *map(tables.vectors, tables.fields)]
        for table in (*doomed, *((tables.terms,) if tables.collection.typed else ())):
            connection.execute(f"drop table {table}")
        connection.execute("delete from collections where number = ?", (tables.number,))
