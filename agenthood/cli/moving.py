"""`agenthood store copy` and `agenthood store check`: from one backend to another, and whether one can be relied on."""

from __future__ import annotations

from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING

import click

from agenthood.cli.interrupts import run_to_its_end
from agenthood.cli.progress import progress
from agenthood.cli.session import NoStoreError, Session, pass_session
from agenthood.cli.text import counted, shown
from agenthood.errors import ConfigError, StoreUnavailableError

if TYPE_CHECKING:
    from agenthood.cli.output import Output
    from agenthood.stores.copy_report import CopyReport
    from agenthood.stores.named import StorePlace
    from agenthood.stores.relocation import Relocation

_NAMED = 8
"""Scopes that a warning names."""


@click.group(short_help="Copy a store to another backend, check one.")
def store() -> None:
    """Copy everything from one store to another backend, and check that a store keeps its promises.

    A store is named by a backend (lancedb, sqlite, postgres, qdrant: the one that is configured, or lies in the
    directory), by a directory (DIR, sqlite:DIR), or by a URL (postgresql://..., http://... for Qdrant), to which
    ?namespace=NAME may be added.
    """


@store.command(short_help="Copy everything to another store.")
@click.option(
    "--from", "source", required=True, metavar="STORE", help="The store to copy, see agenthood store."
)
@click.option("--to", "target", required=True, metavar="STORE", help="The store to copy to.")
@click.option(
    "--tenant",
    help="Tenant of the directory's own records on the server.  [default: the configured one, else local]",
)
@click.option(
    "--project",
    help="Their project there.  [default: the configured one, else the directory's name]",
)
@pass_session
def copy(session: Session, /, source: str, target: str, tenant: str | None, project: str | None) -> int:
    """Copy every record of one store to another, all scopes, and compare the two afterwards.

    Records that are there and identical are not written again, so after Ctrl-C or a failure the same command goes
    on where it stopped. Records that are there and differ are overwritten; what only the target has stays, and is
    counted. Nothing is removed from the source, which others may use meanwhile; if one wrote to it, run it again.

    Between a directory and a server, the directory's own records become those of --tenant and --project, and the
    other way round. Files beside the store are not copied: signals (residual.json), waiting episodes (queue.jsonl)
    and uses not yet counted (uses.jsonl).

    Without a terminal: one collection and scope per line, with tabs between records, written, overwritten, already
    there, only in the target, checksum, collection and scope. The exit code is 1 if a record is missing or differs.
    """
    output = session.output
    settings = session.settings()
    from agenthood.learning.labels import labels  # noqa: PLC0415
    from agenthood.stores.named import between, find_place, home_of  # noqa: PLC0415  keeps --help light
    from agenthood.stores.relocation import Relocation  # noqa: PLC0415

    begin = find_place(source, settings.store, session.path)
    end = find_place(target, settings.store, session.path)
    _check_places(begin, end)
    direction = between(begin, end)
    if direction == "as it is":
        _refuse_names(tenant, project)
        relocation = Relocation()
    else:
        directory = begin if begin.embedded else end
        if directory.folder == session.path:  # the names under which the engine looks there
            tenant = settings.tenant if tenant is None else tenant
            project = (settings.project or None) if project is None else project
        relocation = Relocation(direction, home_of(directory, tenant, project), labels)
    _warn_of_waiting(output, begin)
    return run_to_its_end(_copy(output, begin, end, relocation))


def _check_places(begin: StorePlace, end: StorePlace) -> None:
    from agenthood.stores.factory import check_place, place_of  # noqa: PLC0415  keeps --help light

    if begin.missing:
        raise NoStoreError(f"there is no store to copy: {begin}; name the .agenthood directory itself")
    check_place(end.settings, end.folder)
    places = [place_of(one.settings, one.folder) for one in (begin, end)]
    same = places[0] is not None and places[1] is not None and places[0].resolve() == places[1].resolve()
    if same or (not begin.embedded and begin.settings == end.settings):
        raise ConfigError(f"both are the same store: {begin}")


def _refuse_names(tenant: str | None, project: str | None) -> None:
    if tenant is not None or project is not None:
        raise ConfigError(
            "--tenant and --project say what a directory's own records are on a server; "
            "between two of a kind every record keeps its scope: leave them out"
        )


def _warn_of_waiting(output: Output, begin: StorePlace) -> None:
    """What could not be learned yet is in no store."""
    own = begin.folder / begin.settings.folder
    files = [own / "queue.jsonl", *own.glob("scopes/*/queue.jsonl")]
    if begin.embedded and any(file.is_file() and file.stat().st_size for file in files):
        output.warn(
            f"episodes wait to be learned in {str(begin.folder)!r} and are not copied: "
            "let agenthood migrate learn them there, and copy again"
        )


