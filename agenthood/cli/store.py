"""`agenthood status`, `forget`, `migrate` and `maintain`: look after a store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from agenthood.cli.progress import progress
from agenthood.cli.session import Session, pass_session
from agenthood.cli.text import counted, shown, size
from agenthood.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from agenthood import Hood
    from agenthood.records import Forgotten, MigrationReport, Status, Tidied

_SHOWN_BEFORE_FORGETTING = 20
_UPKEEP = {
    "rows": "rows",
    "fragments_before": "fragments before",
    "fragments_after": "after",
    "old_versions_removed": "old versions removed",
    "bytes_freed": "freed",
}


@click.command(short_help="Say what the store holds.")
@pass_session
def status(session: Session, /) -> None:
    """Say what the store holds, which embedder is active and what the learner has done.

    The trend is rising or falling where the mean score of the last ten judged episodes is more than 0.05 above or
    below that of the ten before, else stable; of fewer than twenty it compares the later half with the one before.
    """
    output = session.output
    with session.open(migrate=False) as hood:
        found = hood.status()
    if output.json:
        output.document(found.to_dict())
        return
    output.facts(_status_facts(found))
    if found.reason:
        output.warn(found.reason)


@click.command(short_help="Remove lessons for good.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--episodes", is_flag=True, help="Also remove the episodes that the lessons cite.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where there is no terminal to ask at.")
@pass_session
def forget(session: Session, /, ids: tuple[str, ...], *, episodes: bool, yes: bool) -> int:
    """Remove the lessons with these IDs for good, from the store and from every old version of it on disk.

    `agenthood lessons` shows the ids. An id that no lesson has is reported, the others are removed, and the
    exit code is 1.
    """
    output = session.output
    with session.open(migrate=False) as hood:
        if not yes and not _ask(hood, ids, session, episodes=episodes):
            return 1
        done = hood.forget(*ids, episodes=episodes)
    if yes:  # else it was said before asking
        _say_missing(done.missing, session)
    if output.json:
        output.document(done.to_dict())
    else:
        output.line(_forgotten(done))
    return 1 if done.missing else 0


@click.command(short_help="Make every lesson findable by meaning.")
@click.option("--drop-old", is_flag=True, help="Also remove the pattern indices of embedders used before.")
@pass_session
def migrate(session: Session, /, *, drop_old: bool) -> int:
    """Make every lesson findable by meaning under the active embedder.

    Needed after the embedder was changed or another program wrote to the store. Running it again embeds
    only what is missing. The exit code is 1 if something remains to be done.
    """
    from agenthood.cli.logs import Held  # noqa: PLC0415  keeps --help light

    output = session.output
    with (
        session.open(migrate=False) as hood,
        progress("Embedding lessons", quiet=output.quiet or output.json) as advance,
        Held() as held,
    ):
        report = hood.migrate(drop_old=drop_old, on_progress=advance)
        held.causes({report.reason})
    if output.json:
        output.document(report.to_dict())
    else:
        output.facts(_migration_facts(report))
    # A store that cannot be written keeps no note that all is done, but it is.
    if report.complete or (report.lessons and not report.remaining and not drop_old):
        return 0
    left = f"{counted(report.remaining, 'lesson')} left to do" if report.remaining else "not completed"
    output.problem(f"{left}: {report.reason or 'run it again'}")
    return 1


@click.command(short_help="Tidy the lessons and compact the store.")
@pass_session
def maintain(session: Session, /) -> int:
    """Tidy the lessons, compact the store, refresh its indices and remove old versions from disk.

    Well supported lessons are promoted, so that they fade more slowly; faded ones are demoted, and those that
    rest on one episode are archived in the end. None is removed: `agenthood restore` puts it back.

    Without a terminal: one collection per line, with tabs between rows, fragments before and after, old
    versions removed, bytes freed and name; each with its word, and what the backend does not tell is left out.
    """
    output = session.output
    with session.open(migrate=False) as hood:
        report = hood.maintain()
    if output.json:
        output.document(report.to_dict())
    else:
        output.table(*_upkeep_table(report.collections))
        output.note(_tidied(report.lessons))
        if report.migration is not None:
            output.facts(_migration_facts(report.migration))
    return 0 if report.migration is None or report.migration.complete else 1


def _tidied(done: Tidied) -> str:
    counts = {
        "promoted": done.promoted,
        "demoted": done.demoted,
        "archived": done.archived,
        "restored": done.restored,
        "uses counted": done.uses,
    }
    return "lessons: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _upkeep_table(
    collections: Mapping[str, Mapping[str, Any]],
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of what upkeep did, of what any collection has; to a pipe every cell says what it is."""
    words = {name: word for name, word in _UPKEEP.items() if any(name in one for one in collections.values())}
    headed = sys.stdout.isatty()
    rows = []
    for collection, found in collections.items():
        told = {name: str(found.get(name, "")) for name in words}
        if "bytes_freed" in found:
            told["bytes_freed"] = size(found["bytes_freed"])
        cells = told.values() if headed else [f"{text} {words[name]}" for name, text in told.items() if text]
        rows.append([*cells, collection])
    return [*words.values(), "collection"], rows


