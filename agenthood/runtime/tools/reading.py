"""The tool `read_file`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.redaction import redact
from agenthood.runtime.tools.base import ToolError, number, text, tool_spec
from agenthood.runtime.tools.files import read_text
from agenthood.runtime.tools.output import MARGIN, cut_end, shown, without_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.runtime.tools.paths import Project

_AROUND = 20  # lines looked at beyond those asked for: a secret may begin or end there

READ_FILE = tool_spec(
    "read_file",
    "Read a text file of the project. The first line of the answer says which lines follow and how many there are.",
    path=text("Path relative to the project directory."),
    start_line=number("First line to read, from 1.", default=1, most=10_000_000),
    lines=number("How many lines to read.", default=400, most=10_000),
)


def read_file(project: Project, path: str, start_line: int, lines: int, *, limit: int) -> str:
    """Lines of a file under a heading.

    Args:
        project: where it is.
        path: which file.
        start_line: first line, from 1.
        lines: how many, at least 1.
        limit: bytes shown at most.

    Raises:
        ToolError: it cannot be read, or has no such line.
    """
    with project.place(path) as place:
        content, name = read_text(place), place.path
    every = without_keys(content.replace("\r\n", "\n")).removesuffix("\n").split("\n")
    if not content:
        return f"{shown(name)} is empty"
    if start_line > len(every):
        raise ToolError(f"{path!r:.200} has {len(every)} lines: choose a smaller start_line")
    asked = every[start_line - 1 : start_line - 1 + lines]
    wanted = _fitting(asked, limit)
    last = start_line - 1 + len(wanted)
    body = "\n".join(_redacted(every, start_line - 1, last))
    note = _note(wanted, body, limit)
    if len(wanted) < len(asked):
        note += (
            f"\n[cut: {len(asked) - len(wanted)} more lines were asked for; go on with start_line={last + 1}]"
        )
    return f"{shown(name)}, lines {start_line}-{last} of {len(every)}:\n{shown(cut_end(body, limit, _LONG))}{note}"


_LONG = "search_text shows parts of long lines"


def _fitting(lines: Sequence[str], limit: int) -> Sequence[str]:
    """As many of `lines` as fit in `limit` bytes, at least one."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > limit and count:
            return lines[:count]
    return lines


def _redacted(lines: Sequence[str], start: int, end: int) -> Sequence[str]:
    """Lines `start` to `end` without secrets, also those that begin or end outside."""
    first = max(0, start - _AROUND)
    around = [line[: 2 * MARGIN] for line in lines[first : end + _AROUND]]
    cleaned = redact("\n".join(around)).split("\n")
    if len(cleaned) != len(
        around
    ):  # a secret over several lines: line numbers count, so go without the context
        return redact("\n".join(around[start - first : end - first])).split("\n")
    return cleaned[start - first : end - first]


def _note(raw: Sequence[str], body: str, limit: int) -> str:
    if "[redacted:" in body[:limit] and "[redacted:" not in "\n".join(raw):
        return "\n[secrets are shown as [redacted:KIND]; leave those places as they are]"
    return ""
