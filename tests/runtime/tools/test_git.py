"""The tools that read the history, on real repositories."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agenthood.runtime.chat.base import ToolCall
from agenthood.runtime.tools import Toolbox
from toolboxes import SECRET, entries, error, git, repository, text


async def test_the_history_is_shown(tmp_path: Path) -> None:
    """Status, changes, log, a commit, and a file as it was."""
    repository(tmp_path)
    (tmp_path / "src" / "main.py").write_text("print('three')\n", encoding="utf-8")
    tools = Toolbox(tmp_path)
    assert await text(tools, "git_status") == "## main\n M src/main.py\n?? new.py"
    assert "+print('three')" in await text(tools, "git_diff")
    assert "no changes" in await text(tools, "git_diff", staged=True)
    assert "+print('two')" in await text(tools, "git_diff", revision="HEAD~1..HEAD", path="src")
    log = await text(tools, "git_log")
    assert [line.split(" ", 1)[1] for line in log.split("\n")] == [
        "2026-11-30 Ada: Say two",
        "2026-11-30 Ada: Start",
    ]
    assert "Start" not in await text(tools, "git_log", revision="HEAD~1..main")
    assert "Say two" in await text(tools, "git_show", revision="HEAD")
    assert await text(tools, "git_show", revision="HEAD~1", path="src/main.py") == "print('one')"


async def test_no_repository_is_told(tmp_path: Path) -> None:
    """Without a repository or a commit the answer says how to go on."""
    tools = Toolbox(tmp_path)
    for name in ("git_status", "git_diff", "git_log"):
        assert "no git repository" in await error(tools, name)
    assert "no git repository" in await error(tools, "git_show", revision="HEAD")
    git(tmp_path, "init", "-q")
    assert "no commits yet" in await error(tools, "git_log")


@pytest.mark.parametrize(
    "revision",
    [
        "--output=stolen",
        "-p",
        "--all",
        "HEAD --output=stolen",
        "HEAD:.env",
        ":0:.env",
        ":/x",
        "HEAD\n--all",
        "a\0b",
        "nope",
        "",
    ],
)
async def test_a_revision_cannot_be_an_option_or_a_file(tmp_path: Path, revision: str) -> None:
    """What is no commit is refused, and git writes nothing."""
    repository(tmp_path)
    (tmp_path / ".env").write_text(SECRET, encoding="utf-8")
    git(tmp_path, "add", "-f", ".env")
    tools = Toolbox(tmp_path)
    before = entries(tmp_path)
    await error(tools, "git_show", revision=revision)
    if revision:
        await error(tools, "git_log", revision=revision)
        await error(tools, "git_diff", revision=f"HEAD..{revision}")
    assert entries(tmp_path) == before


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "src/../../x", "--output=stolen", ":(top)x", ":!src", "a\0b", ".env"]
)
async def test_a_path_is_taken_as_it_is(tmp_path: Path, path: str) -> None:
    """A path is neither an option nor a pattern of git, and leads nowhere else."""
    repository(tmp_path)
    tools = Toolbox(tmp_path)
    before = entries(tmp_path)
    await error(tools, "git_show", revision="HEAD", path=path)
    result = [await tools.call(_call(name, path)) for name in ("git_log", "git_diff")]
    assert all(one.is_error or one.text.startswith("no ") for one in result)
    assert entries(tmp_path) == before


async def test_files_with_keys_are_left_out_of_the_history(tmp_path: Path) -> None:
    """A committed .env shows in no patch, not even by the hash of its content."""
    repository(tmp_path)
    for name in (".env", "src/.Env.local", ".agenthood/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SECRET + "\n", encoding="utf-8")
    git(tmp_path, "add", "-f", ".")
    git(tmp_path, "commit", "-qm", "Oops")
    (tmp_path / ".env").write_text(SECRET + "2\n", encoding="utf-8")
    tools = Toolbox(tmp_path)
    assert SECRET not in await text(tools, "git_show", revision="HEAD")
    assert SECRET not in await text(tools, "git_diff")
    assert SECRET not in await text(tools, "git_diff", revision="HEAD~1")
    blob = git(tmp_path, "rev-parse", "HEAD:.env").strip()
    assert "no commit" in await error(tools, "git_show", revision=blob)
    assert "not shown" in await error(tools, "git_show", revision="HEAD", path=".env")


async def test_only_the_project_is_shown_of_a_larger_repository(tmp_path: Path) -> None:
    """Where the project is a folder of a repository, files beside it show in no answer."""
    repository(tmp_path)
    (tmp_path / "beside.txt").write_text(SECRET, encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Both")
    (tmp_path / "beside.txt").write_text(SECRET + "!", encoding="utf-8")
    tools = Toolbox(tmp_path / "src")
    answers = [
        await text(tools, "git_status"),
        await text(tools, "git_diff"),
        await text(tools, "git_diff", revision="HEAD~1"),
        await text(tools, "git_show", revision="HEAD"),
        await text(tools, "list_files"),
    ]
    assert not any("beside" in answer or SECRET in answer for answer in answers)
    assert await text(tools, "git_show", revision="HEAD", path="main.py") == "print('two')"
    assert "+++ b/main.py" in await text(tools, "git_diff", revision="HEAD~2")


async def test_nothing_of_the_repository_is_run(tmp_path: Path) -> None:
    """Hooks, monitors, pagers, external diffs and text converters in its configuration stay unused."""
    repository(tmp_path)
    script = tmp_path / ".git" / "evil"
    script.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran-$(basename $0)\ncat "$@"\n', encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    hook = tmp_path / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(script.read_bytes())
    hook.chmod(0o755)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "gpg.program",
    ):
        git(tmp_path, "config", name, str(script))
    git(tmp_path, "config", "log.showSignature", "true")
    _sign_last_commit(tmp_path)
    (tmp_path / ".gitattributes").write_text("*.py diff=x\n", encoding="utf-8")
    (tmp_path / "src" / "main.py").write_text("print('three')\n", encoding="utf-8")
    tools = Toolbox(tmp_path)
    for name in ("git_status", "git_diff", "git_log", "list_files"):
        await text(tools, name)
    await text(tools, "git_show", revision="HEAD")
    assert not [path for path in entries(tmp_path) if path.name.startswith("ran-")]


async def test_a_folder_made_to_look_like_a_repository_is_none(tmp_path: Path) -> None:
    """A model that may write cannot have git read elsewhere by writing the files of a bare repository."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET, encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    tools = Toolbox(project, allow_write=True)
    config = f"[core]\nrepositoryformatversion = 0\nbare = false\nworktree = {outside}\n"
    for path, content in {
        "HEAD": "ref: refs/heads/main\n",
        "config": config,
        "objects/x": "",
        "refs/x": "",
    }.items():
        await text(tools, "write_file", path=path, content=content)
    for name in ("git_status", "git_diff", "list_files"):
        assert "secret" not in (await tools.call(_call(name))).text


async def test_long_output_is_cut_with_a_note(tmp_path: Path) -> None:
    """A long patch is cut, and the note says by how much."""
    repository(tmp_path)
    (tmp_path / "src" / "main.py").write_text("line\n" * 50_000, encoding="utf-8")
    answer = await text(Toolbox(tmp_path, max_output=2_000), "git_diff")
    assert len(answer) < 2_200
    assert int(answer.rpartition("[cut: ")[2].split()[0]) > 200_000


def _sign_last_commit(folder: Path) -> None:
    """Give the last commit a signature, which git would have checked by a program of the configuration."""
    head, message = git(folder, "cat-file", "commit", "HEAD").split("\n\n", 1)
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    commit = folder / ".git" / "signed"
    commit.write_text(f"{head}\n{signature}\n\n{message}", encoding="utf-8")
    signed = git(folder, "hash-object", "-t", "commit", "-w", str(commit)).strip()
    git(folder, "update-ref", "HEAD", signed)


def _call(name: str, path: str | None = None) -> ToolCall:
    return ToolCall("1", name, {} if path is None else {"path": path})
