"""`agenthood run`, `members` and `feedback`: an agent that uses what was learned and learns from how it went."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agenthood.cli.session import Session, pass_session
from agenthood.cli.text import counted, shown, shown_text
from agenthood.errors import AgenthoodError, EmbeddingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import Any

    from agenthood.cli.output import Output
    from agenthood.engine import AsyncHood
    from agenthood.runtime.chat.base import ToolCall
    from agenthood.runtime.members import Member, MemberCatalog
    from agenthood.runtime.run import Job, Run

_OPENING_SECONDS = 15.0


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `agenthood run`, in the order of its help."""
    for option in reversed(
        (
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
                "--check-before", is_flag=True, help="Also run the checks before, to tell what changed."
            ),
            click.option(
                "--score",
                "scores",
                multiple=True,
                metavar="NAME=0.9",
                help="A score you give. May be repeated.",
            ),
            click.option(
                "--judge", "judged", is_flag=True, help="Let the model judge even where there are checks."
            ),
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
                type=click.FloatRange(min=1),
                default=900,
                show_default=True,
                help="Longest time.",
            ),
            click.option(
                "--dry-run", is_flag=True, help="Print the exact prompt with its lessons, and spend nothing."
            ),
        )
    ):
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
    import asyncio  # noqa: PLC0415  keeps --help light

    from agenthood.runtime.members import find_members  # noqa: PLC0415  keeps --help light

    job = _job(session, find_members(options["project"].resolve()).get(member), " ".join(task), options)
    work = _preview(session, job) if options["dry_run"] else _run(session, job, options)
    return asyncio.run(work)


def _job(session: Session, member: Member, task: str, options: dict[str, Any]) -> Job:
    from agenthood.errors import InvalidInputError  # noqa: PLC0415
    from agenthood.runtime.evidence import parse_scores  # noqa: PLC0415
    from agenthood.runtime.loop import Limits  # noqa: PLC0415
    from agenthood.runtime.run import Job  # noqa: PLC0415

    if not task.strip():
        raise InvalidInputError("the task is empty: say what is to be done")
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
        scores=tuple(parse_scores(options["scores"])),
        judged=options["judged"],
        lessons=0 if options["no_lessons"] else options["lessons"],
    )


async def _preview(session: Session, job: Job) -> int:
    from agenthood.runtime.run import preview  # noqa: PLC0415

    output = session.output
    async with _memory(session, output) as hood:
        prompt, looked = await preview(job, hood)
    lessons = [lesson.to_dict() for lesson in looked.lessons] if looked is not None else []
    if output.json:
        output.document({"system": prompt.system, "user": prompt.user, "lessons": lessons})
        return 0
    output.line(f"--- system ---\n{prompt.system}\n\n--- user ---\n{prompt.user}")
    output.note(f"{counted(len(lessons), 'lesson')} shown; nothing was sent")
    return 0


async def _run(session: Session, job: Job, options: dict[str, Any]) -> int:
    from agenthood.runtime.chat.factory import create_chat_model  # noqa: PLC0415
    from agenthood.runtime.chat.settings import load_chat_settings  # noqa: PLC0415
    from agenthood.runtime.run import run_member  # noqa: PLC0415
    from agenthood.runtime.tools.toolbox import Toolbox  # noqa: PLC0415

    output = session.output
    settings = load_chat_settings(
        session.path, project=job.project, provider=options["provider"], model=options["model"]
    )
    for warning in settings.warnings:
        output.warn(warning)
    model = create_chat_model(settings, on_notice=output.warn)
    tools = Toolbox(job.project, allow_write=options["allow_write"], allow_commands=options["allow_commands"])
    show = _Show(output)
    try:
        async with _memory(session, output) as hood:
            done = await run_member(job, model, tools, hood=hood, listener=show.listener())
    finally:
        await model.aclose()
    show.end(done)
    return 0 if done.status == "done" else 1


@asynccontextmanager
async def _memory(session: Session, output: Output) -> AsyncIterator[AsyncHood | None]:
    """The store, or None with a warning: a run without memory is still a run."""
    import asyncio  # noqa: PLC0415  keeps --help light

    from agenthood import open_async  # noqa: PLC0415
    from agenthood.cli.logs import logged_to  # noqa: PLC0415

    with logged_to(output.warn):
        hood = open_async(session.path, settings=session.settings())
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                await hood.start()
        except (AgenthoodError, TimeoutError) as error:
            output.warn(f"the run goes without memory: {error or 'the store did not open in time'}")
            await hood.close()
            yield None
            return
        if hood.migration is not None and hood.migration.embedded:
            output.note(f"{counted(hood.migration.embedded, 'lesson')} made findable by meaning")
        try:
            yield hood
        finally:
            await hood.close()


class _Show:
    """Shows a run as it goes: text and tool calls at a terminal, the answer alone to a pipe."""

    def __init__(self, output: Output) -> None:
        import sys  # noqa: PLC0415

        self._output = output
        self._live = sys.stdout.isatty() and not output.json
        self._open_line = False

    def listener(self) -> Any:  # noqa: ANN401  a Listener
        """Who the run tells what happens."""
        from agenthood.runtime.loop import Listener  # noqa: PLC0415

        return Listener(text=self._text, tool=self._tool) if self._live else Listener()

    def _text(self, piece: str) -> None:
        self._output.piece(piece)
        self._open_line = not piece.endswith("\n")

    def _tool(self, call: ToolCall) -> None:
        self._break()
        arguments = ", ".join(f"{name}={value!r:.60}" for name, value in call.arguments.items())
        self._output.note(shown(f"  {call.name}({arguments})"))

    def _break(self) -> None:
        if self._open_line:
            self._output.piece("\n")
            self._open_line = False

    def end(self, done: Run) -> None:
        """Print the answer, unless it was seen already, and what was learned."""
        self._break()
        if self._output.json:
            self._output.document(done.to_dict())
            return
        if not self._live:
            self._output.line(shown_text(done.answer))
        for line in _summary(done):
            self._output.note(shown(line))


