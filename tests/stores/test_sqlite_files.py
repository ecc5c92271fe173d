"""The file of the SQLite backend: whose it is, in which format, who holds it, and what a killed writer leaves."""

# ruff: noqa: ASYNC240  the files are local and small

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import apsw
import pytest

from agenthood.errors import StoreUnavailableError
from agenthood.stores.factory import create_store
from agenthood.stores.settings import StoreSettings
from agenthood.stores.sqlite.connection import APPLICATION, FORMAT
from agenthood.stores.sqlite.store import SqliteStore
from stores.backends import SHARED, TYPED, Backend, everything, full, record, unit
from stores.failing import fails
from stores.files import left
from stores.processes import workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is."""
    return tmp_path / "memory.sqlite"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store."""
    opened = SqliteStore(path)
    yield opened
    await opened.close()


async def _refused(path: Path, *words: str) -> None:
    """Everything says that the file cannot be used, and why, and nothing happens to it."""
    before = None if path.is_dir() else path.read_bytes()
    store = SqliteStore(path, lock_timeout=0.2)
    for step in (
        lambda: store.count(TYPED),
        lambda: store.query(TYPED, unit(1)[None]),
        lambda: everything(store, TYPED),
        lambda: store.upsert(TYPED, [full(1)]),
        lambda: store.delete(TYPED, ["a"]),
        store.collections,
    ):
        await fails(step, StoreUnavailableError, repr(str(path)), *words)
    health = await store.health()
    assert not health.ok
    assert words[0] in health.problem
    await store.close()
    assert before is None or path.read_bytes() == before


async def test_a_file_that_is_no_database(path: Path):
    """Text is refused and stays as it is."""
    path.write_text("not a database, but long enough to look like one\n" * 100, encoding="utf-8")
    await _refused(path, "no SQLite database", "choose another path")


async def test_another_programs_database(path: Path):
    """A database of others is refused and gets no table of ours."""
    connection = apsw.Connection(str(path))
    connection.execute("create table mine (a); insert into mine values (1)")
    connection.close()
    await _refused(path, "another program's database", "choose another path")


async def test_a_newer_format(path: Path, store: SqliteStore):
    """A file of a later agenthood is refused, with both numbers and the way out; ours have theirs."""
    await store.upsert(TYPED, [full(1)])
    await store.close()
    connection = apsw.Connection(str(path))
    assert connection.pragma("application_id") == APPLICATION
    assert connection.pragma("user_version") == FORMAT
    connection.pragma("user_version", FORMAT + 1)
    connection.close()
    await _refused(path, f"format {FORMAT + 1}", f"knows {FORMAT}", "upgrade agenthood")


async def test_a_directory_or_a_link_instead_of_the_file(path: Path, tmp_path: Path):
    """Neither is followed or replaced."""
    path.mkdir()
    await _refused(path, "is not a file", "choose another path")
    path.rmdir()
    other = tmp_path / "other.sqlite"
    store = SqliteStore(other)
    await store.upsert(TYPED, [full(1)])
    await store.close()
    path.symlink_to(other)
    await _refused(path, "symbolic link", "path of the file itself")


@pytest.mark.parametrize("start", [100, 5_000], ids=["schema", "rows"])
async def test_a_damaged_file(path: Path, store: SqliteStore, start: int):
    """A damaged page is an error that says what to do, where it is met."""
    await store.upsert(SHARED, [full(number) for number in range(300)])
    await store.close()
    data = bytearray(path.read_bytes())
    data[start:] = bytes(random.Random(1).randbytes(len(data) - start))
    path.write_bytes(data)
    await fails(
        lambda: everything(store, SHARED), StoreUnavailableError, repr(str(path)), "damaged", ".recover"
    )


async def test_a_delete_overwrites(path: Path, store: SqliteStore):
    """What was deleted is not merely marked as free: when the store is closed its bytes are gone."""
    secret = record("secret-id", "secret-content", terms="secret-term")
    await store.upsert(TYPED, [*(full(number) for number in range(20)), secret])
    await store.close()
    assert left(path.parent, [b"secret-id", b"secret-content", b"secret-term"])
    await store.delete(TYPED, ["secret-id"])
    await store.close()
    assert left(path.parent, [b"secret-id", b"secret-content", b"secret", b"term"]) == {"b'term'"}


async def test_an_empty_file_is_an_empty_store(path: Path, store: SqliteStore):
    """What a process killed at once leaves reads as empty, and becomes a store by writing."""
    path.touch()
    assert await store.count(TYPED) == 0
    assert await store.collections() == ()
    assert path.stat().st_size == 0
    await store.upsert(TYPED, [full(1)])
    assert await store.ids(TYPED) == {full(1).id}


async def test_a_removed_file_is_begun_anew(path: Path, store: SqliteStore):
    """Nothing is written to a file that is no longer there, nor read from it."""
    await store.upsert(TYPED, [full(1)])
    for file in path.parent.glob(path.name + "*"):
        file.unlink()
    assert await store.ids(TYPED) == set()
    await store.upsert(TYPED, [full(2)])
    other = SqliteStore(path)
    assert await other.ids(TYPED) == {full(2).id}
    await other.close()
    await store.close()


