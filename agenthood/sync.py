"""The synchronous front door: one-line wrappers over `AsyncHood`, run on one background event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self, TextIO, TypeVar

from agenthood.background import BackgroundLoop
from agenthood.engine import AsyncHood, listed
from agenthood.formats import utc_now
from agenthood.opening import MIGRATION_SECONDS
from agenthood.session import DEADLINE, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from agenthood.config import Fail, Settings
    from agenthood.embedding.base import Embedder
    from agenthood.records import (
        Changed,
        EvalResult,
        Forgotten,
        Imported,
        Kind,
        Lesson,
        MaintenanceReport,
        MigrationReport,
        Recall,
        Receipt,
        Scoring,
        Status,
        Tier,
    )
    from agenthood.stores.base import Health

    Progress = Callable[[int, int], None]

P = ParamSpec("P")
T = TypeVar("T")


def _documented(facade: type[Hood]) -> type[Hood]:
    """Give the methods of `facade` the docstrings of those they wrap, so that `help` describes them."""
    for name, method in vars(facade).items():
        if (method.__doc__ or "").startswith("Same as"):
            method.__doc__ = getattr(facade.engine, name).__doc__
    return facade


@_documented
class Hood:
    """An open store with its engine. Close it, or use it as `with open(path) as hood`. Any thread may call it."""

    engine: ClassVar[type[AsyncHood]] = AsyncHood

    def __init__(  # noqa: PLR0913  the options of a store
        self,
        path: str | Path = ".agenthood",
        *,
        settings: Settings | None = None,
        embedder: Embedder | str | None = None,
        start_migration: bool = True,
        migration_seconds: float = MIGRATION_SECONDS,
        clock: Callable[[], datetime] = utc_now,
        fail: Fail | None = None,
        tenant: str | None = None,
        project: str | None = None,
        agent: str | None = None,
    ) -> None:
        """See `agenthood.open`."""
        self.hood = self.engine(
            path,
            settings=settings,
            embedder=embedder,
            start_migration=start_migration,
            migration_seconds=migration_seconds,
            clock=clock,
            fail=fail,
            tenant=tenant,
            project=project,
            agent=agent,
        )
        self._background = BackgroundLoop()
        self._open = True
        try:
            self._background.call(self.hood.start())
        except BaseException:  # also Ctrl-C: a Hood that did not open must not leave its loop running
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store, the embedder and the background loop; closing twice is fine."""
        if self._open:
            self._open = False
            try:
                self._background.settle(self.hood._answers, self.hood._patience)  # noqa: SLF001  its other half
                self._background.call(self.hood.close())
            finally:
                self._background.close()

    @property
    def path(self) -> Path:
        """The `.agenthood` directory."""
        return self.hood.path

    @property
    def migration(self) -> MigrationReport | None:
        """What the migration at the start did; None if there was nothing to do."""
        return self.hood.migration

    def learn(  # noqa: PLR0913  the fields of an episode
        self,
        episode: str,
        *,
        score: float | None = None,
        scores: Mapping[str, float] | None = None,
        outcome: str = "",
        member: str | None = None,
        skill: str | None = None,
        timestamp: datetime | str | None = None,
        shared: bool = False,
    ) -> Receipt:
        """Same as `AsyncHood.learn`."""
        return self._call(
            self.hood.learn,
            episode,
            score=score,
            scores=scores,
            outcome=outcome,
            member=member,
            skill=skill,
            timestamp=timestamp,
            shared=shared,
        )

    def learn_many(
        self,
        results: Iterable[EvalResult],
        *,
        on_progress: Progress | None = None,
        shared: bool = False,
    ) -> list[Receipt]:
        """Same as `AsyncHood.learn_many`."""
        return self._call(self.hood.learn_many, listed(results), on_progress=on_progress, shared=shared)

    def recall(  # noqa: PLR0913  the options of a recall
        self,
        text: str,
        *,
        limit: int = 5,
        member: str | None = None,
        skill: str | None = None,
        kind: Kind | None = None,
        threshold: float | None = None,
        scoring: Scoring = "calibrated",
    ) -> Recall:
        """Same as `AsyncHood.recall`."""
        return self._call(
            self.hood.recall,
            text,
            limit=limit,
            member=member,
            skill=skill,
            kind=kind,
            threshold=threshold,
            scoring=scoring,
        )

    def session(  # noqa: PLR0913  the options of a session
        self,
        task: str,
        *,
        member: str | None = None,
        skill: str | None = None,
        limit: int = 6,
        max_bytes: int = 4096,
        deadline: float = DEADLINE,
    ) -> Session:
        """Same as `AsyncHood.session`."""
        session = self.hood.session(
            task, member=member, skill=skill, limit=limit, max_bytes=max_bytes, deadline=deadline
        )
        return Session(session, self._call)

    def lessons(  # noqa: PLR0913  the options of a list
        self,
        *,
        kind: Kind | None = None,
        member: str | None = None,
        skill: str | None = None,
        contains: str | None = None,
        tier: Tier | None = None,
        limit: int | None = None,
    ) -> list[Lesson]:
        """Same as `AsyncHood.lessons`."""
        return self._call(
            self.hood.lessons,
            kind=kind,
            member=member,
            skill=skill,
            contains=contains,
            tier=tier,
            limit=limit,
        )

    def pin(self, *ids: str) -> Changed:
        """Same as `AsyncHood.pin`."""
        return self._call(self.hood.pin, *ids)

    def unpin(self, *ids: str) -> Changed:
        """Same as `AsyncHood.unpin`."""
        return self._call(self.hood.unpin, *ids)

    def archive(self, *ids: str) -> Changed:
        """Same as `AsyncHood.archive`."""
        return self._call(self.hood.archive, *ids)

    def restore(self, *ids: str) -> Changed:
        """Same as `AsyncHood.restore`."""
        return self._call(self.hood.restore, *ids)

    def forget(self, *ids: str, episodes: bool = False) -> Forgotten:
        """Same as `AsyncHood.forget`."""
        return self._call(self.hood.forget, *ids, episodes=episodes)

    def status(self) -> Status:
        """Same as `AsyncHood.status`."""
        return self._call(self.hood.status)

    def health(self) -> Health:
        """Same as `AsyncHood.health`."""
        return self._call(self.hood.health)

    def migrate(self, *, drop_old: bool = False, on_progress: Progress | None = None) -> MigrationReport:
        """Same as `AsyncHood.migrate`."""
        return self._call(self.hood.migrate, drop_old=drop_old, on_progress=on_progress)

    def maintain(self) -> MaintenanceReport:
        """Same as `AsyncHood.maintain`."""
        return self._call(self.hood.maintain)

    def export(self, file: TextIO) -> int:
        """Same as `AsyncHood.export`."""
        return self._call(self.hood.export, file)

    def import_(self, lines: Iterable[str], *, on_progress: Progress | None = None) -> Imported:
        """Same as `AsyncHood.import_`."""
        return self._call(self.hood.import_, lines, on_progress=on_progress)

    def _call(self, method: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **options: P.kwargs) -> T:
        if not self._open:
            raise RuntimeError("this store is closed: open it again with agenthood.open()")
        return self._background.call(method(*args, **options))


