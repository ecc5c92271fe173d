"""`write_file`, `replace_in_file` and `run_command`, and what every call has in common."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.errors import ConfigError
from agenthood.runtime.chat.base import ToolCall
from agenthood.runtime.tools import Toolbox
from toolboxes import call, entries, error, text

if TYPE_CHECKING:
    from agenthood.runtime.loop import Tools

ALL = {"allow_write": True, "allow_commands": True}
READERS = {"read_file", "list_files", "search_text", "git_status", "git_diff", "git_log", "git_show"}


def test_only_reading_is_offered_unless_allowed(tmp_path: Path) -> None:
    """Writing and commands are each offered with the user's leave only."""
    tools: Tools = Toolbox(tmp_path)  # the loop's protocol is satisfied
    assert {spec.name for spec in tools.specs} == READERS
    writers = {spec.name for spec in Toolbox(tmp_path, allow_write=True).specs} - READERS
    assert writers == {"write_file", "replace_in_file"}
    assert {spec.name for spec in Toolbox(tmp_path, allow_commands=True).specs} - READERS == {"run_command"}


async def test_what_is_not_allowed_names_the_flag(tmp_path: Path) -> None:
    """A call to a tool that was not offered does nothing and says what the user could do."""
    tools = Toolbox(tmp_path)
    assert "--allow-write" in await error(tools, "write_file", path="a", content="x")
    assert "--allow-write" in await error(tools, "replace_in_file", path="a", old="x", new="y")
    assert "--allow-commands" in await error(tools, "run_command", command="touch a")
    assert not entries(tmp_path)


def test_a_missing_project_is_an_error(tmp_path: Path) -> None:
    """A project directory that is not there is told at once."""
    with pytest.raises(ConfigError, match="no directory"):
        Toolbox(tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("read_fil", {}, "did you mean 'read_file'"),
        ("read_file", {}, "needs the argument 'path'"),
        ("read_file", {"file": "a"}, "It takes: path, start_line, lines"),
        ("read_file", {"path": 3}, "must be a string, not 3"),
        ("read_file", {"path": "a", "lines": True}, "must be a whole number, not True"),
        ("read_file", {"path": "a", "lines": "10"}, "must be a whole number, not '10'"),
        ("read_file", {"path": "a", "lines": 0}, "from 1 to 10000"),
        ("read_file", {"path": "x" * 5_000}, "5000 characters"),
        ("run_command", {"command": "true", "timeout": float("nan")}, "from 0.1 to 60"),
        ("search_text", {"pattern": ""}, "pattern is empty"),
    ],
)
async def test_a_models_mistake_is_told(
    tmp_path: Path, name: str, arguments: dict[str, object], expected: str
) -> None:
    """Wrong names, types and ranges are answered with what would be right."""
    assert expected in await error(Toolbox(tmp_path, allow_commands=True), name, **arguments)


async def test_lenient_where_json_is(tmp_path: Path) -> None:
    """3.0 is a whole number, and null means the default."""
    (tmp_path / "a").write_text("x\n", encoding="utf-8")
    assert "lines 1-1" in await text(Toolbox(tmp_path), "read_file", path="a", lines=3.0, start_line=None)


async def test_an_unusable_call_is_passed_on(tmp_path: Path) -> None:
    """Arguments that were no JSON are answered with what the parser said."""
    result = await Toolbox(tmp_path).call(ToolCall("1", "read_file", error="no JSON object"))
    assert (result.text, result.is_error) == ("no JSON object", True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    name=st.sampled_from(sorted(READERS - {"search_text"})) | st.text(),
    arguments=st.dictionaries(
        st.sampled_from(["path", "start_line", "lines", "limit", "pattern", "revision", "staged"])
        | st.text(),
        JSON,
    ),
)
def test_no_call_raises(
    tmp_path_factory: pytest.TempPathFactory, name: str, arguments: dict[str, object]
) -> None:
    """Whatever a model sends, the answer is a text that can be sent back."""
    tools = Toolbox(tmp_path_factory.getbasetemp())
    result = asyncio.run(tools.call(ToolCall("1", name, arguments)))
    assert result.text.encode()


