"""Row level security: a store opened for a tenant sees and writes its rows alone, also where a filter is forgotten."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from agenthood.errors import StoreError
from agenthood.stores.base import Collection
from agenthood.stores.filters import Equals, Not, where
from stores.backends import SHARED, TYPED, everything, full, record, unit
from stores.postgres_server import postgres_store, schema_of, shared_url, sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agenthood.stores.base import Record
    from agenthood.stores.postgres.tables import OpenTable

SCOPED = Collection("scoped", 8, typed=True, lexical=True, scoped=True)


@pytest.fixture(params=["superuser", "owner", "bypassing"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address for a superuser, for a user who owns the schema, and for one who passes the policies by."""
    if request.param == "superuser":
        yield shared_url()
        return
    name = f"{schema_of(tmp_path)}_{request.param}"
    password = secrets.token_hex(8)
    rights = "bypassrls createrole" if request.param == "bypassing" else "nobypassrls"
    database = psycopg.conninfo.conninfo_to_dict(shared_url())
    sql(f"create role {name} login {rights} password '{password}'")
    sql(f'grant create on database "{database["dbname"]}" to {name}')
    sql("create extension if not exists vector")
    yield f"postgresql://{name}:{password}@{database['host']}:{database['port']}/{database['dbname']}"
    sql(f'drop schema if exists "{schema_of(tmp_path)}" cascade; drop owned by {name}; drop role {name}')


def of(tenant: str, number: int, **changes: Any) -> Record:
    """A record of the tenant."""
    metadata = {"type": "t", "kind": "learned", "tenant_id": tenant, "project": "p", "agent_id": "a"}
    return full(number, metadata=metadata, **changes)


async def test_every_reader_sees_the_tenants_rows_alone(url: str, tmp_path: Path):
    """With no filter, with one that names another tenant, and with one that is true of everything else."""
    everyone = postgres_store(tmp_path, url=url)
    await everyone.upsert(SCOPED, [of("a", n) for n in range(5)] + [of("b", n) for n in range(5, 12)])
    assert await everyone.count(SCOPED) == 12
    own = {full(number).id for number in range(5)}
    store = postgres_store(tmp_path, url=url, tenant="a")
    for condition, expected in (
        (None, own),
        (Equals("tenant_id", "b"), set()),
        (Not(Equals("tenant_id", "a")), set()),
        (where(tenant_id="a", project="p"), own),
    ):
        assert await store.ids(SCOPED, condition=condition) == expected
        assert {row.id for row in await everything(store, SCOPED, condition)} == expected
        assert await store.count(SCOPED, condition) == len(expected)
        (hits,) = await store.query(SCOPED, unit(0)[None], condition=condition, limit=50)
        assert {hit.record.id for hit in hits} == expected
        assert set((await store.matrix(SCOPED, condition=condition)).ids) == expected
        found = await store.search_terms(SCOPED, ["all", "word7"], condition=condition)
        assert {row.id for row in found} == expected
    assert set(await store.get(SCOPED, [full(number).id for number in range(12)])) == own
    assert await store.delete(SCOPED, [full(number).id for number in range(4, 12)]) == 1
    assert await store.purge(SCOPED, [full(6).id]) == 0
    assert await everyone.count(SCOPED) == 11
    await store.close()
    await everyone.close()


