"""`agenthood run`: an agent that uses what was learned and learns from how it went."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agenthood.cli.interrupts import CLOSING_SECONDS, run_to_its_end
from agenthood.cli.session import Session, pass_session
from agenthood.cli.showing import Show
from agenthood.cli.text import counted, shown, shown_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from typing import Any

    from agenthood.cli.output import Output
    from agenthood.config import Settings
    from agenthood.engine import AsyncHood
    from agenthood.runtime.chat.settings import ChatSettings
    from agenthood.runtime.evidence import Score
    from agenthood.runtime.loop import Tools
    from agenthood.runtime.members import Member
    from agenthood.runtime.run import Job

_OPENING_SECONDS = 15.0


class _Seconds(click.FloatRange):
    """A time; unlike a range it refuses `nan`, which no time is above or below."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Check the range, then that it is a number."""
        number = super().convert(value, param, ctx)
        if number != number:  # noqa: PLR0124  only NaN differs from itself
            self.fail(f"{value!r} is no number of seconds.", param, ctx)
        return number


_OPTIONS = (
    click.option("--skill", metavar="NAME", help="In which skill.  [default: the member's name]"),
    click.option("--provider", metavar="NAME", help="Ask this provider, and no other."),
    click.option("--model", metavar="NAME", help="Ask this model."),
    click.option(
        "--project",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        default=".",
        help="The directory to work in.  [default: this one]",
    ),
    click.option("--allow-write", is_flag=True, help="Let the agent write files in the project."),
    click.option("--allow-commands", is_flag=True, help="Let the agent run commands in the project."),
    click.option(
        "--check",
        "checks",
        multiple=True,
        metavar="COMMAND",
        help="Run COMMAND afterwards; its exit status is a score. May be repeated.",
    ),
    click.option(
        "--check-seconds",
        type=_Seconds(min=0, min_open=True),
        default=300,
        show_default=True,
        help="A check that takes longer has failed.",
    ),
    click.option("--check-before", is_flag=True, help="Also run the checks before, to tell what changed."),
    click.option(
        "--score",
        "scores",
        multiple=True,
        metavar="NAME=0.9",
        help="A score you give. May be repeated.",
    ),
    click.option("--judge", "judged", is_flag=True, help="Let the model judge even where there are checks."),
    click.option(
        "--no-lessons",
        is_flag=True,
        help="Show the agent no lessons; it is learned from all the same.",
    ),
    click.option(
        "--lessons",
        type=click.IntRange(min=1),
        default=6,
        show_default=True,
        help="Show at most this many lessons.",
    ),
    click.option(
        "--steps",
        type=click.IntRange(min=1),
        default=25,
        show_default=True,
        help="Most replies of the model.",
    ),
    click.option(
        "--tokens",
        type=click.IntRange(min=1),
        default=300_000,
        show_default=True,
        help="Most tokens in all.",
    ),
    click.option(
        "--seconds",
        type=_Seconds(min=1),
        default=900,
        show_default=True,
        help="Longest time.",
    ),
    click.option(
        "--dry-run", is_flag=True, help="Print the exact prompt with its lessons, and spend nothing."
    ),
)
"""The options of `agenthood run`, in the order of its help."""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(short_help="Run a member on a task, and learn from how it went.")
@click.argument("member")
@click.argument("task", nargs=-1, required=True)
@_options
@pass_session
def run(session: Session, /, member: str, task: tuple[str, ...], **options: Any) -> int:  # noqa: ANN401  one per option
    """Run MEMBER on TASK as an agent in this project.

    Lessons that bear on the task are put before it; afterwards its checks and scores decide what is learned.
    `agenthood members` lists the members. Without a terminal only the agent's last answer is printed.

    The exit code is the agent's own: 0 if it finished, 1 if it failed or a limit was reached, 130 if it was
    interrupted. Memory that is down, a check that fails or a judge that rambles does not change it.
    """
    from agenthood.cli.logs import logged_to  # noqa: PLC0415  keeps --help light
    from agenthood.runtime.members import find_members  # noqa: PLC0415

    job = _job(session, find_members(options["project"].resolve()).get(member), " ".join(task), options)
    settings = session.settings()
    chat = _chat_settings(session, job, options)
    if options["dry_run"]:
        with logged_to(session.output.warn):
            return run_to_its_end(_preview(session, job, settings, chat, _tools(job, options)))
    return _start(session, job, settings, chat, _tools(job, options))


def _job(session: Session, member: Member, task: str, options: dict[str, Any]) -> Job:
    from agenthood.errors import InvalidInputError  # noqa: PLC0415
    from agenthood.formats import unstorable_reason  # noqa: PLC0415
    from agenthood.runtime.loop import Limits  # noqa: PLC0415
    from agenthood.runtime.run import Job  # noqa: PLC0415

    if not task.strip():
        raise InvalidInputError("the task is empty: say what is to be done")
    if reason := unstorable_reason(task):
        raise InvalidInputError(f"the task cannot be sent: {reason}")
    return Job(
        project=options["project"].resolve(),
        home=session.path,
        member=member.name,
        instructions=member.prompt,
        task=task,
        skill=options["skill"],
        limits=Limits(steps=options["steps"], tokens=options["tokens"], seconds=options["seconds"]),
        checks=options["checks"],
        check_before=options["check_before"],
        check_seconds=options["check_seconds"],
        scores=_scores(options["scores"]),
        judged=options["judged"],
        lessons=0 if options["no_lessons"] else options["lessons"],
    )


