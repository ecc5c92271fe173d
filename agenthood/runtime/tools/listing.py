"""The tool `list_files`, and which files the project has."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from agenthood.runtime.tools.base import ToolError, number, text, tool_spec
from agenthood.runtime.tools.environment import for_git
from agenthood.runtime.tools.git import command
from agenthood.runtime.tools.output import cut_end, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.runtime.tools.paths import Project

SECONDS = 10.0
MAX_FILES = 100_000
_SKIPPED = frozenset(
    {".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache", ".ruff_cache"}
)

LIST_FILES = tool_spec(
    "list_files",
    "List the files of the project, or of a folder in it. Files that git ignores are left out. Too many files are "
    "summed up by folder.",
    path=text("Folder, relative to the project directory.", default="."),
    pattern=text("Only files like this, such as '*.py' or 'src/**/test_*.py'.", longest=200, default=None),
    limit=number("How many lines to show.", default=200, most=2_000),
)


def list_files(project: Project, path: str, pattern: str | None, lines: int, *, limit: int) -> str:
    """Paths below `path`, one a line.

    Args:
        project: where to look.
        path: the folder.
        pattern: glob on the path from `path` on, or on the file's name; None for all.
        lines: how many to show.
        limit: bytes shown at most.

    Raises:
        ToolError: there is no such folder.
    """
    found, complete = files_below(project, path)
    if pattern is not None:
        found = [name for name in found if _matches(name, pattern)]
    if not found:
        like = f" like {pattern!r}" if pattern is not None else ""
        return f"no files{like} below {path!r:.200} (files that git ignores are not listed)"
    rows = _summed(found, lines)
    notes = [f"{len(found)} files"]
    if len(rows) > lines:
        notes.append(f"the first {lines} lines of {len(rows)} are shown: choose a folder or a pattern")
    if not complete:
        notes.append("there are more, which took too long to list: choose a folder")
    listing = "\n".join([*rows[:lines], f"[{'; '.join(notes)}]"])
    return cut_end(shown(listing), limit, "choose a folder or a pattern")


def files_below(project: Project, path: str) -> tuple[list[str], bool]:
    """Sorted paths, relative to the project, of the files in `path`, and whether these are all.

    Raises:
        ToolError: there is no such file or folder.
    """
    with project.place(path) as place:
        if place.status() is None:
            raise ToolError(f"{path!r:.200} is not there: list_files without a path shows what is")
        base = place.path
    found, complete = _from_git(project), True
    if not found:
        found, complete = _walked(project)
    if base != ".":
        found = [name for name in found if name == base or name.startswith(f"{base}/")]
    return sorted(found), complete


def _from_git(project: Project) -> list[str]:
    """What git tracks or would add; empty if this is no repository, or it ignores the whole project."""
    listed = _git_names(project, "--cached", "--others", "--exclude-standard")
    if listed:
        listed -= _git_names(project, "--deleted")
    return [name.removesuffix("/") for name in listed]


def _git_names(project: Project, *options: str) -> set[str]:
    try:
        done = subprocess.run(  # noqa: S603  a fixed program with fixed arguments
            command("ls-files", "-z", *options),
            cwd=project.root,
            env=for_git(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # no git, or a repository too slow for it: walk instead
        return set()
    if done.returncode != 0:
        return set()
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def _walked(project: Project) -> tuple[list[str], bool]:
    until = time.monotonic() + SECONDS
    found: list[str] = []
    for folder, folders, files, _ in os.fwalk(project.root, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        inner = os.path.relpath(folder, project.root)
        found.extend(os.path.normpath(os.path.join(inner, name)) for name in files)  # noqa: PTH118  many
        if len(found) > MAX_FILES or time.monotonic() > until:
            return found[:MAX_FILES], False
    return found, True


def _matches(name: str, pattern: str) -> bool:
    tried = {pattern, pattern.replace("**/", "")}  # `**/` also stands for no folder at all
    return any(fnmatchcase(name, one) or fnmatchcase(name.rpartition("/")[2], one) for one in tried)


def _summed(names: Sequence[str], lines: int) -> list[str]:
    """The names; if they are too many, folders with counts, as deep as fits, or at least the top level."""
    if len(names) <= lines:
        return list(names)
    rows: list[str] = []
    for depth in range(max(name.count("/") for name in names), 0, -1):
        counts = Counter(_at_depth(name, depth) for name in names)
        rows = [f"{row} ({n} files)" if row.endswith("/") else row for row, n in counts.items()]
        if len(rows) <= lines:
            break
    return rows or list(names)


def _at_depth(name: str, depth: int) -> str:
    parts = name.split("/")
    return name if len(parts) <= depth else "/".join(parts[:depth]) + "/"
