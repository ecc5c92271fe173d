"""The episode learner: scored episodes in, lessons and receipts out."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from agenthood.errors import (
    AgenthoodError,
    EmbeddingError,
    InvalidRecordError,
    StoreError,
    StoreUnavailableError,
)
from agenthood.formats import new_episode_id, utc_now
from agenthood.learning import rules
from agenthood.learning.batch import Batch, Decided, Embedded, Known
from agenthood.learning.behind import OneBehind
from agenthood.learning.episode_ids import episode_ids
from agenthood.learning.intake import Intake, Lasting, take_in
from agenthood.learning.lessons import lesson_of_row
from agenthood.learning.matching import matches
from agenthood.learning.outcomes import Kept, Part, decided, not_learned
from agenthood.learning.placing import look_up
from agenthood.learning.preparing import Prepared, prepare, texts_of, words_of
from agenthood.learning.reading import GatheredReads
from agenthood.learning.tally import read_tally
from agenthood.memory.residual import BRIEF_LOCK_SECONDS, MAX_SIGNAL_CHARACTERS
from agenthood.stores.base import SHARED, Collection, Record
from agenthood.stores.deadline import current_section

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.spaces import ActiveSpace
    from agenthood.memory.residual import ResidualMemory
    from agenthood.records import EvalResult, LearnerStatus, Receipt
    from agenthood.stores.base import Vector, VectorStore

BATCH_SIZE = 2_000
PART_SIZE = 1_000
_log = logging.getLogger("agenthood")


class EpisodeLearner:
    """Turns judged episodes into lessons: looks for a lesson that says the same, merges or stores, and says so.

    A batch gives exactly the outcome of learning its episodes one by one.
    """

    def __init__(  # noqa: PLR0913  its parts
        self,
        store: VectorStore,
        *,
        index: EmbeddingIndex | None = None,
        space: ActiveSpace | None = None,
        residual: ResidualMemory | None = None,
        threshold: float = rules.MATCH_THRESHOLD,
        batch_size: int = BATCH_SIZE,
        part_size: int = PART_SIZE,
        clock: Callable[[], datetime] = utc_now,
        draw_id: Callable[[datetime], str] = new_episode_id,
    ) -> None:
        """Put its parts together.

        Args:
            store: where lessons and episodes live.
            index: the pattern index; None to match by exact text only.
            space: what embeds; None leaves new lessons pending.
            residual: signals to reinforce or weaken.
            threshold: match score in [0, 1] from which an episode merges into a lesson, inclusive.
            batch_size: how many episodes `learn_many` reads the store for at once, and decides on under one lock.
            part_size: how many of them are written in one commit, while the next are decided on.
            clock: the current time in UTC.
            draw_id: makes an id for an episode of some moment; asked again where that one is taken.
        """
        self._store = store
        self._index = index
        self._space = space
        self._residual = residual
        self._threshold = threshold
        self._batch_size = max(1, batch_size)
        self._part_size = max(1, part_size)
        self._clock = clock
        self._draw_id = draw_id

    async def learn(self, result: EvalResult, *, seconds: float | None = None) -> Receipt:
        """Learn from one episode; never raises into the caller's run.

        Args:
            result: the episode with its scores.
            seconds: how long it may take in all; None for as long as it takes.

        Returns:
            The receipt: what was decided and why.
        """
        return (await self._learn_batch(Prepared([take_in(result)]), seconds))[0]

    async def learn_many(
        self, results: Sequence[EvalResult], *, on_progress: Callable[[int, int], None] | None = None
    ) -> list[Receipt]:
        """Learn from many episodes, with the same outcome as one by one, in order.

        Args:
            results: the episodes with their scores.
            on_progress: called with (done, total) after each batch.

        Returns:
            One receipt per episode, in order.
        """
        receipts: list[Receipt] = []
        batches = [
            results[start : start + self._batch_size] for start in range(0, len(results), self._batch_size)
        ]
        ahead: asyncio.Task[Prepared] | None = None
        try:
            for number, batch in enumerate(batches):
                prepared = await (ahead or prepare(batch))
                more = batches[number + 1 : number + 2]
                ahead = asyncio.create_task(prepare(more[0], once=prepared.decided)) if more else None
                receipts += await self._learn_batch(prepared)
                prepared.decided.set()  # also where it came to nothing
                if on_progress is not None:
                    on_progress(len(receipts), len(results))
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)
        return receipts

    async def get_status(self) -> LearnerStatus:
        """Counts per band and member, the last update, and whether confidence rises or falls."""
        return (await read_tally(GatheredReads(self._store, SHARED))).status()

    # -- one batch --------------------------------------------------------------------------------------

    async def _learn_batch(self, prepared: Prepared, seconds: float | None = None) -> list[Receipt]:
        learned = iter(await self._attempt(prepared, seconds) if prepared.intakes else ())
        return [next(learned) if isinstance(item, Intake) else item for item in prepared.taken_in]

    async def _attempt(self, prepared: Prepared, seconds: float | None) -> list[Receipt]:
        """Learn; a receipt for each also where that fails."""
        kept = Kept()
        try:
            async with in_time(seconds):
                await self._learn_intakes(prepared, kept)
        except Exception as exc:  # noqa: BLE001  also a fault of ours must not end the caller's run
            return kept.receipts + not_learned(prepared.intakes[len(kept.receipts) :], exc)
        return kept.receipts

    async def _learn_intakes(self, prepared: Prepared, kept: Kept) -> None:
        """Learn from episodes in order, part by part, each in one commit.

        Args:
            prepared: the episodes.
            kept: told of each part as soon as it is on disk. Of what it was not told of when this raises nothing was
                learned, or it is not known whether it was.
        """
        try:
            await self._learn_parts(prepared, kept)
        finally:  # also of a batch that failed midway, or was given up
            await self._reinforce(kept.news)

    async def _learn_parts(self, prepared: Prepared, kept: Kept) -> None:
        intakes = prepared.intakes
        lasting = [intake for intake in intakes if isinstance(intake, Lasting)]
        embedded = await self._embed(texts_of(intakes), prepared.words)
        async with self._store.exclusive():
            now, reads = self._clock(), GatheredReads(self._store, SHARED)
            known = Known(candidates=[()] * len(lasting))
            _, _, tally, (ids, before) = await asyncio.gather(
                look_up(reads, known, [intake.pattern for intake in lasting]),
                self._search(known, lasting, embedded),
                read_tally(reads),
                episode_ids(reads, intakes, now, self._draw_id),
            )
            await self._load(known, reads)
            batch = Batch(known, embedded, self._index, lasting, threshold=self._threshold, now=now)
            async with OneBehind() as writing:
                for start in range(0, len(intakes), self._part_size):
                    some = slice(start, start + self._part_size)
                    part = await decided(batch, tally, zip(intakes[some], ids[some], strict=True), before)
                    await writing.begin(partial(self._keep, part, kept))
                prepared.decided.set()
        if known.reason:  # said now, since what was not learned at all is told otherwise
            _log.warning("matched by exact text only, %d in number: %s", len(lasting), known.reason)

    async def _keep(self, part: Part, kept: Kept) -> None:
        """Write a part, and note that it is kept."""
        unindexed = await self._write(part.rows)
        if unindexed and self._space is not None:
            self._space.behind = True  # so that they are indexed once that works again
        kept.receipts += [
            replace(one, status="pending", reason=unindexed)
            if unindexed
            and (one.status == "stored" or (one.status == "merged" and one.id in part.rows.restored))
            else one
            for one in part.receipts
        ]
        kept.news += part.news

    async def _embed(self, texts: list[str], words: Vector | None) -> Embedded:
        words = await words_of(texts) if words is None else words
        if self._space is None:
            return Embedded(None, words, "no embedder is active")
        if not texts:
            return Embedded(np.zeros((0, self._space.space.dimension), np.float32), words)
        try:
            vectors = await self._space.embed(texts)
        except EmbeddingError as exc:
            _log.warning("learned by exact text only, %d in number: %s", len(texts), exc)
            return Embedded(None, words, str(exc))
        if self._index is not None:
            self._index.calibration = self._space.calibration
        return Embedded(vectors, words)

    async def _search(self, known: Known, intakes: list[Lasting], embedded: Embedded) -> None:
        """Find the indexed patterns that reach the threshold."""
        if self._index is None or embedded.semantic is None:
            return
        vectors = (embedded.semantic, embedded.words)
        try:
            found = await matches(self._store, self._index, intakes, vectors, self._threshold)
        except StoreError as exc:
            if (section := current_section()) is not None and section.up:
                raise  # nothing more can be done in this attempt
            known.reason = str(exc)
            return
        calibration = self._index.calibration
        known.candidates = [
            tuple(one for one in some if one.score(calibration) >= self._threshold) if some else ()
            for some in found
        ]

    @staticmethod
    async def _load(known: Known, reads: GatheredReads) -> None:
        """Load the lessons of the candidates, so that one whose long-term row has gone or changed is none."""
        rows = [candidate.record for found in known.candidates for candidate in found]
        ids = {id_ for row in rows if (id_ := lesson_of_row(row)) is not None}
        known.note(await reads.get(sorted(ids - known.taken.keys())))
        for row in rows:
            known.note_orphan(row)

    async def _write(self, decided: Decided) -> str:
        """Write a part of a batch; the reason why the index could not be written, or an empty string.

        Episodes, lessons and status go in one commit: episode and evidence stand or fall together. What the index
        then lacks the migration fills in, and a row of it without a lesson counts for nothing.
        """
        rows: dict[Collection, list[Record]] = {SHARED: decided.shared}
        for collection, records in decided.index.items():
            rows.setdefault(SHARED if collection.name == SHARED.name else collection, []).extend(records)
        shared, *others = await asyncio.gather(
            *(self._upsert(collection, records) for collection, records in rows.items()),
            return_exceptions=True,
        )
        if shared is not None:
            raise shared
        for problem in others:
            if isinstance(problem, StoreError):
                _log.warning("new lessons are not indexed yet: %s", problem)
                return str(problem)
            if problem is not None:
                raise problem
        return ""

    async def _upsert(self, collection: Collection, records: list[Record]) -> None:
        result = await self._store.upsert(collection, records)
        if self._index is not None and collection == self._index.main:
            self._index.held.wrote(records, result.version)
        if result.rejected:
            raise InvalidRecordError(result.rejected[0].id, result.rejected[0].reason)

    async def _reinforce(self, intakes: Sequence[Intake]) -> None:
        signals = [
            (i.episode, i.mean if i.kind == "learned" else i.mean - 1)
            for i in intakes
            if i.kind
            and len(i.episode) <= MAX_SIGNAL_CHARACTERS  # a longer text is no hint, and would be refused
        ]
        if self._residual is None or not signals:
            return
        try:
            # In a thread, as another process may hold the file, and briefly: the caller's run waits for it.
            await asyncio.to_thread(self._residual.record_many, signals, timeout=BRIEF_LOCK_SECONDS)
        except (AgenthoodError, OSError) as exc:
            # Residual memory only hints; the lesson itself is stored already.
            _log.warning("residual memory was not updated: %s", exc)


@asynccontextmanager
async def in_time(seconds: float | None) -> AsyncIterator[None]:
    """Work that may take so many seconds in all; None for as long as it takes.

    Raises:
        StoreUnavailableError: it took longer.
    """
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        raise StoreUnavailableError(f"memory took longer than {seconds:g} s") from None
