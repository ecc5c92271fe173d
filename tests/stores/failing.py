"""Run by `test_errors.py` with a limit: prints what the store says, one line per step."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent.parent))

from agenthood.errors import StoreUnavailableError
from agenthood.stores.lance.store import LanceStore
from stores.backends import TYPED, full, record

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agenthood.stores.base import Record


def large(number: int) -> Record:
    """A record that doubles with each number, from 5 kB on, and cannot be compressed further."""
    return record("large", random.Random(number).randbytes(5_000 * 2**number).hex())


async def say(what: str, step: Awaitable[object]) -> bool:
    """Print the outcome of `step`; whether it worked."""
    try:
        result = await step
    except StoreUnavailableError as error:
        sys.stdout.write(f"{what}: unavailable: {error}\n")
        return False
    sys.stdout.write(f"{what}: {result}\n")
    return True


async def fill(store: LanceStore) -> None:
    """Write ever larger records until it fails; then say whether the store still answers."""
    for number in range(100):
        if not await say("upsert", store.upsert(TYPED, [full(number), large(number)])):
            break
        sys.stdout.write(f"acknowledged {number}\n")
    await say("count", store.count(TYPED))


async def main(command: str, folder: str) -> None:
    """`fill` the store up to the size of its disk, or `limit` its files to 100 kB and fill it."""
    store = LanceStore(Path(folder))
    await store.ensure_collection(TYPED)
    if command == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    await fill(store)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
