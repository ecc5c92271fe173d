"""The collections of one namespace: found, made, completed with their indices, listed and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from agenthood.errors import StoreError
from agenthood.stores.fitting import fitting
from agenthood.stores.qdrant.errors import ConflictError, GoneError
from agenthood.stores.qdrant.shapes import checked_namespace, collection_of, creation, indices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agenthood.stores.base import Collection
    from agenthood.stores.qdrant.connection import Connection

T = TypeVar("T")
_ATTEMPTS = 3


class Catalog:
    """What collections there are. A shape is asked for once, and again when the server says it is gone."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        """Args: `connection` to the server; `namespace` that begins the names of the collections."""
        self._connection = connection
        self.namespace = checked_namespace(namespace)
        self._shapes: dict[str, Collection] = {}
        self._complete: set[str] = set()

    def stored_name(self, name: str) -> str:
        """What the collection is called on the server."""
        return f"{self.namespace}_{name}"

    async def info(self, name: str) -> Any:  # noqa: ANN401  a CollectionInfo
        """What the server says of a collection, or None if it has none of that name."""
        try:
            return await self._connection.call(
                f"looking up {name!r}", lambda client: client.get_collection(self.stored_name(name))
            )
        except GoneError:
            return None

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        if (known := self._shapes.get(collection.name)) is None:
            if (info := await self.info(collection.name)) is None:
                return None
            known = fitting(collection, self._shape(collection.name, info))
            self._shapes[collection.name] = known
        return fitting(collection, known)

    async def ensure(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        name = collection.name
        if name in self._complete and name in self._shapes:
            return fitting(collection, self._shapes[name])
        if (info := await self.info(name)) is None:
            await self._connection.require_version()
            await self._create(collection)
            info = await self.info(name)
        if info is None:
            raise StoreError(f"collection {name!r} was dropped while it was made: try again")
        found = fitting(collection, self._shape(collection.name, info))
        await self.index(found, info)
        self._shapes[name] = found
        self._complete.add(name)
        return found

    async def index(self, collection: Collection, info: Any) -> list[str]:  # noqa: ANN401  a CollectionInfo
        """Make the indices that are missing, as after a kill; returns their names."""
        missing = [name for name in indices(collection) if name not in info.payload_schema]
        for name in missing:
            await self._create_index(collection, name)
        return missing

    async def list(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""
        answer = await self._connection.call(
            "listing the collections", lambda client: client.get_collections()
        )
        prefix = self.stored_name("")
        found = []
        for one in answer.collections:
            if not one.name.startswith(prefix):
                continue
            name = one.name.removeprefix(prefix)
            if (collection := self._shape(name, await self.info(name))) is not None:
                found.append(collection)
        return tuple(sorted(found, key=lambda collection: collection.name))

    async def drop(self, name: str) -> None:
        """See `VectorStore.drop_collection`."""
        self.forget(name)
        if await self.info(name) is None:
            return
        try:
            await self._connection.call(
                f"dropping {name!r}", lambda client: client.delete_collection(self.stored_name(name))
            )
        except GoneError:
            return

    def forget(self, name: str) -> None:
        """Ask the server again what the collection is."""
        self._shapes.pop(name, None)
        self._complete.discard(name)

    async def read(self, collection: Collection, work: Callable[[Collection], Awaitable[T]], absent: T) -> T:
        """What `work` makes of the collection as it is; `absent` if there is none, or another process drops it."""
        if (found := await self.find(collection)) is None:
            return absent
        try:
            return await work(found)
        except GoneError:
            self.forget(collection.name)
            return absent

    async def write(self, collection: Collection, work: Callable[[Collection], Awaitable[T]]) -> T:
        """What `work` makes of the collection, made first if need be, and anew if another process dropped it."""
        for _ in range(_ATTEMPTS - 1):
            found = await self.ensure(collection)
            try:
                return await work(found)
            except GoneError:
                self.forget(collection.name)
        return await work(await self.ensure(collection))

    def _shape(self, name: str, info: Any) -> Collection | None:  # noqa: ANN401  a CollectionInfo or None
        return collection_of(self.namespace, name, info) if info is not None else None

    async def _create(self, collection: Collection) -> None:
        from qdrant_client import models  # noqa: PLC0415

        made = models.CreateCollection.model_validate(creation(collection, self.namespace))
        name = self.stored_name(collection.name)
        try:
            await self._connection.call(
                f"making {collection.name!r}",
                lambda client: client.create_collection(
                    name,
                    vectors_config=made.vectors,
                    hnsw_config=made.hnsw_config,
                    quantization_config=made.quantization_config,
                    metadata=made.metadata,
                ),
            )
        except ConflictError:  # another process was first
            return

    async def _create_index(self, collection: Collection, field: str) -> None:
        from qdrant_client import models  # noqa: PLC0415

        parameters = indices(collection)[field]
        kind = models.KeywordIndexParams if parameters["type"] == "keyword" else models.IntegerIndexParams
        schema = kind.model_validate(parameters)
        await self._connection.call(
            f"indexing {field!r} of {collection.name!r}",
            lambda client: client.create_payload_index(
                self.stored_name(collection.name), field, field_schema=schema, wait=True
            ),
        )
