"""The collection in which leases are points, and the conditional writes on it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agenthood.stores.qdrant.errors import ConflictError, GoneError
from agenthood.stores.qdrant.payload import point_id
from agenthood.stores.qdrant.reads import filter_of

if TYPE_CHECKING:
    from agenthood.stores.qdrant.connection import Connection


class LeaseTable:
    """The collection in which leases are points, and the conditional writes on it."""

    def __init__(self, connection: Connection, name: str) -> None:
        """Args: `connection` to the server; `name` of the collection there."""
        self.connection = connection
        self._name = name
        self._made = False

    async def put(self, scope: str, token: str, beat: int, seen: tuple[str, int] | None) -> None:
        """Write that `token` holds `scope`, if nobody does, or if what was `seen` is still so."""
        from qdrant_client import models  # noqa: PLC0415

        await self._make()
        payload = {"scope": scope, "token": token, "beat": beat, "state": _state(token, beat)}
        point = models.PointStruct(id=point_id(scope), vector={}, payload=payload)
        # A new point is written whatever the filter says; one that is there only if it is as it was seen.
        unchanged = [_is("state", _state(*seen)) if seen is not None else _is("token", token)]
        await self.connection.call(
            f"taking the lock of {scope!r:.80}",
            lambda client: client.upsert(
                self._name,
                [point],
                wait=True,
                ordering=models.WriteOrdering.STRONG,
                update_filter=filter_of({"must": unchanged}),
            ),
        )

    async def read(self, scope: str) -> tuple[str, int] | None:
        """Who holds `scope` and how often it has renewed it; None if nobody does."""
        try:
            points = await self.connection.call(
                f"reading the lock of {scope!r:.80}",
                lambda client: client.retrieve(self._name, [point_id(scope)], with_payload=True),
            )
        except GoneError:
            self._made = False
            return None
        if not points or not points[0].payload:
            return None
        return str(points[0].payload.get("token")), int(points[0].payload.get("beat", 0))

    async def renew(self, scope: str, token: str, beat: int) -> bool:
        """Say that `token` is alive; whether it still holds `scope`."""
        from qdrant_client import models  # noqa: PLC0415

        held = filter_of({"must": [{"has_id": [point_id(scope)]}, _is("token", token)]})
        await self.connection.call(
            f"renewing the lock of {scope!r:.80}",
            lambda client: client.set_payload(
                self._name,
                {"beat": beat, "state": _state(token, beat)},
                points=held,
                wait=True,
                ordering=models.WriteOrdering.STRONG,
            ),
        )
        return await self.read(scope) == (token, beat)

    async def ask(self, scope: str, holder: str, token: str) -> None:
        """Let `holder` know that `token` waits."""
        from qdrant_client import models  # noqa: PLC0415

        held = filter_of({"must": [{"has_id": [point_id(scope)]}, _is("token", holder)]})
        await self.connection.call(
            f"waiting for the lock of {scope!r:.80}",
            lambda client: client.set_payload(
                self._name, {"next": token}, points=held, wait=True, ordering=models.WriteOrdering.STRONG
            ),
        )

    async def is_wanted(self, scope: str) -> bool:
        """Whether somebody waits for it, by the point of its holder."""
        points = await self.connection.call(
            f"reading the lock of {scope!r:.80}",
            lambda client: client.retrieve(self._name, [point_id(scope)], with_payload=["next"]),
        )
        return any("next" in (point.payload or {}) for point in points)

    async def give_back(self, scope: str, token: str) -> None:
        """Remove the point if it is still that of `token`."""
        from qdrant_client import models  # noqa: PLC0415

        held = models.FilterSelector(
            filter=filter_of({"must": [{"has_id": [point_id(scope)]}, _is("token", token)]})
        )
        await self.connection.call(
            f"giving back the lock of {scope!r:.80}",
            lambda client: client.delete(self._name, held, wait=True, ordering=models.WriteOrdering.STRONG),
        )

    async def _make(self) -> None:
        if self._made:
            return
        from qdrant_client import models  # noqa: PLC0415

        await self.connection.require_version()
        if not await self.connection.call(
            "looking for the locks", lambda client: client.collection_exists(self._name)
        ):
            with suppress(ConflictError):  # another process was first
                await self.connection.call(
                    "making the collection of locks",
                    lambda client: client.create_collection(self._name, vectors_config={}, shard_number=1),
                )
        for key in ("token", "state"):  # a server in strict mode filters by what is indexed only
            await self.connection.call(
                "indexing the locks",
                lambda client, key=key: client.create_payload_index(  # type: ignore[misc]
                    self._name,
                    key,
                    field_schema=models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD),
                    wait=True,
                ),
            )
        self._made = True


def _is(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "match": {"value": value}}


def _state(token: str, beat: int) -> str:
    """Who held it and how often it was renewed, as one keyword."""
    return f"{token}.{beat}"
