"""The Qdrant backend for tests: qdrant-client's local mode, one database per folder, in this process only."""

from __future__ import annotations

import inspect
import os
import threading
import uuid
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from agenthood.stores.qdrant.lease import LeaseRules
from agenthood.stores.qdrant.store import QdrantStore
from agenthood.stores.settings import StoreSettings

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "http://127.0.0.1:1"
LEASE = LeaseRules(seconds=3.0, wait=20.0)
_FOR_WORKERS = "QDRANT_OF_THE_TESTS"
SERVER = os.environ.get("AGENTHOOD_QDRANT_URL") or os.environ.get(_FOR_WORKERS)
"""A real server on loopback to run the contract suite on."""

if SERVER is not None:
    # The environment of a test is cleaned of agenthood's own variables; processes it starts read this one.
    os.environ[_FOR_WORKERS] = SERVER


class Serialised:
    """Local mode, which is not thread-safe: one call at a time. Its calls never wait, so the lock is held briefly."""

    def __init__(self, client: Any) -> None:
        """Args: `client`, of local mode."""
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock, warnings.catch_warnings():
                warnings.filterwarnings("ignore", r".*(have|has) no effect", UserWarning)
                return await found(*args, **kwargs)

        return call


@cache
def local_client(folder: Path) -> Any:
    """The database of `folder`, the same one for every store opened there."""
    from qdrant_client import AsyncQdrantClient  # noqa: PLC0415  0.8 s of CPU

    del folder
    return Serialised(AsyncQdrantClient(":memory:"))


def namespace_of(folder: Path) -> str:
    """A namespace of the test's own on a real server, the same in every process."""
    return f"test_{uuid.uuid5(uuid.NAMESPACE_URL, str(folder)).hex[:16]}"


def remove_qdrant(folder: Path) -> None:
    """Drop everything that a test at `folder` left on a real server."""
    if SERVER is None:
        return
    from qdrant_client import QdrantClient  # noqa: PLC0415  0.8 s of CPU

    client = QdrantClient(url=SERVER, check_compatibility=False)
    for one in (client.get_collections()).collections:
        if one.name.startswith(namespace_of(folder) + "_"):
            client.delete_collection(one.name)
    client.close()


def open_qdrant(folder: Path) -> QdrantStore:
    """A store on the database of `folder`, or on the real server in a namespace that belongs to `folder`."""
    if SERVER is not None:
        settings = StoreSettings(backend="qdrant", url=SERVER, namespace=namespace_of(folder))
        return QdrantStore(settings, lease=LEASE)
    settings = StoreSettings(backend="qdrant", url=NOWHERE)
    return QdrantStore(settings, client=local_client(folder), lease=LEASE)
