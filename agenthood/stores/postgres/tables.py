"""The collections of a schema: finding, making, listing and dropping their tables.

A table is named by a number that is never used again, so that whoever remembers the table of a collection that was
dropped and made anew is told so by the server, and looks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agenthood.errors import StoreError
from agenthood.stores.base import Collection
from agenthood.stores.fitting import fitting
from agenthood.stores.postgres.errors import MISSING_TABLE, state_of
from agenthood.stores.postgres.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agenthood.stores.postgres.connections import Connection, Rows
    from agenthood.stores.postgres.database import Database

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table within a transaction.

    Attributes:
        connection: in the transaction.
        collection: what it holds.
        name: its name, qualified and quoted.
    """

    connection: Connection
    collection: Collection
    name: str

    async def run(self, statement: str, parameters: Sequence[object] = ()) -> Rows:
        """See `Connection.run`."""
        return await self.connection.run(statement, parameters)


_COLUMNS = "name, dimension, typed, lexical, scoped, number"
_ATTEMPTS = 3


class Tables:
    """The tables of `database`, remembered once found."""

    def __init__(self, database: Database) -> None:
        """Args: `database` they are in."""
        self._database = database
        self._known: dict[str, tuple[Collection, str]] = {}

    async def find(self, collection: Collection) -> tuple[Collection, str] | None:
        """The collection as it is and the name of its table, or None: see `VectorStore.find`."""
        if (known := self._known.get(collection.name)) is not None:
            return fitting(collection, known[0]), known[1]
        found = (await self._read()).get(collection.name)
        if found is None:
            return None
        self._known[collection.name] = found
        return fitting(collection, found[0]), found[1]

    async def ensure(self, collection: Collection) -> tuple[Collection, str]:
        """As `find`, making it unless it is there: see `VectorStore.ensure_collection`."""
        await self._database.ready(make=True)
        return await self.find(collection) or await self._make(collection)

    async def all(self) -> dict[str, tuple[Collection, str]]:
        """Name -> collection and table, by name."""
        return await self._read()

    async def drop(self, name: str) -> None:
        """Remove a table with everything in it; nothing happens if there is none."""
        self._known.pop(name, None)
        if not await self._database.ready(make=False):
            return
        async with self._database.transaction(f"dropping {name!r}", rows=False) as connection:
            for (number,) in await connection.run(
                f"delete from {self._registry} where name = %s returning number",  # noqa: S608  quoted
                [name],
            ):
                await connection.run(f"drop table if exists {self._table(number)}")

    async def run(
        self,
        doing: str,
        collection: Collection,
        work: Callable[[OpenTable], Awaitable[T]],
        *,
        make: bool = False,
    ) -> T | None:
        """What `work` returns, given the table in a transaction; begun anew where others came first.

        Returns:
            None if there is no such collection and none is to be made.
        """
        for attempt in range(_ATTEMPTS):
            there = await (self.ensure(collection) if make else self.find(collection))
            if there is None:
                return None
            found, table = there

            async def inner(connection: Connection, found: Collection = found, table: str = table) -> T:
                return await work(OpenTable(connection, found, table))

            try:
                return await self._database.run(f"{doing} {collection.name!r}", inner)
            except StoreError as exc:
                if attempt == _ATTEMPTS - 1 or not self._database.outdated(state_of(exc.__cause__ or exc)):
                    raise
                self._known.pop(collection.name, None)
                self._database.forget()
        raise AssertionError  # pragma: no cover  the loop returns or raises

    async def _read(self) -> dict[str, tuple[Collection, str]]:
        if not await self._database.ready(make=False):
            return {}
        try:
            async with self._database.transaction("reading the collections", rows=False) as connection:
                rows = await connection.run(f"select {_COLUMNS} from {self._registry} order by name")  # noqa: S608
        except StoreError as exc:
            if state_of(exc.__cause__ or exc) != MISSING_TABLE:
                raise
            self._database.forget()  # the schema was dropped
            return {}
        return {row[0]: (Collection(*row[:-1]), self._table(row[-1])) for row in rows}

    async def _make(self, collection: Collection) -> tuple[Collection, str]:
        wanted = (
            collection.name,
            collection.dimension,
            collection.typed,
            collection.lexical,
            collection.scoped,
        )
        async with self._database.transaction(f"making {collection.name!r}", rows=False) as connection:
            # Of several processes that make it, one inserts, and the others wait here until it has committed.
            made = await connection.run(
                f"insert into {self._registry} (name, dimension, typed, lexical, scoped) "  # noqa: S608  quoted
                "values (%s, %s, %s, %s, %s) on conflict (name) do nothing returning number",
                wanted,
            )
            for (number,) in made:
                table = self._table(number)
                await connection.run(
                    f"select {self._database.quoted_schema}.make_rows(%s, %s, %s, %s, %s)",
                    [f"rows_{number}", *wanted[1:]],
                )
                if self._database.takes_role:
                    role = quoted(self._database.role)
                    await connection.run(f"grant select, insert, update, delete on {table} to {role}")
        found = await self.find(collection)
        if found is None:
            raise StoreError(f"collection {collection.name!r} was dropped while it was being made: try again")
        return found

    # Names are qualified: where the schema was dropped, the next one on the search path is none of ours.

    @property
    def _registry(self) -> str:
        return f"{self._database.quoted_schema}.collections"

    def _table(self, number: int) -> str:
        return f'{self._database.quoted_schema}."rows_{number}"'