async def test_another_file_in_its_place(path: Path, store: SqliteStore):
    """A copy that is put back while the store is open is what is read and written from then on."""
    await store.upsert(TYPED, [full(1)])
    await store.count(TYPED)
    copy = SqliteStore(path.with_name("copy.sqlite"))
    await copy.upsert(TYPED, [full(2)])
    await copy.close()
    for file in path.parent.glob(path.name + "*"):
        file.unlink()
    copy.path.rename(path)
    for _ in range(4):  # each thread that reads
        assert await store.ids(TYPED) == {full(2).id}
    await store.upsert(TYPED, [full(3)])
    other = SqliteStore(path)
    assert await other.ids(TYPED) == {full(2).id, full(3).id}
    await other.close()


async def test_a_locked_file_is_waited_for_and_no_longer(path: Path, store: SqliteStore):
    """A writer waits for another program as long as it may; the loop runs on, and readers are not kept waiting."""
    await store.upsert(TYPED, [full(1)])
    impatient = SqliteStore(path, lock_timeout=0.3)
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    started = time.monotonic()
    await fails(
        lambda: impatient.upsert(TYPED, [full(2)]), StoreUnavailableError, repr(str(path)), "locked too long"
    )
    assert 0.25 < time.monotonic() - started < 5
    assert ticks > 3
    ticking.cancel()
    assert await impatient.ids(TYPED) == {full(1).id}
    waiting = asyncio.create_task(store.upsert(TYPED, [full(3)]))
    await asyncio.sleep(0.1)
    other.execute("rollback")
    assert (await waiting).written == 1
    other.close()
    await impatient.close()


async def test_a_large_write_killed_half_way(tmp_path: Path):
    """Nothing of it is there, not even in the bytes after the next purge; the database is whole and goes on."""
    backend = Backend("sqlite", tmp_path)
    async with backend.reopened() as store:
        await store.upsert(SHARED, [record(f"kept {number}") for number in range(20)])
        with workers(backend, ("bulk", SHARED.name)) as (writer,):
            writer.go()
            assert writer.line() == "writing"
            log = tmp_path / "memory.sqlite-wal"
            size = log.stat().st_size
            while log.stat().st_size < size + 1_000_000:  # noqa: ASYNC110  another process sets no event
                await asyncio.sleep(0.001)
            writer.kill()
        contents = [random.Random(number).randbytes(2_000).hex()[:60].encode() for number in range(100)]
        assert left(tmp_path, contents), "it was killed before it had written anything"
        assert await store.count(SHARED) == 20
        assert await store.purge(SHARED, ["kept 0"]) == 1
        assert left(tmp_path, contents) == set()
        connection = apsw.Connection(str(tmp_path / "memory.sqlite"))
        assert connection.pragma("integrity_check") == "ok"
        connection.close()
        await store.upsert(SHARED, [full(1)])
        assert await store.count(SHARED) == 20


async def test_a_version_never_comes_back(store: SqliteStore):
    """A write raises it by one, one that changes nothing leaves it, and a collection made anew has other ones."""
    first = (await store.upsert(TYPED, [full(1)])).version
    assert first is not None
    assert (await store.upsert(TYPED, [full(2)])).version == first + 1
    assert (await store.upsert(TYPED, [])).version is None
    assert await store.delete(TYPED, ["unknown"]) == 0
    assert await store.version(TYPED) == first + 1
    await store.drop_collection(TYPED.name)
    again = (await store.upsert(TYPED, [full(1)])).version
    assert again is not None
    assert again > first + 1_000


async def test_two_stores_make_the_file_at_once(path: Path):
    """However many are the first to write, one file is made, and all is in it."""
    stores = [SqliteStore(path) for _ in range(6)]
    await asyncio.gather(*(store.upsert(TYPED, [full(n)]) for n, store in enumerate(stores)))
    assert await stores[0].ids(TYPED) == {full(number).id for number in range(6)}
    for store in stores:
        await store.close()


def test_the_settings_choose_it(tmp_path: Path):
    """`backend="sqlite"` is one file in the folder, and nothing is made or imported for it."""
    store = create_store(StoreSettings(backend="sqlite"), tmp_path)
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "memory.sqlite"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["apsw", "sqlite_vec"])
def test_without_the_extra_it_says_what_to_install(tmp_path: Path, missing: str):
    """Importing and constructing need neither package; using the store names the extra."""
    code = (
        "import asyncio, pathlib, sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from agenthood.stores.sqlite.store import SqliteStore\n"
        "from agenthood.stores.base import SHARED\n"
        "store = SqliteStore(pathlib.Path(sys.argv[1]))\n"
        "assert 'apsw' not in sys.modules or sys.modules['apsw'] is None\n"
        "asyncio.run(store.ensure_collection(SHARED))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "memory.sqlite")]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert "agenthood-learning[sqlite]" in result.stderr.splitlines()[-1]
    assert missing.replace("_", "-") in result.stderr.splitlines()[-1]
