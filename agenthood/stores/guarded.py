"""A store that nobody waits for too long: work on it has a deadline, and an outage is met once, not at every call.

Work is done in *sections*, `async with store.section("reading")`: their calls share the deadline, and after a
section that failed the next ones are refused at once, for ten times as long as the failure took. Calls outside of a
section (migrations, exports, upkeep) take the time they take.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from agenthood.breaker import Breaker
from agenthood.errors import AgenthoodError, StoreError, StoreUnavailableError
from agenthood.formats import INDEX_VERSION_KEY
from agenthood.redaction import redact
from agenthood.stores.base import SHARED, Collection, Health, Hit, Matrix, Record, UpsertResult
from agenthood.stores.deadline import LOADING, Section, current_section, within
from agenthood.stores.settings import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from contextlib import AbstractAsyncContextManager

    from agenthood.stores.base import Vector, VectorField, VectorStore
    from agenthood.stores.filters import Filter

T = TypeVar("T")
Purpose: TypeAlias = Literal["reading", "writing"]

_PAUSE_FACTOR: Final = 10.0
_LONGEST_PAUSE: Final = 30.0
_log = logging.getLogger("agenthood")


@dataclass(slots=True)
class _Circuit:
    """Whether work of one purpose gets through now, and if not, why."""

    breaker: Breaker = field(default_factory=lambda: Breaker(1, _LONGEST_PAUSE, True, time.monotonic))
    reason: str = ""

    def enter(self) -> None:
        """Begin a piece of work.

        Raises:
            StoreUnavailableError: the last one failed a moment ago.
        """
        if not self.breaker.allow():
            seconds = max(1, round(self.breaker.opens_in))
            raise StoreUnavailableError(f"{self.reason}; it is asked again in {seconds} s")

    def failed(self, error: Exception, seconds: float) -> None:
        """A piece of work failed after so many seconds of the store's time."""
        self.reason = str(error)
        self.breaker.failed(cooldown=min(_LONGEST_PAUSE, _PAUSE_FACTOR * seconds))

    def succeeded(self) -> None:
        """A piece of work came to its end."""
        self.reason = ""
        self.breaker.succeeded()


