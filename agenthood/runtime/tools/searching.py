"""The tool `search_text`. The search is a process of its own, since a regular expression can take for ever."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenthood.runtime.processes import run
from agenthood.runtime.tools.base import ToolError, number, switch, text, tool_spec
from agenthood.runtime.tools.environment import without_secrets
from agenthood.runtime.tools.output import cut_end, shown

if TYPE_CHECKING:
    from agenthood.runtime.tools.paths import Project

SECONDS = 15.0
_WORKER = "agenthood.runtime.tools.search_worker"
_PACKAGES = Path(__file__).parents[3]
_LINE = 4_000  # bytes of a match at most, as JSON

SEARCH_TEXT = tool_spec(
    "search_text",
    "Find lines in the text files of the project; answers with path, line number and line. Files that git ignores "
    "are left out.",
    pattern=text("What to find: plain text or, with regex, a regular expression of Python.", longest=1_000),
    path=text("File or folder to search, relative to the project directory.", default="."),
    regex=switch("Whether pattern is a regular expression."),
    ignore_case=switch("Whether case does not matter."),
    limit=number("How many lines to show.", default=50, most=500),
)


async def search_text(
    project: Project, arguments: dict[str, Any], *, limit: int, seconds: float = SECONDS
) -> str:
    """Matching lines, one a line.

    Args:
        project: where to search.
        arguments: those of the tool.
        limit: bytes shown at most.
        seconds: how long the search may take; what was found by then is shown.

    Raises:
        ToolError: an empty pattern, no such path, or a regular expression that cannot be used.
    """
    if not arguments["pattern"]:
        raise ToolError("pattern is empty: list_files shows which files there are")
    done = await run(
        [sys.executable, "-P", "-m", _WORKER, json.dumps({"root": str(project.root), **arguments})],
        cwd=project.root,
        seconds=seconds,
        head=(arguments["limit"] + 2) * _LINE,
        tail=0,
        environ=_environment(),
        errors=False,
    )
    rows = [json.loads(line) for line in done.head.split(b"\n")[:-1]]  # a last line that was cut off is none
    hits = [row for row in rows if "line" in row]
    end = next((row for row in rows if "line" not in row), None)
    if end is not None and "error" in end:
        raise ToolError(end["error"])
    if end is None and done.status is not None:
        raise ToolError("the search failed: try a simpler pattern or one folder")
    lines = [f"{row['path']}:{row['line']}: {row['text']}" for row in hits]
    listing = "\n".join([*lines, f"[{_summary(len(hits), end, seconds)}]"])
    return cut_end(shown(listing), limit, "choose a folder or a narrower pattern")


def _summary(hits: int, end: dict[str, Any] | None, seconds: float) -> str:
    found = f"{hits} lines found" if hits else "nothing found"
    if end is None:
        return f"{found}; stopped after {seconds:g} s: choose a folder or a simpler pattern"
    if end["more"]:
        return f"the first {hits} lines; there are more: choose a folder or a narrower pattern"
    skipped = f"; {end['skipped']} files were binary, too large or unreadable" if end["skipped"] else ""
    return f"{found} in {end['files']} files{skipped}"


def _environment() -> dict[str, str]:
    """With the package where this one was loaded from, also if that is no installation."""
    inherited = os.environ.get("PYTHONPATH", "")
    paths = os.pathsep.join(filter(None, [str(_PACKAGES), inherited]))
    return without_secrets() | {"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"}
