"""Finding members: where they are looked for, which one counts, and what broken files do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.errors import ConfigError
from agenthood.runtime.members import FOLDERS, built_in, find_members
from agenthood.runtime.skill_file import SkillFileError, parse_skill

BUILT_IN = {"architect", "developer", "qa", "reviewer"}


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the members of whoever runs the tests out of them."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(
    folder: Path, name: str = "", *, text: str | bytes = "Do it.", description: str = "Does things."
) -> Path:
    """Write a SKILL.md into `folder`; with bytes, just these."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "SKILL.md"
    front = f"---\n{f'name: {name}' if name else ''}\ndescription: {description}\n---\n"
    path.write_bytes(text if isinstance(text, bytes) else (front + text).encode())
    return path


def own(project: Path) -> dict[str, object]:
    """Members that are not built in: name to source."""
    return {m.name: m.source for m in find_members(project).members if m.source != "built in"}


def test_the_built_in_members_are_usable() -> None:
    """There are four, each with a description and a prompt that fits beside a task."""
    members = built_in()
    assert {member.name for member in members} == BUILT_IN
    assert all(50 < len(m.description) < 300 and 500 < len(m.prompt) < 3_000 for m in members)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_is_looked_in(tmp_path: Path, folder: str) -> None:
    """A member is found in every folder that is documented, with its file as source."""
    path = write(tmp_path / folder / "writer", "writer")
    member = find_members(tmp_path).get("writer")
    assert (member.source, member.description, member.prompt) == (path, "Does things.", "Do it.")


def test_the_nearest_counts(tmp_path: Path) -> None:
    """A folder shadows its parents, in one folder the order of FOLDERS counts, and what is shadowed is told."""
    (tmp_path / ".git").mkdir()
    project = tmp_path / "a" / "b"
    far = write(tmp_path / FOLDERS[0] / "x", "qa", text="far")
    near = write(project / FOLDERS[3] / "x", "qa", text="near")
    nearest = write(project / FOLDERS[1] / "y", "qa", text="nearest")
    member = find_members(project).get("qa")
    assert (member.prompt, member.source) == ("nearest", nearest)
    assert member.shadows == (near, far, "built in")


def test_the_search_ends_at_the_repository(tmp_path: Path) -> None:
    """Beyond the root of the repository nothing is looked for."""
    write(tmp_path / "skills" / "outside", "outside")
    inside = write(tmp_path / "repo" / "skills" / "inside", "inside")
    project = tmp_path / "repo" / "deep"
    project.mkdir()
    (tmp_path / "repo" / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    assert own(project) == {"inside": inside}


def test_the_search_ends_at_home(tmp_path: Path) -> None:
    """Without a repository the home directory is the last; outside of both only the project itself counts."""
    at_home = write(tmp_path / "home" / ".claude" / "skills" / "mine", "mine")
    write(tmp_path / "skills" / "others", "others")
    project = tmp_path / "home" / "project"
    project.mkdir()
    assert own(project) == {"mine": at_home}
    (tmp_path / "elsewhere").mkdir()
    assert own(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"Just text.", "no front matter"),
        (b"", "no front matter"),
        (b"---\nname: x\nText", "no front matter"),
        (b"---\nname: [x\n---\nText", "no YAML (line 2"),
        (b"---\n- x\n---\nText", "no fields"),
        (b"---\nname: x\n---\n \n", "no text after"),
        (b"---\nname: 3\n---\nText", "name 3 is no text"),
        (b"---\nname: a/b\n---\nText", "name 'a/b' must be"),
        (b'---\nname: "a\\nb"\n---\nText', "must be at most"),
        (b"---\nname: a:b\n---\nText", "must be at most"),
        (b"---\nname: ''\n---\nText", "must be at most"),
        (b"---\nname: x\ndescription: [1]\n---\nText", "description [1] is no text"),
        (b"---\nname: caf\xe9\n---\nText", "not UTF-8"),
        (b"---\nname: x\n---\nTe\0xt", "NUL"),
        (b"---\nname: x\n---\n" + b"x" * 256_000, "over 256000 bytes"),
        (b"---\na: &a [x, x]\nb: [*a, *a]\n---\nText", "references"),
        (b"---\na: " + b"[" * 1_000 + b"\n---\nText", "nested more than"),
        (b"---\na: " + b"x" * 20_000 + b"\n---\nText", "front matter over"),
        (b"---\na: !!python/object/apply:os.system [id]\n---\nText", "no YAML"),
        (b"---\na: !!int ''\n---\nText", "cannot be read"),
        (b"---\na: !!timestamp x\n---\nText", "cannot be read"),
    ],
)
def test_a_broken_file_hides_no_other(tmp_path: Path, data: bytes, reason: str) -> None:
    """What is wrong is told with the path, and the other members are found."""
    path = write(tmp_path / "skills" / "broken", text=data)
    good = write(tmp_path / "skills" / "good", "good")
    catalog = find_members(tmp_path)
    assert own(tmp_path) == {"good": good}
    (problem,) = catalog.problems
    assert problem.path == path
    assert reason in problem.reason


