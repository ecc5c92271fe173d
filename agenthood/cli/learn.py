"""`agenthood learn`: episodes in, receipts out."""

from __future__ import annotations

import os
import shlex
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import click

from agenthood.cli.progress import progress
from agenthood.cli.session import Session, pass_session
from agenthood.cli.values import Number
from agenthood.errors import InvalidInputError, StoreUnavailableError

if TYPE_CHECKING:
    from datetime import datetime

    from agenthood import Hood
    from agenthood.cli.bulk import BulkLearner
    from agenthood.cli.output import Output
    from agenthood.records import Receipt

_OF_ONE_EPISODE = ("score", "outcome", "member", "skill", "timestamp")


class _Time(click.ParamType["datetime"]):
    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        from agenthood.formats import parse_time  # noqa: PLC0415  keeps --help light

        try:
            return parse_time(value)
        except InvalidInputError as error:
            self.fail(str(error), param, ctx)


class _File(click.Path):
    """A file of episodes; also says what to do with a text that was meant to be one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Check that it is there."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if not any(map(str.isspace, str(value))):
                raise
            self.fail(
                f"{error.message} If it is an episode: --episode {shlex.quote(str(value))}.", param, ctx
            )


@click.command(short_help="Learn episodes from JSON lines, or one --episode.")
@click.argument(
    "file", required=False, metavar="[FILE|-]", type=_File(exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--episode", metavar="TEXT", help="Learn this one episode instead of a file; needs --score.")
@click.option("--score", type=Number(0, 1), metavar="NUMBER", help="How well it went, in [0, 1].")
@click.option("--outcome", metavar="TEXT", help="How it ended.")
@click.option("--member", metavar="NAME", help="Who did it.")
@click.option("--skill", metavar="NAME", help="In which skill.")
@click.option("--timestamp", type=_Time(), metavar="TIME", help="When, in ISO 8601.  [default: now]")
@click.option(
    "--shared",
    is_flag=True,
    help="Where an agent has lessons of its own: learn for all agents of the project.",
)
@click.option(
    "--rejects",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the bad lines to FILE as they are, to correct and learn later.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 10_000),
    default=500,
    show_default=True,
    metavar="N",
    help="Lines to learn at once, at most 2000 of them; 1 learns every line as it arrives.",
)
@pass_session
def learn(  # noqa: PLR0913  the options of the command
    session: Session,
    /,
    file: str | None,
    *,
    episode: str | None,
    shared: bool,
    rejects: Path | None,
    batch: int,
    **of_one: object,
) -> int:
    """Learn the episodes in FILE, or from standard input if FILE is -, or one --episode.

    Every line is a JSON object. "episode" is needed, the rest is optional:

    \b
    {"episode": "...", "outcome": "...", "scores": {"tests": 1, "review": 0.9},
     "member": "...", "skill": "...", "timestamp": "2026-06-01T12:00:00Z"}

    "score": 0.9 is short for one score. A mean from 0.8 is a lesson that worked, below 0.4 one that
    failed; in between, or without a score, nothing is learned, which is counted as skipped. Bad lines are
    reported with their numbers, ten for each reason, and the exit code is 1; the other lines are learned.

    For a FILE the answer is how many lines were stored, merged, pending (learned, but not yet findable by
    meaning), skipped and rejected, one count per line with a tab after its name. For an --episode it is one
    line with tabs between what was done (one of those words), the lesson's id, kind and evidence, and the
    reason; what there is none of is left out. With --json there is one receipt per line read, in order.
    Where the store is down an --episode is pending, and learned later; so are the lines of a FILE where it is down
    from the start. Where it goes down in between, the command stops, and says which line to go on after.

    Ctrl-C lets the batch that runs end, and says which line to go on after. A process that is killed says
    nothing, but lines are learned in order, and many at once as a whole or not at all: by how much the episodes of
    `agenthood status` grew says how many lines are learned, not counting blank lines, bad ones and those without
    scores. Go on with `tail -n +N FILE | agenthood learn -`, where N is the first line that is not learned;
    learning the whole FILE again counts the others twice.
    """  # noqa: D301  click keeps the lines below a backspace as they are
    given = {name: value for name, value in of_one.items() if value is not None}
    if (file is None) == (episode is None):
        raise click.UsageError(
            "give FILE, - for standard input, or --episode TEXT" + (", not both." if file else ".")
        )
    if episode is not None:
        if rejects is not None:
            raise click.UsageError("--rejects is about the lines of a FILE, not about --episode.")
        if "score" not in given:
            raise click.UsageError("--episode needs --score NUMBER: how well it went, in [0, 1].")
        return _learn_one(session, episode, given, shared=shared)
    if given:
        raise click.UsageError(
            f"--{next(iter(given))} goes with --episode; in a FILE every line has its own."
        )
    assert file is not None  # noqa: S101  one of the two was given
    return _learn_file(session, file, rejects, batch, shared=shared)


def _learn_one(session: Session, episode: str, given: dict[str, object], *, shared: bool) -> int:
    from agenthood.cli.logs import Held  # noqa: PLC0415  keeps --help light

    output = session.output
    with session.open(create=True, soft=True) as hood, Held() as held:
        receipt = hood.learn(episode, shared=shared, **given)  # type: ignore[arg-type]  # click converted each of them
        if receipt.status in {"rejected", "pending"}:
            held.causes({receipt.reason})
    if output.json:
        output.document(receipt.to_dict())
    if receipt.status == "rejected":
        output.problem(f"rejected: {receipt.reason}")
        return 1
    if not output.json:
        output.line(_one_line(receipt))
    return 0


def _one_line(receipt: Receipt) -> str:
    parts = [
        receipt.id,
        receipt.kind,
        f"evidence {receipt.evidence}" if receipt.evidence is not None else None,
        receipt.reason,
    ]
    return "\t".join([receipt.status, *filter(None, parts)])


def _learn_file(session: Session, file: str, rejects: Path | None, batch: int, *, shared: bool) -> int:
    from agenthood.cli.bulk import NOTHING_LEARNED, BulkLearner, Source  # noqa: PLC0415  keeps --help light

    output = session.output
    with ExitStack() as stack:
        source = stack.enter_context(click.open_file(file, "rb"))
        kept = stack.enter_context(_open_rejects(rejects, source)) if rejects is not None else None
        try:
            hood = _opened(session, stack)
        except KeyboardInterrupt:
            output.problem(NOTHING_LEARNED)
            raise
        advance = stack.enter_context(progress("Learning", quiet=output.quiet or output.json or file == "-"))
        learner = BulkLearner(hood, output, rejects=kept, batch=batch, shared=shared)
        try:
            learner.run(Source(source, _size(source)), advance)
        finally:  # also after Ctrl-C: what was learned until then stays learned
            _summarise(learner, output)
    return 1 if learner.counts["rejected"] else 0


def _opened(session: Session, stack: ExitStack) -> Hood:
    """The store; one that is down is opened to queue what it cannot take, unless the settings say to fail closed.

    Raises:
        StoreUnavailableError: it is down, and nothing can be queued.
    """
    from agenthood.config import load_settings  # noqa: PLC0415  keeps --help light
    from agenthood.stores.factory import place_of  # noqa: PLC0415
    from agenthood.stores.places import check_parts_writable, is_writable  # noqa: PLC0415

    settings = load_settings(session.path)
    place = place_of(settings.store, session.path)
    try:
        if place is not None:
            check_parts_writable(place)
        return stack.enter_context(session.open(create=True))
    except StoreUnavailableError as error:
        if settings.fail == "closed" or not is_writable(session.path / settings.store.folder):
            raise
        hood = stack.enter_context(session.open(create=True, soft=True))
        session.output.warn(f"what is learned waits until the store can take it: {error}")
        return hood


def _summarise(learner: BulkLearner, output: Output) -> None:
    for warning in learner.warnings():
        output.warn(warning)
    if not output.json:
        output.facts([(status, f"{count:,}") for status, count in learner.counts.items()])


def _open_rejects(path: Path, source: IO[bytes]) -> BinaryIO:
    """Open the file for bad lines, now rather than when the first one is found.

    Raises:
        InvalidInputError: it would overwrite lines that may exist nowhere else.
    """
    if path.exists():
        if _same_file(path, source):
            raise InvalidInputError(f"--rejects {str(path)!r} is the file being learned: choose another name")
        if path.is_file() and path.stat().st_size:
            raise InvalidInputError(
                f"--rejects {str(path)!r} is not empty: learn what it holds first, or choose another name"
            )
    try:
        return path.open("wb")
    except OSError as error:
        raise InvalidInputError(f"cannot write --rejects {str(path)!r}: {error.strerror or error}") from error


def _same_file(path: Path, source: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(source.fileno()))
    except (OSError, AttributeError):  # a source that is no file on disk is not the same one
        return False


def _size(source: IO[bytes]) -> int | None:
    """Bytes of a regular file, None for pipes and the like."""
    try:
        found = os.fstat(source.fileno())
    except (OSError, AttributeError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
