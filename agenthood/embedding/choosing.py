"""The embedder that a store is opened with: the one wanted, or wording alone where that cannot be had."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agenthood.embedding.bundled import BundledEmbedder
from agenthood.embedding.factory import create_embedder
from agenthood.embedding.lexical import LexicalEmbedder
from agenthood.embedding.settings import EmbedderSettings
from agenthood.errors import EmbeddingError

if TYPE_CHECKING:
    from agenthood.embedding.base import Embedder

_log = logging.getLogger("agenthood")


async def chosen_embedder(wanted: Embedder | str | None, settings: EmbedderSettings) -> tuple[Embedder, str]:
    """The embedder to use, and why it is not the one wanted.

    Args:
        wanted: an embedder, the name of a kind, or None for what is configured.
        settings: what is configured.
    """
    if wanted is not None and not isinstance(wanted, str):
        return wanted, ""
    chosen = settings
    if wanted is not None and wanted != chosen.kind:
        # Another kind: the model and address belong to another server, and its key must not be sent to this one.
        chosen = EmbedderSettings(kind=wanted, deadline=chosen.deadline)
    try:
        # Only one of unknown dimension is asked here; it may have to load its model, and is not asked again.
        async with asyncio.timeout(max(chosen.deadline, chosen.timeout)):
            embedder = await create_embedder(chosen)
        if isinstance(embedder, BundledEmbedder):
            embedder.check_installed()
    except (EmbeddingError, TimeoutError) as exc:
        reason = f"wording is compared instead of meaning: {exc or 'the embedder did not answer in time'}"
        _log.warning("%s", reason)
        return LexicalEmbedder(), reason
    return embedder, ""