def test_a_bomb_of_references_takes_no_time() -> None:
    """References to references are refused before they are followed."""
    lines = ["a0: &a0 {k: v}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 100))]
    started = time.monotonic()
    with pytest.raises(SkillFileError, match="references"):
        parse_skill("\n".join(["---", *lines, "---", "Text"]).encode(), "x")
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf---\nname: x\ndescription: One two\n---\nText\nmore",
        b"---\r\nname: x\r\ndescription: >\r\n  One\r\n  two\r\n---\r\nText\r\nmore\r\n",
        b"---  \nname: x\ndescription: 'One two'\nallowed-tools: [Read]\n---\n\n\nText\nmore\n\n",
    ],
)
def test_marks_and_line_ends_do_not_matter(data: bytes) -> None:
    """A byte order mark, Windows line ends, folded text and keys of other programs are no problem."""
    skill = parse_skill(data, "folder")
    assert (skill.name, skill.description, skill.prompt) == ("x", "One two", "Text\nmore")


def test_the_folder_names_a_member_without_a_name() -> None:
    """Without a name the folder's is taken; a rule between paragraphs is a part of the prompt."""
    skill = parse_skill(b"---\ndescription: d\n---\nOne\n\n---\n\nTwo", "folder")
    assert (skill.name, skill.prompt) == ("folder", "One\n\n---\n\nTwo")
    assert parse_skill(b"---\n---\nText", "folder").description == ""


@given(
    st.binary(max_size=200)
    | st.text().map(lambda text: f"---\nname: {text}\n---\nText".encode("utf-8", "replace"))
)
def test_any_content_is_a_member_or_a_problem(data: bytes) -> None:
    """No content raises anything but the error that is reported."""
    with suppress(SkillFileError):
        skill = parse_skill(data, "folder")
        assert skill.name
        assert skill.prompt


@pytest.mark.parametrize("kind", ["file", "folder", "pipe", "dangling", "directory"])
def test_what_is_no_file_of_the_project_is_a_problem(tmp_path: Path, kind: str) -> None:
    """Links out of the project, pipes and folders named SKILL.md are told and not opened."""
    outside = write(tmp_path / "outside" / "x", "stolen")
    folder = tmp_path / "project" / "skills" / "x"
    folder.mkdir(parents=True)
    match kind:
        case "file":
            (folder / "SKILL.md").symlink_to(outside)
        case "folder":
            folder.rmdir()
            folder.symlink_to(outside.parent)
        case "pipe":
            os.mkfifo(folder / "SKILL.md")
        case "dangling":
            (folder / "SKILL.md").symlink_to("none")
        case _:
            (folder / "SKILL.md").mkdir()
    catalog = find_members(tmp_path / "project")
    assert {member.name for member in catalog.members} == BUILT_IN
    assert [problem.path for problem in catalog.problems] == [folder / "SKILL.md"]


def test_a_folder_linked_to_another_counts_once(tmp_path: Path) -> None:
    """Skills that two programs share through a link shadow nothing."""
    path = write(tmp_path / ".claude" / "skills" / "x", "x")
    (tmp_path / "skills").symlink_to(".claude/skills")
    catalog = find_members(tmp_path)
    assert catalog.problems == ()
    assert catalog.get("x").source == path
    assert catalog.get("x").shadows == ()


def test_an_unknown_member_is_told_with_a_guess(tmp_path: Path) -> None:
    """The error names what was meant, who there is, and a broken file that may be the one."""
    write(tmp_path / "skills" / "writer", text=b"nothing")
    catalog = find_members(tmp_path)
    with pytest.raises(ConfigError, match=r"did you mean 'reviewer'.*architect, developer, qa, reviewer"):
        catalog.get("revewer")
    with pytest.raises(ConfigError, match="no front matter"):
        catalog.get("writer")
    assert catalog.get("QA").name == "qa"


def test_a_missing_project_is_an_error(tmp_path: Path) -> None:
    """A directory that is not there has no members, and that is said."""
    with pytest.raises(ConfigError, match="no directory"):
        find_members(tmp_path / "none")


def test_importing_loads_no_yaml() -> None:
    """YAML is loaded when a file is read, not before."""
    code = "import agenthood.runtime.members, sys; sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
