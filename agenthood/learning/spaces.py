"""The active embedding space: its embedder, its calibration, and the check that the model still answers the same."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING

import numpy as np

from agenthood.embedding.patience import PatientEmbedder
from agenthood.embedding.settings import DEADLINE
from agenthood.errors import (
    EmbedderUnavailableError,
    EmbeddingError,
    EmbeddingResponseError,
    EmbeddingSpaceError,
    InvalidInputError,
    StoreError,
)
from agenthood.learning.calibration import LEXICAL, Calibration, reference_texts
from agenthood.learning.space_record import SpaceRecord, read_space, write_space

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from agenthood.embedding.base import Embedder, EmbeddingSpace, Role, Vectors
    from agenthood.stores.base import VectorStore

CANARY = "The canary sings the same tune each morning; when its song has changed, the model has changed."
"""Embedded when a space is created and again when it is opened."""
CANARY_COSINE = 0.999
"""Below this cosine with its first answer a model counts as changed; rounding on other hardware stays far above."""

CALIBRATION_PAUSE = 60.0
"""Seconds before a calibration that failed is tried again; until then scores are raw cosines."""

_log = logging.getLogger("agenthood")


class ActiveSpace:
    """Wraps an embedder: the first call makes or checks the space's record on the store.

    The record has the canary's vector and the calibration; see `space_record`. No call waits longer than its
    deadline; see `PatientEmbedder`.

    Attributes:
        embedder: the embedder itself.
        calibration: the background of the space, if known.
        problem: why the last call failed; empty if it did not.
        behind: whether texts that were to be stored could not be embedded since this was last set to False.
        on_recovery: called after a call that succeeded while `behind`.
    """

    def __init__(self, embedder: Embedder, store: VectorStore, *, deadline: float = DEADLINE) -> None:
        """Set it up; nothing is asked or read yet.

        Args:
            embedder: what embeds.
            store: whose long-term memory keeps the record.
            deadline: seconds that a call with one text may take; half a second more for each further text.
        """
        self.embedder = embedder
        self.calibration: Calibration | None = LEXICAL if embedder.space.backend == "lexical" else None
        self.problem = ""
        self.behind = False
        self.on_recovery: Callable[[], None] | None = None
        self._patient = PatientEmbedder(embedder, deadline=deadline)
        self._store = store
        self._ready = self._same = embedder.space.backend == "lexical"
        self._calibrating: asyncio.Task[bool] | None = None
        self._calibrate_at = 0.0
        self._blind = False
        self._preparing = asyncio.Lock()

    @property
    def space(self) -> EmbeddingSpace:
        """The embedder's space."""
        return self.embedder.space

    @property
    def semantic(self) -> bool:
        """Whether the embedder compares meaning."""
        return self.embedder.semantic

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        """As `Embedder.embed`, after the check.

        Raises:
            EmbeddingSpaceError: the model answers differently from when the space was created.
            EmbeddingResponseError: it answers with something unusable, or with the same vector for every text.
            EmbedderUnavailableError: it does not answer, or did not a moment ago.
        """
        until = time.monotonic() + self._patient.limit(len(texts))
        try:
            async with self._noting():
                await self._prepare(self._patient.limit(1))
                vectors = await self._patient.embed(
                    texts, role=role, seconds=max(0.0, until - time.monotonic())
                )
        except EmbeddingError:
            self.behind = self.behind or role == "document"
            raise
        if self.behind and self.on_recovery is not None:
            self.on_recovery()
        return vectors

    async def load_calibration(self) -> None:
        """Read the calibration from the store, without asking the model."""
        if self.calibration is None:
            self.calibration = (await read_space(self._store, self.space)).calibration

    async def check(self) -> None:
        """Make sure, once, that the model still answers as it did; a pinned one cannot do otherwise.

        Raises:
            EmbeddingSpaceError: it answers differently.
            EmbeddingError: it does not answer; it is asked again at the next call.
        """
        if not self.embedder.pinned:
            seconds = self._patient.limit(1)
            async with self._noting(), self._turn(seconds):
                await self._checked(seconds)

    async def prepare(self) -> None:
        """Make or check the space's record, calibration included, however long the model takes.

        Raises:
            EmbeddingError: as `embed`.
        """
        async with self._noting():
            await self._prepare(None)

    async def aclose(self) -> None:
        """End what still goes on beside the calls; the embedder is its owner's to close."""
        if self._calibrating is not None:
            self._calibrating.cancel()
            await asyncio.gather(self._calibrating, return_exceptions=True)
        await self._patient.aclose()

    @asynccontextmanager
    async def _noting(self) -> AsyncIterator[None]:
        try:
            yield
        except EmbeddingError as exc:
            self.problem = str(exc)
            raise
        self.problem = ""

    @asynccontextmanager
    async def _turn(self, seconds: float | None) -> AsyncIterator[None]:
        """Be the only one who prepares the space; who waits for another waits no longer than for the model."""
        try:
            async with asyncio.timeout(seconds):
                await self._preparing.acquire()
        except TimeoutError:
            raise EmbedderUnavailableError(
                f"the embedder of space {str(self.space)!r} is still being waited for"
            ) from None
        try:
            yield
        finally:
            self._preparing.release()

    async def _prepare(self, seconds: float | None) -> None:
        """Make or check the space's record, once; a failure is tried again at the next call."""
        if self._ready:
            return
        async with self._turn(seconds):
            record = await self._checked(seconds)
            self.calibration = self.calibration or record.calibration
            if self.calibration is None:
                await self._calibrated(seconds)
            if self._blind:
                raise EmbeddingResponseError(
                    f"the model of space {str(self.space)!r} gives nearly the same vector for every text, so nothing "
                    "can be told apart by it: check the model's name, or use another"
                )
            self._ready = self.calibration is not None

    async def _checked(self, seconds: float | None) -> SpaceRecord:
        """The space's record, with the canary's first vector."""
        record = await read_space(self._store, self.space)
        if self._same or (record.canary is not None and self.embedder.pinned):
            return record
        canary = (await self._patient.embed([CANARY], seconds=seconds))[0]
        if not canary.any():
            raise EmbeddingResponseError(
                f"the model of space {str(self.space)!r} gives a vector of zeros for a plain sentence: check the "
                "model's name, or use another"
            )
        if record.canary is None:
            record = await self._kept(SpaceRecord(canary, record.calibration))
        self._compare(canary, record)
        self._same = True
        return record

    def _compare(self, canary: Vectors, record: SpaceRecord) -> None:
        if record.canary is None or not float(np.dot(record.canary, canary)) >= CANARY_COSINE:
            raise EmbeddingSpaceError(
                f"the model behind space {str(self.space)!r} answers differently from when the space was created, so "
                "its vectors no longer compare: give the changed model a new revision (setting embedder.revision, or "
                "AGENTHOOD_EMBED_REVISION) and run `agenthood migrate`, or restore the former model"
            )

    async def _calibrated(self, seconds: float | None) -> None:
        """Calibrate, beside the calls if it takes longer than half their deadline: their scores are raw until then."""
        task, wait = self._calibrating, 0.0
        if task is None:
            if time.monotonic() < self._calibrate_at and seconds is not None:
                return
            # In a context of its own: it is no part of the recall or the learning that began it.
            task = self._calibrating = asyncio.get_running_loop().create_task(
                self._calibrate(), context=Context()
            )
            wait = 0.0 if seconds is None else seconds / 2
        await asyncio.wait({task}, timeout=None if seconds is None else wait)
        if task.done():
            self._calibrating, self._calibrate_at = None, time.monotonic() + CALIBRATION_PAUSE
            self._blind = task.result()

    async def _calibrate(self) -> bool:
        """Measure the calibration and keep it, unless another process has kept one meanwhile.

        Returns:
            Whether the model turned out to be blind, and nothing was kept.
        """
        texts = reference_texts()
        try:
            async with asyncio.timeout(self._patient.limit(len(texts))):
                fitted = Calibration.fit(await self._patient.ask(texts))
        except (EmbeddingError, InvalidInputError, TimeoutError) as exc:
            _log.warning(
                "space %s cannot be calibrated, its scores stay raw: %s", self.space, exc or "too slow"
            )
            return False
        if fitted.blind:
            return True
        self.calibration = (await self._kept(SpaceRecord(calibration=fitted))).calibration
        return False

    async def _kept(self, record: SpaceRecord) -> SpaceRecord:
        """Add `record` to the store's; a store that cannot be written to can still be read from."""
        try:
            return await write_space(self._store, self.space, record)
        except StoreError as exc:
            _log.warning("the record of space %s cannot be kept: %s", self.space, exc)
            return record