def _scores(given: Sequence[str]) -> tuple[Score, ...]:
    from agenthood.errors import InvalidInputError  # noqa: PLC0415
    from agenthood.runtime.evidence import parse_scores  # noqa: PLC0415

    try:
        return tuple(parse_scores(given))
    except InvalidInputError as error:
        raise click.UsageError(f"--score: {error}.") from error


def _chat_settings(session: Session, job: Job, options: dict[str, Any]) -> ChatSettings:
    from agenthood.runtime.chat.settings import load_chat_settings  # noqa: PLC0415

    settings = load_chat_settings(
        session.path, project=job.project, provider=options["provider"], model=options["model"]
    )
    for warning in settings.warnings:
        session.output.warn(warning)
    return settings


def _tools(job: Job, options: dict[str, Any]) -> Tools:
    from agenthood.runtime.tools.toolbox import Toolbox  # noqa: PLC0415

    return Toolbox(job.project, allow_write=options["allow_write"], allow_commands=options["allow_commands"])


async def _preview(session: Session, job: Job, settings: Settings, chat: ChatSettings, tools: Tools) -> int:
    from agenthood.runtime.chat.factory import missing_part  # noqa: PLC0415
    from agenthood.runtime.run import preview  # noqa: PLC0415

    output = session.output
    if session.has_store:
        async with _memory(session, settings) as hood:
            prompt, looked = await preview(job, hood)
    else:
        prompt, looked = await preview(job, None)
    lessons = [lesson.to_dict() for lesson in looked.lessons] if looked is not None else []
    asked = next(iter(chat.providers), None)
    if output.json:
        output.document(
            {
                "system": prompt.system,
                "user": prompt.user,
                "tools": [tool.name for tool in tools.specs],
                "lessons": lessons,
                "provider": asked and asked.name,
                "model": asked and asked.model,
            }
        )
        return 0
    text = f"--- system ---\n{prompt.system}\n\n--- user ---\n{prompt.user}"
    # A file's prompt may hold anything: exact for programs, safe for people.
    output.line(shown_text(text) if sys.stdout.isatty() else text)
    to = f" to {asked.name} {asked.model}" if asked else ""
    output.note(shown(f"{counted(len(lessons), 'lesson')} shown; nothing was sent{to}"))
    for problem in filter(None, map(missing_part, chat.providers[:1])):
        output.warn(problem)
    return 0


def _start(session: Session, job: Job, settings: Settings, chat: ChatSettings, tools: Tools) -> int:
    """Run the job; its file is there from here on."""
    from agenthood.cli.logs import logged_to  # noqa: PLC0415
    from agenthood.runtime.chat.factory import create_chat_model  # noqa: PLC0415
    from agenthood.runtime.run import new_run, run_member  # noqa: PLC0415
    from agenthood.runtime.runs import recorded  # noqa: PLC0415

    model = create_chat_model(chat, on_notice=session.output.warn)
    begun = new_run(job)

    async def work() -> int:
        show = Show(session.output)
        try:
            with recorded(job.home, begun):
                async with _memory(session, settings) as hood:
                    await run_member(job, model, tools, hood=hood, listener=show.listener(), run=begun)
        finally:
            await _softly_closed(model.aclose)
            show.end(begun)
        return 0 if begun.status == "done" else 1

    with logged_to(session.output.warn):
        return run_to_its_end(work())


@asynccontextmanager
async def _memory(session: Session, settings: Settings) -> AsyncIterator[AsyncHood | None]:
    """The store, or None with a warning: a run without memory is still a run."""
    from agenthood import open_async  # noqa: PLC0415

    hood = open_async(session.path, settings=settings)
    try:
        yield hood if await _opened(hood, session.output) else None
    finally:
        await _softly_closed(hood.close)


async def _opened(hood: AsyncHood, output: Output) -> bool:
    import asyncio  # noqa: PLC0415  keeps --help light

    try:
        async with asyncio.timeout(_OPENING_SECONDS):
            await hood.start()
    except TimeoutError:
        output.warn(f"the run goes without memory: the store did not open within {_OPENING_SECONDS:g} s")
        return False
    except Exception as error:  # noqa: BLE001  whatever breaks in memory must not break the run
        output.warn(f"the run goes without memory: {error or repr(error)}")
        return False
    if hood.migration is not None and hood.migration.embedded:
        output.note(f"{counted(hood.migration.embedded, 'lesson')} made findable by meaning")
    return True


async def _softly_closed(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Close within a time; what does not close is left to the end of the process."""
    import asyncio  # noqa: PLC0415  keeps --help light
    import logging  # noqa: PLC0415

    try:
        async with asyncio.timeout(CLOSING_SECONDS):
            await close()
    except Exception:  # the run is over and recorded: its exit status stands
        logging.getLogger("agenthood").debug("closing failed", exc_info=True)
