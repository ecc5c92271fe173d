"""Numbered SQL files that bring a schema up to date: each once, each whole or not at all, never edited afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from agenthood.errors import StoreError, StoreUnavailableError
from agenthood.stores.postgres.advisory import give_back, taken
from agenthood.stores.postgres.errors import MADE_MEANWHILE
from agenthood.stores.postgres.sql import quoted
from agenthood.stores.reentrant import polled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from importlib.resources.abc import Traversable

    from agenthood.stores.postgres.connections import Connection

_NAME = re.compile(r"([0-9]{4})_[a-z0-9_]+\.sql")
_LONGEST_WAIT = 0.1

_APPLIED = (
    "create table if not exists schema_migrations (version integer primary key, name text not null, "
    "sha256 text not null, applied_at timestamptz not null default now())"
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        """What is kept of the text, to notice that the file was edited."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations(folder: Traversable | None = None) -> list[Migration]:
    """The migrations in `folder`, by number; those of this package unless one is given."""
    folder = folder or files("agenthood.stores.postgres") / "migrations"
    found = [(_NAME.fullmatch(file.name), file) for file in folder.iterdir()]
    return sorted(
        (
            Migration(int(name[1]), name[0], file.read_text(encoding="utf-8").replace("\r\n", "\n"))
            for name, file in found
            if name is not None
        ),
        key=lambda migration: migration.version,
    )


async def applied(connection: Connection, schema: str) -> dict[int, tuple[str, str]]:
    """Version -> name and SHA-256 of the migrations applied to `schema`; empty if there is none."""
    table = f"{quoted(schema)}.schema_migrations"
    if not (await connection.run("select to_regclass(%s) is not null", [table]))[0][0]:
        return {}
    rows = await connection.run(f"select version, name, sha256 from {table}")  # noqa: S608  quoted
    return {version: (name, sha256) for version, name, sha256 in rows}


def pending(known: Sequence[Migration], there: dict[int, tuple[str, str]], schema: str) -> list[Migration]:
    """The migrations still to apply.

    Raises:
        StoreError: the schema is newer than this program, or a file applied to it was edited since.
    """
    newest = max((migration.version for migration in known), default=0)
    if (beyond := max(there, default=0)) > newest:
        raise StoreError(
            f"schema {schema!r} was made by a newer agenthood: it has migration {there[beyond][0]!r}, and this one "
            f"knows {newest} of them; upgrade agenthood here"
        )
    for migration in known:
        if migration.version in there and there[migration.version][1] != migration.sha256:
            raise StoreError(
                f"migration {migration.name!r} was edited after it was applied to schema {schema!r}: put the file back "
                "as it was, and change the schema in a new one"
            )
    return [migration for migration in known if migration.version not in there]


async def migrate(connection: Connection, schema: str, *, folder: Traversable | None = None) -> list[str]:
    """Bring `schema` up to date, making it and the extension first if need be.

    Args:
        connection: one of its own, outside a transaction.
        schema: its name.
        folder: where the migrations lie, if elsewhere than in this package.

    Returns:
        The names of the migrations applied now.

    Raises:
        StoreError: see `pending`; or the extension cannot be had.
        StoreUnavailableError: another process holds the lock for too long.
    """
    known = migrations(folder)
    done = []
    async with _alone(connection, f"migrate:{schema}"):
        await _make_schema(connection, schema)
        await _make_extension(connection)
        await connection.learn_vectors()
        for migration in pending(known, await applied(connection, schema), schema):
            await _apply(connection, schema, migration)
            done.append(migration.name)
    return done


async def check_makeable(connection: Connection, schema: str) -> None:
    """Make what `migrate` begins with, and take it back: whether a user may is known to the server alone.

    Args:
        connection: one of its own, outside a transaction.
        schema: its name.

    Raises:
        StoreError: the extension cannot be had.
        StoreUnavailableError: another process holds the lock for too long.
    """
    async with _alone(connection, f"migrate:{schema}"):
        await connection.script("begin")
        try:
            await _make_schema(connection, schema)
            await _make_extension(connection)
        finally:
            await connection.rollback()


@asynccontextmanager
async def _alone(connection: Connection, name: str) -> AsyncIterator[None]:
    deadline = asyncio.get_running_loop().time() + connection.timeout
    if not await polled(lambda: taken(connection, name), deadline, longest=_LONGEST_WAIT):
        raise StoreUnavailableError(
            f"another process has held the lock 'agenthood:{name}' for {connection.timeout:g} s: "
            "wait for it to finish, or end it"
        )
    try:
        yield
    finally:
        if connection.usable:
            await give_back(connection, name)
        else:
            connection.drop()


async def _make_schema(connection: Connection, schema: str) -> None:
    # `if not exists` alone asks for the right to make one even where there is one.
    if not await connection.run("select 1 from pg_namespace where nspname = %s", [schema]):
        await connection.script(f"create schema if not exists {quoted(schema)}")


async def _make_extension(connection: Connection) -> None:
    from psycopg import Error  # noqa: PLC0415

    if await connection.run("select 1 from pg_extension where extname = 'vector'"):
        return
    if not await connection.run("select 1 from pg_available_extensions where name = 'vector'"):
        raise StoreError(
            "the Postgres server has no pgvector: install it there, such as with the package postgresql-18-pgvector"
        )
    try:
        await connection.script("create extension if not exists vector")
    except Error as exc:
        if exc.sqlstate in MADE_MEANWHILE:  # for another schema of this database
            return
        raise StoreError(
            f"the extension 'vector' cannot be made ({str(exc).splitlines()[0]!r}): let an administrator of the "
            "database run `create extension vector`"
        ) from exc


async def _apply(connection: Connection, schema: str, migration: Migration) -> None:
    await connection.begin(quoted(schema))
    try:
        await connection.script(_APPLIED)
        await connection.unbounded(migration.text)
        await connection.run(
            "insert into schema_migrations (version, name, sha256) values (%s, %s, %s)",
            [migration.version, migration.name, migration.sha256],
        )
        await connection.script("commit")
    except BaseException as exc:  # also a cancellation: none leaves it half done
        await connection.rollback()
        if hasattr(exc, "sqlstate"):
            raise StoreError(
                f"migration {migration.name!r} of schema {schema!r} failed and was taken back: "
                f"{' '.join(str(exc).split())[:200]!r}"
            ) from exc
        raise
