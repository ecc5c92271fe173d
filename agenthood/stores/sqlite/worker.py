"""The threads in which a store talks to SQLite: one connection each, and no work that nobody waits for.

SQLite blocks whoever calls it, so no call is made on an event loop. Writers wait for one another anyway, so there is
one thread for them; a few more read beside it. A caller who gives up interrupts what runs for it and waits for its end.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from agenthood.stores.sqlite.connection import open_connection
from agenthood.stores.sqlite.errors import Trouble, translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import apsw

    from agenthood.stores.sqlite.connection import Opened

T = TypeVar("T")

READERS = 3
"""How many threads read at once: a search by meaning, one by wording and one by terms."""
_POLL = 0.01
_LONGEST_WAIT = 0.02


class GivenUpError(Exception):
    """Nobody waits for the result any more."""


class Job:
    """A piece of work that its caller may give up, and which waits no longer than it may for other processes."""

    def __init__(self, patience: float) -> None:
        """Args: `patience` in seconds while another process holds the database."""
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._patience = patience
        self._blocked_since = 0.0
        self.given_up = False

    def check(self) -> None:
        """Called between statements.

        Raises:
            GivenUpError: nobody waits for the result.
        """
        if self.given_up:
            raise GivenUpError

    def attach(self, connection: apsw.Connection | None) -> None:
        """From now on `connection` works for this; None when it no longer does."""
        with self._lock:
            self._connection = connection

    def give_up(self) -> None:
        """Interrupt what runs; what is about to run does not begin."""
        with self._lock:
            self.given_up = True
            if self._connection is not None:
                self._connection.interrupt()

    def wait(self, attempt: int) -> bool:
        """Whether to ask again for a database that another process holds, after a pause; SQLite's busy handler."""
        now = time.monotonic()
        if attempt == 0:
            self._blocked_since = now
        if self.given_up or now - self._blocked_since > self._patience:
            return False
        # Jitter keeps many waiters from polling in step.
        time.sleep(min(_LONGEST_WAIT, 0.001 * 1.5 ** min(attempt, 10)) * random.uniform(0.5, 1.5))  # noqa: S311
        return True


class Session:
    """The connection of one thread: opened when first needed, and anew once the path holds another file."""

    def __init__(self, path: Path) -> None:
        """Args: `path` of the database."""
        self._path = path
        self._opened: Opened | None = None
        self.trouble = Trouble()

    def perform(self, job: Job, work: Callable[[apsw.Connection | None, Job], T], *, create: bool) -> T:
        """Run `work` with the connection, or with None where there is no database and none is to be made."""
        job.check()
        self.trouble.system_errno = 0
        opened = self._current(job, create=create)
        if opened is None:
            return work(None, job)
        connection = opened.connection
        connection.set_busy_handler(job.wait)
        job.attach(connection)
        try:
            return work(connection, job)
        except Exception:  # whatever it was, it is raised with what the system said
            self.trouble.system_errno = connection.system_errno
            raise
        finally:
            job.attach(None)
            connection.set_busy_handler(None)
            if not opened.lasting:
                self.close()

    def _current(self, job: Job, *, create: bool) -> Opened | None:
        if self._opened is not None and not self._opened.is_current(self._path):
            self.close()
        if self._opened is None:
            self._opened = open_connection(self._path, create=create, wait=job.wait, trouble=self.trouble)
        return self._opened

    def close(self) -> None:
        """Close the connection; the last one of all processes folds the log into the database."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.connection.close()


class Workers:
    """The threads of one store, started when they are needed and ended by `close`."""

    def __init__(self, path: Path, *, patience: float) -> None:
        """Args: `path` of the database; `patience` in seconds while another process holds it."""
        self._path = path
        self._patience = patience
        self._lock = threading.Lock()
        self._pools: dict[bool, ThreadPoolExecutor] = {}
        self._local = threading.local()
        self._sessions: list[Session] = []

    async def run(
        self,
        doing: str,
        work: Callable[[apsw.Connection, Job], T],
        default: Callable[[], T],
        *,
        writing: bool = False,
    ) -> T:
        """The result of `work` on the database, or `default` where there is none.

        Args:
            doing: what is being done, for errors.
            work: called in another thread with the connection of that thread.
            default: called in another thread.
            writing: whether to take a turn among the writers.
        """

        def either(connection: apsw.Connection | None, job: Job) -> T:
            return default() if connection is None else work(connection, job)

        return await self._submit(doing, either, writing=writing, create=False)

    async def make(self, doing: str, work: Callable[[apsw.Connection, Job], T]) -> T:
        """The result of `work`, among the writers, on the database, which is made first if there is none."""

        def made(connection: apsw.Connection | None, job: Job) -> T:
            assert connection is not None  # noqa: S101  `create` makes it
            return work(connection, job)

        return await self._submit(doing, made, writing=True, create=True)

    async def close(self) -> None:
        """Wait for what runs, close the connections and end the threads; what is used again starts again."""
        with self._lock:
            pools, self._pools = list(self._pools.values()), {}
            sessions, self._sessions = self._sessions, []
            self._local = threading.local()
        if not pools:
            return

        def end() -> None:
            for pool in pools:
                pool.shutdown(wait=True)
            for session in sessions:  # now that no thread of theirs is left
                session.close()

        with ThreadPoolExecutor(1, "agenthood-sqlite-close") as closing:
            ending = asyncio.wrap_future(closing.submit(end))
            await asyncio.shield(ending)

    async def _submit(
        self, doing: str, work: Callable[[apsw.Connection | None, Job], T], *, writing: bool, create: bool
    ) -> T:
        job = Job(self._patience)
        with self._lock:
            # What is still waiting when the store is closed belongs to the threads that end then.
            perform = partial(self._perform, self._local, self._sessions)
            future = self._pool(writing).submit(perform, doing, job, work, create)
        return await _outcome(future, job)

    def _pool(self, writing: bool) -> ThreadPoolExecutor:
        if writing not in self._pools:
            self._pools[writing] = ThreadPoolExecutor(1 if writing else READERS, "agenthood-sqlite")
        return self._pools[writing]

    def _perform(  # noqa: PLR0913, PLR0917  what to do, and with which connection
        self,
        local: threading.local,
        sessions: list[Session],
        doing: str,
        job: Job,
        work: Callable[[apsw.Connection | None, Job], T],
        create: bool,
    ) -> T:
        session: Session | None = getattr(local, "session", None)
        if session is None:
            session = local.session = Session(self._path)
            sessions.append(session)
        with translated(doing, session.trouble):
            return session.perform(job, work, create=create)


async def _outcome(future: Future[T], job: Job) -> T:
    """What `future` gives; a cancellation is passed on once the work has ended."""
    waiting = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not future.cancel():
            while not waiting.done():
                # Again and again: an interrupt between two statements is forgotten.
                job.give_up()
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({waiting}, timeout=_POLL)
            waiting.exception()  # of no interest any more, and asyncio would tell of it
        raise
