"""`agenthood export` and `agenthood import`: lessons and episodes as JSON lines, out and in."""

from __future__ import annotations

import io
import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from agenthood.cli.progress import progress
from agenthood.cli.session import Session, pass_session
from agenthood.cli.text import counted
from agenthood.files import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command(short_help="Write lessons and episodes as JSON lines.")
@click.argument("file", default="-", metavar="[FILE|-]", type=click.Path(dir_okay=False, allow_dash=True))
@pass_session
def export(session: Session, /, file: str) -> None:
    """Write all lessons and episodes as JSON lines to FILE, or to standard output.

    FILE is replaced only once everything is written, so a failed export leaves the old one as it was. The
    result can be imported into another store, and read by any program.
    """
    output = session.output
    with ExitStack() as stack:
        # The store first: without one, an existing file must not be touched.
        hood = stack.enter_context(session.open(migrate=False))
        stack.enter_context(progress("Exporting", quiet=output.quiet))
        target = stack.enter_context(_standard_output() if file == "-" else _replaced(Path(file)))
        written = hood.export(target)
    if file != "-" and output.json:
        output.document({"file": file, "lines": written})
    else:
        output.note(f"exported {counted(written, 'line')}")


@click.command("import", short_help="Read what export wrote.")
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@pass_session
def import_(session: Session, /, file: str) -> int:
    """Read what `agenthood export` wrote from FILE, or from standard input if FILE is -.

    What is already there is skipped, and lessons that are there with other evidence are merged, so importing
    twice does no harm. Bad lines are reported with their numbers, ten for each reason, and the exit code is 1;
    the rest is imported.
    """
    from agenthood.cli.importing import Importer  # noqa: PLC0415  keeps --help light

    output = session.output
    with (
        click.open_file(file, "rb") as source,
        session.open(create=True, migrate=False) as hood,
        progress("Importing", quiet=output.quiet or file == "-") as advance,
    ):
        importer = Importer(hood, output)
        importer.run(source, advance)
    done = importer.done
    if output.json:
        output.document(done.to_dict())
    else:
        output.facts(
            [
                ("stored", f"{done.stored:,}"),
                ("merged", f"{done.merged:,}"),
                ("skipped", f"{done.skipped:,}"),
                ("rejected", f"{len(done.rejected):,}"),
            ]
        )
    return 1 if done.rejected else 0


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Standard output as UTF-8 with plain newlines, whatever the terminal speaks."""
    buffer: BinaryIO = sys.stdout.buffer
    sys.stdout.flush()
    stream = io.TextIOWrapper(buffer, encoding="utf-8", newline="\n", write_through=True)
    try:
        yield stream
        stream.flush()
    finally:
        stream.detach()


@contextmanager
def _replaced(path: Path) -> Iterator[TextIO]:
    """A text file to write, which takes the place of `path` if all goes well.

    Raises:
        StoreUnavailableError: it cannot be written; names `path`, not the file that was to take its place.
    """
    if path.exists() and not path.is_file():  # a pipe or a device is written to, not replaced
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except OSError as error:
        raise unavailable("write", path, error) from error
    finally:
        temporary.unlink(missing_ok=True)
