"""The migration runner: each file once, whole or not at all, and no other program's schema is touched."""

from __future__ import annotations

import asyncio
import importlib.resources
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreError
from agenthood.stores.postgres.address import Address
from agenthood.stores.postgres.connections import Connections
from agenthood.stores.postgres.migrate import migrate, migrations
from stores.backends import TYPED, Backend, full
from stores.postgres_server import postgres_store, schema_of, settings_for, sql
from stores.processes import workers

if TYPE_CHECKING:
    from pathlib import Path


async def _migrate(tmp_path: Path, files: dict[str, str], *, at_once: int = 1) -> list[str]:
    """Run `files` as migrations of the test's schema, from several connections at once."""
    folder = tmp_path / "migrations"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    connections = Connections(Address.of(settings_for(tmp_path)))

    async def one() -> list[str]:
        async with connections.own() as connection:
            return await migrate(connection, schema_of(tmp_path), folder=folder)

    return [name for names in await asyncio.gather(*(one() for _ in range(at_once))) for name in names]


def _applied(tmp_path: Path) -> list[int]:
    return [version for (version,) in sql(f'select version from "{schema_of(tmp_path)}".schema_migrations')]


FILES = {"0001_one.sql": "create table one (a integer);", "0002_two.sql": "insert into one values (1);"}


async def test_each_is_applied_once_by_whoever_comes_first(tmp_path: Path):
    """Four at once apply each file once, in order; later runs apply nothing, or what is new."""
    assert await _migrate(tmp_path, FILES, at_once=4) == list(FILES)
    assert sql(f'select count(*) from "{schema_of(tmp_path)}".one') == [(1,)]
    assert await _migrate(tmp_path, {}) == []
    assert await _migrate(tmp_path, {"0003_three.sql": "insert into one values (2);", "notes.txt": "no"}) == [
        "0003_three.sql"
    ]
    assert _applied(tmp_path) == [1, 2, 3]


async def test_an_edited_file_is_refused(tmp_path: Path):
    """Only line ends may change: the error names the file and what to do."""
    await _migrate(tmp_path, FILES)
    assert await _migrate(tmp_path, {"0001_one.sql": FILES["0001_one.sql"].replace("\n", "\r\n")}) == []
    with pytest.raises(StoreError, match=r"'0001_one.sql' was edited.*put the file back"):
        await _migrate(tmp_path, {"0001_one.sql": "create table one (a integer, b text);"})


async def test_a_newer_schema_is_refused(tmp_path: Path):
    """A program that knows fewer migrations than were applied reads and writes nothing."""
    store = postgres_store(tmp_path)
    await store.upsert(TYPED, [full(1)])
    await store.close()
    sql(f"insert into \"{schema_of(tmp_path)}\".schema_migrations values (9999, '9999_later.sql', 'x')")
    again = postgres_store(tmp_path)
    for step in (again.count(TYPED), again.upsert(TYPED, [full(2)]), again.collections()):
        with pytest.raises(StoreError, match=r"newer agenthood.*9999_later.*upgrade"):
            await step
    assert not (await again.health()).ok
    await again.close()


async def test_a_failing_file_is_taken_back(tmp_path: Path):
    """What it did before it failed is undone with it, earlier files stay, and once mended it is applied."""
    bad = {"0003_bad.sql": "create table three (a integer); insert into one values ('no number');"}
    with pytest.raises(StoreError, match=r"'0003_bad.sql'.*taken back.*no number"):
        await _migrate(tmp_path, FILES | bad)
    assert _applied(tmp_path) == [1, 2]
    assert sql(f"select to_regclass('\"{schema_of(tmp_path)}\".three')") == [(None,)]
    assert await _migrate(tmp_path, {"0003_bad.sql": "create table three (a integer);"}) == ["0003_bad.sql"]


async def test_processes_that_start_together_make_one_schema(tmp_path: Path):
    """The first use of a store by several processes at once works in each."""
    backend = Backend("postgres", tmp_path)
    postgres_store(tmp_path)  # the server runs before they ask for it
    with workers(backend, *(("upsert", number * 40) for number in range(3))) as started:
        for worker in started:
            worker.go()
        for worker in started:
            worker.finished()
    store = postgres_store(tmp_path)
    assert await store.count(TYPED) == 120
    await store.close()


async def test_reading_makes_nothing(tmp_path: Path):
    """Asking a database that never held a store makes no schema in it."""
    store = postgres_store(tmp_path)
    assert await store.find(TYPED) is None
    assert await store.collections() == ()
    assert await store.count(TYPED) == 0
    await store.drop_collection(TYPED.name)
    assert sql("select count(*) from pg_namespace where nspname = %s", [schema_of(tmp_path)]) == [(0,)]
    await store.close()


def test_the_package_brings_its_migrations():
    """The files lie beside the code, numbered without a gap."""
    folder = importlib.resources.files("agenthood.stores.postgres") / "migrations"
    assert (folder / "0001_collections.sql").is_file()
    assert [one.version for one in migrations()] == list(range(1, len(migrations()) + 1))
