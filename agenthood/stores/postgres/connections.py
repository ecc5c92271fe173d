"""Connections to Postgres: a few for each event loop, kept for the next, dropped when one is in doubt.

A pool of our own rather than psycopg_pool's, because that one tells who waits for a connection nothing but that time
is up, whatever the server said, and leaves tasks behind in an event loop that ends. Every wait has an end: psycopg
gives a server up to ten seconds to acknowledge that a statement was cancelled, and we a fraction of one, since whoever
waits for us has run out of time already.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from agenthood.errors import StoreError, StoreUnavailableError
from agenthood.stores.postgres.vectors import register_vectors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from psycopg import AsyncConnection

    from agenthood.stores.postgres.address import Address

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

MOST = 8
"""Connections that one event loop uses at a time; who needs one more waits."""
_GRACE = 1.0
"""Seconds in which a transaction has to be taken back before its connection is dropped."""
_CANCELLING = 0.25
"""Seconds in which a cancelled statement has to end before its connection is dropped."""


class Connection:
    """One connection in autocommit mode, no statement of which is waited for without an end."""

    def __init__(self, raw: AsyncConnection[Any], timeout: float, extension: str) -> None:
        """Args: `raw` connection; `timeout` of a statement in seconds; `extension`, see below."""
        self._raw = raw
        self.timeout = timeout
        self.extension = extension
        """The quoted schema in which pgvector is installed; empty where it is not."""

    async def run(self, statement: str, parameters: Sequence[object] = ()) -> Rows:
        """The rows that `statement` gives, if any; its parameters stand where it says `%s`.

        Raises:
            TimeoutError: it took longer than the timeout; the connection is not to be used again.
        """
        return (await self._bounded(statement, parameters))[0]

    async def change(self, statement: str, parameters: Sequence[object] = ()) -> int:
        """How many rows `statement` changed; else as `run`."""
        return (await self._bounded(statement, parameters))[1]

    async def script(self, text: str) -> None:
        """Run several statements without parameters."""
        await bounded(self._script(text), self.timeout, self._raw)

    async def unbounded(self, statement: str) -> None:
        """Run what may take long, such as building an index: until it is done or cancelled."""
        await bounded(self._script(statement), None, self._raw)

    async def _bounded(self, statement: str, parameters: Sequence[object]) -> tuple[Rows, int]:
        # A second more than the server has, so that it is the server who gives up if it can.
        return await bounded(self._run(statement, parameters), self.timeout + 1, self._raw)

    async def _run(self, statement: str, parameters: Sequence[object]) -> tuple[Rows, int]:
        async with self._raw.cursor(binary=True) as cursor:
            await cursor.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else [], cursor.rowcount

    async def _script(self, text: str) -> None:
        await self._raw.execute(text.encode())

    async def learn_vectors(self) -> None:
        """Look again whether pgvector is installed."""
        self.extension = await bounded(register_vectors(self._raw), self.timeout, self._raw)

    async def begin(self, schema: str, settings: str = "") -> None:
        """Begin a transaction whose names are those of `schema`, quoted, and of pgvector.

        Args:
            schema: where names are looked up first.
            settings: more statements, each after a semicolon.
        """
        await self.script(f"begin; set local search_path = {schema}, {self.extension or 'public'}{settings}")

    async def rollback(self) -> None:
        """Take back what was begun; where that fails, the connection is no longer `usable`."""
        from psycopg import Error  # noqa: PLC0415

        with suppress(Error, OSError):
            await bounded(self._script("rollback"), _GRACE, self._raw)

    @property
    def usable(self) -> bool:
        """Whether it is open and nothing is under way in it."""
        from psycopg.pq import TransactionStatus  # noqa: PLC0415

        return not self._raw.closed and self._raw.info.transaction_status == TransactionStatus.IDLE

    def drop(self) -> None:
        """Close it at once, without a word to the server."""
        self._raw.pgconn.finish()


class _Loop:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: list[Connection] = []
        self.slots = asyncio.Semaphore(MOST)

    def drop_idle(self) -> None:
        while self.idle:
            self.idle.pop().drop()

    def __del__(self) -> None:
        self.drop_idle()  # of a loop that ended before its store was closed


class Connections:
    """The connections to one server. None is made before it is needed."""

    def __init__(self, address: Address) -> None:
        """Args: `address` of the server."""
        self.address = address
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()

    @asynccontextmanager
    async def borrowed(self, opening: tuple[str, str]) -> AsyncIterator[Connection]:
        """One of the few connections of the running loop.

        Args:
            opening: what to begin a transaction with, see `Connection.begin`. A kept connection that the
                server has meanwhile closed is noticed by it, and another one is taken.

        Raises:
            StoreUnavailableError: all are in use for too long.
        """
        loop = self._loops.setdefault(asyncio.get_running_loop(), _Loop())
        try:
            async with asyncio.timeout(self.address.timeout):
                await loop.slots.acquire()
        except TimeoutError:
            raise StoreUnavailableError(
                f"all {MOST} connections to Postgres at {self.address} have been in use for "
                f"{self.address.timeout:g} s: do less at once, or raise store.timeout"
            ) from None
        try:
            connection = await self._begun(loop, opening)
            try:
                yield connection
            finally:
                # One from before the extension was made does not know vectors.
                if connection.usable and connection.extension:
                    loop.idle.append(connection)
                else:
                    connection.drop()
        finally:
            loop.slots.release()

    async def _begun(self, loop: _Loop, opening: tuple[str, str]) -> Connection:
        from psycopg import OperationalError  # noqa: PLC0415

        while loop.idle:
            connection = loop.idle.pop()
            try:
                await connection.begin(*opening)
            except OperationalError:
                connection.drop()
            except BaseException:  # also a cancellation: its state is unknown then
                connection.drop()
                loop.drop_idle()  # if one hangs, so would the next
                raise
            else:
                return connection
        connection = await self.connect()
        try:
            await connection.begin(*opening)
        except BaseException:  # also a cancellation: nobody has it yet
            connection.drop()
            raise
        return connection

    @asynccontextmanager
    async def own(self) -> AsyncIterator[Connection]:
        """A connection for what takes long; closed at the end."""
        connection = await self.connect()
        try:
            yield connection
        finally:
            connection.drop()

    async def connect(self) -> Connection:
        """A new connection, whose owner has to drop it."""
        from psycopg import AsyncConnection  # noqa: PLC0415

        until = time.monotonic() + self.address.timeout
        # Without prepared statements: a general plan for all tenants is a bad one for most, and poolers lose them.
        connecting = AsyncConnection.connect(
            **self.address.parameters, autocommit=True, prepare_threshold=None
        )
        raw = await bounded(connecting, self.address.timeout)
        try:
            _check_encoding(raw.info.parameter_status("server_encoding"), self.address)
            extension = await bounded(register_vectors(raw), max(0.0, until - time.monotonic()), raw)
        except BaseException:  # also a cancellation: nobody has it yet
            raw.pgconn.finish()
            raise
        return Connection(raw, self.address.timeout, extension)

    def close(self) -> None:
        """Drop the connections that are not in use, of whichever loop."""
        for loop in list(self._loops.values()):
            loop.drop_idle()


def _check_encoding(name: str | None, address: Address) -> None:
    if name not in {"UTF8", None}:
        raise StoreError(
            f"the database at {address} is in {name}: create one with "
            "`create database ... encoding 'UTF8' template template0`"
        )


async def bounded(
    work: Coroutine[Any, Any, T], seconds: float | None, raw: AsyncConnection[Any] | None = None
) -> T:
    """What `work` returns; past `seconds`, or when cancelled, it ends soon, and so does the server's part of it.

    Args:
        work: what to do.
        seconds: how long it may take; None for any time.
        raw: the connection it uses, if there is one yet; closed where the server does not stop in time.

    Raises:
        TimeoutError: it took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _ended(task, raw)
        raise
    if done:
        return task.result()
    await _ended(task, raw)
    raise TimeoutError


async def _ended(task: asyncio.Task[Any], raw: AsyncConnection[Any] | None) -> None:
    """Ask the server to stop, and close the connection if it does not.

    Cancelling `task` instead would let psycopg do both, but wait for longer, and log it as a warning.
    """
    if raw is not None:
        asking = asyncio.ensure_future(raw.cancel_safe(timeout=_CANCELLING))
        try:
            await asyncio.wait({task, asking}, timeout=_CANCELLING)
        finally:
            if not (task.done() and asking.done()):  # a late request would stop what is done next
                raw.pgconn.finish()  # psycopg asks the server nothing more then
            await _stopped(asking)
    await _stopped(task)


async def _stopped(task: asyncio.Task[Any]) -> None:
    from psycopg import AsyncConnection  # noqa: PLC0415

    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE)
    # How it failed while it was being stopped is of no interest; a connection that came at last is nobody's.
    made = task.result() if task.done() and not task.cancelled() and task.exception() is None else None
    if isinstance(made, AsyncConnection):
        made.pgconn.finish()