async def test_the_wall_stands_without_our_own_conditions(url: str, tmp_path: Path):
    """In a transaction of the store plain SQL reads and writes only the tenant's rows: the server sees to it."""
    everyone = postgres_store(tmp_path, url=url)
    await everyone.upsert(SCOPED, [of("a", 1), of("b", 2), of("c", 3)])
    await everyone.close()
    store = postgres_store(tmp_path, url=url, tenant="b")
    run = store._tables.run

    async def read(table: OpenTable) -> list[Any]:
        return [row[0] for row in await table.run(f"select tenant_id from {table.name}")]

    assert await run("reading", SCOPED, read) == ["b"]

    async def change(table: OpenTable) -> int:
        return await table.connection.change(f"update {table.name} set content = 'changed'")

    assert await run("changing", SCOPED, change) == 1

    async def give_away(table: OpenTable) -> int:
        return await table.connection.change(f"update {table.name} set tenant_id = 'a'")

    with pytest.raises(StoreError, match=r"belongs to another tenant.*row-level security"):
        await run("changing", SCOPED, give_away)
    health = await store.health()
    assert health.detail["row_level_security"] == "in force"
    assert health.detail["scoped"]["tenants"] == {"b": 1}
    await store.close()
    schema = schema_of(tmp_path)
    assert sql(f'select content from "{schema}".rows_1 order by id') == [
        ("content of row-00001",),
        ("changed",),
        ("content of row-00003",),
    ]


async def test_rows_of_another_tenant_are_refused(url: str, tmp_path: Path):
    """Writing another's record is refused by name; taking another's id fails as a whole; both leave it as it was."""
    everyone = postgres_store(tmp_path, url=url)
    await everyone.upsert(SCOPED, [of("b", 1, content="b's own")])
    store = postgres_store(tmp_path, url=url, tenant="a")
    result = await store.upsert(SCOPED, [of("b", 2), of("a", 3), record("unsaid")])
    assert [(one.id, one.reason) for one in result.rejected] == [
        (full(2).id, "it belongs to tenant 'b', this store to 'a'")
    ]
    assert result.written == 2
    with pytest.raises(StoreError, match="belongs to another tenant"):
        await store.upsert(SCOPED, [of("a", 1), of("a", 4)])
    assert await store.ids(SCOPED) == {full(3).id, "unsaid"}
    assert {row.id: row.content for row in await everything(everyone, SCOPED)}[full(1).id] == "b's own"
    assert await everyone.count(SCOPED, Equals("tenant_id", "a")) == 1
    await store.close()
    await everyone.close()


async def test_a_row_that_names_no_tenant_is_local(tmp_path: Path):
    """Such rows belong to `local`; a filter on the tenant finds only what says so itself."""
    store = postgres_store(tmp_path)
    await store.upsert(SCOPED, [record("unsaid"), of("local", 1), record("five", metadata={"tenant_id": 5})])
    assert await store.ids(SCOPED, condition=Equals("tenant_id", "local")) == {full(1).id}
    local = postgres_store(tmp_path, tenant="local")
    assert await local.ids(SCOPED) == {"unsaid", full(1).id, "five"}
    odd = postgres_store(tmp_path, tenant='it\'s \\ %s "odd" ' + "long" * 100)
    assert (await odd.upsert(SCOPED, [record("mine")])).written == 1
    assert await odd.ids(SCOPED) == {"mine"}
    for opened in (store, local, odd):
        await opened.close()


async def test_a_user_who_passes_the_wall_by_is_told(tmp_path: Path):
    """Where no role can be made that is bound by the policies, health says so; our own conditions still hold."""
    name, password = f"{schema_of(tmp_path)}_weak", secrets.token_hex(8)
    database = psycopg.conninfo.conninfo_to_dict(shared_url())
    sql("create extension if not exists vector")
    sql(f"create role {name} login bypassrls nocreaterole password '{password}'")
    sql(f'grant create on database "{database["dbname"]}" to {name}')
    url = f"postgresql://{name}:{password}@{database['host']}:{database['port']}/{database['dbname']}"
    store, other = (postgres_store(tmp_path, url=url, tenant=tenant) for tenant in "ab")
    await store.upsert(SCOPED, [of("a", 1)])
    await other.upsert(SCOPED, [of("b", 2)])
    assert await store.ids(SCOPED) == {full(1).id}
    assert await store.delete(SCOPED, [full(2).id]) == 0
    health = await store.health()
    assert health.ok
    assert "passes row level security by" in health.detail["row_level_security"]
    assert "SUPERUSER and BYPASSRLS" in health.detail["row_level_security"]
    await store.close()
    await other.close()
    sql(f'drop schema "{schema_of(tmp_path)}" cascade; drop owned by {name}; drop role {name}')


