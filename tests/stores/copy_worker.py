"""Run by `test_copying.py`: copies the LanceDB store of a folder to its SQLite store, and is killed on the way.

Usage: copy_worker.py FOLDER COMMITS
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

from agenthood.stores.copying import copy_store
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.sqlite.store import SqliteStore
from agenthood.stores.testing import Fault, FaultyStore


async def main(folder: str, commits: str) -> None:
    """Copy; the process dies as soon as so many batches are written."""
    written = count(1)

    def plan(name: str) -> Fault | None:
        return Fault("die") if name == "upsert" and next(written) == int(commits) else None

    target = FaultyStore(SqliteStore(Path(folder) / "memory.sqlite"), plan)
    await copy_store(LanceStore(Path(folder) / "memory"), target)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
