"""One run of a member: lessons first, then the agent loop, then the evidence, then learning from it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.formats import iso, utc_now
from agenthood.learning.rules import mean_score
from agenthood.records import Receipt
from agenthood.redaction import redact
from agenthood.runtime.evidence import (
    CHECK_SECONDS,
    Outcome,
    Score,
    by_name,
    check_score,
    run_check,
    told,
)
from agenthood.runtime.judge import judge
from agenthood.runtime.loop import Limits, Listener, Progress, run_loop
from agenthood.runtime.prompt import Prompt, build_prompt
from agenthood.runtime.runs import Run, lesson_line, new_run_id, recorded, save_run, save_softly
from agenthood.session import DEADLINE, AsyncSession, shortened

if TYPE_CHECKING:
    from agenthood.engine import AsyncHood
    from agenthood.runtime.chat.base import ChatModel
    from agenthood.runtime.loop import Tools

_log = logging.getLogger("agenthood")
JUDGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be run.

    Attributes:
        project: the directory the tools and checks work in.
        home: the `.agenthood` directory, for the run's file.
        member: name of the member.
        instructions: the member's system prompt.
        task: what is to be done.
        skill: in which skill; the member's name if absent.
        limits: how far the run may go.
        checks: commands whose exit status is a score.
        check_before: whether they are also run before, to tell what the run changed.
        check_seconds: how long each may take; one that takes longer has failed.
        scores: scores given.
        judged: whether an LLM judges even where there is other evidence.
        judge_seconds: how long its verdict may take.
        lessons: how many lessons to show at most; 0 for none.
        max_lesson_bytes: cap on the block of lessons, in UTF-8 bytes.
        deadline: seconds that looking up lessons may take, and as many for recording and learning.
    """

    project: Path
    home: Path
    member: str
    instructions: str
    task: str
    skill: str | None = None
    limits: Limits = field(default_factory=Limits)
    checks: tuple[str, ...] = ()
    check_before: bool = False
    check_seconds: float = CHECK_SECONDS
    scores: tuple[Score, ...] = ()
    judged: bool = False
    judge_seconds: float = JUDGE_SECONDS
    lessons: int = 6
    max_lesson_bytes: int = 4096
    deadline: float = DEADLINE


async def preview(job: Job, hood: AsyncHood | None) -> tuple[Prompt, AsyncSession | None]:
    """The exact prompt of a run and the session that found its lessons; nothing is spent or recorded."""
    session = _session(job, hood)
    if session is not None:
        await session.look_up()
    return _prompt(job, session), session


def new_run(job: Job) -> Run:
    """The record of a run that is about to begin."""
    return Run(new_run_id(), job.member, job.skill or job.member, redact(job.task), started_at=iso(utc_now()))


async def run_member(  # noqa: PLR0913  the parts of one run
    job: Job,
    model: ChatModel,
    tools: Tools,
    *,
    hood: AsyncHood | None = None,
    listener: Listener | None = None,
    run: Run | None = None,
) -> Run:
    """Run a member to its end and learn from how it went.

    Args:
        job: what is to be run.
        model: who answers.
        tools: what it may call.
        hood: the memory; without one nothing is recalled or learned, and the run is the same otherwise.
        listener: who is told what happens.
        run: its record, from `new_run`, for a caller who keeps its file already with `recorded`.

    Returns:
        The record, as its file holds it. Its `status` is the agent's own: no failure of memory, checks, judge
        or disk changes it.

    Raises:
        asyncio.CancelledError: it was interrupted; the episode is recorded as interrupted first.
        Exception: whatever the listener raises; the episode is recorded as failed first.
    """
    begun = run if run is not None else new_run(job)
    with recorded(job.home, begun) if run is None else nullcontext(begun):
        await _Course(job, model, tools, begun, _session(job, hood)).take(listener)
    return begun


def _session(job: Job, hood: AsyncHood | None) -> AsyncSession | None:
    if hood is None:
        return None
    return AsyncSession(
        hood,
        job.task,
        member=job.member,
        skill=job.skill or job.member,
        limit=job.lessons,
        max_bytes=job.max_lesson_bytes,
        deadline=job.deadline,
    )


def _prompt(job: Job, session: AsyncSession | None) -> Prompt:
    return build_prompt(job.instructions, job.task, "" if session is None else session.block)


