"""One run of a member: lessons first, then the agent loop, then the evidence, then learning from it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.errors import AgenthoodError
from agenthood.formats import iso, utc_now
from agenthood.records import Receipt
from agenthood.redaction import redact
from agenthood.runtime.evidence import Outcome, Score, check_score, run_check, told
from agenthood.runtime.judge import judge
from agenthood.runtime.loop import Limits, Listener, Progress, run_loop
from agenthood.runtime.prompt import Prompt, build_prompt
from agenthood.runtime.runs import Run, lesson_line, new_run_id, save_run
from agenthood.session import AsyncSession, shortened

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
        scores: scores given.
        judged: whether an LLM judges even where there is other evidence.
        lessons: how many lessons to show at most; 0 for none.
        max_lesson_bytes: cap on the block of lessons, in UTF-8 bytes.
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
    scores: tuple[Score, ...] = ()
    judged: bool = False
    lessons: int = 6
    max_lesson_bytes: int = 4096


async def preview(job: Job, hood: AsyncHood | None) -> tuple[Prompt, AsyncSession | None]:
    """The exact prompt of a run and the session that found its lessons; nothing is spent or recorded."""
    session = _session(job, hood)
    if session is None:
        return build_prompt(job.instructions, job.task, ""), None
    await session.look_up()
    return build_prompt(job.instructions, job.task, session.block), session


async def run_member(
    job: Job,
    model: ChatModel,
    tools: Tools,
    *,
    hood: AsyncHood | None = None,
    listener: Listener | None = None,
) -> Run:
    """Run a member to its end and learn from how it went.

    Args:
        job: what is to be run.
        model: who answers.
        tools: what it may call.
        hood: the memory; without one nothing is recalled or learned, and the run is the same otherwise.
        listener: who is told what happens.

    Returns:
        The record, as its file holds it. Its `status` is the agent's own: no failure of memory, checks, judge
        or disk changes it.

    Raises:
        asyncio.CancelledError: it was interrupted; the episode is recorded as interrupted first.
    """
    run = Run(new_run_id(), job.member, job.skill or job.member, redact(job.task), started_at=iso(utc_now()))
    _save(job.home, run)
    before = {command: await run_check(command, job.project) for command in job.checks if job.check_before}
    progress = Progress()
    session = _session(job, hood)
    try:
        if session is not None:
            await session.look_up()
        prompt = build_prompt(job.instructions, job.task, session.block if session is not None else "")
        await run_loop(model, tools, prompt, limits=job.limits, progress=progress, listener=listener)
        scores = await _evidence(job, model, progress, before)
    except asyncio.CancelledError:
        progress.end("interrupted", "interrupted")
        await _close(job, run, progress, session, [])
        raise
    await _close(job, run, progress, session, scores)
    return run


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
    )


async def _evidence(
    job: Job, model: ChatModel, progress: Progress, before: dict[str, Outcome]
) -> list[Score]:
    """Checks and given scores first; an opinion only where there is nothing else, or where it was asked for."""
    if progress.ending == "failed":  # the provider's failure says nothing about the member
        return []
    checked = [(command, await run_check(command, job.project)) for command in job.checks]
    scores = [
        *job.scores,
        *(check_score(command, outcome, before.get(command)) for command, outcome in checked),
    ]
    judged = any(score.value is not None for score in scores)
    if (job.judged or not judged) and progress.text:
        scores += await _opinion(model, job.task, progress.text)
    return scores


async def _opinion(model: ChatModel, task: str, answer: str) -> list[Score]:
    try:
        async with asyncio.timeout(JUDGE_SECONDS):
            verdict = await judge(model, task, answer)
    except TimeoutError:
        return [Score("judge", None, "judge", f"not judged: no answer within {JUDGE_SECONDS:g} s")]
    except Exception as exc:  # noqa: BLE001  an opinion is optional: whatever breaks in it must not break the run
        _log.debug("the judge failed", exc_info=True)
        return [Score("judge", None, "judge", f"not judged: {exc!r:.200}")]
    if not verdict.scores:
        return [Score("judge", None, "judge", verdict.reason)]
    return [Score(name, value, "judge") for name, value in verdict.scores.items()]


async def _close(
    job: Job, run: Run, progress: Progress, session: AsyncSession | None, scores: list[Score]
) -> None:
    _note(run, progress, session, scores)
    if session is not None:
        session.end(run.outcome)
        for score in scores:
            if score.value is not None:
                session.score(score.name, score.value)
        await session.close()
        run.episode_id = session.episode_id
        run.receipts = [(session.receipt or Receipt("skipped")).to_dict()]
        if session.degraded:
            run.notes.append(session.degraded)
    _save(job.home, run)


def _note(run: Run, progress: Progress, session: AsyncSession | None, scores: list[Score]) -> None:
    from agenthood.runtime.chat.prices import cost  # noqa: PLC0415

    run.status = progress.ending or "done"
    parts = (progress.reason, told(scores), progress.text)
    run.outcome = shortened(redact(". ".join(part for part in parts if part)))
    run.answer = progress.text
    run.provider, run.model = progress.provider, progress.model
    run.input_tokens, run.output_tokens = progress.usage.input_tokens, progress.usage.output_tokens
    run.cost = cost(progress.model, progress.usage)
    run.seconds = round(progress.seconds, 3)
    run.steps, run.tools, run.tool_errors = progress.steps, dict(progress.tools), progress.tool_errors
    run.scores = [score.to_dict() for score in scores]
    if session is not None:
        run.lessons = [lesson_line(lesson.to_dict()) for lesson in session.lessons]


def _save(home: Path, run: Run) -> None:
    try:
        save_run(home, run)
    except (AgenthoodError, OSError) as exc:
        _log.warning("the run is not recorded in a file: %s", exc)
        run.notes.append(str(exc))


async def give_feedback(hood: AsyncHood, home: Path, run: Run, score: Score) -> Receipt:
    """Add a score to a finished run and learn from it by itself: what a person says later outweighs the rest.

    Args:
        hood: the memory.
        home: the `.agenthood` directory with the run's file.
        run: the run, as `load_run` gives it.
        score: the score, with the note as its detail.

    Raises:
        StoreUnavailableError: the run's file cannot be written.
    """
    run.scores.append(score.to_dict())
    outcome = f"{score.detail}. {run.outcome}" if score.detail else run.outcome
    session = AsyncSession(hood, run.task, member=run.member, skill=run.skill)
    session.episode_id = run.episode_id
    session.end(shortened(outcome))
    assert score.value is not None  # noqa: S101  feedback has a value
    session.score(score.name, score.value)
    await session.close()
    receipt = session.receipt or Receipt("skipped")
    run.receipts.append(receipt.to_dict())
    save_run(home, run)
    return receipt
