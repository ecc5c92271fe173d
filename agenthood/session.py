"""A session: one run of any agent, shown what was learned before it and learned from after it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from agenthood.block import contains_block, render_block
from agenthood.errors import AgenthoodError
from agenthood.learning.rules import mean_score
from agenthood.records import UNKNOWN, EvalResult, Recall, RecalledLesson, Receipt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import TypeVar

    from agenthood.engine import AsyncHood

    T = TypeVar("T")

MAX_OUTCOME = 600
"""An outcome is kept in this many characters: enough to say how it ended, too little for a transcript."""
DEADLINE = 10.0
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
    episode is recorded first.

    Attributes:
        task: what the run is about; the text that lessons are found by and learned under.
        member: who runs.
        skill: in which skill.
        notes: outcome and scores so far.
        lessons: the lessons shown.
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
        await self.look_up()
        return self

    async def look_up(self) -> None:
        """Find the lessons; done on entering."""
        if self._limit > 0:
            self.lessons = await self._softly(self._recall, ())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self.notes.outcome:
            self.end(_ended_by(error))
        await self.close()

    async def close(self) -> None:
        """Record the episode, unless that was done before, and learn from its scores; done on leaving."""
        if self.episode_id is None:
            await self._softly(self._record, None)
        self.receipt = await self._softly(self._learn, None)
        if self.receipt is None:
            self.receipt = Receipt("rejected", episode_id=self.episode_id, reason=self.degraded)

    async def _recall(self) -> tuple[RecalledLesson, ...]:
        found: dict[str, RecalledLesson] = {}
        skills = [self.skill, None] if self.skill != UNKNOWN else [None]
        for skill in skills:  # those of the same skill first, then any
            if len(found) < self._limit:
                recall: Recall = await self._hood.recall(
                    self.task, limit=self._limit, member=self.member, skill=skill
                )
                self.degraded = self.degraded or recall.reason
                for lesson in recall:
                    found.setdefault(lesson.id, lesson)
        return tuple(found.values())[: self._limit]

    async def _record(self) -> None:
        details = {"member": self.member, "skill": self.skill, "scores": dict(self.notes.scores)}
        self.episode_id = await self._hood.episodic.record(
            self.task, shortened(self.notes.outcome), details=details
        )

    async def _learn(self) -> Receipt | None:
        result = EvalResult(
            self.task,
            self.notes.scores,
            shortened(self.notes.outcome),
            self.member,
            self.skill,
            episode_id=self.episode_id,
        )
        return await self._hood.learner.learn(result)

    async def _softly(self, work: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """Do `work` within the deadline; a failure is noted and logged, never raised."""
        try:
            async with asyncio.timeout(self._deadline):
                return await work()
        except TimeoutError:
            self.degraded = f"memory took longer than {self._deadline:g} s"
        except AgenthoodError as exc:
            self.degraded = str(exc)
        except Exception as exc:  # noqa: BLE001  memory serves the run: whatever breaks in it must not break the run
            _log.debug("memory failed", exc_info=True)
            self.degraded = f"memory failed: {exc!r:.200}"
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
        self._call(self._session.__aexit__, kind, error, trace)

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
    flat = " ".join(outcome.split())
    return flat if len(flat) <= MAX_OUTCOME else flat[: MAX_OUTCOME - 1] + "…"


def _ended_by(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return "interrupted"
    return f"failed with {type(error).__name__}: {error}"
