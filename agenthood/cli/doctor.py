"""`agenthood doctor`: what is configured, what is really active, and whether it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agenthood.cli.session import Session, pass_session

if TYPE_CHECKING:
    from agenthood.cli.check import Check


@click.command(short_help="Check settings, embedder, store and disk.")
@pass_session
def doctor(session: Session, /) -> int:
    """Check settings, embedder, store, permissions and disk; says what is wrong and what to do.

    One sentence is really embedded with the embedder that is set. The store is opened and asked for its version, its
    collections with their indices and the rows of each tenant, and for what waits to be learned; one that does not
    answer is given up on. Keys are only said to be set or not.
    Without a terminal: one check per line, with tabs between result (ok, warning, failed), name and what was
    found. The exit code is 1 if a check failed.
    """
    from agenthood.cli.checks import all_checks  # noqa: PLC0415  only this command needs them

    checks = []
    rows = []
    for check in all_checks(session.path):
        checks.append(check)
        rows.append((check.result, check.name, check.found))
    ok = not any(check.result == "failed" for check in checks)
    if session.output.json:
        session.output.document({"ok": ok, "checks": [check.to_dict() for check in checks]})
    else:
        session.output.table(("result", "check", "found"), rows)
        session.output.note(_verdict(checks))
    return 0 if ok else 1


def _verdict(checks: list[Check]) -> str:
    failed, warned = (
        dict.fromkeys(check.name for check in checks if check.result == result)  # each once
        for result in ("failed", "warning")
    )
    if failed:
        return f"failed: {', '.join(failed)}"
    return f"works; look at: {', '.join(warned)}" if warned else "all is well"
