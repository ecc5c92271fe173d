"""What the engine works with for one scope: its records, index, learner and recaller, and the layer it shares."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.catch_up import CatchUp
from agenthood.errors import AgenthoodError, StoreError
from agenthood.formats import EPISODE
from agenthood.learning import migration
from agenthood.learning.index import EmbeddingIndex
from agenthood.learning.labels import labels
from agenthood.learning.lessons import LESSON_ROWS, PATTERN_ROWS
from agenthood.learning.queue_file import QueueFile
from agenthood.learning.queued import QueuedLearner
from agenthood.learning.recall import Recaller, together
from agenthood.memory.residual import ResidualMemory
from agenthood.memory.uses import UseLog
from agenthood.redaction import redact
from agenthood.scope import LOCAL, Scope
from agenthood.stores.base import SHARED
from agenthood.stores.filters import AnyOf, StartsWith
from agenthood.stores.guarded import GuardedStore
from agenthood.stores.scoped import ScopedStore
from agenthood.stores.settings import EMBEDDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from agenthood.config import Settings
    from agenthood.learning.recall import Query
    from agenthood.learning.spaces import ActiveSpace
    from agenthood.records import Recall, RecalledLesson
    from agenthood.stores.base import VectorStore

_MEMORIES = AnyOf((LESSON_ROWS, PATTERN_ROWS, StartsWith("id", EPISODE)))
_log = logging.getLogger("agenthood")


@dataclass(slots=True)
class Parts:
    """What an open store consists of for one scope.

    Attributes:
        scope: whose records these are; None for what is the directory's own.
        store: the rows.
        space: what embeds.
        index: the pattern index.
        residual: the signals.
        learner: what learns.
        recaller: what recalls.
        catch_up: what indexes later what could not be indexed at once, in all layers.
        uses: which lessons were put before an agent.
        settings: what the store was opened with.
        clock: the current time in UTC.
        closed: whether an outage of the store is raised.
        shared: for an agent of its own, the layer that all agents of the project share; else None.
    """

    scope: Scope | None
    store: GuardedStore
    space: ActiveSpace
    index: EmbeddingIndex
    residual: ResidualMemory
    learner: QueuedLearner
    recaller: Recaller
    catch_up: CatchUp
    uses: UseLog
    settings: Settings
    clock: Callable[[], datetime]
    closed: bool
    shared: Parts | None = None

    @property
    def layers(self) -> tuple[Parts, ...]:
        """These parts, and those of the shared layer if there is one."""
        return (self,) if self.shared is None else (self, self.shared)

    @property
    def waits(self) -> bool:
        """Whether episodes wait to be learned."""
        return any(layer.learner.waits for layer in self.layers)

    async def get_ready(self) -> None:
        """Get to know the store.

        Raises:
            StoreError: it cannot be read.
        """
        async with self.store.section("reading"):
            for layer in self.layers:
                if layer.scope is None:
                    layer.index.use(await layer.store.find(SHARED) or SHARED)

    async def recall(self, query: Query) -> Recall:
        """The lessons for `query`, also those that an embedder just back has to catch up with; notes no use.

        Raises:
            InvalidInputError: `Query.check` refused it.
            EmbeddingSpaceError: the model no longer answers as it did.
            StoreError: the store could not be searched, or not in time.
        """
        found = await self._found(query)
        if await self.catch_up.just_done():
            found = await self._found(query)
        missing = self.catch_up.missing
        return replace(found, degraded=True, reason=missing) if missing and not found.degraded else found

    async def _found(self, query: Query) -> Recall:
        async with self.store.section("reading"):
            try:
                answers = await asyncio.gather(*(layer.recaller.answer(query) for layer in self.layers))
                found = together(query, *answers)
                if self.scope is not None and not found and not found.reason and await self._is_empty():
                    found = replace(found, reason=f"nothing is stored for {self.scope}")
            except AgenthoodError:
                raise
            except Exception as exc:  # a recall must not end the caller's run, whatever the store holds
                _log.debug("recalling failed", exc_info=True)
                raise StoreError(redact(f"the store's answer makes no sense: {exc!r:.200}")) from exc
            return found

    async def _is_empty(self) -> bool:
        return not any([await layer.store.count(SHARED, _MEMORIES) for layer in self.layers])

    def note_uses(self, lessons: Iterable[RecalledLesson]) -> None:
        """Note that these lessons were put before an agent, each in its layer."""
        ids: dict[bool, list[str]] = {}
        for lesson in lessons:
            ids.setdefault(lesson.shared, []).append(lesson.id)
        for shared, some in ids.items():
            layer = self.shared if shared and self.shared is not None else self
            layer.uses.note(some)


def scope_of(settings: Settings, folder: Path) -> Scope | None:
    """The scope that is asked for; None for what is the directory's own, in a store that lives there.

    A directory's own records need no name, so that it can be moved. On a server the directory's name tells them apart.

    Raises:
        ConfigError: a name that cannot be used.
    """
    embedded = settings.store.backend in EMBEDDED
    above = Path(os.path.abspath(folder)).parent  # noqa: PTH100  `resolve` would follow links to where it has another name
    project = settings.project or ("" if embedded else above.name)
    tenant = LOCAL if settings.tenant is None else settings.tenant
    scope = Scope(tenant, project, settings.agent or "")
    return None if embedded and scope == Scope() else scope


def layers_of(scope: Scope | None, settings: Settings | None) -> tuple[Scope | None, ...]:
    """`scope`, and for an agent of its own the layer that its project shares; None is the directory's own."""
    if scope is None or settings is None or not scope.agent:
        return (scope,)
    home = settings.store.backend in EMBEDDED and scope.shared == Scope()
    return (scope, None if home else scope.shared)


