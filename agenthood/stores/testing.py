"""A store that goes wrong on command, for tests: a real one, with faults in front of it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agenthood.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from agenthood.stores.base import Collection, Health, Hit, Matrix, Record, UpsertResult, VectorStore

Harm: TypeAlias = Literal["hang", "drip", "fail", "garbage", "lost", "late", "die"]
READS = frozenset(
    {"find", "collections", "get", "query", "matrix", "search_terms", "scan", "ids", "count", "version"}
)
WRITES = frozenset(
    {"ensure_collection", "drop_collection", "upsert", "delete", "purge", "exclusive", "maintain"}
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with a call.

    Attributes:
        harm: `hang` it never answers; `drip` it answers after `seconds`; `fail` it raises `error`; `garbage` it
            answers with something that is no answer; `lost` it is done, and the connection breaks with `error`; `late`
            it is done, and the answer never arrives; `die` it is done, and the process is killed.
        seconds: how long dripping takes.
        error: what is raised.
    """

    harm: Harm
    seconds: float = 0.05
    error: Exception = field(default_factory=lambda: StoreUnavailableError("the test store is down"))


class FaultyStore:
    """A `VectorStore` around a real one, which does what the plan says.

    Attributes:
        inner: the real one.
        plan: the fault of a call, by the name of its method; None lets it through. May be changed at any time.
        calls: the names of the methods called so far.
    """

    def __init__(self, inner: VectorStore, plan: Callable[[str], Fault | None] = lambda _: None) -> None:
        """Args: the `inner` store and the `plan`."""
        self.inner = inner
        self.plan = plan
        self.calls: list[str] = []

    def break_down(self, fault: Fault, methods: frozenset[str] = READS | WRITES | {"close"}) -> None:
        """Let every call of these methods meet this fault, until `recover`."""
        self.plan = lambda name: fault if name in methods else None

    def recover(self) -> None:
        """Work again."""
        self.plan = lambda _: None

    async def _meet(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401  whatever it answers
        self.calls.append(name)
        fault = self.plan(name)
        match fault.harm if fault else None:
            case "hang":
                await asyncio.Event().wait()
            case "drip":
                await asyncio.sleep(fault.seconds if fault else 0)
            case "fail":
                raise fault.error if fault else RuntimeError
            case "garbage":
                return "<html>502 Bad Gateway</html>"
        answer = await work()
        match fault.harm if fault else None:
            case "lost":
                raise fault.error if fault else RuntimeError
            case "late":
                await asyncio.Event().wait()
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
        return answer

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        found: Collection | None = await self._meet("find", lambda: self.inner.find(collection))
        return found

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        made: Collection = await self._meet(
            "ensure_collection", lambda: self.inner.ensure_collection(collection)
        )
        return made

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""
        found: tuple[Collection, ...] = await self._meet("collections", self.inner.collections)
        return found

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`."""
        await self._meet("drop_collection", lambda: self.inner.drop_collection(name))

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`."""
        done: UpsertResult = await self._meet("upsert", lambda: self.inner.upsert(collection, records))
        return done

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        found: dict[str, Record] = await self._meet(
            "get", lambda: self.inner.get(collection, ids, vectors=vectors)
        )
        return found

    async def query(self, *args: Any, **options: Any) -> list[list[Hit]]:  # noqa: ANN401  handed on
        """See `VectorStore.query`."""
        found: list[list[Hit]] = await self._meet("query", lambda: self.inner.query(*args, **options))
        return found

    async def matrix(self, *args: Any, **options: Any) -> Matrix:  # noqa: ANN401  handed on
        """See `VectorStore.matrix`."""
        found: Matrix = await self._meet("matrix", lambda: self.inner.matrix(*args, **options))
        return found

    async def search_terms(self, *args: Any, **options: Any) -> list[Record]:  # noqa: ANN401  handed on
        """See `VectorStore.search_terms`."""
        found: list[Record] = await self._meet(
            "search_terms", lambda: self.inner.search_terms(*args, **options)
        )
        return found

    async def scan(self, *args: Any, **options: Any) -> AsyncIterator[list[Record]]:  # noqa: ANN401  handed on
        """See `VectorStore.scan`."""
        batches = self.inner.scan(*args, **options)
        while (batch := await self._meet("scan", lambda: anext(batches, None))) is not None:
            yield batch

    async def ids(self, *args: Any, **options: Any) -> set[str]:  # noqa: ANN401  handed on
        """See `VectorStore.ids`."""
        found: set[str] = await self._meet("ids", lambda: self.inner.ids(*args, **options))
        return found

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        gone: int = await self._meet("delete", lambda: self.inner.delete(collection, ids))
        return gone

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`."""
        gone: int = await self._meet("purge", lambda: self.inner.purge(collection, ids))
        return gone

    async def count(self, *args: Any, **options: Any) -> int:  # noqa: ANN401  handed on
        """See `VectorStore.count`."""
        found: int = await self._meet("count", lambda: self.inner.count(*args, **options))
        return found

    async def version(self, collection: Collection) -> int | None:
        """See `VectorStore.version`."""
        found: int | None = await self._meet("version", lambda: self.inner.version(collection))
        return found

    @asynccontextmanager
    async def exclusive(self, scope: str = "") -> AsyncIterator[None]:
        """See `VectorStore.exclusive`."""
        lock = self.inner.exclusive(scope)
        await self._meet("exclusive", _nothing)
        async with lock:
            yield

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`."""
        done: dict[str, Any] = await self._meet("maintain", lambda: self.inner.maintain(collection))
        return done

    async def health(self) -> Health:
        """See `VectorStore.health`."""
        return await self.inner.health()

    async def close(self) -> None:
        """See `VectorStore.close`."""
        await self._meet("close", self.inner.close)


async def _nothing() -> None:
    pass
