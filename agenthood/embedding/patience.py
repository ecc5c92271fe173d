"""How long a caller waits for an embedder, and how soon after a failure it is asked again."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from agenthood.embedding.base import unit_rows
from agenthood.errors import AgenthoodError, EmbedderUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.embedding.base import Embedder, Role, Vectors

__all__ = ["PER_TEXT", "PatientEmbedder"]

PER_TEXT: Final = 0.5
"""Seconds that each further text adds to the deadline of a call: slower models cannot be worked with."""

_PAUSE_FACTOR: Final = 10.0
_LONGEST_PAUSE: Final = 60.0


class PatientEmbedder:
    """Asks an embedder and waits only so long; whatever it raises becomes one of our errors.

    A call that takes too long goes on beside: a server that is loading its model would begin anew every time it was
    cut off. After a failure the next calls fail at once, for ten times as long as the failure took and at most a
    minute, or until the late answer arrives: a failure that took no time may be repeated at once.
    """

    def __init__(self, embedder: Embedder, *, deadline: float) -> None:
        """Args: the `embedder`, and the `deadline` of a call with one text, in seconds."""
        self._embedder = embedder
        self._deadline = deadline
        self._closed_until = 0.0
        self._reason = ""
        self._late: set[asyncio.Task[Vectors]] = set()

    def limit(self, texts: int) -> float:
        """How many seconds a call with so many texts may take."""
        return self._deadline + PER_TEXT * max(0, texts - 1)

    async def embed(self, texts: Sequence[str], *, role: Role = "document", seconds: float | None) -> Vectors:
        """As `Embedder.embed`.

        Args:
            texts: any number of texts.
            role: of the texts.
            seconds: how long to wait; None waits for whatever becomes of it, also during a pause.

        Raises:
            EmbedderUnavailableError: it failed, took too long, or did so just now.
            EmbeddingResponseError: it answered with something unusable.
        """
        started = time.monotonic()
        if seconds is not None and started < self._closed_until:
            pause = self._closed_until - started
            raise EmbedderUnavailableError(f"{self._reason}; it is asked again in {max(1, round(pause))} s")
        self._abandon()
        task = asyncio.create_task(self.ask(texts, role))
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            self._late.add(task)
            task.add_done_callback(self._arrived)
            raise self._failed(
                EmbedderUnavailableError(
                    f"the embedder of space {str(self._embedder.space)!r} did not answer within {seconds:.3g} s: is it "
                    "overloaded, or loading its model? Setting embedder.deadline waits longer"
                ),
                started,
            )
        try:
            vectors = task.result()
        except EmbedderUnavailableError as exc:
            raise self._failed(exc, started)  # noqa: B904  the same error
        self._closed_until = 0.0
        return vectors

    async def ask(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """As `embed`, without any patience of our own."""
        space = self._embedder.space
        try:
            answer = await self._embedder.embed(texts, role=role)
            return unit_rows(answer, count=len(texts), dimension=space.dimension)
        except AgenthoodError:
            raise
        except Exception as exc:  # an embedder may be anybody's, and whatever it raises means that it is down
            raise EmbedderUnavailableError(
                f"the embedder of space {str(space)!r} failed: {exc!r:.200}"
            ) from exc

    async def aclose(self) -> None:
        """End what still goes on; the embedder itself is its owner's to close."""
        late = set(self._late)
        self._abandon()
        await asyncio.gather(*late, return_exceptions=True)

    def _failed(self, error: EmbedderUnavailableError, started: float) -> EmbedderUnavailableError:
        now = time.monotonic()
        self._reason = str(error)
        self._closed_until = now + min(_LONGEST_PAUSE, _PAUSE_FACTOR * (now - started))
        return error

    def _arrived(self, task: asyncio.Task[Vectors]) -> None:
        self._late.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._closed_until = 0.0

    def _abandon(self) -> None:
        for task in self._late:
            task.cancel()