def files_of(scope: Scope | None, folder: Path) -> Path:
    """Where what is kept beside the store lies: in the `.agenthood` directory, or in one of the scope's own in it."""
    if scope is None:
        return folder
    return folder / "scopes" / sha256(scope.prefix.encode()).hexdigest()[:16]


def assembled(  # noqa: PLR0913  what parts are made of
    store: VectorStore,
    space_of: Callable[[GuardedStore], ActiveSpace],
    settings: Settings,
    folder: Path,
    *,
    scope: Scope | None,
    clock: Callable[[], datetime],
    closed: bool,
) -> Parts:
    """The parts for `scope` in `store`, with the layer it shares; nothing is asked of the store yet.

    Args:
        store: the store with everyone's records.
        space_of: makes the embedding space for the store as the scope sees it.
        settings: what to open it with.
        folder: the `.agenthood` directory.
        scope: whose records; None for the directory's own.
        clock: the current time in UTC.
        closed: whether an outage of the store is raised.
    """

    def layer(scope: Scope | None, shared: Parts | None = None) -> Parts:
        seen = store if scope is None else ScopedStore(store, scope, labels=labels)
        guarded = GuardedStore(
            seen, backend=str(settings.store.backend), deadline=settings.deadline, quiet=closed
        )
        files = files_of(scope, folder)
        # The model and its calibration are the project's: agents have them in common.
        space = space_of(guarded) if shared is None else shared.space
        index = EmbeddingIndex(guarded, space.space, calibration=space.calibration)
        if scope is not None:  # of what scopes share nothing is for the TypeScript program, which knows none
            index.use(None)
        residual = ResidualMemory(files / "residual.json", clock=clock)
        # What waits for one store must not be learned in another, which a typo may name.
        queue = QueueFile(files_of(scope, folder / settings.store.folder) / "queue.jsonl")
        learner = QueuedLearner(
            guarded, queue=queue, closed=closed, index=index, space=space, residual=residual,
            threshold=settings.merge_threshold, clock=clock,
        )  # fmt: skip
        layers = [(guarded, index)] if shared is None else [(guarded, index), (shared.store, shared.index)]
        catch_up = CatchUp(space, partial(migration.reindex_layers, layers, space))
        recaller = Recaller(guarded, index, space, clock=clock)
        # The records of a scope may be elsewhere, so that nothing else has made its directory.
        uses = UseLog(files / "uses.jsonl", clock=clock, make_folder=scope is not None)
        return Parts(
            scope, guarded, space, index, residual, learner, recaller, catch_up, uses,
            settings, clock, closed, shared,
        )  # fmt: skip

    own, *shared = layers_of(scope, settings)
    return layer(own, layer(shared[0]) if shared else None)