def open_sync(  # noqa: PLR0913  the options of a store
    path: str | Path = ".agenthood",
    *,
    settings: Settings | None = None,
    embedder: Embedder | str | None = None,
    start_migration: bool = True,
    migration_seconds: float = MIGRATION_SECONDS,
    clock: Callable[[], datetime] = utc_now,
    fail: Fail | None = None,
    tenant: str | None = None,
    project: str | None = None,
    agent: str | None = None,
) -> Hood:
    """Open a store: `with agenthood.open() as hood`. Exported as `agenthood.open`.

    Args:
        path: the `.agenthood` directory; created on first use.
        settings: what to use instead of the environment and `config.json`.
        embedder: an `Embedder`, or the name of a kind, such as `bundled` or `lexical`.
        start_migration: whether lessons that are not indexed yet are indexed at the start.
        migration_seconds: how long that may take; the rest is done at the next start.
        clock: gives the current time, aware, for what is learned, ranked and tidied.
        fail: what happens while the store is down. `"open"`: recalls are empty and learning is queued; `"closed"`: it
            is raised as `StoreError`. As configured if absent, which is `"open"` by default.
        tenant: whose memory it is; as configured if absent, which is `local` by default.
        project: of which project; as configured if absent, else that of the directory the store is in.
        agent: of which agent, with lessons of its own beside those that its project shares; as configured if absent.
    """
    return Hood(
        path,
        settings=settings,
        embedder=embedder,
        start_migration=start_migration,
        migration_seconds=migration_seconds,
        clock=clock,
        fail=fail,
        tenant=tenant,
        project=project,
        agent=agent,
    )
