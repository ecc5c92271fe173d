"""The active embedding space: its embedder, its calibration, and the check that the model still answers the same."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from agenthood.embedding.base import unit_rows
from agenthood.errors import (
    AgenthoodError,
    EmbedderUnavailableError,
    EmbeddingError,
    EmbeddingResponseError,
    EmbeddingSpaceError,
    InvalidInputError,
)
from agenthood.learning.calibration import LEXICAL, Calibration, reference_texts
from agenthood.learning.space_record import SpaceRecord, read_space, write_space

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    The record has the canary's vector and the calibration; see `space_record`.
    """

    def __init__(self, embedder: Embedder, store: VectorStore) -> None:
        """Args: the `embedder`, and the `store` whose long-term memory keeps the record."""
        self.embedder = embedder
        self.calibration: Calibration | None = LEXICAL if embedder.space.backend == "lexical" else None
        self._store = store
        self._ready = self._same = embedder.space.backend == "lexical"
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
            EmbedderUnavailableError: it does not answer.
        """
        await self.prepare()
        return await self._ask(texts, role)

    async def _ask(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        try:
            answer = await self.embedder.embed(texts, role=role)
            return unit_rows(answer, count=len(texts), dimension=self.space.dimension)
        except AgenthoodError:
            raise
        except Exception as exc:  # an embedder may be anybody's, and whatever it raises means that it is down
            raise EmbedderUnavailableError(
                f"the embedder of space {str(self.space)!r} failed: {exc!r:.200}"
            ) from exc

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
            async with self._preparing:
                await self._checked()

    async def prepare(self) -> None:
        """Make or check the space's record, once; a failure is tried again at the next call."""
        async with self._preparing:
            if self._ready:
                return
            record = await self._checked()
            self.calibration = self.calibration or record.calibration
            if self.calibration is None and time.monotonic() >= self._calibrate_at:
                self._blind = await self._calibrate()
                self._calibrate_at = time.monotonic() + CALIBRATION_PAUSE
            if self._blind:
                raise EmbeddingResponseError(
                    f"the model of space {str(self.space)!r} gives nearly the same vector for every text, so nothing "
                    "can be told apart by it: check the model's name, or use another"
                )
            self._ready = self.calibration is not None

    async def _checked(self) -> SpaceRecord:
        """The space's record, with the canary's first vector."""
        record = await read_space(self._store, self.space)
        if self._same or (record.canary is not None and self.embedder.pinned):
            return record
        canary = (await self._ask([CANARY]))[0]
        if not canary.any():
            raise EmbeddingResponseError(
                f"the model of space {str(self.space)!r} gives a vector of zeros for a plain sentence: check the "
                "model's name, or use another"
            )
        if record.canary is None:
            record = await write_space(self._store, self.space, SpaceRecord(canary))
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

    async def _calibrate(self) -> bool:
        """Measure the calibration and keep it, unless another process has kept one meanwhile.

        Returns:
            Whether the model turned out to be blind, and nothing was kept.
        """
        try:
            fitted = Calibration.fit(await self._ask(reference_texts()))
        except (EmbeddingError, InvalidInputError) as exc:
            _log.warning("space %s cannot be calibrated, its scores stay raw: %s", self.space, exc)
            return False
        if fitted.blind:
            return True
        record = await write_space(self._store, self.space, SpaceRecord(calibration=fitted))
        self.calibration = record.calibration
        return False
