"""Run by `test_errors.py` with a limit: prints what the store says, one line per step; and how errors are checked."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from agenthood.errors import StoreError, StoreUnavailableError
from stores.backends import TYPED, Backend, full, record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agenthood.stores.base import Record, VectorStore


def large(number: int) -> Record:
    """A record that doubles with each number, from 5 kB on, and cannot be compressed further."""
    return record("large", random.Random(number).randbytes(5_000 * 2**number).hex())


async def fails(step: Callable[[], Awaitable[object]], error: type[StoreError], *words: str) -> None:
    """`step` raises `error`, in one line that holds `words`."""
    try:
        await step()
    except error as caught:
        message = str(caught)
    else:
        raise AssertionError(f"no {error.__name__}")
    assert "\n" not in message
    assert len(message) < 900
    for word in words:
        assert word in message, (word, message)


async def say(what: str, step: Awaitable[object]) -> bool:
    """Print the outcome of `step`; whether it worked."""
    try:
        result = await step
    except StoreUnavailableError as error:
        sys.stdout.write(f"{what}: unavailable: {error}\n")
        return False
    sys.stdout.write(f"{what}: {result}\n")
    return True


async def fill(store: VectorStore) -> None:
    """Write ever larger records until it fails; then say whether the store still answers."""
    for number in range(100):
        if not await say("upsert", store.upsert(TYPED, [full(number), large(number)])):
            break
        sys.stdout.write(f"acknowledged {number}\n")
    await say("count", store.count(TYPED))


async def main(command: str, name: str, folder: str) -> None:
    """`fill` the store up to the size of its disk, or `limit` its files to 1 MB and fill it."""
    store = Backend(name, Path(folder)).open()
    await store.ensure_collection(TYPED)
    if command == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    await fill(store)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
