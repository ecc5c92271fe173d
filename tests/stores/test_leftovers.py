"""What failed and killed writes leave on the disk goes with the next purge; what anybody still needs stays."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import lancedb
import pyarrow as pa
import pytest

from agenthood.stores.lance.leftovers import GRACE, remove_unnamed
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.lock import StoreLock
from stores.backends import SHARED, TYPED, WHOLE, Backend, everything, fields, full, record, unit
from stores.files import left
from stores.processes import workers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from agenthood.stores.base import Collection, VectorStore

TESTED = WHOLE  # a view hands all this on as it is

SECRET = b"words-of-a-forgotten-lesson"


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    """LanceDB: no other backend leaves such files."""
    return Backend("lance", tmp_path)


def forge(folder: Path) -> list[Path]:
    """Leave, below a table's directory, what writes that ended at various points leave."""
    names = (
        "data/.tmpAb12cd",
        f"data/{uuid4().hex}.lance",
        f"_indices/{uuid4()}/tokens.lance",
        f"_transactions/3-{uuid4()}.txn",
        f"_versions/.tmp_7.manifest_{uuid4()}",
    )
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"before " + SECRET + b" after")
    return [folder / name for name in names]


def age(paths: Iterable[Path], seconds: float = 60.0) -> None:
    """Let so much time pass for these files."""
    then = time.time() - seconds
    for path in paths:
        for part in (path, path.parent):
            os.utime(part, (then, then))


def unnamed_data(backend: Backend, collection: Collection) -> list[Path]:
    """Data files that hold something and no manifest names."""
    folder = backend.folder / "memory" / f"{collection.name}.lance"
    manifests = b"".join(path.read_bytes() for path in (folder / "_versions").glob("*.manifest"))
    return [
        path
        for path in (folder / "data").glob("*")
        if path.name.encode() not in manifests and path.stat().st_size
    ]


@pytest.mark.usefixtures("on_disk")
async def test_forged_leftovers_go(store: VectorStore, backend: Backend, collection: Collection):
    """A purge, of whatever record, leaves nothing of an unfinished write, and every other record as it was."""
    await store.upsert(collection, [full(number) for number in range(50)])
    await store.maintain(collection)
    await store.upsert(collection, [full(50), full(7, content="changed")])
    age(forge(backend.folder / "memory" / f"{collection.name}.lance"))
    before = sorted(fields(row) for row in await everything(store, collection) if row.id != full(1).id)
    async with backend.reopened() as again:
        assert left(backend.folder, [SECRET])
        assert await again.purge(collection, [full(1).id]) == 1
        assert left(backend.folder, [SECRET]) == set()
    async with backend.reopened() as again:
        assert sorted(map(fields, await everything(again, collection))) == before
        if collection.typed:
            assert len(await again.search_terms(TYPED, ["third1"])) == 16
        (hits,) = await again.query(collection, unit(7)[None], limit=1)
        assert hits[0].record.content == "changed"


@pytest.mark.usefixtures("on_disk")
async def test_old_versions_keep_what_was_deleted(
    store: VectorStore, backend: Backend, collection: Collection
):
    """A deleted record is still on the disk after a maintenance: the tests of `purge` have what to look for."""
    await store.upsert(collection, [*(full(number) for number in range(300)), record(SECRET.decode())])
    await store.delete(collection, [SECRET.decode()])
    await store.maintain(collection)
    assert left(backend.folder, [SECRET])


@pytest.mark.usefixtures("on_disk")
async def test_a_write_killed_half_way(store: VectorStore, backend: Backend, collection: Collection):
    """Of a process killed in the middle of a large write nothing is left after the next purge."""
    await store.upsert(collection, [full(number, content="kept") for number in range(20)])
    with workers(backend, ("bulk", collection.name)) as (writer,):
        writer.go()
        assert writer.line() == "writing"
        while not unnamed_data(backend, collection):  # noqa: ASYNC110  another process sets no event
            await asyncio.sleep(0.001)
        writer.kill()
    found = unnamed_data(backend, collection)
    assert found, "it was done before it could be killed"
    age(found)
    async with backend.reopened() as again:
        assert await again.purge(collection, [full(number).id for number in range(5)]) == 5
        assert unnamed_data(backend, collection) == []
    async with backend.reopened() as again:
        assert {row.content for row in await everything(again, collection)} == {"kept"}
        assert await again.count(collection) == 15


