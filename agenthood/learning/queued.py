"""Learning that an outage does not stop: what the store cannot take now waits in a file, and is applied later."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from agenthood.errors import AgenthoodError, InvalidInputError, StoreError, StoreUnavailableError
from agenthood.formats import is_episode_id, iso, parse_time
from agenthood.learning.episode_ids import draw_ids
from agenthood.learning.intake import Intake, take_in
from agenthood.learning.learner import EpisodeLearner, in_time
from agenthood.learning.outcomes import Kept, not_learned, refused
from agenthood.learning.preparing import Prepared
from agenthood.memory.episodic import episode_record
from agenthood.records import UNKNOWN, EvalResult, Receipt
from agenthood.stores.base import SHARED
from agenthood.stores.lock import StoreLock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.learning.queue_file import QueueFile, Waiting
    from agenthood.stores.guarded import GuardedStore

PER_EPISODE: Final = 0.02
"""Seconds that each further episode of a batch adds to the deadline: a store takes hundreds in a second."""
_APPLY_BATCH = 100
# Nobody waits for it but the queue, and what is cut off has to be done again.
_APPLY_SECONDS = 30.0
_log = logging.getLogger("agenthood")


class QueuedLearner(EpisodeLearner):
    """An `EpisodeLearner` under a deadline, with a queue for what the store cannot take.

    An episode's id is drawn before the store is asked, so that one whose fate is unknown can be applied again and
    counts once.
    """

    def __init__(self, store: GuardedStore, *, queue: QueueFile, closed: bool, **options: Any) -> None:  # noqa: ANN401
        """Put its parts together.

        Args:
            store: where lessons and episodes live.
            queue: where episodes wait.
            closed: whether an outage is raised as `StoreError` instead.
            options: those of `EpisodeLearner`.
        """
        super().__init__(store, **options)
        self._guard = store
        self._queue = queue
        self._closed = closed
        self._turn = StoreLock(queue.path.with_name("queue.applying.lock"), timeout=_APPLY_SECONDS)
        self._applying: asyncio.Task[None] | None = None
        self._began = 0.0
        self._stuck = ""

    # -- learning ---------------------------------------------------------------------------------------

    async def _attempt(self, prepared: Prepared, seconds: float | None) -> list[Receipt]:
        intakes = self._named(prepared.intakes)
        kept = Kept()
        try:
            async with in_time(seconds):
                await self._let_others_first()
                time_for_all = self._guard.deadline + PER_EPISODE * (len(intakes) - 1)
                async with self._guard.section("writing", time_for_all):
                    await self._learn_intakes(prepared, kept)
        except StoreError as exc:
            if self._closed:
                raise
            return kept.receipts + await self._wait(intakes[len(kept.receipts) :], str(exc))
        except Exception as exc:  # noqa: BLE001  also a fault of ours must not end the caller's run
            return kept.receipts + not_learned(intakes[len(kept.receipts) :], exc)
        return kept.receipts

    async def _let_others_first(self) -> None:
        """Learn those first that came first.

        Raises:
            StoreUnavailableError: they still wait.
        """
        if self._queue and not self._closed and not await self.settled():
            raise StoreUnavailableError(self._guard.problem("writing") or "others wait before it")

    def _named(self, intakes: list[Intake]) -> list[Intake]:
        """The intakes, given their time and an id each."""
        now = self._clock()
        for intake in intakes:
            intake.at = intake.at or now
        new = [intake for intake in intakes if intake.episode_id is None]
        for intake, id_ in zip(new, draw_ids([one.at or now for one in new], (), self._draw_id), strict=True):
            intake.drawn = id_
        return intakes

    async def record(self, result: EvalResult) -> str | None:
        """Record an episode that nobody judged, now or when the store can take it.

        Args:
            result: the episode; of its scores nothing is learned.

        Returns:
            The id it is or will be recorded under; None if neither could be done, which is logged.

        Raises:
            InvalidInputError: it cannot be stored.
            StoreError: the store cannot take it, and fails closed.
        """
        # Whatever a score says, the episode is checked and redacted for it.
        taken = take_in(replace(result, scores={"": 0.5}))
        if isinstance(taken, Receipt):
            raise InvalidInputError(taken.reason)
        (intake,) = self._named([replace(taken, scores={})])
        entry = _entry(intake, iso(self._clock()))
        try:
            async with self._guard.section("writing"):
                await self._record([entry])
        except StoreError as exc:
            if self._closed:
                raise
            (receipt,) = await self._wait([intake], str(exc))
            return receipt.episode_id
        return intake.drawn

    async def _record(self, entries: Sequence[dict[str, Any]]) -> None:
        records = [
            episode_record(
                entry["episode"],
                entry["outcome"],
                at=parse_time(entry["timestamp"]),
                recorded=self._clock(),
                id_=entry["id"],
                details={"member": entry["member"], "skill": entry["skill"], "scores": {}},
            )
            for entry in entries
        ]
        await self._upsert(SHARED, records)

    async def _wait(self, intakes: list[Intake], why: str) -> list[Receipt]:
        """Put the intakes into the queue."""
        now = iso(self._clock())
        try:
            # In a thread, as another process may hold the file. It is not given up on when the caller is cancelled.
            await asyncio.to_thread(self._queue.append, [_entry(intake, now) for intake in intakes])
        except (AgenthoodError, OSError) as exc:
            error = StoreUnavailableError(f"{why}; nor can it be queued: {exc}")
            _log.warning("not learned, %d in number: %s", len(intakes), error)
            return refused(intakes, str(error))
        if self._guard.on_failure is not None:
            self._guard.on_failure()
        reason = f"queued until the store can take it: {why}"
        return [
            Receipt(
                "pending",
                kind=one.kind,
                score=one.mean,
                reason=reason,
                episode_id=one.episode_id or one.drawn,
            )
            for one in intakes
        ]

    # -- the queue --------------------------------------------------------------------------------------

    @property
    def queue(self) -> QueueFile:
        """Where episodes wait."""
        return self._queue

    @property
    def waits(self) -> bool:
        """Whether episodes wait to be learned."""
        return bool(self._queue)

    async def waiting(self) -> Waiting:
        """The episodes that wait to be learned.

        Raises:
            StoreUnavailableError: the file cannot be read.
        """
        return await asyncio.to_thread(self._queue.read)

    async def settled(self, seconds: float | None = None) -> bool:
        """Let what waits be applied; whether nothing stands in the way of learning more.

        Args:
            seconds: how long to wait for that; the store's deadline if absent. It goes on beside the calls.
        """
        if not self._queue:
            return True
        if self._applying is None or self._applying.done():
            if self._guard.opens_in("writing") or self._guard.opens_in("reading"):
                return False
            # In a context of its own: the caller may hold the write lock, which this must wait for.
            self._applying = asyncio.get_running_loop().create_task(self._apply_all(), context=Context())
            self._began = time.monotonic()
        # From when it began: while much is applied, or a store hangs, not every call waits anew.
        end = self._began + self._guard.deadline if seconds is None else time.monotonic() + seconds
        await asyncio.wait({self._applying}, timeout=max(0.0, end - time.monotonic()))
        # What waits for another reason than the store's being down keeps nobody else waiting.
        return self._applying.done() and (not self._queue or bool(self._stuck))

    async def aclose(self) -> None:
        """Let what waits be applied if that takes a moment, and stop; the rest is applied at the next start."""
        await self.settled()
        if self._applying is not None:
            self._applying.cancel()
            await asyncio.gather(self._applying, return_exceptions=True)

    async def _apply_all(self) -> None:
        """Apply what waits, in order; what is down stays so, and what is odd is logged."""
        stuck = ""
        try:
            await self._guard.reach()  # so that a store which hangs costs no more than the deadline
            async with self._turn():
                done = 0
                while (waiting := await self.waiting()).entries:
                    for start in range(0, len(waiting.entries), _APPLY_BATCH):
                        done += await self._apply(waiting.entries[start : start + _APPLY_BATCH])
                if waiting.damaged:
                    _log.warning(
                        "%d lines of %s cannot be read, perhaps cut off by a kill: they are kept in "
                        "queue.damaged.jsonl beside it",
                        len(waiting.damaged),
                        self._queue.path,
                    )
                await asyncio.to_thread(self._queue.clear)
            if done:
                _log.info("%d episodes that waited for the store are learned", done)
        except StoreUnavailableError as exc:
            _log.debug("the queue waits: %s", exc)
        except AgenthoodError as exc:
            stuck = str(exc)
            if stuck != self._stuck:
                _log.warning("the queue %s cannot be applied: %s", self._queue.path, exc)
        except Exception as exc:  # noqa: BLE001  nobody waits for this task, and the queue stays as it is
            stuck = repr(exc)
            if stuck != self._stuck:
                _log.error("the queue %s cannot be applied", self._queue.path, exc_info=True)
        self._stuck = stuck

    async def _apply(self, entries: Sequence[dict[str, Any]]) -> int:
        if unjudged := [entry for entry in entries if _is_unjudged(entry)]:
            async with self._guard.section("writing", _APPLY_SECONDS):
                await self._record(unjudged)
        taken = [(entry, _taken_in(entry)) for entry in entries if not _is_unjudged(entry)]
        intakes = [intake for _, intake in taken if isinstance(intake, Intake)]
        kept = Kept()
        if intakes:
            async with self._guard.section("writing", _APPLY_SECONDS):
                await self._learn_intakes(Prepared(intakes), kept)
        outcomes = iter(kept.receipts)
        for entry, one in taken:
            receipt = next(outcomes) if isinstance(one, Intake) else one
            if receipt.status == "rejected":
                path = await asyncio.to_thread(self._queue.set_aside, entry, receipt.reason)
                _log.warning("an episode that waited was refused and is kept in %s: %s", path, receipt.reason)
        await asyncio.to_thread(self._queue.applied, entries)
        return len(entries)


def _entry(intake: Intake, now: str) -> dict[str, Any]:
    """The line that keeps an intake."""
    assert intake.at is not None  # noqa: S101  `_named` dated it
    return {
        "episode": intake.episode,
        "outcome": intake.outcome,
        "scores": dict(intake.scores),
        "member": intake.member,
        "skill": intake.skill,
        "timestamp": intake.at.isoformat(),
        "id": intake.episode_id or intake.drawn,
        "recorded": intake.episode_id is not None,
        "queuedAt": now,
        "key": secrets.token_hex(8),
    }


def _is_unjudged(entry: dict[str, Any]) -> bool:
    """Whether a line keeps an episode to be recorded and nothing else."""
    texts = all(isinstance(entry.get(name), str) for name in ("episode", "outcome", "member", "skill"))
    return (
        entry.get("scores") == {}
        and texts
        and is_episode_id(entry.get("id"))
        and entry.get("timestamp") is not None
    )


def _taken_in(entry: dict[str, Any]) -> Intake | Receipt:
    """The intake a line keeps, checked anew: anybody may have edited the file."""
    id_ = entry.get("id")
    try:
        at = parse_time(entry.get("timestamp"))
    except InvalidInputError as exc:
        return Receipt("rejected", reason=str(exc))
    if not is_episode_id(id_):
        return Receipt("rejected", reason="id is no id of an episode")
    recorded = entry.get("recorded") is True
    result = EvalResult(
        entry.get("episode", ""),
        entry.get("scores", {}),
        entry.get("outcome", ""),
        entry.get("member", UNKNOWN),
        entry.get("skill", UNKNOWN),
        at,
        id_ if recorded else None,
    )
    found = take_in(result)
    return found if recorded or isinstance(found, Receipt) else replace(found, drawn=id_)
