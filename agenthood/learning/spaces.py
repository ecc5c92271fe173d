"""The active embedding space: its embedder, its calibration, and the check that the model still answers the same."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.errors import EmbedderUnavailableError, EmbeddingError, EmbeddingSpaceError, InvalidInputError
from agenthood.formats import LTM, dumps, loads_object, utc_now
from agenthood.learning.calibration import LEXICAL, Calibration, reference_texts
from agenthood.memory.long_term import long_term_record
from agenthood.stores.base import SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.embedding.base import Embedder, EmbeddingSpace, Role, Vectors
    from agenthood.stores.base import VectorStore

CANARY = "The canary sings the same tune each morning; when its song has changed, the model has changed."
"""Embedded when a space is created and again when it is opened."""
CANARY_COSINE = 0.999
"""Below this cosine with its first answer a model counts as changed; rounding on other hardware stays far above."""

_log = logging.getLogger("agenthood")


class ActiveSpace:
    """Wraps an embedder: the first call makes or checks the space's record on the store.

    The record lives in long-term memory under `spaces/{fingerprint}`: the canary's vector and the calibration.
    """

    def __init__(self, embedder: Embedder, store: VectorStore) -> None:
        """Args: the `embedder`, and the `store` whose long-term memory keeps the record."""
        self.embedder = embedder
        self.calibration: Calibration | None = LEXICAL if embedder.space.backend == "lexical" else None
        self._store = store
        self._ready = embedder.space.backend == "lexical"
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
            EmbeddingError: it does not answer, or with something unusable.
        """
        await self.prepare()
        return await self.embedder.embed(texts, role=role)

    async def load_calibration(self) -> None:
        """Read the calibration from the store, without asking the model."""
        if self.calibration is None:
            self._adopt(await self._record())

    async def prepare(self) -> None:
        """Make or check the space's record, once; a failure is tried again at the next call."""
        async with self._preparing:
            if self._ready:
                return
            record = await self._record()
            if record.get("canary") and self.embedder.pinned:
                self._adopt(record)
            else:
                canary = (await self.embedder.embed([CANARY]))[0]
                self._compare(canary, record)
                record = record or {"space": str(self.space), "canary": [round(float(x), 6) for x in canary]}
            if self.calibration is None and not self._adopt(record):
                record["calibration"] = await self._calibrate()
                await self._save(record)
            self._ready = True

    async def _record(self) -> dict[str, Any]:
        found = await self._store.get(SHARED, [self._id])
        return loads_object(found[self._id].content) if self._id in found else {}

    @property
    def _id(self) -> str:
        return f"{LTM}spaces/{self.space}"

    def _adopt(self, record: dict[str, Any]) -> bool:
        stored = record.get("calibration")
        if stored:
            try:
                self.calibration = Calibration.from_json(dumps(stored))
            except InvalidInputError as exc:
                _log.warning("the calibration of %s is unreadable and is fitted anew: %s", self.space, exc)
        return self.calibration is not None

    def _compare(self, canary: Vectors, record: dict[str, Any]) -> None:
        first = record.get("canary")
        if not first:
            return
        if len(first) != len(canary) or not float(np.dot(first, canary)) >= CANARY_COSINE:
            raise EmbeddingSpaceError(
                f"the model behind space {str(self.space)!r} answers differently from when the space was created, so "
                "its vectors no longer compare: give the changed model a new revision (setting embedder.revision, or "
                "AGENTHOOD_EMBED_REVISION) and run `agenthood migrate`, or restore the former model"
            )

    async def _calibrate(self) -> dict[str, Any] | None:
        try:
            self.calibration = Calibration.fit(await self.embedder.embed(reference_texts()))
        except (EmbeddingError, InvalidInputError) as exc:
            if isinstance(exc, EmbedderUnavailableError):
                raise
            _log.warning("space %s cannot be calibrated, its scores stay raw: %s", self.space, exc)
            return None
        return loads_object(self.calibration.to_json())

    async def _save(self, record: dict[str, Any]) -> None:
        row = long_term_record(self._id.removeprefix(LTM), record, at=utc_now())
        async with self._store.exclusive():
            await self._store.upsert(SHARED, [row])
