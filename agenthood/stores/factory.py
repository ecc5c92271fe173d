"""Making the store that was chosen: the one place that knows every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.stores.base import VectorStore
    from agenthood.stores.settings import StoreSettings


def create_store(settings: StoreSettings, folder: Path, *, tenant: str | None = None) -> VectorStore:
    """The store that `settings` describe. Nothing is opened, created or reached before its first use.

    Args:
        settings: which backend, and where.
        folder: the `.agenthood` directory, in which embedded stores live.
        tenant: whose records may be seen at all, where the server enforces it too; None sees everyone's.

    Raises:
        MissingExtraError: the backend's packages are not installed.
    """
    match settings.backend:
        case "postgres":
            from agenthood.stores.postgres.store import PostgresStore  # noqa: PLC0415

            return PostgresStore(settings, tenant=tenant)
        case "qdrant":
            from agenthood.stores.qdrant.store import QdrantStore  # noqa: PLC0415

            return QdrantStore(settings)
        case "sqlite":
            from agenthood.stores.sqlite.store import SqliteStore  # noqa: PLC0415

            return SqliteStore(folder / "memory.sqlite")
        case _:
            from agenthood.stores.lance.store import LanceStore  # noqa: PLC0415

            return LanceStore(folder / "memory")
