"""A session: one run of any agent, shown what was learned before it and learned from after it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from agenthood.block import contains_block, render_block
from agenthood.errors import AgenthoodError
from agenthood.formats import storable
from agenthood.learning.recall import Query
from agenthood.learning.rules import mean_score
from agenthood.records import UNKNOWN, EvalResult, Recall, RecalledLesson, Receipt
from agenthood.redaction import redact
from agenthood.telemetry import traced
from agenthood.telemetry_facts import looked_up, recorded, session_learned

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import TypeVar

    from agenthood.engine import AsyncHood

    T = TypeVar("T")

MAX_OUTCOME = 600
"""An outcome is kept in this many characters: enough to say how it ended, too little for a transcript."""
DEADLINE = 10.0
"""Seconds that the look-up may take, and as many for recording and learning together."""
_UNCAPPED = 1 << 30
_log = logging.getLogger("agenthood")


@dataclass(slots=True)
class Notes:
    """What a session collects while the agent works.

    Attributes:
        outcome: how it ended, in words.
        scores: name -> number in [0, 1].
    """

    outcome: str = ""
    scores: dict[str, float] = field(default_factory=dict)

    def score(self, name: str, value: float) -> None:
        """Add a score.

        Raises:
            InvalidInputError: it is no finite number in [0, 1].
        """
        mean_score({name: value})
        self.scores[name] = value


class AsyncSession:
    """`async with hood.session(task, member=...) as session`: lessons at the start, learning at the end.

    Neither can fail the run or hold it up beyond the deadline: without lessons `block` is empty, and what
    could not be learned is in `receipt` with its reason. An exception of the agent's own passes through; the
    episode is recorded first, also where it was cancelled. A session serves one run.

    Attributes:
        task: what the run is about; the text that lessons are found by and learned under.
        member: who runs.
        skill: in which skill.
        notes: outcome and scores so far.
        lessons: the lessons in `block`; those found that its cap leaves no room for are not among them.
        degraded: why lessons may be missing; empty if none are.
        episode_id: the recorded episode, after the end.
        receipt: what was learned, after the end.
    """

    def __init__(  # noqa: PLR0913  the options of a session
        self,
        hood: AsyncHood,
        task: str,
        *,
        member: str | None = None,
        skill: str | None = None,
        limit: int = 6,
        max_bytes: int = 4096,
        deadline: float = DEADLINE,
    ) -> None:
        """See `AsyncHood.session`."""
        self.task = task
        self.member = member or UNKNOWN
        self.skill = skill or UNKNOWN
        self.notes = Notes()
        self.lessons: tuple[RecalledLesson, ...] = ()
        self.degraded = ""
        self.episode_id: str | None = None
        self.receipt: Receipt | None = None
        self._hood = hood
        self._limit = limit
        self._max_bytes = max_bytes
        self._deadline = deadline
        self._entered = False

    @property
    def block(self) -> str:
        """The lessons as one fenced block for the prompt; empty without lessons. Equal lessons give equal bytes."""
        return render_block(self.lessons, max_bytes=self._max_bytes)

    def score(self, name: str, value: float) -> None:
        """Add a score in [0, 1]; see `Notes.score`."""
        self.notes.score(name, value)

    def end(self, outcome: str) -> None:
        """Say how it ended."""
        self.notes.outcome = outcome

    async def __aenter__(self) -> Self:
        self._enter()
        await self.look_up()
        return self

    def _enter(self) -> None:
        if self._entered:
            raise RuntimeError("a session serves one run: make another with hood.session()")
        self._entered = True

    async def look_up(self) -> None:
        """Find the lessons; done on entering."""
        if self._limit > 0:
            self.lessons = await self._softly(self._recall, (), self._deadline)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from anyio import CancelScope  # noqa: PLC0415  keeps the import of this module light

        if error is not None and not self.notes.outcome:
            self.end(_ended_by(error))
        # A cancelled scope of anyio would cancel every await in here again; recording has its own deadline.
        with CancelScope(shield=True):
            await self.close()

    async def close(self) -> None:
        """Record the episode, unless that was done before, and learn from its scores; done on leaving."""
        end = asyncio.get_running_loop().time() + self._deadline
        # Learning keeps to its time by itself: what does not get done in it is queued.
        self.receipt = await self._softly(self._learn, None, None)
        if self.receipt is None:
            self.receipt = Receipt("rejected", episode_id=self.episode_id, reason=self.degraded)
        if self.receipt.status == "pending" and self.receipt.id is None:
            self.degraded = self.degraded or self.receipt.reason
        self.episode_id = self.episode_id or self.receipt.episode_id
        if self.episode_id is None:  # nothing is learned from it, which is no reason not to keep it
            left = end - asyncio.get_running_loop().time()
            self.episode_id = await self._softly(self._record, None, left)
            self.receipt = replace(self.receipt, episode_id=self.episode_id)

    @traced("search_memory", looked_up, softly=True)
    async def _recall(self) -> tuple[RecalledLesson, ...]:
        parts = self._hood.parts
        threshold = parts.settings.recall_threshold
        found: dict[tuple[bool, str], RecalledLesson] = {}
        skills = [self.skill, None] if self.skill != UNKNOWN else [None]
        for skill in skills:  # those of the same skill first, then any
            if len(found) < self._limit:
                recall: Recall = await parts.recall(
                    Query(self.task, self._limit, self.member, skill, threshold=threshold)
                )
                self.degraded = self.degraded or (recall.reason if recall.degraded else "")
                for lesson in recall:
                    found.setdefault((lesson.shared, lesson.id), lesson)
        shown = self._fitting(list(found.values())[: self._limit])
        parts.note_uses(shown)
        return shown

    def _fitting(self, found: list[RecalledLesson]) -> tuple[RecalledLesson, ...]:
        """Those of the lessons that the capped block has room for."""
        shown = set(render_block(found, max_bytes=self._max_bytes).splitlines())
        return tuple(lesson for lesson in found if set(_items([lesson])) & shown)

    @traced("create_memory", recorded)
    async def _record(self) -> str | None:
        outcome = shortened(self.notes.outcome)
        return await self._hood.parts.learner.record(
            EvalResult(self.task, {}, outcome, self.member, self.skill)
        )

    @traced("upsert_memory", session_learned)
    async def _learn(self) -> Receipt:
        result = EvalResult(
            self.task,
            self.notes.scores,
            shortened(self.notes.outcome),
            self.member,
            self.skill,
            episode_id=self.episode_id,
        )
        return await self._hood.learner.learn(result, seconds=self._deadline)

    async def _softly(self, work: Callable[[], Awaitable[T]], otherwise: T, seconds: float | None) -> T:
        """Do `work` within `seconds`; a failure is noted and logged, never raised."""
        try:
            async with asyncio.timeout(seconds):
                return await work()
        except TimeoutError:
            self.degraded = f"memory took longer than {self._deadline:g} s"
        except AgenthoodError as exc:
            self.degraded = str(exc)
        except Exception as exc:  # noqa: BLE001  memory serves the run: whatever breaks in it must not break the run
            _log.debug("memory failed", exc_info=True)
            self.degraded = redact(f"memory failed: {exc!r:.200}")
        _log.warning("the run goes on without memory: %s", self.degraded)
        return otherwise


class Session:
    """The synchronous form of `AsyncSession`: `with hood.session(task) as session`."""

    def __init__(self, session: AsyncSession, call: Callable[..., object]) -> None:
        """Args: the `session`, and `call`, which runs a coroutine function on the loop of its store."""
        self._session = session
        self._call = call

    def __enter__(self) -> Self:
        self._call(self._session.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call(self._session.__aexit__, kind, error, trace)
        except (
            RuntimeError
        ) as exc:  # the store was closed inside the block: the agent's own end is what counts
            _log.warning("the run was not learned from: %s", exc)
            self._session.receipt = Receipt("rejected", reason=str(exc))

    @property
    def block(self) -> str:
        """See `AsyncSession.block`."""
        return self._session.block

    @property
    def lessons(self) -> tuple[RecalledLesson, ...]:
        """The lessons shown."""
        return self._session.lessons

    @property
    def degraded(self) -> str:
        """Why lessons may be missing; empty if none are."""
        return self._session.degraded

    @property
    def episode_id(self) -> str | None:
        """The recorded episode, after the end."""
        return self._session.episode_id

    @property
    def receipt(self) -> Receipt | None:
        """What was learned, after the end."""
        return self._session.receipt

    def score(self, name: str, value: float) -> None:
        """Add a score in [0, 1]; see `Notes.score`."""
        self._session.score(name, value)

    def end(self, outcome: str) -> None:
        """Say how it ended."""
        self._session.end(outcome)


def shortened(outcome: str) -> str:
    """An outcome fit to be stored: one paragraph, at most `MAX_OUTCOME` characters, no block of lessons."""
    if contains_block(outcome):
        return ""
    flat = " ".join(
        redact(storable(outcome)).split()
    )  # redacted before the cut: half a key is not recognised
    return flat if len(flat) <= MAX_OUTCOME else flat[: MAX_OUTCOME - 1] + "…"


def _items(lessons: list[RecalledLesson]) -> list[str]:
    """The lines of the block that are lessons."""
    return [line for line in render_block(lessons, max_bytes=_UNCAPPED).splitlines() if line.startswith("- ")]


def _ended_by(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return "interrupted"
    # Not str(error): an error whose text cannot be had must not take the place of itself.
    return f"failed with {''.join(traceback.format_exception_only(error)).strip()}"
