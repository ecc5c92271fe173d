"""Another process on the same store: started by the tests as a script, never forked.

Usage: worker.py COMMAND BACKEND FOLDER [ARGUMENT...]; each prints lines, and starts when a line comes in.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from stores.backends import SHARED, TYPED, Backend, everything, full, record, unit

if TYPE_CHECKING:
    from agenthood.stores.base import VectorStore


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def upsert(store: VectorStore, start: str) -> None:
    """Upsert the 40 records from number `start` on, one by one."""
    for number in range(40):
        await store.upsert(TYPED, [full(int(start) + number)])


async def endless(store: VectorStore) -> None:
    """Upsert batches until killed, saying which are acknowledged."""
    number = 0
    while True:
        rows = [full(number + offset) for offset in range(3)]
        await store.upsert(TYPED, [*rows, record("counter", str(number), vector=unit(number + 1))])
        number += 3
        say(str(number))


async def bulk(store: VectorStore, name: str) -> None:
    """Upsert so much at once that it takes a while."""
    collection = {TYPED.name: TYPED, SHARED.name: SHARED}[name]
    rows = [full(number, content=random.Random(number).randbytes(2_000).hex()) for number in range(4_000)]
    say("writing")
    await store.upsert(collection, rows)


async def hold(store: VectorStore, seconds: str) -> None:
    """Hold the write lock."""
    async with store.exclusive():
        say("holding")
        await asyncio.sleep(float(seconds))


async def alone(store: VectorStore, path: str, times: str) -> None:
    """Add one to the number in a file, so slowly that two at once would lose one."""
    for _ in range(int(times)):
        async with store.exclusive():
            number = number_in(path)
            await asyncio.sleep(0.005)
            Path(path).write_text(str(number + 1), encoding="utf-8")  # noqa: ASYNC240  tiny


def number_in(path: str) -> int:
    """The number in the file."""
    return int(Path(path).read_text(encoding="utf-8"))


async def read(store: VectorStore, seconds: str) -> None:
    """Read in every way until the time is up; say how often that worked."""
    until = time.monotonic() + float(seconds)
    rounds = 0
    while time.monotonic() < until:
        rows = await everything(store, TYPED)
        assert len({row.id for row in rows}) == len(rows)
        assert len((await store.query(TYPED, unit(1)[None]))[0]) == 10
        assert await store.get(TYPED, [full(1).id])
        assert await store.count(TYPED) >= 20
        assert [row.id for row in await store.search_terms(TYPED, ["word1"])] == [full(1).id]
        rounds += 1
    say(str(rounds))


async def main(command: str, backend: str, folder: str, *arguments: str) -> None:
    """Open the store, wait for a line, run the command."""
    store = Backend(backend, Path(folder)).open()
    if command not in {"hold", "alone"}:  # the lock alone needs nothing that takes long to import
        await store.ensure_collection(TYPED)
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    commands = {
        "upsert": upsert,
        "endless": endless,
        "bulk": bulk,
        "hold": hold,
        "alone": alone,
        "read": read,
    }
    await commands[command](store, *arguments)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