class GuardedStore:
    """A `VectorStore` around another: see the module.

    Reading and writing fail by themselves: a full disk or a lock that is held keeps nobody from recalling.

    Attributes:
        inner: the store itself.
        backend: its kind, such as `lancedb`.
        deadline: seconds of its time that a section may take unless told otherwise.
        on_failure: called after a section that failed.
    """

    def __init__(
        self, inner: VectorStore, *, backend: str = "", deadline: float = DEADLINE, quiet: bool = False
    ) -> None:
        """Put it around another.

        Args:
            inner: the store itself.
            backend: its kind, for `health` where it does not answer.
            deadline: of a section, in seconds.
            quiet: whether others log what fails.
        """
        self.inner = inner
        self.backend = backend
        self.deadline = deadline
        self.on_failure: Callable[[], None] | None = None
        self._level = logging.DEBUG if quiet else logging.WARNING
        self._circuits: dict[Purpose, _Circuit] = {"reading": _Circuit(), "writing": _Circuit()}

    # -- sections ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def section(self, purpose: Purpose, seconds: float | None = None) -> AsyncIterator[None]:
        """One piece of work on the store; inside of another one it is part of that.

        Args:
            purpose: `writing` if anything is written, whatever is read for it.
            seconds: how much of the store's time it may take; `deadline` if absent.

        Raises:
            StoreUnavailableError: work of this purpose failed a moment ago; nothing was asked.
        """
        if current_section() is not None:
            yield
            return
        circuit = self._circuits[purpose]
        circuit.enter()
        section = Section(self.deadline if seconds is None else seconds)
        try:
            async with within(section):
                yield
        except StoreError as exc:
            self._failed(circuit, exc, section.spent)
            raise
        except BaseException:  # a cancellation too: it says nothing about the store
            circuit.breaker.undecided()
            raise
        self._succeeded(purpose)

    def problem(self, purpose: Purpose) -> str:
        """Why work of this purpose would be refused or failed lately; empty if it did not."""
        return self._circuits[purpose].reason

    def opens_in(self, purpose: Purpose) -> float:
        """Seconds until a piece of work may try again, 0 if one may now."""
        return self._circuits[purpose].breaker.opens_in

    @property
    def failing(self) -> str:
        """Why reading or writing failed lately; empty if neither did."""
        return self.problem("reading") or self.problem("writing")

    async def answers(self) -> bool:
        """Whether a record can be read within the deadline."""
        try:
            async with self.section("reading"):
                await self.get(SHARED, [INDEX_VERSION_KEY])
        except StoreError:
            return False
        return True

    async def reach(self) -> None:
        """Get hold of the store as if to write, within the deadline; that it can be reached does not make it well.

        Raises:
            StoreUnavailableError: it cannot be reached.
        """
        async with within(Section(self.deadline)) as section:
            try:
                async with self.exclusive():
                    await self.get(SHARED, [INDEX_VERSION_KEY])
            except StoreError as exc:
                self._failed(self._circuits["writing"], exc, section.spent)
                raise

    def _failed(self, circuit: _Circuit, error: Exception, seconds: float) -> None:
        if not self.failing:
            _log.log(self._level, "memory is degraded: %s", error)
        circuit.failed(error, seconds)
        if self.on_failure is not None:
            self.on_failure()

    def _succeeded(self, purpose: Purpose) -> None:
        before = self.failing
        self._circuits["reading"].succeeded()
        if purpose == "writing":
            self._circuits["writing"].succeeded()
        if before and not self.failing:
            _log.info("memory works again")

    # -- calls ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _call(self, purpose: Purpose) -> AsyncIterator[None]:
        section = current_section()
        if section is not None:
            with _translated():
                async with section.call():
                    yield
            return
        started = time.monotonic()
        try:
            yield
        except StoreUnavailableError as exc:
            self._failed(self._circuits[purpose], exc, time.monotonic() - started)
            raise
        if self.problem(purpose):
            self._succeeded(purpose)

    async def _ask(self, purpose: Purpose, kind: type | tuple[type, ...], work: Awaitable[T]) -> T:
        answer = None
        try:
            async with self._call(purpose):
                answer = await work
        finally:
            if asyncio.iscoroutine(work):
                work.close()  # does nothing unless the time was up before it began
        if not isinstance(answer, kind):
            raise StoreUnavailableError(
                f"the store answered with {type(answer).__name__}, which is no answer: is something else there now?"
            )
        return answer

    async def find(self, collection: Collection) -> Collection | None:
        """See `VectorStore.find`."""
        return await self._ask("reading", (Collection, type(None)), self.inner.find(collection))

    async def ensure_collection(self, collection: Collection) -> Collection:
        """See `VectorStore.ensure_collection`."""
        return await self._ask("writing", Collection, self.inner.ensure_collection(collection))

    async def collections(self) -> tuple[Collection, ...]:
        """See `VectorStore.collections`."""
        return await self._ask("reading", tuple, self.inner.collections())

    async def drop_collection(self, name: str) -> None:
        """See `VectorStore.drop_collection`."""
        await self._ask("writing", type(None), self.inner.drop_collection(name))

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """See `VectorStore.upsert`."""
        return await self._ask("writing", UpsertResult, self.inner.upsert(collection, records))

    async def get(
        self, collection: Collection, ids: Sequence[str], *, vectors: bool = False
    ) -> dict[str, Record]:
        """See `VectorStore.get`."""
        return await self._ask("reading", dict, self.inner.get(collection, ids, vectors=vectors))

    async def query(  # noqa: PLR0913  one for each thing that can be asked
        self,
        collection: Collection,
        vectors: Vector,
        *,
        field: VectorField = "vector",
        condition: Filter | None = None,
        limit: int = 10,
        unit: bool = False,
        with_vectors: bool = True,
    ) -> list[list[Hit]]:
        """See `VectorStore.query`."""
        asked = self.inner.query(
            collection,
            vectors,
            field=field,
            condition=condition,
            limit=limit,
            unit=unit,
            with_vectors=with_vectors,
        )
        return await self._ask("reading", list, asked)

    async def matrix(
        self, collection: Collection, *, field: VectorField = "vector", condition: Filter | None = None
    ) -> Matrix:
        """See `VectorStore.matrix`."""
        return await self._ask(
            "reading", Matrix, self.inner.matrix(collection, field=field, condition=condition)
        )

    async def search_terms(
        self,
        collection: Collection,
        terms: Sequence[str],
        *,
        condition: Filter | None = None,
        limit: int = 500,
    ) -> list[Record]:
        """See `VectorStore.search_terms`."""
        asked = self.inner.search_terms(collection, terms, condition=condition, limit=limit)
        return await self._ask("reading", list, asked)

    async def scan(
        self, collection: Collection, *, condition: Filter | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Record]]:
        """See `VectorStore.scan`."""
        batches = self.inner.scan(collection, condition=condition, vectors=vectors)
        try:
            while (batch := await self._ask("reading", (list, type(None)), _next(batches))) is not None:
                yield batch
        finally:
            if (
                close := getattr(batches, "aclose", None)
            ) is not None:  # a generator; other iterators have none
                await close()

    async def ids(self, collection: Collection, *, condition: Filter | None = None) -> set[str]:
        """See `VectorStore.ids`."""
        return await self._ask("reading", set, self.inner.ids(collection, condition=condition))

    async def delete(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.delete`."""
        return await self._ask("writing", int, self.inner.delete(collection, ids))

    async def purge(self, collection: Collection, ids: Sequence[str]) -> int:
        """See `VectorStore.purge`."""
        return await self._ask("writing", int, self.inner.purge(collection, ids))

    async def count(self, collection: Collection, condition: Filter | None = None) -> int:
        """See `VectorStore.count`."""
        return await self._ask("reading", int, self.inner.count(collection, condition))

    async def version(self, collection: Collection) -> int | None:
        """See `VectorStore.version`."""
        return await self._ask("reading", (int, type(None)), self.inner.version(collection))

    @asynccontextmanager
    async def exclusive(self, scope: str = "") -> AsyncIterator[None]:
        """See `VectorStore.exclusive`."""
        lock = self.inner.exclusive(scope)
        if current_section() is None:
            async with lock:
                yield
            return
        async with self._call("writing"):
            await lock.__aenter__()
        try:
            yield
        finally:
            await self._released(lock)

    async def _released(self, lock: AbstractAsyncContextManager[None]) -> None:
        """Give a lock back, which is tried even where the time is up; a server frees it when we are gone."""
        try:
            with _translated():
                async with asyncio.timeout(self.deadline):
                    await lock.__aexit__(None, None, None)
        except StoreUnavailableError as exc:
            _log.debug("a lock could not be given back: %s", exc)

    async def maintain(self, collection: Collection) -> dict[str, Any]:
        """See `VectorStore.maintain`."""
        return await self._ask("writing", dict, self.inner.maintain(collection))

    async def health(self) -> Health:
        """See `VectorStore.health`; one that takes all too long is no good sign either."""
        seconds = self.deadline + LOADING
        try:
            async with asyncio.timeout(seconds):
                return await self.inner.health()
        except TimeoutError:
            problem = f"the store did not answer within {seconds:g} s: is it overloaded, or held by another process?"
        except Exception as exc:  # noqa: BLE001  whatever breaks in a store says that it is not well
            problem = redact(f"the store failed: {exc!r:.300}")
        return Health(self.backend or type(self.inner).__name__, ok=False, problem=problem)

    async def close(self) -> None:
        """See `VectorStore.close`; a store that does not answer is not waited for beyond the deadline."""
        closing = asyncio.create_task(self.inner.close())
        try:
            while not (await asyncio.wait({closing}, timeout=self.deadline))[0]:
                # What it has begun, such as an index, may take its time as long as it answers.
                if self.failing or not await self.answers():
                    _log.debug("the store was not closed properly: it does not answer")
                    break
        finally:
            closing.cancel()  # does nothing where it is done
            await asyncio.wait({closing}, timeout=self.deadline)
        if closing.done() and not closing.cancelled() and (error := closing.exception()) is not None:
            # What was acknowledged is written; whoever closes could do nothing about it.
            _log.log(
                logging.DEBUG if self.failing else logging.WARNING, "closing the store failed: %s", error
            )


async def _next(batches: AsyncIterator[list[Record]]) -> list[Record] | None:
    return await anext(batches, None)


class _translated:  # noqa: N801  used like a function
    """Whatever else a store raises means that it does not work."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, AgenthoodError):
            _log.debug("the store failed in its own way", exc_info=error)
            raise StoreUnavailableError(redact(f"the store failed: {error!r:.300}")) from error
