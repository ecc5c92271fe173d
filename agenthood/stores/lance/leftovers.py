"""Files below a LanceDB table that no version names: what a failed or killed write leaves behind.

LanceDB writes a transaction's files first and names them in a manifest at the end. Where it does not come to that,
its own clean-up keeps the files for a week, since it cannot tell them from those of a write under way. Their bytes
cannot be searched for what has to go either: columns are compressed. So the files go as soon as nobody can
still be writing them: at once where every writer takes our locks, which the caller holds, and after a while
without any change in the table shared with a program that takes no lock.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lancedb.table import AsyncTable

GRACE = 10.0
"""Seconds without a change after which a write of the TypeScript program counts as ended: it commits at once."""

_POLL = 0.1
_log = logging.getLogger("agenthood")


async def remove_unnamed(table: AsyncTable, folder: Path, *, grace: float) -> int:
    """Remove what no version names; returns how many files and index folders that were.

    Args:
        table: the table, on its latest version; the caller holds the write lock and the index lock.
        folder: the table's directory.
        grace: how many seconds such a file must have been left alone; younger ones are waited for.
    """
    removed = 0
    started = time.time()
    while unnamed := list(_unnamed(folder)):
        if not await _understood(table, folder):
            _log.warning("%r keeps files of failed writes: its manifests cannot be read", str(folder))
            break
        ripe = [path for path in unnamed if _changed(path) <= time.time() - grace]
        for path in ripe:
            _remove(path)
        removed += len(ripe)
        # What another program began meanwhile is its own affair.
        if all(path in ripe or _changed(path) > started for path in unnamed):
            break
        await asyncio.sleep(_POLL)
    return removed


def _unnamed(folder: Path) -> Iterator[Path]:
    # Listed before the manifests are read: what is committed in between is named by them.
    listed = list(_candidates(folder))
    manifests = _manifests(folder)
    return (path for path in listed if not _is_named(path, manifests))


def _candidates(folder: Path) -> Iterator[Path]:
    """Everything that a manifest would name, and manifests not yet under their own name."""
    for part in ("data", "_transactions", "_indices"):
        yield from (folder / part).glob("*")
    yield from (
        path for path in (folder / "_versions").glob("*") if path.suffix not in {".manifest", ".json"}
    )


def _manifests(folder: Path) -> list[bytes]:
    found = []
    for path in (folder / "_versions").glob("*.manifest"):
        try:
            found.append(path.read_bytes())
        except FileNotFoundError:  # another program cleaned up
            continue
    return found


def _is_named(path: Path, manifests: Iterable[bytes]) -> bool:
    """Whether a version needs the file: manifests hold the names of files as text and those of indices as bytes."""
    name = path.name.encode()
    if path.parent.name == "_indices":
        try:
            name = UUID(path.name).bytes
        except ValueError:  # nothing we know
            return True
    return any(name in manifest for manifest in manifests)


async def _understood(table: AsyncTable, folder: Path) -> bool:
    """Whether the manifests name as much as the table must have, so that what they do not name is unneeded.

    A later LanceDB may write them otherwise.
    """
    stats: Any = await table.stats()  # a mapping at run time, declared as a class without items
    fragments, indices = stats["fragment_stats"]["num_fragments"], len(list(await table.list_indices()))
    manifests = _manifests(folder)  # read last: whatever was committed meanwhile is in them
    named = {
        part: sum(_is_named(path, manifests) for path in (folder / part).glob("*"))
        for part in ("data", "_indices")
    }
    return bool(named["data"] >= fragments and named["_indices"] >= indices)


def _changed(path: Path) -> float:
    """When the file, or anything in the folder, was last written, in seconds since the epoch."""
    times = []
    for part in (path, *path.rglob("*")):
        try:
            times.append(part.stat().st_mtime)
        except FileNotFoundError:  # it was renamed: somebody is at work
            return math.inf
    return max(times)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
