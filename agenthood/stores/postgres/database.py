"""One schema of a Postgres database: made and checked on first use, and the transactions in it.

Every transaction says whose rows it may see (`agenthood.tenant`, or `agenthood.tenants = 'all'`), which the policies of
the tables enforce. A superuser and whoever has BYPASSRLS would pass them by: there, transactions on rows take a role
of their own, which cannot log in and owns nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from agenthood.errors import StoreError, StoreUnavailableError
from agenthood.stores.postgres.address import Address
from agenthood.stores.postgres.connections import Connection, Connections
from agenthood.stores.postgres.errors import (
    MADE_MEANWHILE,
    MISSING_RIGHT,
    MISSING_TABLE,
    REPEATABLE,
    state_of,
    translated,
)
from agenthood.stores.postgres.keys import key
from agenthood.stores.postgres.migrate import applied, check_makeable, migrate, migrations, pending
from agenthood.stores.postgres.sql import literal, quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from agenthood.stores.settings import StoreSettings

T = TypeVar("T")

ATTEMPTS = 5
"""How often a transaction is begun in all, where others came first."""
_GRANTED = (
    "select has_schema_privilege(%s, %s::regnamespace, 'usage') and pg_has_role(current_user, %s, 'member') "
    "and not exists (select from pg_class where relkind = 'r' and relname like 'rows\\_%%' "
    "and not has_table_privilege(%s, oid, 'insert') and relnamespace = %s::regnamespace)"
)
_REFUSED = (
    "select relname from pg_class where relkind = 'r' and relname like 'rows\\_%%' and relnamespace = %s::regnamespace "
    "and not (has_table_privilege(oid, 'insert') and has_table_privilege(oid, 'update') "
    "and has_table_privilege(oid, 'delete')) order by relname"
)
_LONGEST_NAME = 55
"""Postgres cuts names after 63 bytes."""


class Database:
    """The schema `settings.namespace`. Nothing is reached before first use."""

    def __init__(self, settings: StoreSettings, tenant: str | None) -> None:
        """Args: `settings` of the store; whose rows may be seen, None for everyone's.

        Raises:
            ConfigError: the address cannot be read.
            StoreError: the namespace is no name for a schema.
        """
        self.address = Address.of(settings)
        self.schema = settings.namespace
        if (
            not 0 < len(self.schema.encode()) <= _LONGEST_NAME
            or "\0" in self.schema
            or self.schema[:3] == "pg_"
        ):
            raise StoreError(
                f"store.namespace {self.schema!r:.80} cannot name a schema: give 1 to {_LONGEST_NAME} bytes "
                "that do not begin with 'pg_'"
            )
        self.quoted_schema = quoted(self.schema)
        self.tenant = tenant
        self.role = f"{self.schema}_rows"
        self.takes_role = False
        self.wall = "unknown: nothing was asked of the server yet"
        """Why row level security does not hold; empty if it does."""
        self.connections = Connections(self.address)
        self._ready = False

    async def ready(self, *, make: bool) -> bool:
        """Whether the schema is there and up to date; with `make` it is made where it is not.

        Raises:
            StoreError: it was made by a newer program, or the server lacks what it needs.
            StoreUnavailableError: the server cannot be reached, or does not let us.
        """
        if self._ready:
            return True
        with translated("opening the store", self.address):
            async with self.connections.borrowed(self._opening(rows=False)) as connection:
                there = await applied(connection, self.schema)
                await connection.rollback()
            if not there and not make:
                return False
            outdated = bool(pending(migrations(), there, self.schema))
            async with self.connections.own() as connection:
                if outdated:
                    await migrate(connection, self.schema)
                await self._find_role(connection)
        self._ready = True
        return True

    async def check_makeable(self) -> None:
        """Whether what is not there yet could be made.

        Raises:
            StoreError: the server has no pgvector, or the user may not make its extension.
            StoreUnavailableError: the server cannot be reached, or the user may not make a schema.
        """
        async with self.own("opening the store") as connection:
            await check_makeable(connection, self.schema)

    async def check_writable(self) -> None:
        """Whether the user may write to the tables that are there.

        Raises:
            StoreUnavailableError: one of them may only be read.
        """
        async with self.transaction("looking at the user's rights") as connection:
            refused = [name for (name,) in await connection.run(_REFUSED, [self.quoted_schema])]
        if refused:
            raise StoreUnavailableError(
                f"Postgres at {self.address}: the user may not write to {', '.join(refused)} in the schema "
                f"{self.schema!r}: let an administrator grant insert, update and delete"
            )

    def forget(self) -> None:
        """Look again before the next use: another process may have dropped the schema."""
        self._ready = False

    def outdated(self, state: str) -> bool:
        """Whether the error `state` may come from what this process has not seen yet, so that to look again helps."""
        # A table made by a user whom the policies hold is granted to nobody, and so not to the role taken here.
        return state == MISSING_TABLE or (state == MISSING_RIGHT and self.takes_role)

    async def _find_role(self, connection: Connection) -> None:
        ((bypasses, superuser),) = await connection.run(
            "select rolsuper or rolbypassrls, rolsuper from pg_roles where rolname = current_user"
        )
        # Set at the end and at once: other tasks may be making tables, or reading, on what was found before.
        takes_role, wall = bypasses, ""
        if bypasses:  # else the policies hold for this user, though it owns the tables
            try:
                await self._make_role(connection, grant=not superuser)
            except Exception as exc:  # the driver loads late; what is not known is raised
                if state_of(exc)[:2] not in {"42", "28", "0L", "0P"}:
                    raise
                takes_role = False
                wall = (
                    f"the user passes row level security by and may not make the role {self.role!r}: connect as one "
                    "without SUPERUSER and BYPASSRLS"
                )
        self.takes_role, self.wall = takes_role, wall

    async def _make_role(self, connection: Connection, *, grant: bool) -> None:
        role, schema = quoted(self.role), quoted(self.schema)
        found = await connection.run(
            "select rolsuper or rolbypassrls from pg_roles where rolname = %s", [self.role]
        )
        if found and found[0][0]:
            raise StoreError(
                f"the role {self.role!r} must have neither SUPERUSER nor BYPASSRLS: alter or drop it"
            )
        if not found:
            await self._ignoring_others(connection, f"create role {role} nologin")
        ((granted,),) = await connection.run(_GRANTED, [self.role, schema, self.role, self.role, schema])
        if not granted:  # once, and not by each process that starts
            await self._ignoring_others(
                connection,
                f"grant usage on schema {schema} to {role}; "
                f"grant select, insert, update, delete on all tables in schema {schema} to {role}; "
                f"revoke all on {schema}.collections, {schema}.schema_migrations from {role}"
                + (f"; grant {role} to current_user" if grant else ""),
            )

    @staticmethod
    async def _ignoring_others(connection: Connection, script: str) -> None:
        """Run what another process may be doing at this moment too: then it is done."""
        for attempt in range(ATTEMPTS):
            try:
                await connection.script(script)
            except Exception as exc:  # the driver loads late; what is not known is raised
                if state_of(exc) in MADE_MEANWHILE:
                    return
                if "concurrently updated" not in str(exc) or attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.02 * 2**attempt)
            else:
                return

    # -- transactions -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self, doing: str, *, rows: bool = True) -> AsyncIterator[Connection]:
        """A transaction, committed at the end and taken back if the block fails.

        Args:
            doing: what is being done, for errors, such as `reading 'vectors'`.
            rows: whether rows are read or written; else the schema itself is, with the rights of the user.
        """
        with translated(doing, self.address):
            async with self.connections.borrowed(self._opening(rows=rows)) as connection:
                try:
                    yield connection
                    await connection.script("commit")
                except BaseException:  # also a cancellation: none leaves a transaction open
                    await connection.rollback()
                    raise

    async def run(self, doing: str, work: Callable[[Connection], Awaitable[T]]) -> T:
        """What `work` returns, run in a transaction; begun anew where a concurrent one came first."""
        for attempt in range(ATTEMPTS):
            try:
                async with self.transaction(doing) as connection:
                    return await work(connection)
            except StoreError as exc:
                if state_of(exc.__cause__ or exc) not in REPEATABLE or attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.01 * 2**attempt)
        raise AssertionError  # pragma: no cover  the loop returns or raises

    @asynccontextmanager
    async def own(self, doing: str) -> AsyncIterator[Connection]:
        """A connection of its own outside transactions, with the rights of the user."""
        with translated(doing, self.address):
            async with self.connections.own() as connection:
                yield connection

    def _opening(self, *, rows: bool) -> tuple[str, str]:
        values: dict[str, Any] = {
            "agenthood.tenant": literal("" if self.tenant is None else key(self.tenant)),
            "agenthood.tenants": literal("all" if self.tenant is None else ""),
            "statement_timeout": round(self.address.timeout * 1000),
            # Compiling pays for queries that take seconds, and ours do not.
            "jit": "off",
        }
        if rows and self.takes_role:
            values["role"] = quoted(self.role)
        return self.quoted_schema, "".join(f"; set local {name} = {value}" for name, value in values.items())
