"""Postgres when things go wrong: every failure is one of ours, in time, names the server, and shows no password."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from agenthood import open_async
from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings
from agenthood.errors import ConfigError, StoreError, StoreUnavailableError
from agenthood.stores.factory import create_store
from agenthood.stores.postgres.store import PostgresStore
from agenthood.stores.settings import StoreSettings
from stores.backends import SHARED, TYPED, Backend, everything, fields, full, unit
from stores.postgres_server import PostgresServer, postgres_store, schema_of, settings_for, shared_url, sql
from stores.processes import workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PASSWORD = "s3cret-w0rd"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, which its tests may stop."""
    made = PostgresServer()
    made.start()
    yield made
    made.remove()


async def refused(
    store: PostgresStore, kind: type[StoreError], *words: str, seconds: float = 4
) -> StoreError:
    """Reading and health fail with `words` in one line, in time, without a password."""
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        await store.count(TYPED)
    with pytest.raises(StoreError):
        await store.upsert(TYPED, [full(1)])
    health = await store.health()
    assert time.monotonic() - started < seconds * 3
    assert caught.type is kind
    assert not health.ok
    for message in (str(caught.value), health.problem, str(health.detail), repr(store)):
        assert PASSWORD not in message
    for message in (str(caught.value), health.problem):
        assert "\n" not in message
        assert all(word in message for word in words), message
    await store.close()
    return caught.value


