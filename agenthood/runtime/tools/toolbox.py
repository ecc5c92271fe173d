"""The toolbox: which tools a member has, and one door to call them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agenthood.runtime.tools.arguments import checked
from agenthood.runtime.tools.base import Tool, ToolError, ToolResult
from agenthood.runtime.tools.commands import run_command, run_command_spec
from agenthood.runtime.tools.git import GIT_DIFF, GIT_LOG, GIT_SHOW, GIT_STATUS, Git
from agenthood.runtime.tools.listing import LIST_FILES, list_files
from agenthood.runtime.tools.output import shown
from agenthood.runtime.tools.paths import Project
from agenthood.runtime.tools.reading import READ_FILE, read_file
from agenthood.runtime.tools.searching import SEARCH_TEXT, search_text
from agenthood.runtime.tools.writing import REPLACE_IN_FILE, WRITE_FILE, replace_in_file, write_file
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agenthood.runtime.chat.base import ToolCall, ToolSpec
    from agenthood.runtime.tools.base import Arguments

MAX_OUTPUT = 20_000
COMMAND_SECONDS = 60.0
_FLAGS = {
    WRITE_FILE.name: "--allow-write",
    REPLACE_IN_FILE.name: "--allow-write",
    "run_command": "--allow-commands",
}


class Toolbox:
    """The tools of a run, bound to one project directory.

    Nothing outside the directory is read or written, except by `run_command`, which can do what the user can.

    Attributes:
        specs: the tools offered, in a fixed order.

    Args:
        project: the directory.
        allow_write: whether files may be written.
        allow_commands: whether shell commands may be run.
        command_timeout: seconds a command may take.
        max_output: bytes that a result shows, notes on what was cut aside.

    Raises:
        ConfigError: `project` is no directory.
    """

    def __init__(
        self,
        project: Path,
        *,
        allow_write: bool = False,
        allow_commands: bool = False,
        command_timeout: float = COMMAND_SECONDS,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        self._project = Project(project)
        self._limit = max_output
        tools = [*self._readers(), *self._history()]
        if allow_write:
            tools += self._writers()
        if allow_commands:
            tools.append(self._commands(command_timeout))
        self._tools = {tool.name: tool for tool in tools}
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools)

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool. What the model did wrong is told in the result, with what to do instead."""
        if call.error is not None:
            return ToolResult(shown(call.error), is_error=True)
        try:
            tool = self._tool(call.name)
            return await tool.function(checked(tool.spec, call.arguments))
        except ToolError as error:
            return ToolResult(shown(str(error)), is_error=True)
        except OSError as error:  # out of descriptors or processes: the run itself can go on
            reason = error.strerror or type(error).__name__
            return ToolResult(f"{call.name[:80]} failed ({reason}): try again", is_error=True)

    def _tool(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        if name in _FLAGS:
            raise ToolError(
                f"{name} is not allowed in this run; the user allows it with {_FLAGS[name]}: go on without it, and "
                "say at the end what you would have done"
            )
        raise ToolError(
            f"there is no tool {name!r:.80}{did_you_mean(name, self._tools)} There are: {', '.join(self._tools)}"
        )

    def _readers(self) -> Iterator[Tool]:
        project, limit = self._project, self._limit

        async def search(a: Arguments) -> ToolResult:
            return ToolResult(await search_text(project, dict(a), limit=limit))

        yield _threaded(
            READ_FILE, lambda a: read_file(project, a["path"], a["start_line"], a["lines"], limit=limit)
        )
        yield _threaded(
            LIST_FILES, lambda a: list_files(project, a["path"], a["pattern"], a["limit"], limit=limit)
        )
        yield Tool(SEARCH_TEXT, search)

    def _history(self) -> Iterator[Tool]:
        git = Git(self._project, limit=self._limit)

        async def status(_: Arguments) -> ToolResult:
            return ToolResult(await git.status())

        async def diff(a: Arguments) -> ToolResult:
            return ToolResult(await git.diff(a["path"], a["revision"], staged=a["staged"]))

        async def log(a: Arguments) -> ToolResult:
            return ToolResult(await git.log(a["path"], a["revision"], a["limit"]))

        async def show(a: Arguments) -> ToolResult:
            return ToolResult(await git.show(a["revision"], a["path"]))

        yield from map(Tool, (GIT_STATUS, GIT_DIFF, GIT_LOG, GIT_SHOW), (status, diff, log, show))

    def _writers(self) -> Iterator[Tool]:
        project = self._project
        yield _threaded(WRITE_FILE, lambda a: write_file(project, a["path"], a["content"]))
        yield _threaded(REPLACE_IN_FILE, lambda a: replace_in_file(project, a["path"], a["old"], a["new"]))

    def _commands(self, most: float) -> Tool:
        async def command(a: Arguments) -> ToolResult:
            return await run_command(self._project, a["command"], a["timeout"], limit=self._limit)

        return Tool(run_command_spec(most), command)


def _threaded(spec: ToolSpec, function: Callable[[Arguments], str]) -> Tool:
    """A tool whose work blocks and therefore goes to a worker thread."""

    async def call(arguments: Arguments) -> ToolResult:
        return ToolResult(await asyncio.to_thread(function, arguments))

    return Tool(spec, call)
