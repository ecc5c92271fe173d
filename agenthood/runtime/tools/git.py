"""The tools that read the history: git with fixed options, no shell, and nothing of the repository's own run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenthood.runtime.processes import run
from agenthood.runtime.tools.base import ToolError, number, switch, text, tool_spec
from agenthood.runtime.tools.denied import GIT_EXCLUDES, check_readable
from agenthood.runtime.tools.environment import for_git
from agenthood.runtime.tools.output import MARGIN, cut_end, shown, without_keys
from agenthood.runtime.tools.paths import outside

if TYPE_CHECKING:
    from agenthood.runtime.processes import Finished
    from agenthood.runtime.tools.paths import Project

SECONDS = 20.0
# What a repository's own configuration could have run or fetched, or what would change the output's form.
_SETTINGS = (
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "diff.external=",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "log.showSignature=false",
    "safe.bareRepository=explicit",  # a folder that looks like a repository is none: its settings could be the model's
    "status.relativePaths=true",
)
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=dirty")
# No `:`, which would name a file or search for a message; `..` is a range and split off before.
_REVISION = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_./@{}^~+-]{0,199}")
_RANGE = re.compile(r"(\.{2,3})")

_PATH = text("Only this file or folder, relative to the project directory.", default=None)
GIT_STATUS = tool_spec("git_status", "Show the branch and which files are changed, staged or new.")
GIT_DIFF = tool_spec(
    "git_diff",
    "Show changes as a patch: those not staged yet, the staged ones, or those since or between revisions.",
    path=_PATH,
    staged=switch("Show what is staged instead."),
    revision=text(
        "A revision to compare with, such as 'HEAD~3', or a range 'main..HEAD'.", longest=420, default=None
    ),
)
GIT_LOG = tool_spec(
    "git_log",
    "List commits, the newest first: short hash, date, author, subject.",
    path=_PATH,
    revision=text("Where to start, such as 'main', or a range 'v1.0..HEAD'.", longest=420, default=None),
    limit=number("How many commits.", default=20, most=500),
)
GIT_SHOW = tool_spec(
    "git_show",
    "Show a commit with its message and changes or, with a path, that file as it was at the commit.",
    revision=text("The commit, such as 'HEAD~1' or a hash.", longest=200),
    path=text("The file to show as it was, relative to the project directory.", default=None),
)


def command(*arguments: str) -> list[str]:
    """A git command line on which nothing of the repository's own is run."""
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    return ["git", "--no-pager", "--no-optional-locks", *settings, *arguments]


class Git:
    """The history of a project.

    Args:
        project: the project; it may be a part of a repository, and then only that part is shown.
        limit: bytes shown at most.
    """

    def __init__(self, project: Project, *, limit: int) -> None:
        self._project = project
        self._limit = limit

    async def status(self) -> str:
        """Branch and changed files.

        Raises:
            ToolError: this is no repository, or git failed; so for the others.
        """
        return await self._show("status", "--short", "--branch", "--ignore-submodules=dirty", "--", ".")

    async def diff(self, path: str | None, revision: str | None, *, staged: bool) -> str:
        """Changes as a patch."""
        revisions = await self._range(revision) if revision else []
        cached = ["--cached"] if staged else []
        arguments = ["diff", *_DIFF, "--relative", *cached, *revisions, "--", *self._paths(path)]
        return await self._show(*arguments) or "no changes (new files that are not staged show in git_status)"

    async def log(self, path: str | None, revision: str | None, limit: int) -> str:
        """Commits, one a line."""
        revisions = await self._range(revision) if revision else []
        form = [
            "--no-color",
            "--no-decorate",
            "--date=short",
            "--format=%h %ad %an: %s",
            f"--max-count={limit}",
        ]
        return await self._show("log", *form, *revisions, "--", *self._paths(path)) or "no commits"

    async def show(self, revision: str, path: str | None) -> str:
        """A commit, or a file as it was at one."""
        commit = await self._commit(revision)
        if path is not None:
            names = self._names(path)
            return (
                await self._show("show", "--no-textconv", f"{commit}:./{'/'.join(names)}") or "an empty file"
            )
        form = ["--no-color", "--no-decorate", "--format=medium", "--stat", "--patch", "--relative"]
        return await self._show("show", *_DIFF, *form, commit, "--", *self._paths(None))

    async def _range(self, revision: str) -> list[str]:
        first, *rest = _RANGE.split(revision, maxsplit=1)
        if not rest:
            return [await self._commit(first)]
        dots, last = rest
        return [f"{await self._commit(first or 'HEAD')}{dots}{await self._commit(last or 'HEAD')}"]

    async def _commit(self, revision: str) -> str:
        """The full hash of a commit: a hash can neither be an option nor name a file."""
        if not _REVISION.fullmatch(revision):
            raise ToolError(f"{revision!r:.200} is no revision: name a branch, a tag, a hash or 'HEAD~1'")
        options = ("--verify", "--quiet", "--end-of-options")
        done = await self._run("rev-parse", *options, f"{revision}^{{commit}}", most=1_000)
        if done.status != 0:
            await self._show("rev-parse", "--git-dir")  # says if this is no repository at all
            raise ToolError(f"{revision!r:.200} is no commit here: git_log shows which there are")
        return done.head.decode("ascii", "replace").strip()

    def _names(self, path: str) -> list[str]:
        names = [name for name in self._project.inner_parts(path) if name not in ("", ".")]
        if ".." in names:
            raise outside(path)
        if "\0" in path or not path.isprintable():
            raise ToolError(f"{path!r:.200} cannot be a path here: use list_files to see what there is")
        check_readable(names)
        return names

    def _paths(self, path: str | None) -> list[str]:
        names = self._names(path) if path is not None else []
        return [f":(literal){'/'.join(names)}" if names else ".", *GIT_EXCLUDES]

    async def _show(self, *arguments: str) -> str:
        done = await self._run(*arguments, most=self._limit + MARGIN)
        output = done.head.decode("utf-8", "replace")
        if done.status is None:
            raise ToolError(f"git took over {SECONDS:g} s: ask for less, such as one path")
        if done.status != 0:
            raise _failure(output)
        if "\0" in output:
            raise ToolError("that is a binary file: show a text file")
        cleaned = shown(without_keys(output))
        return cut_end(cleaned, self._limit, "ask for less, such as one path", dropped=done.dropped).rstrip()

    async def _run(self, *arguments: str, most: int) -> Finished:
        try:
            return await run(
                command(*arguments),
                cwd=self._project.root,
                seconds=SECONDS,
                head=most,
                tail=0,
                environ=for_git(),
            )
        except FileNotFoundError:
            raise ToolError("git is not installed: go on with read_file and search_text") from None


def _failure(output: str) -> ToolError:
    if "not a git repository" in output.lower() or "safe.bareRepository" in output:
        return ToolError("this project is no git repository: go on with read_file and search_text")
    if "does not have any commits" in output:
        return ToolError("there are no commits yet: git_status shows the files")
    reason = output.strip().splitlines()[:1] or ["no reason given"]
    return ToolError(f"git failed: {reason[0].removeprefix('fatal: ')[:300]}")