@contextmanager
def listening(answer: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """A port whose connections are given to `answer`, each in a thread, with what tells it to end."""
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            answer(connection, ended)

    def accept(opened: socket.socket) -> None:
        while not ended.is_set():
            with suppress(TimeoutError):
                connection, _ = opened.accept()
                threads.append(threading.Thread(target=serve, args=[connection]))
                threads[-1].start()

    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        opened.settimeout(0.1)
        threads.append(threading.Thread(target=accept, args=[opened]))
        threads[0].start()
        yield opened.getsockname()[1]
        ended.set()
        for thread in threads:
            thread.join()


def _url(port: int | str, user: str = "agenthood", database: str = "some") -> str:
    return f"postgresql://{user}:{PASSWORD}@127.0.0.1:{port}/{database}"


def _at(tmp_path: Path, url: str, timeout: float = 1.0) -> PostgresStore:
    return postgres_store(tmp_path, url=url, timeout=timeout)


async def test_nobody_listens(tmp_path: Path):
    """A refused connection is told at once, with the address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        port = opened.getsockname()[1]
    store = _at(tmp_path, _url(port))
    await refused(store, StoreUnavailableError, f"127.0.0.1:{port}/some", "store.url", seconds=1)


async def test_a_server_that_says_nothing(tmp_path: Path):
    """A connection that is taken and never answered ends with the timeout."""
    with listening(lambda _, ended: ended.wait()) as port:
        await refused(_at(tmp_path, _url(port)), StoreUnavailableError, f"127.0.0.1:{port}/some")


async def test_a_server_that_drips(tmp_path: Path):
    """One that sends a byte now and then does not keep us longer."""

    def drip(connection: socket.socket, ended: threading.Event) -> None:
        connection.recv(100)
        for byte in b"R\0\0\1\0" + bytes(200):
            connection.sendall(bytes([byte]))
            if ended.wait(0.2):
                return

    with listening(drip) as port:
        await refused(_at(tmp_path, _url(port)), StoreUnavailableError, f"127.0.0.1:{port}/some")


async def test_a_server_of_another_kind(tmp_path: Path):
    """What speaks another protocol is no Postgres."""

    def http(connection: socket.socket, _: threading.Event) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listening(http) as port:
        await refused(_at(tmp_path, _url(port)), StoreUnavailableError, f"127.0.0.1:{port}/some")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (f"sslmode=disable&nonsense={PASSWORD}", "unknown parameter 'nonsense'$"),
        (f"sslmod={PASSWORD}", r"unknown parameter 'sslmod'; did you mean 'sslmode'\?"),
        ("namespace=x", r"'namespace': give store\.namespace"),
    ],
)
def test_an_unknown_parameter_of_an_address_is_named(tmp_path: Path, query: str, words: str):
    """With what it was meant to be; no value is shown."""
    with pytest.raises(ConfigError, match=words) as caught:
        _at(tmp_path, f"postgresql://u:{PASSWORD}@host/db?{query}")
    assert PASSWORD not in str(caught.value)


async def test_a_wrong_password_and_an_unknown_user_or_database(server: PostgresServer, tmp_path: Path):
    """Each says what to look at."""
    for user in ("agenthood", "nobody-here"):
        store = _at(tmp_path, _url(server.port, user, "postgres"))
        await refused(store, StoreUnavailableError, f"127.0.0.1:{server.port}/postgres", "user or password")
    store = _at(tmp_path, server.url.replace("/postgres", "/missing"))
    await refused(store, StoreUnavailableError, f"127.0.0.1:{server.port}/missing", "no such database")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{PASSWORD}@[host/db",
        f"host=x password={PASSWORD} nonsense",
        f"postgresql://u:{PASSWORD}@host/db?nonsense={PASSWORD}",
        f"postgresql://u:{PASSWORD}/x@host/db",
        f"postgresql://u:x@{PASSWORD}@host/db",
        f"host=x password=a?{PASSWORD} nonsense",
    ],
)
def test_an_address_that_cannot_be_read(tmp_path: Path, url: str):
    """It is refused when the store is made, without being shown."""
    with pytest.raises(
        ConfigError, match=r"store\.url (cannot be read|has the unknown parameter 'nonsense')"
    ) as caught:
        create_store(StoreSettings(backend="postgres", url=url), tmp_path)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("namespace", ["", "x" * 60, "pg_mine", "a\0b"])
def test_a_namespace_that_is_no_schema(namespace: str):
    """A name that Postgres would cut or refuse is refused before."""
    with pytest.raises(StoreError, match="cannot name a schema"):
        PostgresStore(StoreSettings(backend="postgres", url=_url(1), namespace=namespace))


async def test_any_other_namespace_is_a_schema(tmp_path: Path):
    """Quotes, blanks and other scripts are no danger, and two namespaces share nothing."""
    names = ['odd " name; drop table x', "中文 it's", "{extension}"]
    for name in names:
        store = postgres_store(tmp_path, namespace=name)
        assert await store.count(TYPED) == 0
        await store.upsert(TYPED, [full(1)])
        assert (await store.query(TYPED, unit(1)[None], limit=1))[0][0].record.id == full(1).id
        await store.maintain(TYPED)
        await store.close()
    for name in names:
        quoted = '"' + name.replace('"', '""') + '"'
        sql(f"drop schema {quoted} cascade")


async def test_rights_that_are_missing(server: PostgresServer, tmp_path: Path):
    """Who may not make a schema, the extension, or read a table, is told what an administrator has to do."""
    sql(f"create role weak login password '{PASSWORD}'", url=server.url)
    sql("create database bare", url=server.url)
    url = _url(server.port, "weak", "bare")
    store = _at(tmp_path, url)
    with pytest.raises(StoreUnavailableError, match=r"/bare: the user may not do that.*permission denied"):
        await store.upsert(TYPED, [full(1)])
    assert "permission denied for database bare" in (await store.health()).problem
    sql("grant create on database bare to weak", url=server.url)
    with pytest.raises(StoreError, match=r"`create extension vector`"):
        await store.upsert(TYPED, [full(1)])
    assert "`create extension vector`" in (await store.health()).problem
    sql("create extension vector", url=server.url.replace("/postgres", "/bare"))
    assert (await store.health()).ok
    await store.upsert(TYPED, [full(1)])
    table = f'"{schema_of(tmp_path)}".rows_1'
    bare = server.url.replace("/postgres", "/bare")
    sql(f"alter table {table} owner to agenthood; revoke all on {table} from weak", url=bare)
    with pytest.raises(StoreUnavailableError, match="may not do that"):
        await store.count(TYPED)
    await store.close()
    sql("drop database bare with (force)", url=server.url)
    sql("drop role weak", url=server.url)


async def test_a_database_in_another_encoding(server: PostgresServer, tmp_path: Path):
    """Texts would be lost in it, so it is refused with the way to make a right one."""
    sql("create database latin encoding 'LATIN1' locale 'C' template template0", url=server.url)
    store = _at(tmp_path, server.url.replace("/postgres", "/latin"))
    await refused(store, StoreError, "LATIN1", "encoding 'UTF8'")
    sql("drop database latin with (force)", url=server.url)


async def test_a_restarted_server_is_found_again(server: PostgresServer, tmp_path: Path):
    """While it is down every step says so; once it is back the same store works, and nothing was lost."""
    store = _at(tmp_path, server.url, timeout=5)
    await store.upsert(TYPED, [full(1), full(2)])
    await asyncio.gather(*(store.count(TYPED) for _ in range(6)))  # several connections are kept
    server.stop()
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{server.port}/postgres"):
            await store.count(TYPED)
    with pytest.raises(StoreUnavailableError):
        async with store.exclusive():
            pytest.fail("a lock without a server")
    server.start()
    assert await store.count(TYPED) == 2
    assert await asyncio.gather(*(store.count(TYPED) for _ in range(6))) == [2] * 6
    async with store.exclusive():
        await store.upsert(TYPED, [full(3)])
    await store.close()


async def test_a_server_that_stands_still(server: PostgresServer, tmp_path: Path):
    """A step in the midst of which it stops answering ends with the timeout, or sooner if it is cancelled."""
    store = _at(tmp_path, server.url, timeout=1)
    await store.upsert(TYPED, [full(1)])
    server.pause()
    try:
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="did not answer within 1 s"):
            await store.count(TYPED)
        assert time.monotonic() - started < 6
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await store.count(TYPED)
        assert time.monotonic() - started < 4
    finally:
        server.resume()
    assert await store.count(TYPED) == 1
    await store.close()


async def test_opening_waits_for_a_server_that_stands_still_no_longer_than_the_deadline(
    server: PostgresServer, tmp_path: Path
):
    """Also with a model that needs nothing of the store; the hood is open degraded, says so, and heals."""
    settings = Settings(
        EmbedderSettings(kind="lexical"), store=settings_for(tmp_path, server.url), deadline=0.5
    )
    folder = tmp_path / ".agenthood"
    async with open_async(folder, settings=settings) as hood:
        await hood.learn("fixed it", score=1)
    server.pause()
    try:
        started = time.monotonic()
        async with open_async(folder, settings=settings) as hood:
            assert (await hood.learn("broke it", score=0)).status == "pending"
            assert time.monotonic() - started < 6
    finally:
        server.resume()
    async with open_async(folder, settings=settings) as hood:
        assert {lesson.text for lesson in await hood.lessons()} == {"fixed it", "broke it"}


async def test_a_recall_waits_no_longer_than_the_deadline_for_a_server_that_came_to_a_standstill(
    server: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Not another second for its answer to being cancelled; and psycopg logs nothing of its own."""
    settings = Settings(
        EmbedderSettings(kind="lexical"), store=settings_for(tmp_path, server.url), deadline=0.5
    )
    async with open_async(tmp_path / ".agenthood", settings=settings) as hood:
        await hood.learn("fixed it", score=1)
        assert await hood.recall("fixed it")
        caplog.clear()
        server.pause()
        try:
            started = time.monotonic()
            assert (await hood.recall("fixed it")).degraded
            assert time.monotonic() - started < 1.2
        finally:
            server.resume()
    assert not [one for one in caplog.records if one.name.startswith("psycopg")]


async def test_cancelling_ends_the_statement_on_the_server(tmp_path: Path):
    """A cancelled search runs on nowhere, and its connection serves the next."""
    store = postgres_store(tmp_path)
    await store.upsert(TYPED, [full(1)])
    running = "select count(*) from pg_stat_activity where state = 'active' and query like '%%pg_sleep(33)%%'"

    async def slow() -> None:
        async with store._database.transaction("sleeping") as connection:
            await connection.run("select pg_sleep(33)")

    for _ in range(3):
        tasks = [asyncio.create_task(slow()) for _ in range(4)]
        while sql(running + " and pid <> pg_backend_pid()") != [(4,)]:  # noqa: ASYNC110  the server knows
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(r, asyncio.CancelledError)
            for r in await asyncio.gather(*tasks, return_exceptions=True)
        )
        assert sql(running + " and pid <> pg_backend_pid()") == [(0,)]
    assert await store.count(TYPED) == 1
    await store.close()


