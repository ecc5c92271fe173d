"""The project directory as a closed world: no path, link or race leads out of it.

A path is walked one name at a time from an open directory to the next, without following links; a link is
read, and what it says is walked in its place. So there is no moment between check and use at which a folder
could be swapped for a link, as there is with `realpath` and then `open`.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.errors import ConfigError
from agenthood.runtime.tools.base import ToolError
from agenthood.runtime.tools.denied import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_LINKS = 40
_DEEPEST = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEXT_STEP = {
    errno.ENOENT: "is not there: list_files shows what is",
    errno.ENOTDIR: "goes through something that is no folder: list_files shows what is there",
    errno.EISDIR: "is a folder: list_files shows what is in it",
    errno.ELOOP: "was changed into a link while it was opened: try again",
    errno.EACCES: "may not be opened: go on without it, and say so at the end",
    errno.EPERM: "may not be opened: go on without it, and say so at the end",
    errno.ENAMETOOLONG: "has too long a name: use a shorter one",
    errno.ENOSPC: "cannot be written, the disk is full: go on without it, and say so at the end",
}


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the project, which may not exist.

    Attributes:
        folder: descriptor of the open folder it is in; closed by whoever gave the place.
        name: its name there; `.` for the folder itself. It was no link when it was looked at.
        parts: its true path from the project directory, links resolved; empty for that directory itself.
    """

    folder: int
    name: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        """The true path relative to the project."""
        return "/".join(self.parts) or "."

    def status(self) -> os.stat_result | None:
        """What is there; None if nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


class Project:
    """Opens what is inside one directory and nothing else.

    Attributes:
        root: the directory, links resolved.

    Raises:
        ConfigError: it is no directory, or the system cannot open files relative to a folder.
    """

    def __init__(self, root: Path) -> None:
        if os.open not in os.supports_dir_fd:
            raise ConfigError(
                "tools need a system that opens files relative to a folder: Linux, macOS or WSL"
            )
        self.root = Path(os.path.realpath(root))
        self._spellings = (self.root.parts, Path(os.path.abspath(root)).parts)  # noqa: PTH100  keeps links
        if not self.root.is_dir():
            raise ConfigError(f"{str(root)!r} is no directory: name the project directory")

    @contextmanager
    def place(self, path: str, *, make_folders: bool = False) -> Iterator[Place]:
        """Walk to `path`.

        Args:
            path: relative to the project, or absolute and inside it. `..` and links may stay inside.
            make_folders: make folders that are missing on the way.

        Raises:
            ToolError: it leads out of the project, is malformed, or a folder on the way is not there.
        """
        walk = _Walk(self, path, make_folders=make_folders)
        try:
            yield walk.end()
        except OSError as error:
            raise path_error(path, error) from error
        finally:
            walk.close()

    def inner_parts(self, path: str) -> list[str]:
        """The names in `path` from the project directory on; for an absolute one, only if it is inside.

        Raises:
            ToolError: it is absolute and elsewhere.
        """
        if not path.startswith("/"):
            return path.split("/")
        parts = ("/", *(name for name in path.split("/") if name not in ("", ".")))
        for root in self._spellings:
            if parts[: len(root)] == root:
                return list(parts[len(root) :])
        raise outside(path)


class _Walk:
    def __init__(self, project: Project, path: str, *, make_folders: bool) -> None:
        self._project = project
        self._path = path
        self._make_folders = make_folders
        self._folders: list[int] = []
        self._names: list[str] = []
        self._links = 0

    def end(self) -> Place:
        pending = self._pending()
        self._folders.append(os.open(self._project.root, _FOLDER))
        while pending:
            name = pending.pop(0)
            if name == "..":
                self._leave()
            elif (target := self._link(name)) is not None:
                pending = self._follow(target) + pending
            elif pending:
                self._enter(name)
            else:
                return Place(self._folders[-1], name, (*self._names, name))
        return Place(self._folders[-1], ".", tuple(self._names))

    def close(self) -> None:
        for descriptor in self._folders:
            os.close(descriptor)

    def _pending(self) -> list[str]:
        try:
            if b"\0" in os.fsencode(self._path):
                raise ToolError(f"{self._path!r:.200} holds a NUL character: leave it out")
        except UnicodeEncodeError as error:
            raise ToolError(f"{self._path!r:.200} cannot be a file name: use valid Unicode") from error
        names = _names(self._project.inner_parts(self._path))
        if self._make_folders:
            check_writable(names)  # before any folder is made; links are looked at on the way
        return names

    def _leave(self) -> None:
        if not self._names:
            raise outside(self._path)
        self._names.pop()
        os.close(self._folders.pop())

    def _link(self, name: str) -> str | None:
        """What the link `name` says; None if it is none or not there."""
        try:
            target = os.readlink(name, dir_fd=self._folders[-1])
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:  # no link
                return None
            raise
        self._links += 1
        if self._links > _MOST_LINKS:
            raise ToolError(f"{self._path!r:.200} goes through too many links: name the file itself")
        return target

    def _follow(self, target: str) -> list[str]:
        if not target.startswith("/"):
            return _names(target.split("/"))
        try:
            names = self._project.inner_parts(target)
        except ToolError:
            raise outside(self._path) from None  # where the link leads is not for the model
        while self._names:
            self._leave()
        return _names(names)

    def _enter(self, name: str) -> None:
        if len(self._names) >= _DEEPEST:
            raise ToolError(f"{self._path!r:.200} is more than {_DEEPEST} folders deep: use a shorter path")
        if self._make_folders:
            check_writable((*self._names, name))
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._folders[-1])
        self._folders.append(os.open(name, _FOLDER, dir_fd=self._folders[-1]))
        self._names.append(name)


def _names(parts: list[str]) -> list[str]:
    return [name for name in parts if name not in ("", ".")]


def outside(path: str) -> ToolError:
    """The error for a path that leads out of the project."""
    return ToolError(f"{path!r:.200} is outside the project: use a path inside it, such as 'src/main.py'")


def path_error(path: str, error: OSError) -> ToolError:
    """The error for a path that the system refused."""
    step = _NEXT_STEP.get(error.errno or 0)
    if step is None:
        return ToolError(f"{path!r:.200} cannot be used: {error.strerror or type(error).__name__}")
    return ToolError(f"{path!r:.200} {step}")
