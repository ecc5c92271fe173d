"""The process behind `search_text`: prints matches as JSON lines as it finds them, then a summary."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenthood.redaction import redact
from agenthood.runtime.tools.base import ToolError
from agenthood.runtime.tools.denied import readable
from agenthood.runtime.tools.files import read_text
from agenthood.runtime.tools.listing import files_below
from agenthood.runtime.tools.output import without_keys
from agenthood.runtime.tools.paths import Project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_BYTES = 2_000_000
"""Larger files are not searched."""
_MEMORY = 2 * 1024**3
_SHOWN = 300
_BEFORE = 100  # characters shown before a match in a long line


def main(request: dict[str, Any]) -> None:
    """Search as `request` says: `root` and the arguments of `search_text`."""
    _limit_memory()
    try:
        pattern = _compiled(request)
        project = Project(Path(request["root"]))
        names, complete = files_below(project, request["path"])
    except ToolError as error:
        _print({"error": str(error)})
        return
    left = request["limit"]
    files = skipped = 0
    for name in names:
        try:
            lines = _lines(project, name)
        except (ToolError, OSError):  # binary, too large, gone meanwhile; counted below
            skipped += 1
            continue
        files += 1
        for number, line, match in _matches(lines, pattern):
            if left == 0:
                _print({"more": True})
                return
            left -= 1
            _print({"path": name, "line": number, "text": _around(line, match)})
    _print({"more": not complete, "files": files, "skipped": skipped})


def _compiled(request: dict[str, Any]) -> re.Pattern[str]:
    flags = re.IGNORECASE if request["ignore_case"] else 0
    if not request["regex"]:
        return re.compile(re.escape(request["pattern"]), flags)
    try:
        return re.compile(request["pattern"], flags)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        raise ToolError(
            f"{request['pattern']!r:.200} is no regular expression ({error}): correct it, or search without regex"
        ) from error


def _lines(project: Project, name: str) -> list[str]:
    with project.place(name) as place:
        if not readable(place.parts):
            return []
        text = read_text(place, limit=MAX_BYTES)
    return without_keys(text.replace("\r\n", "\n")).split("\n")


def _matches(lines: Sequence[str], pattern: re.Pattern[str]) -> Iterator[tuple[int, str, re.Match[str]]]:
    """Number, text and match of lines that match without their secrets: searching cannot guess these."""
    for index, line in enumerate(lines):
        if pattern.search(line):
            cleaned = _redacted(lines, index)
            match = pattern.search(cleaned)
            if match:
                yield index + 1, cleaned, match


def _redacted(lines: Sequence[str], index: int) -> str:
    """A line without secrets, also those that begin on the line before."""
    first = max(0, index - 1)
    around = [line[:10_000] for line in lines[first : index + 2]]
    cleaned = redact("\n".join(around)).split("\n")
    return cleaned[index - first] if len(cleaned) == len(around) else redact(lines[index][:10_000])


def _around(line: str, match: re.Match[str]) -> str:
    start = max(0, match.start() - _BEFORE) if len(line) > _SHOWN else 0
    part = line[start : start + _SHOWN]
    return ("..." if start else "") + part + ("..." if start + _SHOWN < len(line) else "")


def _limit_memory() -> None:
    import resource  # noqa: PLC0415  not on every system, and nothing else needs it

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


def _print(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()  # at the deadline nothing more would be


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
