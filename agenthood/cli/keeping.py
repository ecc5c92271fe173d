"""`agenthood pin`, `unpin`, `archive` and `restore`: decide what upkeep would otherwise decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agenthood.cli.session import Session, pass_session
from agenthood.cli.text import counted

if TYPE_CHECKING:
    from agenthood.records import Changed

_IDS = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.command(short_help="Keep lessons from fading.")
@_IDS
@pass_session
def pin(session: Session, /, ids: tuple[str, ...]) -> int:
    """Keep the lessons with these IDS as they are: they do not fade, and maintain never archives them.

    A lesson in the archive is restored first. `agenthood lessons` shows the ids. An id that no lesson has is
    reported, the others are pinned, and the exit code is 1.
    """
    with session.open(migrate=False) as hood:
        return _report(hood.pin(*ids), "pinned", session)


@click.command(short_help="Let lessons fade again.")
@_IDS
@pass_session
def unpin(session: Session, /, ids: tuple[str, ...]) -> int:
    """Let the lessons with these IDS fade and be archived again, as those that were never pinned."""
    with session.open(migrate=False) as hood:
        return _report(hood.unpin(*ids), "unpinned", session)


@click.command(short_help="Take lessons out of look-ups.")
@_IDS
@pass_session
def archive(session: Session, /, ids: tuple[str, ...]) -> int:
    """Take the lessons with these IDS out of look-ups. They stay in the store with all their evidence.

    `agenthood lessons --tier archive` lists them, `agenthood restore` puts them back, and so does learning the same
    again.
    """
    with session.open(migrate=False) as hood:
        return _report(hood.archive(*ids), "archived", session)


@click.command(short_help="Put archived lessons back.")
@_IDS
@pass_session
def restore(session: Session, /, ids: tuple[str, ...]) -> int:
    """Put the archived lessons with these IDS back into look-ups."""
    with session.open(migrate=False) as hood:
        return _report(hood.restore(*ids), "restored", session)


def _report(done: Changed, what: str, session: Session) -> int:
    output = session.output
    for missing in done.missing:
        output.problem(
            session.missing(missing, "see agenthood lessons, and agenthood lessons --tier archive")
        )
    if done.pending:
        output.warn(
            f"{counted(done.pending, 'lesson')} cannot be found by meaning yet ({done.reason}): run agenthood migrate"
        )
    if output.json:
        output.document(done.to_dict())
    else:
        same = f", {len(done.unchanged):,} already" if done.unchanged else ""
        output.line(f"{what} {counted(len(done.lessons), 'lesson')}{same}")
    return 1 if done.missing else 0
