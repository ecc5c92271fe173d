"""`read_file`, `list_files` and `search_text` on real files."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from agenthood.runtime.tools import Toolbox
from agenthood.runtime.tools.arguments import checked
from agenthood.runtime.tools.output import without_keys
from agenthood.runtime.tools.paths import Project
from agenthood.runtime.tools.searching import SEARCH_TEXT, search_text
from toolboxes import KEY, error, git, repository, text


async def test_a_file_is_read_by_lines(tmp_path: Path) -> None:
    """The heading says which lines follow and how many there are, so that the model can go on."""
    (tmp_path / "a.txt").write_text("\n".join(f"line {n}" for n in range(1, 11)) + "\n", encoding="utf-8")
    tools = Toolbox(tmp_path)
    assert (
        await text(tools, "read_file", path="a.txt", start_line=3, lines=2)
        == "a.txt, lines 3-4 of 10:\nline 3\nline 4"
    )
    assert "has 10 lines" in await error(tools, "read_file", path="a.txt", start_line=11)


async def test_long_files_are_cut_by_whole_lines(tmp_path: Path) -> None:
    """Following the note on what was cut reads the whole file, each line once."""
    lines = [f"{n} " + "x" * 50 for n in range(100)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    tools = Toolbox(tmp_path, max_output=1_000)
    seen: list[str] = []
    start = 1
    while True:
        answer = await text(tools, "read_file", path="a.txt", start_line=start)
        body = answer.split("\n")
        assert len(answer.encode()) < 1_200
        seen += [line for line in body[1:] if not line.startswith("[cut:")]
        if "start_line=" not in answer:
            break
        start = int(answer.rpartition("start_line=")[2].rstrip("]"))
    assert seen == lines


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "empty"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "lines 1-2 of 2:\na\nb"),
        (b"caf\xe9\n", "caf\ufffd"),
        (b"x" * 100_000, "[cut:"),
    ],
)
async def test_odd_files_are_read(tmp_path: Path, data: bytes, expected: str) -> None:
    """Empty files, byte order marks, Windows line ends, other encodings and one long line are no failure."""
    (tmp_path / "a").write_bytes(data)
    answer = await text(Toolbox(tmp_path), "read_file", path="a")
    assert expected in answer
    assert len(answer.encode()) < 21_000


@pytest.mark.parametrize("kind", ["binary", "folder", "missing", "pipe", "huge", "device"])
async def test_what_is_no_text_file_is_an_error(tmp_path: Path, kind: str) -> None:
    """Binary files, folders, pipes, sparse giants and links to devices neither hang nor fill the memory."""
    path = tmp_path / "x"
    match kind:
        case "binary":
            path.write_bytes(b"a\0b")
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            pass
    started = time.monotonic()
    assert "x" in await error(Toolbox(tmp_path), "read_file", path="x")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "path", [".env", ".env.local", "a/.ENV", ".agenthood/config.json", ".git/config", "link", "a/.e\u200bnv"]
)
async def test_files_with_keys_are_not_read(tmp_path: Path, path: str) -> None:
    """What holds keys is refused under any spelling, by read_file and by search_text."""
    (tmp_path / "link").symlink_to(".env")
    for name in (".env", ".env.local", "a/.ENV", ".agenthood/config.json", ".git/config", "a/.e\u200bnv"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("plain=hidden", encoding="utf-8")
    tools = Toolbox(tmp_path)
    assert "hold keys" in await error(tools, "read_file", path=path)
    assert "nothing found" in await text(tools, "search_text", pattern="hidden")


async def test_secrets_are_redacted_everywhere(tmp_path: Path) -> None:
    """A key in a file reaches the model by no tool, nor can a search guess it."""
    repository(tmp_path)
    (tmp_path / "src" / "main.py").write_text(f"a = 1\nkey = '{KEY}'\n", encoding="utf-8")
    tools = Toolbox(tmp_path, allow_commands=True)
    answers = [
        await text(tools, "read_file", path="src/main.py"),
        await text(tools, "search_text", pattern="key ="),
        await text(tools, "git_diff"),
        await text(tools, "run_command", command="cat src/main.py"),
    ]
    assert all("[redacted:" in answer and KEY[:20] not in answer for answer in answers)
    assert "nothing found" in await text(tools, "search_text", pattern=KEY[:20])


async def test_a_private_key_is_not_read_piece_by_piece(tmp_path: Path) -> None:
    """Reading or finding lines in the middle of a private key shows none of them, and lines keep their numbers."""
    body = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ" + "Ab9" * 4] * 60
    whole = ["first", "-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----", "last"]
    (tmp_path / "a.txt").write_text("\n".join(whole), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(whole[:-2]), encoding="utf-8")
    tools = Toolbox(tmp_path)
    for name in ("a.txt", "b.txt"):
        assert "MII" not in await text(tools, "read_file", path=name, start_line=30, lines=3)
    assert "nothing found" in await text(tools, "search_text", pattern="MII")
    assert "a.txt:64: last" in await text(tools, "search_text", pattern="last")
    assert (await text(tools, "read_file", path="a.txt", start_line=64)).endswith("\nlast")


async def test_listing_leaves_out_what_git_ignores(tmp_path: Path) -> None:
    """Tracked and new files are listed, ignored and deleted ones are not."""
    repository(tmp_path)
    (tmp_path / "gone.py").write_text("x", encoding="utf-8")
    git(tmp_path, "add", "gone.py")
    (tmp_path / "gone.py").unlink()
    assert await text(Toolbox(tmp_path), "list_files") == ".gitignore\nnew.py\nsrc/main.py\n[3 files]"


async def test_listing_without_git_skips_what_is_installed(tmp_path: Path) -> None:
    """Without a repository the folder is walked, save for folders that hold what was installed."""
    for name in ("a.py", "node_modules/x.js", ".venv/y.py", "src/b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / "out").symlink_to("/")
    tools = Toolbox(tmp_path)
    assert await text(tools, "list_files") == "a.py\nsrc/b.py\n[2 files]"
    assert await text(tools, "list_files", path="src") == "src/b.py\n[1 files]"
    assert "not there" in await error(tools, "list_files", path="nowhere")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a/b/deep.py", "top.py"]),
        ("a/**/*.py", ["a/b/deep.py"]),
        ("**/top.py", ["top.py"]),
        ("*.md", []),
    ],
)
async def test_patterns_pick_files(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    """A pattern without a folder fits at any depth, and `**/` stands for any folders or none."""
    for name in ("a/b/deep.py", "top.py", "a/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    answer = await text(Toolbox(tmp_path), "list_files", pattern=pattern)
    assert [line for line in answer.split("\n") if line.endswith(".py")] == expected


async def test_many_files_are_summed_up_by_folder(tmp_path: Path) -> None:
    """More files than asked for become folders with counts, so that nothing is silently missing."""
    for folder in ("one", "two"):
        (tmp_path / folder / "sub").mkdir(parents=True)
        for n in range(30):
            (tmp_path / folder / "sub" / f"{n}.txt").write_text("x", encoding="utf-8")
    answer = await text(Toolbox(tmp_path), "list_files", limit=10)
    assert answer == "one/sub/ (30 files)\ntwo/sub/ (30 files)\n[60 files]"


async def test_search_finds_text_and_expressions(tmp_path: Path) -> None:
    """Plain text is taken as it is; an expression only where asked for; a file can be searched by itself."""
    (tmp_path / "a.py").write_text("def f(x):\n    return x.y\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("x_y = 1\n", encoding="utf-8")
    (tmp_path / "c.bin").write_bytes(b"x.y\0")
    tools = Toolbox(tmp_path)
    assert await text(tools, "search_text", pattern="x.y") == (
        "a.py:2:     return x.y\n[1 lines found in 2 files; 1 files were binary, too large or unreadable]"
    )
    assert "b.py:1: x_y = 1" in await text(tools, "search_text", pattern="x.y", regex=True)
    assert "a.py" not in await text(tools, "search_text", pattern="x.y", regex=True, path="b.py")
    assert "a.py:1" in await text(tools, "search_text", pattern="DEF F", ignore_case=True)
    assert "no regular expression" in await error(tools, "search_text", pattern="(", regex=True)
    assert "more: choose" in await text(tools, "search_text", pattern="x", limit=1)


async def test_a_hopeless_expression_ends_at_the_deadline(tmp_path: Path) -> None:
    """An expression that backtracks for ever is stopped, what was found before is told, and the loop lives."""
    (tmp_path / "a.txt").write_text("aaa!\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("a" * 60 + "\n", encoding="utf-8")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.05)
            beats += 1

    heart = asyncio.create_task(beat())
    arguments = checked(SEARCH_TEXT, {"pattern": "^(a+)+!", "regex": True})
    answer = await search_text(Project(tmp_path), dict(arguments), limit=20_000, seconds=2.0)
    heart.cancel()
    assert "a.txt:1: aaa!" in answer
    assert "stopped after 2 s" in answer
    assert beats > 10


async def test_a_project_cannot_replace_modules_of_the_search(tmp_path: Path) -> None:
    """A file named like a standard module in the project is searched, not imported."""
    for name in ("re", "json", "fnmatch", "unicodedata", "subprocess", "asyncio", "agenthood"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('ran')  # needle\n", encoding="utf-8")
    assert "[7 lines found" in await text(Toolbox(tmp_path), "search_text", pattern="needle")


def test_hiding_keys_is_quick_on_hostile_text() -> None:
    """A million characters of beginnings without an end take no more than linear time."""
    started = time.monotonic()
    hostile = "-----BEGIN PRIVATE KEY-----\n" * 40_000
    assert without_keys(hostile).count("\n") == 40_000
    assert time.monotonic() - started < 2