async def test_a_statement_that_takes_too_long(tmp_path: Path):
    """The server itself gives up after the timeout, and the message says which setting to raise."""
    store = postgres_store(tmp_path, timeout=0.3)
    await store.ensure_collection(TYPED)
    with pytest.raises(StoreUnavailableError, match=r"longer than store.timeout.*statement timeout"):
        async with store._database.transaction("sleeping") as connection:
            await connection.run("select pg_sleep(5)")
    assert await store.count(TYPED) == 0
    await store.close()


async def test_many_tasks_share_few_connections(tmp_path: Path):
    """A hundred tasks at once all get their turn; where none comes free in time, the error says so."""
    store = postgres_store(tmp_path)
    await store.upsert(TYPED, [full(1)])
    assert await asyncio.gather(*(store.count(TYPED) for _ in range(100))) == [1] * 100
    used = sql("select count(*) from pg_stat_activity where application_name = 'agenthood'")[0][0]
    assert used <= 10
    await store.close()
    busy = postgres_store(tmp_path, timeout=0.5)
    async with busy._database.transaction("one"), asyncio.timeout(10):
        held = [busy._database.transaction("more") for _ in range(7)]
        for one in held:
            await one.__aenter__()
        with pytest.raises(StoreUnavailableError, match="all 8 connections"):
            await busy.count(TYPED)
        for one in held:
            await one.__aexit__(None, None, None)
    assert await busy.count(TYPED) == 1
    await busy.close()


