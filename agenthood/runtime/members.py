"""Members: agents described by a `SKILL.md`, found in the project or built in.

Nearest first: the project directory, then its parents up to the root of the repository or the home directory;
in each, the folders in the order of `FOLDERS`; the built-in ones last. Of several with one name the nearest counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from agenthood.errors import ConfigError
from agenthood.runtime.skill_file import MAX_BYTES, SkillFileError, parse_skill
from agenthood.runtime.tools.base import ToolError
from agenthood.runtime.tools.files import read_bytes
from agenthood.runtime.tools.paths import Project
from agenthood.suggest import closest, did_you_mean

Source: TypeAlias = Path | Literal["built in"]

FILE = "SKILL.md"
FOLDERS = (".agenthood/members", ".claude/skills", "skills", "docs/members")
BUILT_IN: Literal["built in"] = "built in"


@dataclass(frozen=True, slots=True)
class Member:
    """An agent that can be run.

    Attributes:
        name: what it is called by.
        description: what it is for, in one line; may be empty.
        prompt: its system prompt, never empty.
        source: its file, or `built in`.
        shadows: files of the same name that are further away and do not count, the nearest first.
    """

    name: str
    description: str
    prompt: str
    source: Source
    shadows: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A member that cannot be used.

    Attributes:
        path: its file.
        reason: what is wrong and what to do, without the path.
    """

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{str(self.path)!r}: {self.reason}"


@dataclass(frozen=True, slots=True)
class MemberCatalog:
    """The members of a project.

    Attributes:
        members: the nearest first, each name once.
        problems: files that cannot be used, in the order they were found.
    """

    members: tuple[Member, ...]
    problems: tuple[Problem, ...] = ()

    def get(self, name: str) -> Member:
        """The member called `name`; upper and lower case do not matter where only one fits.

        Raises:
            ConfigError: there is none; the message names those there are, and a broken file that may be meant.
        """
        exact = [member for member in self.members if member.name == name]
        alike = exact or [member for member in self.members if member.name.casefold() == name.casefold()]
        if len(alike) == 1:
            return alike[0]
        names = [member.name for member in self.members]
        broken = [str(problem) for problem in self.problems if closest(name, [problem.path.parent.name])]
        raise ConfigError(
            f"there is no member {name!r:.80}{did_you_mean(name, names)} There are: {', '.join(names)}"
            + "".join(f"; cannot be used: {problem}" for problem in broken)
        )


def find_members(project: Path) -> MemberCatalog:
    """Find the members that can be run in a project; a broken file hides no other.

    Args:
        project: the project directory.

    Raises:
        ConfigError: it is no directory.
    """
    places = _places(Project(project).root)
    world = Project(places[-1])
    found: dict[str, Member] = {}
    problems: list[Problem] = []
    seen: set[str] = set()
    for path in (path for place in places for folder in FOLDERS for path in _files(place / folder)):
        real = os.path.realpath(path)
        if real in seen:  # one folder linked to another
            continue
        seen.add(real)
        try:
            _add(found, _read(world, path))
        except (ToolError, SkillFileError) as error:
            problems.append(Problem(path, str(error)))
    for member in built_in():
        _add(found, member)
    return MemberCatalog(tuple(found.values()), tuple(problems))


def built_in() -> list[Member]:
    """The members that come with the package."""
    folders = sorted(files("agenthood.runtime").joinpath("builtin").iterdir(), key=lambda folder: folder.name)
    skills = [parse_skill(folder.joinpath(FILE).read_bytes(), folder.name) for folder in folders]
    return [Member(skill.name, skill.description, skill.prompt, BUILT_IN) for skill in skills]


def _add(found: dict[str, Member], member: Member) -> None:
    nearer = found.get(member.name)
    if nearer is None:
        found[member.name] = member
    else:
        found[member.name] = replace(nearer, shadows=(*nearer.shadows, member.source))


def _read(world: Project, path: Path) -> Member:
    with world.place(str(path)) as place:
        skill = parse_skill(read_bytes(place, limit=MAX_BYTES), path.parent.name)
    return Member(skill.name, skill.description, skill.prompt, path)


def _places(project: Path) -> list[Path]:
    """Directories to look in, the nearest first; without a repository or a home around it, only the project.

    Parents beyond, such as a temporary folder, may belong to others.
    """
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111  Path.home() fails where there is none
    places: list[Path] = []
    for place in (project, *project.parents):
        places.append(place)
        if place == home or (place / ".git").exists():
            return places
    return [project]


def _files(folder: Path) -> Iterator[Path]:
    """Every `SKILL.md` one level below `folder`, by name; links are looked at when they are read."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # not there, or not for us: there are no members
        return
    yield from (entry / FILE for entry in entries if os.path.lexists(entry / FILE))
