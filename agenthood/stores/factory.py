"""Making the store that was chosen: the one place that knows every backend."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from agenthood.errors import MissingExtraError, StoreUnavailableError
from agenthood.stores.settings import EMBEDDED

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.stores.base import VectorStore
    from agenthood.stores.settings import StoreSettings

_PACKAGES: Final = {
    "postgres": ("psycopg", "pgvector"),
    "qdrant": ("qdrant_client",),
    "sqlite": ("apsw", "sqlite_vec"),
}
"""What a backend needs beside what is always installed; its extra has the backend's name."""


def create_store(settings: StoreSettings, folder: Path, *, tenant: str | None = None) -> VectorStore:
    """The store that `settings` describe. Nothing is opened, created or reached before its first use.

    Args:
        settings: which backend, and where.
        folder: the `.agenthood` directory, in which embedded stores live.
        tenant: whose records may be seen at all, where the server enforces it too; None sees everyone's.

    Raises:
        MissingExtraError: the backend's packages are not installed.
    """
    check_installed(settings)
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


def check_installed(settings: StoreSettings) -> None:
    """Refuse a backend whose packages are not there, without loading any of them.

    Raises:
        MissingExtraError: one is not installed.
    """
    for package in _PACKAGES.get(settings.backend, ()):
        if find_spec(package) is None:
            raise MissingExtraError(package.replace("_", "-"), settings.backend)


def server_of(settings: StoreSettings) -> tuple[str, int]:
    """Host and port of the server that `settings` name, without anything secret.

    Raises:
        ConfigError: the address cannot be read.
    """
    if settings.backend == "postgres":
        from agenthood.stores.postgres.address import Address  # noqa: PLC0415

        return Address.of(settings).server
    from agenthood.stores.qdrant.address import address_of  # noqa: PLC0415

    return address_of(settings).server


def place_of(settings: StoreSettings, folder: Path) -> Path | None:
    """What an embedded store keeps everything in below the `.agenthood` directory `folder`; None for a server's."""
    return {"lancedb": folder / "memory", "sqlite": folder / "memory.sqlite"}.get(settings.backend)


def holds_tables(settings: StoreSettings, folder: Path) -> bool:
    """Whether an embedded store below `folder` was ever written to; a server's is taken for granted."""
    place = place_of(settings, folder)
    if place is None or settings.backend == "sqlite":
        return place is None or place.exists()
    return any(place.glob("*.lance"))


def left_behind(settings: StoreSettings, folder: Path) -> str | None:
    """Another embedded backend that holds a store below `folder`, where the one of `settings` holds none."""
    others = (name for name in EMBEDDED if name != settings.backend)
    try:
        if holds_tables(settings, folder):
            return None
        return next((name for name in others if holds_tables(replace(settings, backend=name), folder)), None)
    except OSError:  # where nobody may look the store itself says so
        return None


def in_the_way(settings: StoreSettings, folder: Path) -> Path | None:
    """What stands where an embedded store or a directory above it has to be, and is none."""
    place = place_of(settings, folder)
    if place is None:
        return None
    if settings.backend == "sqlite":
        above = next((one for one in folder.absolute().parents if not _may_be_folder(one)), None)
        return place if os.path.isdir(place) else folder if not _may_be_folder(folder) else above  # noqa: PTH112
    return next((one for one in (place, folder, *folder.absolute().parents) if not _may_be_folder(one)), None)


def _may_be_folder(path: Path) -> bool:
    """Whether a directory is there or could be made; Path's own methods raise where a parent may not be looked into."""
    return os.path.isdir(path) or not os.path.lexists(path)  # noqa: PTH112


def check_place(settings: StoreSettings, folder: Path) -> None:
    """Refuse a path that no waiting turns into a store.

    Raises:
        StoreUnavailableError: something that is no directory stands there or above.
    """
    if (found := in_the_way(settings, folder)) is not None:
        what = "is a directory" if os.path.isdir(found) else "is not a directory"  # noqa: PTH112
        raise StoreUnavailableError(
            f"{str(found)!r} {what}, so no store can be there: choose another path, or move it away"
        )