def _summary(done: Run) -> list[str]:
    cost = "" if done.cost is None else f", ${done.cost:.4f}"
    tokens = f"{done.input_tokens} + {done.output_tokens} tokens"
    steps, lessons = counted(done.steps, "step"), counted(len(done.lessons), "lesson")
    lines = [f"run {done.id}: {done.status}, {steps}, {tokens}{cost}, {done.seconds:.1f} s, {lessons} shown"]
    lines += [f"  {score['name']}: {_told(score)} ({score['source']})" for score in done.scores]
    lines += [f"  {_learned(receipt)}" for receipt in done.receipts]
    return [*lines, *(f"  {note}" for note in done.notes)]


def _told(score: dict[str, Any]) -> str:
    if score["value"] is None:
        return str(score["detail"])
    return f"{score['value']:g}, {score['detail']}" if score["detail"] else f"{score['value']:g}"


def _learned(receipt: dict[str, Any]) -> str:
    what = f"{receipt['kind']} " if receipt["kind"] else ""
    count = f", evidence {receipt['evidence']}" if receipt["evidence"] else ""
    why = f": {receipt['reason']}" if receipt["reason"] else ""
    return f"{what}lesson {receipt['status']}{count}{why}"


@click.command(short_help="List the members, or propose some for a task.")
@click.option("--detect", metavar="TASK", help="Propose the members that fit TASK, best first.")
@click.option(
    "--project",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The directory to look from.  [default: this one]",
)
@pass_session
def members(session: Session, /, *, detect: str | None, project: Path) -> int:
    """List the members that can be run, and where they come from.

    A member is a SKILL.md in `.agenthood/members/*/`, `.claude/skills/*/`, `skills/*/` or `docs/members/*/`, the
    nearest first; four are built in. The exit code is 1 if a file was found that is no member.
    """
    from agenthood.runtime.members import find_members  # noqa: PLC0415

    output = session.output
    catalog = find_members(project.resolve())
    for problem in catalog.problems:
        output.problem(f"{problem.path}: {problem.reason}")
    if detect is not None:
        _propose(session, catalog, detect)
    elif output.json:
        output.document(
            [
                {"name": o.name, "description": o.description, "source": str(o.source)}
                for o in catalog.members.values()
            ]
        )
    else:
        rows = [(one.name, str(one.source), one.description) for one in catalog.members.values()]
        output.table(("member", "from", "what for"), rows)
    return 1 if catalog.problems else 0


def _propose(session: Session, catalog: MemberCatalog, task: str) -> None:
    import asyncio  # noqa: PLC0415  keeps --help light

    from agenthood.embedding import create_embedder  # noqa: PLC0415
    from agenthood.runtime.detect import propose  # noqa: PLC0415

    async def found() -> Sequence[Any]:
        try:
            embedder = await create_embedder(session.settings().embedder)
        except EmbeddingError as error:
            session.output.warn(f"only words are compared: {error}")
            return await propose(task, catalog.members)
        try:
            return await propose(task, catalog.members, embedder=embedder)
        finally:
            await embedder.aclose()

    proposals = asyncio.run(found())
    if session.output.json:
        session.output.document(
            [{"name": one.member.name, "score": one.score, "why": one.why} for one in proposals]
        )
        return
    rows = [(one.member.name, f"{one.score:.2f}", one.why) for one in proposals]
    session.output.table(("member", "score", "why"), rows)


@click.command(short_help="Say later how a run went, and learn from it.")
@click.argument("run_id", metavar="RUN_ID")
@click.option(
    "--score", type=click.FloatRange(0, 1), required=True, metavar="NUMBER", help="How it went, from 0 to 1."
)
@click.option("--note", default="", metavar="TEXT", help="What was good or wrong about it.")
@pass_session
def feedback(session: Session, /, run_id: str, *, score: float, note: str) -> int:
    """Say later how the run RUN_ID went; the start of its id is enough.

    The score is learned from by itself: what a person says afterwards outweighs what the run thought of itself.
    """
    import asyncio  # noqa: PLC0415  keeps --help light

    from agenthood.redaction import redact  # noqa: PLC0415
    from agenthood.runtime.evidence import Score  # noqa: PLC0415
    from agenthood.runtime.run import give_feedback  # noqa: PLC0415
    from agenthood.runtime.runs import load_run  # noqa: PLC0415

    found = load_run(session.path, run_id)

    async def give() -> Any:  # noqa: ANN401  a Receipt
        from agenthood import open_async  # noqa: PLC0415

        async with open_async(session.path, settings=session.settings()) as hood:
            return await give_feedback(
                hood, session.path, found, Score("feedback", score, "feedback", redact(note))
            )

    receipt = asyncio.run(give()).to_dict()
    if session.output.json:
        session.output.document(receipt)
    else:
        session.output.line(_learned(receipt))
    return 1 if receipt["status"] == "rejected" else 0
