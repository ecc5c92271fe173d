"""`agenthood members`: who can be run, and who fits a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agenthood.cli.session import Session, pass_session
from agenthood.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from agenthood.runtime.members import MemberCatalog


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
            [{"name": o.name, "description": o.description, "source": str(o.source)} for o in catalog.members]
        )
    else:
        rows = [(one.name, str(one.source), one.description) for one in catalog.members]
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
