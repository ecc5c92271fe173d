"""`agenthood feedback`: say later how a run went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agenthood.cli.session import Session, pass_session
from agenthood.cli.showing import learned
from agenthood.cli.text import shown
from agenthood.cli.values import Number

if TYPE_CHECKING:
    from agenthood.records import Receipt


@click.command(short_help="Say later how a run went, and learn from it.")
@click.argument("run_id", metavar="RUN_ID")
@click.option("--score", type=Number(0, 1), required=True, metavar="NUMBER", help="How it went, from 0 to 1.")
@click.option("--note", default="", metavar="TEXT", help="What was good or wrong about it.")
@pass_session
def feedback(session: Session, /, run_id: str, *, score: float, note: str) -> int:
    """Say later how the run RUN_ID went; the start of its id is enough.

    The score is learned from by itself: what a person says afterwards outweighs what the run thought of itself.
    """
    import asyncio  # noqa: PLC0415  keeps --help light

    from agenthood.cli.logs import logged_to  # noqa: PLC0415
    from agenthood.redaction import redact  # noqa: PLC0415
    from agenthood.runtime.evidence import Score  # noqa: PLC0415
    from agenthood.runtime.run import give_feedback  # noqa: PLC0415
    from agenthood.runtime.runs import load_run  # noqa: PLC0415

    found = load_run(session.path, run_id)

    said = Score("feedback", score, "feedback", redact(note))
    settings = session.settings()

    async def give() -> Receipt:
        from agenthood import open_async  # noqa: PLC0415

        async with open_async(session.path, settings=settings) as hood:
            return await give_feedback(hood, session.path, found, said)

    with logged_to(session.output.warn):
        receipt = asyncio.run(give()).to_dict()
    if session.output.json:
        session.output.document(receipt)
    else:
        session.output.line(shown(learned(receipt)))
    return 1 if receipt["status"] == "rejected" else 0
