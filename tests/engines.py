"""The whole engine on each backend, opened by its settings as a user does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings
from agenthood.engine import AsyncHood
from agenthood.stores.settings import StoreSettings
from hoods import small
from stores.postgres_server import settings_for
from stores.qdrant_local import NOWHERE, SERVER, namespace_of, open_qdrant

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.scope import Scope
    from agenthood.stores.base import VectorStore

ENGINES = ("lancedb", "sqlite", "qdrant", "postgres")


class LocalQdrantHood(AsyncHood):
    """A hood on Qdrant's local mode, which no setting names: on the database of a folder."""

    def __init__(self, path: Path, database: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self._database = database

    def _new_store(self, settings: Settings, scope: Scope | None) -> VectorStore:  # noqa: ARG002
        return open_qdrant(self._database)


def store_settings(backend: str, folder: Path) -> StoreSettings:
    """What chooses `backend`, with a database of the folder's own where it is on a server."""
    if backend == "postgres":
        return settings_for(folder)
    if backend == "qdrant":
        return StoreSettings(backend="qdrant", url=SERVER or NOWHERE, namespace=namespace_of(folder))
    return StoreSettings(backend=backend)


def engine(
    backend: str, folder: Path, embedder: Any = None, *, database: Path | None = None, **options: Any
) -> AsyncHood:
    """The engine on `backend`, for `async with`.

    Args:
        backend: one of `ENGINES`.
        folder: the directory of the project.
        embedder: what embeds; a small semantic one of the tests if absent.
        database: the folder that the database on a server belongs to; `folder` if absent.
        options: of `open_async`.
    """
    place = database or folder
    settings = Settings(EmbedderSettings(), deadline=30, store=store_settings(backend, place))
    options |= {"settings": settings, "embedder": embedder or small()}
    if backend != "qdrant" or SERVER is not None:
        return AsyncHood(folder / ".agenthood", **options)
    return LocalQdrantHood(folder / ".agenthood", place, **options)
