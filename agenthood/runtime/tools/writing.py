"""The tools `write_file` and `replace_in_file`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenthood.runtime.tools.base import ToolError, text, tool_spec
from agenthood.runtime.tools.files import read_bytes, replace_file
from agenthood.runtime.tools.output import shown

if TYPE_CHECKING:
    from agenthood.runtime.tools.paths import Place, Project

_LONGEST = 1_000_000
_REDACTED = re.compile(r"\[redacted:[a-z-]{1,40}\]")

WRITE_FILE = tool_spec(
    "write_file",
    "Write a whole text file, new or in place of the old. Missing folders are made. To change a part of a file use "
    "replace_in_file.",
    path=text("Path relative to the project directory."),
    content=text("The whole content.", longest=_LONGEST),
)
REPLACE_IN_FILE = tool_spec(
    "replace_in_file",
    "Replace one passage of a text file. The passage must occur exactly once.",
    path=text("Path relative to the project directory."),
    old=text("The passage as it is in the file, with enough around it to be the only one.", longest=_LONGEST),
    new=text("What takes its place; may be empty.", longest=_LONGEST),
)


def write_file(project: Project, path: str, content: str) -> str:
    """Write `content`; says what was done.

    Raises:
        ToolError: it may not or cannot be written there.
    """
    data = _encoded(content)
    with project.place(path, make_folders=True) as place:
        _check_no_redaction(place, content)
        existed = replace_file(place, data)
        return f"{'replaced' if existed else 'made'} {shown(place.path)} ({len(data)} bytes)"


def replace_in_file(project: Project, path: str, old: str, new: str) -> str:
    """Replace the one occurrence of `old`; says where it was.

    Raises:
        ToolError: it may not or cannot be written, or `old` does not occur exactly once.
    """
    if not old or old == new:
        raise ToolError("old must be a passage of the file, and new something else")
    with project.place(path) as place:
        content = _decoded(place)
        if "\r\n" in content and "\r" not in old:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        _check_once(content, old, path)
        start = content.index(old)
        replaced = content[:start] + new + content[start + len(old) :]
        replace_file(place, _encoded(replaced))
        line = content.count("\n", 0, start) + 1
        return f"replaced {len(old)} characters at line {line} of {shown(place.path)} by {len(new)}"


def _check_once(content: str, old: str, path: str) -> None:
    count = content.count(old)
    if count == 0:
        hint = " (secrets in it are not shown as they are)" if _REDACTED.search(old) else ""
        raise ToolError(
            f"old does not occur in {path!r:.200}{hint}: read the file and copy the passage exactly"
        )
    if count > 1:
        raise ToolError(
            f"old occurs {count} times in {path!r:.200}: add lines around it, so that it is the only one"
        )


def _check_no_redaction(place: Place, content: str) -> None:
    """Refuse to put the mark of a hidden secret in the place of the secret."""
    marks = set(_REDACTED.findall(content))
    if marks and place.status() is not None and not all(mark in _decoded(place) for mark in marks):
        raise ToolError(
            f"content holds {min(marks)!r} where {place.path!r:.200} has a secret: change the other parts with "
            "replace_in_file"
        )


def _decoded(place: Place) -> str:
    try:
        return read_bytes(place, limit=_LONGEST * 4).decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{place.path!r:.200} is not UTF-8 (byte {error.start}): leave it as it is"
        ) from error


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{content[error.start]!r} at character {error.start} cannot be written as UTF-8: leave it out"
        ) from error