async def test_a_file_is_written_whole(tmp_path: Path) -> None:
    """Folders are made, the mode of an existing file stays, and nothing is left beside it."""
    tools = Toolbox(tmp_path, **ALL)
    assert "made a/b/c.sh (3 bytes)" in await text(tools, "write_file", path="a/b/c.sh", content="hé")
    path = tmp_path / "a" / "b" / "c.sh"
    path.chmod(0o751)
    assert "replaced" in await text(tools, "write_file", path=str(path), content="new\n")
    assert path.read_text(encoding="utf-8") == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert entries(path.parent) == [path]


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".agenthood/runs/x.json",
        "sub/.git/config",
        ".g\u200bit/x",
        ".env",
        "git/x",
        ".",
        "a/",
        "fifo",
        "keys",
        "runs/x",
    ],
)
async def test_some_places_are_not_written(tmp_path: Path, path: str) -> None:
    """Nothing is written into .git, .agenthood or .env, by any spelling or link, and no pipe is opened."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / ".agenthood" / "runs").mkdir(parents=True)
    (tmp_path / "git").symlink_to(".git")
    (tmp_path / "keys").symlink_to(".env")
    (tmp_path / "runs").symlink_to(".agenthood/runs")
    os.mkfifo(tmp_path / "fifo")
    before = entries(tmp_path)
    tools = Toolbox(tmp_path, allow_write=True)
    await error(tools, "write_file", path=path, content="x")
    await error(tools, "replace_in_file", path=path, old="x", new="y")
    assert entries(tmp_path) == before


async def test_a_link_inside_stays_a_link(tmp_path: Path) -> None:
    """Writing through a link inside the project changes the file it leads to."""
    (tmp_path / "real.txt").write_text("old", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to("real.txt")
    await text(Toolbox(tmp_path, allow_write=True), "write_file", path="link.txt", content="new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text(encoding="utf-8") == "new"


async def test_a_passage_is_replaced_once(tmp_path: Path) -> None:
    """One occurrence is replaced, none or several are told, Windows line ends are kept."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\ntwo\r\n")
    tools = Toolbox(tmp_path, allow_write=True)
    assert "at line 1" in await text(tools, "replace_in_file", path="a.txt", old="one\ntwo", new="1\n2")
    assert path.read_bytes() == b"1\r\n2\r\ntwo\r\n"
    await text(tools, "replace_in_file", path="a.txt", old="2\n", new="two\n")
    assert "occurs 2 times" in await error(tools, "replace_in_file", path="a.txt", old="two", new="x")
    assert "does not occur" in await error(tools, "replace_in_file", path="a.txt", old="three", new="x")
    assert "something else" in await error(tools, "replace_in_file", path="a.txt", old="", new="x")
    path.write_bytes(b"caf\xe9")
    assert "not UTF-8" in await error(tools, "replace_in_file", path="a.txt", old="caf", new="x")


async def test_a_hidden_secret_is_not_overwritten_by_its_mark(tmp_path: Path) -> None:
    """Writing back a file as it was shown does not put the mark in the place of the secret."""
    path = tmp_path / "a.py"
    path.write_text("key = 'sk-ant-api03-A1b2C3d4E5f6G7h8A1b2C3d4E5f6'\nx = 1\n", encoding="utf-8")
    tools = Toolbox(tmp_path, allow_write=True)
    shown = (await text(tools, "read_file", path="a.py")).split("\n", 1)[1]
    assert "replace_in_file" in await error(tools, "write_file", path="a.py", content=shown)
    await text(tools, "replace_in_file", path="a.py", old="x = 1", new="x = 2")
    assert path.read_text(encoding="utf-8").endswith("E5f6'\nx = 2\n")