async def test_young_files_are_waited_for(tmp_path: Path):
    """Where others write without our locks a file goes only after it was left alone, and a changing one stays."""
    store = LanceStore(tmp_path)
    await store.upsert(SHARED, [record("a")])
    folder = tmp_path / "vectors.lance"
    table = await lancedb.connect_async(tmp_path)
    forged = forge(folder)
    busy, quiet = forged[0], forged[1:]
    age(quiet[1:])
    started = time.monotonic()
    removing = asyncio.create_task(remove_unnamed(await table.open_table("vectors"), folder, grace=0.6))
    await asyncio.sleep(0.3)
    assert [path.exists() for path in quiet] == [True, False, False, False]
    busy.write_bytes(b"still being written")
    assert await removing == len(quiet)
    assert 0.5 < time.monotonic() - started < 5
    assert busy.exists()
    assert not quiet[0].exists()
    await store.close()


async def test_another_programs_writes_survive(tmp_path: Path):
    """A program that takes no lock writes without a pause: its files stay until it has named them, and nobody waits."""
    store = LanceStore(tmp_path)
    await store.upsert(SHARED, [record("mine")])
    table = await (await lancedb.connect_async(tmp_path)).open_table("vectors")
    schema = await table.schema()
    done = threading.Event()
    written: list[str] = []

    def write() -> None:
        theirs = lancedb.connect(tmp_path).open_table("vectors")
        while not done.is_set():
            ids = [f"theirs {len(written) + offset}" for offset in range(50)]
            rows: list[dict[str, Any]] = [
                {"id": id_, "vector": [0.0] * 8, "content": id_ * 20, "metadata": "{}", "created_at": ""}
                for id_ in ids
            ]
            theirs.add(pa.Table.from_pylist(rows, schema=schema))
            written.extend(ids)

    thread = threading.Thread(target=write)
    thread.start()
    started, rounds = time.monotonic(), 0
    try:
        while time.monotonic() < started + 2:
            await table.checkout_latest()
            assert await remove_unnamed(table, tmp_path / "vectors.lance", grace=GRACE) == 0
            rounds += 1
    finally:
        done.set()
        await asyncio.to_thread(thread.join)
    assert rounds > 3
    assert await store.ids(SHARED) == {"mine", *written}
    found = await everything(store, SHARED)
    assert all(row.content for row in found)
    await store.close()


async def test_what_cannot_be_understood_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """If the manifests do not name what the table has, nothing is removed; nor is what LanceDB does not make."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(1)])
    own = tmp_path / f"{TYPED.name}.lance" / "_indices" / "notes" / "readme"
    own.parent.mkdir()
    own.write_text("of somebody", encoding="utf-8")
    assert await store.purge(TYPED, ["unknown"]) == 0
    assert own.exists()
    table = await (await lancedb.connect_async(tmp_path)).open_table(TYPED.name)
    forged = forge(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING, "agenthood"):
        assert await remove_unnamed(table, tmp_path / "elsewhere", grace=0) == 0
    assert all(path.exists() for path in forged)
    assert "manifests cannot be read" in caplog.text
    await store.close()


async def test_a_purge_waits_for_who_builds_an_index(tmp_path: Path):
    """An index that another process is building could bring back what is purged: the purge comes after it."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(1), full(2)])
    await store.close()
    async with StoreLock(tmp_path / ".agenthood.index.lock")():
        purging = asyncio.create_task(LanceStore(tmp_path).purge(TYPED, [full(1).id]))
        done, _ = await asyncio.wait([purging], timeout=0.5)
        assert not done
    assert await purging == 1