def _status_facts(found: Status) -> list[tuple[str, str]]:
    learner = found.learner
    calibrated = "calibrated" if found.calibration is not None else "raw"
    meaning = "by meaning" if found.semantic else "by wording only"
    return [
        ("store", found.path),
        ("backend", found.store),
        ("scope", found.scope or "the directory's own"),
        ("lessons that worked", f"{found.lessons.get('learned', 0):,}"),
        ("lessons that failed", f"{found.lessons.get('antipattern', 0):,}"),
        ("episodes", f"{found.episodes:,}"),
        ("findable", f"{found.indexed:,}"),
        ("pending", f"{found.pending:,}"),
        ("archived", f"{found.archived:,}"),
        ("queued", f"{found.queued:,}, since {found.queued_since}" if found.queued else "0"),
        ("embedding space", found.space or "none"),
        ("compares", f"{meaning}, scores {calibrated}"),
        ("judged", ", ".join(f"{name} {count:,}" for name, count in learner.bands.items()) or "nothing yet"),
        ("members", ", ".join(f"{name} {count:,}" for name, count in learner.members.items()) or "none yet"),
        ("trend", learner.trend),
        ("last update", learner.last_update or "never"),
    ]


def _migration_facts(report: MigrationReport) -> list[tuple[str, str]]:
    return [
        ("embedding space", report.space or "none"),
        ("lessons", f"{report.lessons:,}"),
        ("already findable", f"{report.present:,}"),
        ("embedded now", f"{report.embedded:,}"),
        ("remaining", f"{report.remaining:,}"),
        ("unusable rows left alone", f"{report.unusable:,}"),
        ("seconds", f"{report.seconds:.1f}"),
    ]


def _forgotten(done: Forgotten) -> str:
    parts = [counted(len(done.lessons), "lesson")]
    if done.episodes:
        parts.append(counted(len(done.episodes), "episode"))
    if done.signals:
        parts.append(counted(done.signals, "signal"))
    return f"forgot {', '.join(parts)}"


def _ask(hood: Hood, ids: Collection[str], session: Session, *, episodes: bool) -> bool:
    """Show what is about to go, and ask; False, unasked, if none of it is there.

    Raises:
        InvalidInputError: there is no terminal to ask at.
        click.Abort: the answer is no.
    """
    every = [*hood.lessons(), *hood.lessons(tier="archive")]
    named = {lesson.id: lesson for lesson in every if lesson.id in ids}
    if not named:
        _say_missing(ids, session)
        return False
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInputError(
            f"forgetting {counted(len(named), 'lesson')} cannot be undone: add --yes to do it"
        )
    _say_missing([id_ for id_ in ids if id_ not in named], session)
    for lesson in list(named.values())[:_SHOWN_BEFORE_FORGETTING]:
        click.echo(f"{shown(lesson.id)}  {shown(lesson.text, 100)}", err=True)
    if len(named) > _SHOWN_BEFORE_FORGETTING:
        click.echo(f"and {len(named) - _SHOWN_BEFORE_FORGETTING:,} more", err=True)
    what = counted(len(named), "lesson") + (" and the episodes cited" if episodes else "")
    click.confirm(f"Forget {what} for good?", abort=True, err=True)
    return True


def _say_missing(ids: Iterable[str], session: Session) -> None:
    for missing in dict.fromkeys(ids):
        session.output.problem(session.missing(missing))