async def _copy(output: Output, begin: StorePlace, end: StorePlace, relocation: Relocation) -> int:
    import asyncio  # noqa: PLC0415  keeps --help light

    from agenthood.cli.logs import logged_to  # noqa: PLC0415
    from agenthood.stores.copying import copy_store  # noqa: PLC0415

    output.note(f"copying {begin} to {end}" + (f", as {relocation.home}" if relocation.home else ""))
    source = begin.open()
    try:
        target = end.open()
        try:
            with logged_to(output.warn), progress("Copying", quiet=output.quiet or output.json) as advance:
                report = await copy_store(source, target, relocation=relocation, on_progress=advance)
        except (StoreUnavailableError, asyncio.CancelledError):
            output.problem("stopped: the same command goes on where this one was")
            raise
        finally:
            await target.close()
    finally:
        await source.close()
    if relocation.direction == "from a server":
        _warn_of_nothing_own(output, report, str(relocation.home))
    return _tell(output, report)


def _warn_of_nothing_own(output: Output, report: CopyReport, home: str) -> None:
    """Who uses the directory without naming a project would find no lesson in it."""
    if not report.scopes or home in report.scopes:
        return
    others = len(report.scopes) - _NAMED
    more = f" and {others:,} more" if others > 0 else ""
    output.warn(
        f"nothing on the server is of {home}, so the directory has no records of its own: there are those of "
        f"{', '.join(report.scopes[:_NAMED])}{more}; say with --tenant and --project whose are to be its own"
    )


def _tell(output: Output, report: CopyReport) -> int:
    if output.json:
        output.document(report.to_dict())
    else:
        output.table(
            (
                "records",
                "written",
                "overwritten",
                "already there",
                "only there",
                "checksum",
                "collection",
                "scope",
            ),
            [
                (
                    *(str(n) for n in (one.records, one.written, one.replaced, one.unchanged, one.extra)),
                    one.target[:16],
                    one.collection,
                    one.scope,
                )
                for one in report.layers
            ],
        )
    for one in report.layers:
        if one.problem:
            whose = f" of {one.scope}" if one.scope else ""
            output.problem(f"collection {one.collection!r}{whose}: {one.problem}")
    for refused in report.rejected:
        output.problem(f"record {refused.id!r:.120} was refused: {refused.reason}")
    if report.refused > len(report.rejected):
        output.problem(f"{report.refused - len(report.rejected):,} more records were refused")
    if report.changed:
        output.warn("the source was written to meanwhile: run it again to have the rest")
    records = counted(sum(one.records for one in report.layers), "record")
    if report.ok:
        output.note(f"{records} there, compared by count and checksum")
    return 0 if report.ok else 1


@store.command(short_help="Check that a store keeps its promises.")
@click.argument("place", required=False, metavar="[STORE]")
@pass_session
def check(session: Session, /, place: str | None) -> int:
    """Check that STORE, or the one that is configured, does what agenthood relies on; takes some seconds.

    Writes, reads, filters, searches and deletes in collections of its own, through two connections at once. They are
    removed at the end, whatever happens; no record of yours is read or written. In a server's namespace that was never
    used before, its empty bookkeeping stays. For a directory a store is made beside yours, and removed.

    Without a terminal: one check per line, with tabs between result (ok, failed), check, seconds and what was expected
    and found. The exit code is 1 if a check failed.
    """
    from agenthood.stores.named import StorePlace, find_place  # noqa: PLC0415  keeps --help light

    settings = session.settings().store
    found = find_place(place, settings, session.path) if place else StorePlace(settings, session.path)
    return run_to_its_end(_check(session.output, found))


async def _check(output: Output, place: StorePlace) -> int:
    from dataclasses import asdict, replace  # noqa: PLC0415  keeps --help light
    from pathlib import Path  # noqa: PLC0415
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from agenthood.cli.logs import logged_to  # noqa: PLC0415
    from agenthood.stores.check import check_store  # noqa: PLC0415

    name = str(place)
    output.note(f"checking {name}")
    checks = []
    with ExitStack() as stack:
        stack.enter_context(logged_to(output.warn))
        if place.embedded:
            folder = stack.enter_context(TemporaryDirectory(prefix="agenthood-check-", dir=place.nearest))
            place = replace(place, folder=Path(folder))
        async with aclosing(check_store(place.open)) as found:
            async for one in found:
                checks.append(one)
                if not output.json:
                    row = ("ok" if one.ok else "failed", one.name, f"{one.seconds:.2f}", one.found)
                    output.line("\t".join(map(shown, row)))
                    output.flush()
    ok = all(one.ok for one in checks)
    if output.json:
        output.document({"ok": ok, "store": name, "checks": [asdict(one) for one in checks]})
    else:
        output.note("all is well" if ok else f"failed: {', '.join(one.name for one in checks if not one.ok)}")
    return 0 if ok else 1
