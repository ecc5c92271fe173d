"""The tool `run_command`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.runtime.processes import run
from agenthood.runtime.tools.base import ToolError, ToolResult, text, tool_spec
from agenthood.runtime.tools.environment import without_secrets
from agenthood.runtime.tools.output import MARGIN, cut_middle, shown, without_keys

if TYPE_CHECKING:
    from agenthood.runtime.chat.base import ToolSpec
    from agenthood.runtime.tools.paths import Project

_ADVICE = "send it to a file and read that to see all"


def run_command_spec(most: float) -> ToolSpec:
    """The description of `run_command` where a command may take `most` seconds."""
    return tool_spec(
        "run_command",
        "Run a shell command in the project directory; answers with its exit status and output. It gets no input, "
        "and what it leaves running in the background is ended with it.",
        command=text("The command line.", longest=20_000),
        timeout={
            "type": "number",
            "description": f"Seconds it may take, at most {most:g}.",
            "default": most,
            "minimum": 0.1,
            "maximum": most,
        },
    )


async def run_command(project: Project, command: str, seconds: float, *, limit: int) -> ToolResult:
    """Run it; a status other than 0 is an answer, a time-out an error.

    Args:
        project: where.
        command: for the shell.
        seconds: how long it may take.
        limit: bytes of output shown at most.

    Raises:
        ToolError: it cannot be started.
    """
    try:
        done = await run(
            command,
            cwd=project.root,
            seconds=seconds,
            head=limit + MARGIN,
            tail=limit + MARGIN,
            environ=without_secrets(),
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"the command cannot be started ({error}): correct it") from error
    told = f"stopped after {seconds:g} s" if done.status is None else f"exit status {done.status}"
    # Where bytes were dropped, both sides reach further than what is shown of them.
    parts = [done.head, done.tail] if done.dropped else [done.head + done.tail]
    output = cut_middle("".join(map(_clean, parts)), limit, done.dropped, _ADVICE)
    return ToolResult(f"{told}\n{output}".rstrip(), is_error=done.status is None)


def _clean(output: bytes) -> str:
    return shown(without_keys(output.decode("utf-8", "replace")))