@dataclass(slots=True)
class _Course:
    """One run on its way: what has been done of it is recorded, however it ends."""

    job: Job
    model: ChatModel
    tools: Tools
    run: Run
    session: AsyncSession | None
    progress: Progress = field(default_factory=Progress)
    scores: list[Score] = field(default_factory=list)

    async def take(self, listener: Listener | None) -> None:
        try:
            await self._work(listener)
        except asyncio.CancelledError:
            self.progress.break_off("interrupted", "interrupted")
            self.scores = []
            await self._close()
            raise
        except BaseException as exc:  # whatever ends a run, its episode is recorded first
            self.progress.break_off("failed", redact(f"failed with {type(exc).__name__}: {exc}"))
            self.scores = []
            await self._close()
            raise
        await self._close()

    async def _work(self, listener: Listener | None) -> None:
        job = self.job
        before = await self._check() if job.check_before else {}
        if self.session is not None:
            await self.session.look_up()
        await run_loop(
            self.model,
            self.tools,
            _prompt(job, self.session),
            limits=job.limits,
            progress=self.progress,
            listener=listener,
        )
        if self.progress.ending == "failed":  # the provider's failure says nothing about the member
            return
        after = await self._check()
        self.scores += job.scores
        self.scores += [check_score(command, after[command], before.get(command)) for command in after]
        # An opinion only where no evidence was offered: a check that could not be run is no reason to ask for one.
        if job.judged or not (job.checks or job.scores):
            self.scores += await self._opinion()

    async def _check(self) -> dict[str, Outcome]:
        """How each check ends, one after the other."""
        job = self.job
        return {
            command: await run_check(command, job.project, seconds=job.check_seconds)
            for command in dict.fromkeys(job.checks)
        }

    async def _opinion(self) -> list[Score]:
        if self.progress.ending != "done" or not self.progress.text:
            return [_unjudged("there is no last answer to judge")]
        try:
            async with asyncio.timeout(self.job.judge_seconds):
                verdict = await judge(
                    self.model, self.job.task, self.progress.text, trace=list(self.progress.trace)
                )
        except TimeoutError:
            return [_unjudged(f"no verdict within {self.job.judge_seconds:g} s")]
        except Exception as exc:  # noqa: BLE001  an opinion is optional: whatever breaks in it must not break the run
            _log.debug("the judge failed", exc_info=True)
            return [_unjudged(redact(f"{exc!r:.200}"))]
        if verdict.reply is not None:
            self.progress.spend(verdict.reply.model, verdict.reply.usage)
        if not verdict.scores:
            return [Score("judge", None, "judge", verdict.reason)]
        return [Score(name, value, "judge") for name, value in verdict.scores.items()]

    async def _close(self) -> None:
        """Write down how it went, then record and learn; the file is written first, and again at the end."""
        self._note()
        save_softly(self.job.home, self.run)
        try:
            await self._remember()
        finally:  # also where learning itself is interrupted
            save_softly(self.job.home, self.run)

    async def _remember(self) -> None:
        if self.session is None:
            return
        self.session.end(self.run.outcome)
        for name, value in by_name(self.scores).items():
            self.session.score(name, value)
        try:
            await self.session.close()
        finally:
            receipt = self.session.receipt or Receipt("skipped", reason="interrupted while learning")
            self.run.episode_id = self.session.episode_id or receipt.episode_id
            self.run.receipts = [receipt.to_dict()]
            if self.session.degraded:
                self.run.notes.append(self.session.degraded)

    def _note(self) -> None:
        run, progress = self.run, self.progress
        run.status = progress.ending or "done"
        run.reason = redact(progress.reason)
        run.outcome = _outcome(progress, self.scores)
        run.answer = progress.text
        run.provider, run.model = progress.provider, progress.model
        run.input_tokens, run.output_tokens = progress.usage.input_tokens, progress.usage.output_tokens
        run.cost = _cost(progress)
        run.seconds = round(progress.seconds, 3)
        run.steps, run.tools, run.tool_errors = progress.steps, dict(progress.tools), progress.tool_errors
        run.scores = [score.to_dict() for score in self.scores]
        if self.session is not None:
            run.lessons = [lesson_line(lesson.to_dict()) for lesson in self.session.lessons]


def _unjudged(reason: str) -> Score:
    return Score("judge", None, "judge", f"not judged: {reason}")


def _outcome(progress: Progress, scores: list[Score]) -> str:
    """How it ended, in words; an answer that repeats the block of lessons is left out, not all of it."""
    parts = (progress.reason, told(scores), shortened(progress.text))
    return shortened(". ".join(part for part in parts if part))


def _cost(progress: Progress) -> float | None:
    from agenthood.runtime.chat.prices import cost  # noqa: PLC0415

    costs = [cost(model, usage) for model, usage in progress.spent.items()]
    known = [one for one in costs if one is not None]
    return sum(known) if known and len(known) == len(costs) else None


async def give_feedback(hood: AsyncHood, home: Path, run: Run, score: Score) -> Receipt:
    """Add a score to a finished run and learn from it by itself: what a person says later outweighs the rest.

    The episode stays the one of the run: where it is evidence for a lesson already, it is not counted again.

    Args:
        hood: the memory.
        home: the `.agenthood` directory with the run's file.
        run: the run, as `load_run` gives it.
        score: the score, with the note as its detail.

    Raises:
        InvalidInputError: the score is no finite number in [0, 1].
        StoreUnavailableError: the run's file cannot be written.
    """
    mean_score(by_name([score]))
    run.scores.append(score.to_dict())
    save_run(home, run)
    session = AsyncSession(hood, run.task, member=run.member, skill=run.skill)
    session.episode_id = run.episode_id
    session.end(f"{score.detail}. {run.outcome}" if score.detail else run.outcome)
    for name, value in by_name([score]).items():
        session.score(name, value)
    await session.close()
    receipt = session.receipt or Receipt("skipped")
    run.episode_id = session.episode_id or receipt.episode_id
    run.receipts.append(receipt.to_dict())
    save_run(home, run)
    return receipt
