"""Keeping an open store small: tables that nobody needs any more, fragments, faded signals."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from agenthood.errors import AgenthoodError

if TYPE_CHECKING:
    from agenthood.learning.index import EmbeddingIndex
    from agenthood.memory.residual import ResidualMemory
    from agenthood.stores.base import VectorStore

_log = logging.getLogger("agenthood")


async def drop_other_spaces(store: VectorStore, index: EmbeddingIndex) -> None:
    """Remove the pattern tables of all spaces but that of `index`."""
    for collection in await store.collections():
        name = collection.name
        if collection.typed and name.startswith("patterns_") and name != index.main.name:
            await store.drop_collection(name)


async def tidy(store: VectorStore, residual: ResidualMemory) -> dict[str, dict[str, Any]]:
    """Compact every collection, then drop faded signals.

    Returns:
        Collection -> what was done and found.
    """
    done = {collection.name: await store.maintain(collection) for collection in await store.collections()}
    try:
        await asyncio.to_thread(residual.decay)
    except (AgenthoodError, OSError) as exc:
        # Residual memory only hints, so a file that cannot be used stops nothing.
        _log.warning("residual memory was not tidied: %s", exc)
    return done