async def test_tasks_that_write_the_same_records(tmp_path: Path):
    """Eight tasks in two stores, each with the same ids in another order, wait for no one for ever and lose nothing."""
    stores = [postgres_store(tmp_path) for _ in range(2)]
    await stores[0].ensure_collection(TYPED)

    async def write(task: int) -> None:
        for turn in range(4):
            rows = [full(n, content=f"{task} {turn}") for n in range(60)]
            await stores[task % 2].upsert(TYPED, rows[task * 7 :] + rows[: task * 7][::-1])
            if turn == 2:
                await stores[task % 2].delete(TYPED, [row.id for row in rows[::-3]])

    await asyncio.gather(*map(write, range(8)))
    found = await everything(stores[1], TYPED)
    assert len(found) == 60
    assert len({row.content for row in found}) == 1, "a batch is one transaction"
    for store in stores:
        await store.close()


async def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path):
    """A process killed in the midst of a large upsert leaves nothing of it."""
    backend = Backend("postgres", tmp_path)
    store = postgres_store(tmp_path)
    await store.ensure_collection(TYPED)
    with workers(backend, ("bulk", TYPED.name)) as (worker,):
        worker.go()
        assert worker.line() == "writing"
        await asyncio.sleep(0.15)
        worker.kill()
    assert await store.count(TYPED) in {0, 4_000}
    await store.upsert(TYPED, [full(1)])
    await store.close()


def test_a_store_serves_one_loop_after_another(tmp_path: Path):
    """Each event loop has connections of its own; what an ended one left behind harms nobody."""
    store = postgres_store(tmp_path)
    for number in range(3):
        asyncio.run(_write(store, number))
    asyncio.run(store.close())
    assert asyncio.run(_count(tmp_path)) == 3


async def _write(store: PostgresStore, number: int) -> None:
    await store.upsert(TYPED, [full(number)])
    assert len((await store.query(TYPED, unit(number)[None]))[0]) == number + 1


async def _count(tmp_path: Path) -> int:
    store = postgres_store(tmp_path)
    found = await store.count(TYPED)
    await store.close()
    return found


async def test_what_another_program_did_to_the_schema(tmp_path: Path):
    """A schema dropped under an open store is an empty one: reading finds nothing, writing makes it anew."""
    store = postgres_store(tmp_path)
    await store.upsert(TYPED, [full(1)])
    sql(f'drop schema "{schema_of(tmp_path)}" cascade')
    assert await store.count(TYPED) == 0
    assert await store.collections() == ()
    await store.upsert(TYPED, [full(2)])
    assert await store.ids(TYPED) == {full(2).id}
    await store.close()


async def test_a_dropped_collection_leaves_no_table(tmp_path: Path):
    """Tables and indices go with it, and a new one of that name and another shape is as new."""
    store = postgres_store(tmp_path)
    await store.upsert(TYPED, [full(1)])
    await store.upsert(SHARED, [full(1)])
    await store.drop_collection(TYPED.name)
    relations = (
        "select count(*) from pg_class where relname like 'rows_1%%' and relnamespace = %s::regnamespace"
    )
    assert sql(relations, [f'"{schema_of(tmp_path)}"']) == [(0,)]
    assert await store.collections() == (SHARED,)
    await store.close()


async def test_a_purge_frees_the_rows(tmp_path: Path):
    """What was purged is no dead row in the table either, and the others are as they were."""
    store = postgres_store(tmp_path)
    await store.upsert(TYPED, [full(number) for number in range(50)])
    assert await store.purge(TYPED, [full(n).id for n in range(10)] + ["unknown"]) == 10
    rest = await everything(store, TYPED)
    assert sorted(map(fields, rest)) == sorted(fields(full(n)) for n in range(10, 50))
    pages = sql(
        f"select relpages, reltuples from pg_class where oid = '\"{schema_of(tmp_path)}\".rows_1'::regclass"
    )
    assert pages[0][1] == 40
    await store.close()


def test_settings_reach_the_server(tmp_path: Path):
    """The store the settings ask for is this one, and its address is shown without user and password."""
    settings = settings_for(tmp_path)
    store = create_store(settings, tmp_path, tenant="a")
    assert isinstance(store, PostgresStore)
    assert store.tenant == "a"
    shown = str(store._database.address)
    given = psycopg.conninfo.conninfo_to_dict(shared_url())
    assert shown == f"{given['host']}:{given['port']}/{given['dbname']}"
