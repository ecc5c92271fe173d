"""Keeping an open store small: tables that nobody needs any more, fragments, faded signals."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from agenthood.errors import AgenthoodError
from agenthood.stores.scoped import scoped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.memory.residual import ResidualMemory
    from agenthood.parts import Parts
    from agenthood.stores.base import VectorStore

_log = logging.getLogger("agenthood")


async def drop_other_spaces(store: VectorStore, index: EmbeddingIndex) -> None:
    """Remove the pattern tables of all spaces but that of `index`."""
    for collection in await store.collections():
        name = collection.name
        if collection.typed and name.startswith("patterns_") and name != index.main.name:
            await store.drop_collection(name)


async def tidy(layers: Sequence[Parts]) -> dict[str, dict[str, Any]]:
    """Compact every collection of all layers, each once, then drop faded signals.

    Returns:
        Collection -> what was done and found; those of a shared layer as `shared ...`.
    """
    done: dict[str, dict[str, Any]] = {}
    kept_up: set[str] = set()
    for layer in layers:
        for collection in await layer.store.collections():
            # Tables that scopes share are one table, whichever layer sees it.
            table = collection.name if layer.scope is None else scoped(collection).name
            if table not in kept_up:
                kept_up.add(table)
                name = collection.name if layer is layers[0] else f"shared {collection.name}"
                done[name] = await layer.store.maintain(collection)
        await _drop_faded(layer.residual)
    return done


async def _drop_faded(residual: ResidualMemory) -> None:
    try:
        await asyncio.to_thread(residual.decay)
    except (AgenthoodError, OSError) as exc:
        # Residual memory only hints, so a file that cannot be used stops nothing.
        _log.warning("residual memory was not tidied: %s", exc)