async def test_text_that_utf8_cannot_hold_is_refused(tmp_path: Path) -> None:
    """A lone surrogate is told with its place, and nothing is written."""
    tools = Toolbox(tmp_path, allow_write=True)
    assert "character 1" in await error(tools, "write_file", path="a", content="x\ud800")
    assert not entries(tmp_path)


async def test_a_command_answers_with_status_and_output(tmp_path: Path) -> None:
    """Both outputs come with the exit status; a failing command is an answer, not an error."""
    tools = Toolbox(tmp_path, **ALL)
    assert await text(tools, "run_command", command="pwd -L; echo oops >&2; exit 3") == (
        f"exit status 3\n{os.fspath(tmp_path)}\noops"
    )
    assert await text(tools, "run_command", command="cat") == "exit status 0"
    assert "cannot be started" in await error(tools, "run_command", command="a\0b")


async def test_a_command_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables named like secrets are not passed on, the others are."""
    for name in ("MY_API_KEY", "GH_TOKEN", "aws_secret_access_key", "PLAIN"):
        monkeypatch.setenv(name, "value")
    answer = await text(Toolbox(tmp_path, **ALL), "run_command", command="env")
    assert "PLAIN=value" in answer
    assert not any(name in answer for name in ("MY_API_KEY", "GH_TOKEN", "aws_secret"))


async def test_long_output_is_cut_in_the_middle(tmp_path: Path) -> None:
    """Beginning and end are shown, and every byte is shown or counted."""
    tools = Toolbox(tmp_path, allow_commands=True, max_output=1_000)
    answer = await text(tools, "run_command", command="echo first; yes 12345 | head -n 100000; echo last")
    assert answer.startswith("exit status 0\nfirst\n")
    assert answer.endswith("last")
    assert len(answer) < 1_200
    assert int(answer.partition("[cut: ")[2].split()[0]) == 600_000 + 11 - 1_000


@pytest.mark.parametrize(
    "inner", ["sleep 999", "setsid sleep 999", "env -i sleep 999", "sh -c 'sleep 999 & sleep 999'"]
)
async def test_all_that_a_command_started_is_killed(tmp_path: Path, inner: str) -> None:
    """At the time limit grandchildren end too, also those that left the group."""
    tools = Toolbox(tmp_path, allow_commands=True)
    command = (
        f"{inner.replace('sleep 999', f'sleep {UNIQUE}')} & {inner.replace('sleep 999', f'sleep {UNIQUE}')}"
    )
    started = time.monotonic()
    result = await call(tools, "run_command", command=command, timeout=0.5)
    assert result.text == "stopped after 0.5 s"
    assert result.is_error
    assert time.monotonic() - started < 5
    assert not _running()


async def test_background_processes_end_with_the_command(tmp_path: Path) -> None:
    """A server left in the background neither holds up the answer nor survives it."""
    tools = Toolbox(tmp_path, allow_commands=True)
    started = time.monotonic()
    assert await text(tools, "run_command", command=f"sleep {UNIQUE} & echo up") == "exit status 0\nup"
    assert time.monotonic() - started < 5
    assert not _running()


async def test_a_cancelled_command_is_killed(tmp_path: Path) -> None:
    """Ctrl-C ends what the command started."""
    tools = Toolbox(tmp_path, allow_commands=True)
    task = asyncio.create_task(
        call(tools, "run_command", command=f"touch up; sleep {UNIQUE} & sleep {UNIQUE}")
    )
    await asyncio.to_thread(_wait_for, tmp_path / "up")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _running()


UNIQUE = f"98{os.getpid()}"


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


def _running() -> list[str]:
    """Processes of these tests that are still alive, a moment after they were killed."""
    found: list[str] = []
    for _ in range(20):
        found = [line for line in map(_command_line, Path("/proc").glob("[0-9]*/cmdline")) if UNIQUE in line]
        if not found:
            break
        time.sleep(0.05)
    return found


def _command_line(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:  # ended meanwhile
        return ""