async def test_opening_again_lets_the_wall_down_for_nobody(url: str, tmp_path: Path):
    """While tasks open the store together, or look at it again, none of them finds the wall down that stands."""
    store = postgres_store(tmp_path, url=url, tenant="a")
    await store.upsert(SCOPED, [of("a", 1)])
    database = store._database
    takes_role, seen = database.takes_role, set()

    async def watch() -> None:
        while len(opening) > sum(task.done() for task in opening):
            seen.add((database.takes_role, database.wall))
            await asyncio.sleep(0)

    database.forget()
    opening = [asyncio.create_task(database.ready(make=True)) for _ in range(4)]
    await asyncio.gather(watch(), *opening)
    assert seen == {(takes_role, "")}
    assert takes_role == ("owner" not in url)
    await store.close()


async def test_tables_that_another_user_makes_are_granted_when_first_met(tmp_path: Path):
    """A user whom the policies hold makes tables for itself; whoever takes the role meets them with it open already."""
    name, password = f"{schema_of(tmp_path)}_owner", secrets.token_hex(8)
    database = psycopg.conninfo.conninfo_to_dict(shared_url())
    sql(f"create role {name} login password '{password}'")
    sql("create extension if not exists vector")
    sql(f'grant create on database "{database["dbname"]}" to {name}')
    own = f"postgresql://{name}:{password}@{database['host']}:{database['port']}/{database['dbname']}"
    owner, store = postgres_store(tmp_path, url=own), postgres_store(tmp_path, tenant="a")
    await owner.ensure_collection(SCOPED)
    assert await store.count(SCOPED) == 0
    for number, collection in enumerate((TYPED, SHARED)):
        await owner.upsert(collection, [of("b", 1)])
        assert await store.count(collection) == 0, number
        assert (await store.upsert(collection, [of("a", 2)])).written == 1
        assert await owner.count(collection) == 2
    sql(f'revoke all on "{schema_of(tmp_path)}".rows_1 from "{schema_of(tmp_path)}_rows"')
    assert await store.count(SCOPED) == 0, "what was revoked by mistake is granted again, as at every opening"
    await store.close()
    await owner.close()
    sql(f'drop schema "{schema_of(tmp_path)}" cascade; drop owned by {name}; drop role {name}')


async def test_nobody_is_shown_nothing(tmp_path: Path):
    """Whoever takes the role without saying for whom finds no row: forgetting is no way in."""
    store = postgres_store(tmp_path)
    await store.upsert(SCOPED, [of("a", 1)])
    await store.close()
    schema = schema_of(tmp_path)
    with psycopg.connect(shared_url(), autocommit=True) as connection:
        connection.execute(f'set role "{schema}_rows"')
        assert connection.execute(f'select count(*) from "{schema}".rows_1').fetchone() == (0,)
        connection.execute("set agenthood.tenant = 'a'")
        assert connection.execute(f'select count(*) from "{schema}".rows_1').fetchone() == (1,)


async def test_the_role_may_do_nothing_but_rows(tmp_path: Path):
    """It neither logs in nor passes the wall, and has no right on what the schema says of itself."""
    store = postgres_store(tmp_path)
    await store.upsert(SCOPED, [of("a", 1)])
    again = postgres_store(tmp_path, tenant="a")
    assert await again.count(SCOPED) == 1
    schema = schema_of(tmp_path)
    assert sql(
        "select rolcanlogin, rolsuper, rolbypassrls from pg_roles where rolname = %s", [f"{schema}_rows"]
    ) == [(False, False, False)]
    rights = f"""select has_table_privilege('{schema}_rows', '"{schema}"."%s"', 'select')"""
    assert [sql(rights % table) for table in ("rows_1", "collections", "schema_migrations")] == [
        [(True,)],
        [(False,)],
        [(False,)],
    ]
    await store.close()
    await again.close()
