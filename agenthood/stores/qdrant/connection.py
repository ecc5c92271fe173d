"""Talking to a Qdrant server: one client per event loop, a hard deadline, and errors of ours.

The client's own timeout is one between two reads, so a server that drips bytes outlasts it: every call has a
deadline here as well. A refusal that says when to come back (429) is waited for as long as the deadline lasts.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from agenthood.errors import MissingExtraError, StoreError, StoreUnavailableError
from agenthood.stores.qdrant.address import address_of
from agenthood.stores.qdrant.errors import from_status, translated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from qdrant_client import AsyncQdrantClient

    from agenthood.stores.settings import StoreSettings

T = TypeVar("T")

OLDEST_SERVER = (1, 16)
"""The first version with conditional upserts and metadata of collections, without which nothing here is safe."""
_SHORTEST_PAUSE = 0.05
_log = logging.getLogger("agenthood")


class Connection:
    """The clients of one server. Nothing is imported or reached before the first call."""

    def __init__(self, settings: StoreSettings, client: AsyncQdrantClient | None = None) -> None:
        """Args: `settings` with the address and deadline; `client` to use instead, which stays its owner's."""
        self.address = address_of(settings)
        self.timeout = settings.timeout
        self._api_key = settings.api_key
        self._given = client
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = WeakKeyDictionary()
        self.version: str | None = None

    async def call(self, doing: str, request: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        """What `request` answers within the deadline.

        Args:
            doing: what this does, for messages, such as `reading 'vectors'`.
            request: called with the client, once more after each refusal that says when to come back.

        Raises:
            StoreUnavailableError: no answer in time, or none that can be read.
            StoreError: the server refuses; `GoneError` and `ConflictError` tell why.
        """
        client = await self._client()  # the first time this imports it, which is not the server's time
        try:
            async with asyncio.timeout(self.timeout) as deadline:
                return await self._answered(doing, lambda: request(client), deadline)
        except TimeoutError as exc:
            raise self._late(doing) from exc

    async def require_version(self) -> str:
        """The server's version, asked once.

        Raises:
            StoreError: it is too old to be safe.
        """
        if self.version is None:
            info = await self.call("asking for the version", lambda client: client.info())
            numbers = tuple(map(int, re.findall(r"\d+", info.version)[:2]))
            if numbers < OLDEST_SERVER:
                raise StoreError(
                    f"the server at {self.address.shown!r} is Qdrant {info.version!r:.20}: "
                    f"upgrade it to {'.'.join(map(str, OLDEST_SERVER))} or later"
                )
            self.version = info.version
        return self.version

    async def close(self) -> None:
        """Close the clients made here; what is used again is opened again."""
        clients, self._clients = dict(self._clients), WeakKeyDictionary()
        for loop, client in clients.items():
            if loop is asyncio.get_running_loop():
                await client.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(client.close(), loop))

    async def _answered(
        self, doing: str, request: Callable[[], Awaitable[T]], deadline: asyncio.Timeout
    ) -> T:
        from qdrant_client.common.client_exceptions import (  # noqa: PLC0415  loaded by now
            QdrantException,
            ResourceExhaustedResponse,
        )
        from qdrant_client.http.exceptions import ApiException  # noqa: PLC0415

        while True:
            try:
                return await request()
            except ResourceExhaustedResponse as exc:
                pause = max(float(exc.retry_after_s), _SHORTEST_PAUSE)
                ends = deadline.when() or 0.0
                if asyncio.get_running_loop().time() + pause >= ends:
                    failed = f"{doing} at {self.address.shown!r} failed"
                    raise from_status(429, f"retry after {pause:g} s", failed) from exc
                await asyncio.sleep(pause)
            except TimeoutError:
                raise
            # The client asserts that an answer has a result.
            except (ApiException, QdrantException, AssertionError, ValueError, OSError) as exc:
                raise translated(exc, doing, self.address) from exc

    async def _client(self) -> AsyncQdrantClient:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            if "qdrant_client" not in sys.modules:
                await asyncio.to_thread(_import_client)
            # Another task of this loop may have been here meanwhile.
            if (client := self._clients.get(loop)) is None:
                client = self._clients[loop] = self._made()
        return client

    def _made(self) -> AsyncQdrantClient:
        with warnings.catch_warnings():
            # That a key travels over http is said below, once and as a log line.
            warnings.filterwarnings("ignore", "Api key is used", UserWarning)
            client: AsyncQdrantClient = _import_client()(
                url=self.address.shown,
                api_key=self._api_key,
                timeout=math.ceil(self.timeout),
                headers=self.address.headers,
                check_compatibility=False,
                prefer_grpc=False,
            )
        if self._api_key and self.address.shown.startswith("http:"):
            _log.info(
                "the key travels unencrypted to %r: use https outside a trusted network", self.address.shown
            )
        return client

    def _late(self, doing: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{doing} at {self.address.shown!r} failed: no answer within {self.timeout:g} s, "
            "check the server or raise store.timeout"
        )


def _import_client() -> Any:  # noqa: ANN401  a class
    try:
        from qdrant_client import AsyncQdrantClient  # noqa: PLC0415  0.8 s of CPU, so only when a store is used
    except ImportError as exc:
        raise MissingExtraError("qdrant-client", "qdrant") from exc
    return AsyncQdrantClient
