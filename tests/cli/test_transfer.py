"""`agenthood export` and `agenthood import`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import agenthood
from cli_support import spawn

if TYPE_CHECKING:
    from cli_support import Run

EPISODES = [
    {"episode": "membaiki ujian log masuk 修复登录测试 🙂", "score": 0.9, "member": "dev"},
    {"episode": "deployed on friday", "score": 0.1},
    {"episode": "half way", "score": 0.5},
]


@pytest.fixture(autouse=True)
def _learned(run: Run) -> None:
    assert run("learn", "-", stdin="\n".join(json.dumps(line) for line in EPISODES)).code == 0


def contents(path: Path) -> tuple[list[dict], int]:
    with agenthood.open(path) as hood:
        return [lesson.to_dict() for lesson in hood.lessons()], hood.status().episodes


@pytest.mark.parametrize("through", ["file", "pipe"])
def test_what_is_exported_can_be_imported(run: Run, store: Path, tmp_path: Path, through: str) -> None:
    """Another store then holds the same lessons and episodes, and importing again changes nothing."""
    file = tmp_path / "out.jsonl"
    exported = run("export", *([file] if through == "file" else ["-"]))
    assert exported.code == 0
    text = file.read_text(encoding="utf-8") if through == "file" else exported.out
    assert exported.err == f"exported {len(text.splitlines())} lines\n"
    assert "修复登录测试 🙂" in text
    other = tmp_path / "other"
    source = ([file], "") if through == "file" else (["-"], text)
    imported = run("import", *source[0], stdin=source[1], directory=other)
    assert imported.code == 0
    assert imported.facts == {"stored": "5", "merged": "0", "skipped": "0", "rejected": "0"}
    assert contents(other) == contents(store)
    again = run("--json", "import", *source[0], stdin=source[1], directory=other).json
    assert (again["stored"], again["merged"], again["skipped"]) == (0, 0, 5)
    assert contents(other) == contents(store)


def test_bad_lines_are_reported_and_the_rest_is_imported(run: Run, tmp_path: Path) -> None:
    """Each bad line has its number and reason; the exit code is 1."""
    lines = run("export").out.encode().splitlines(keepends=True)
    lines[4:4] = [b"[]\n"]
    lines[1:1] = [b"not json\n", b"\n", b'{"type": "lesson", "kind": "learned", "text": "\xff"}\n']
    done = run("import", "-", stdin=b"".join(lines), directory=tmp_path / "other")
    assert done.code == 1
    assert done.facts["rejected"] == "3"
    assert done.facts["stored"] == "5"
    assert [line.split(":")[1] for line in done.err.splitlines()] == [" line 2", " line 4", " line 8"]
    with agenthood.open(tmp_path / "other") as hood:
        assert len(hood.lessons()) == 2


def test_a_file_that_is_no_export_says_so_ten_times(run: Run, tmp_path: Path) -> None:
    """Whatever the column or number that differs, and over several batches; the count has all of them."""
    lines = [f"{' ' * (n % 7)}not json {n}" for n in range(1_200)]
    done = run("import", "-", stdin="\n".join([*lines, "7", '{"type": "x"}']), directory=tmp_path / "other")
    assert (done.code, done.facts["rejected"]) == (1, "1,202")
    first, *_, number, kind, rest = done.err.splitlines()
    assert first == "agenthood: line 1: it is no JSON: Expecting value at column 1"
    assert len(done.err.splitlines()) == 13
    assert number.startswith("agenthood: line 1201: it is 7")
    assert kind.startswith("agenthood: line 1202: type 'x'")
    assert rest == (
        "agenthood: ... and 1,190 more lines for the same reason as line 1: it is no JSON: Expecting value at column 1"
    )
    every = run("--json", "import", "-", stdin="\n".join(lines), directory=tmp_path / "other").json
    assert len(every["rejected"]) == 1_200


def test_lines_for_learn_are_no_import(run: Run) -> None:
    """They are refused with the command that reads them."""
    done = run("import", "-", stdin=json.dumps(EPISODES[0]) + '\n{"text": "x"}\n{"type": "x"}\n')
    assert done.code == 1
    learn, other, wrong = done.err.splitlines()
    assert learn == (
        "agenthood: line 1: no 'type', so no line of an export: agenthood learn reads lines with an 'episode'"
    )
    assert other == "agenthood: line 2: no 'type', so no line of an export: see agenthood export"
    assert wrong.startswith("agenthood: line 3: type 'x' is none of")


def test_an_export_that_cannot_be_written_names_its_file(run: Run, tmp_path: Path) -> None:
    """Not the temporary one beside it, which nobody has heard of."""
    file = tmp_path / "absent" / "out.jsonl"
    done = run("export", file)
    assert done.code == 1
    assert done.err == (
        f"agenthood: error: cannot write {str(file)!r}: No such file or directory; "
        "check that its folder is there and can be written to\n"
    )


def test_an_export_replaces_a_file_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    """A failed export leaves the old file and no litter; a good one keeps the file's mode."""
    file = tmp_path / "out.jsonl"
    file.write_text("precious")
    file.chmod(0o600)
    assert run("export", file, directory=tmp_path / "absent").code == 1
    assert file.read_text() == "precious"
    assert run("export", file).code == 0
    assert len(file.read_text(encoding="utf-8").splitlines()) == 5
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("export", tmp_path / "absent" / "out.jsonl").code == 1
    assert {path.name for path in tmp_path.iterdir()} == {".agenthood", "out.jsonl"}


def test_a_disk_that_fills_up_leaves_the_old_export(run: Run, store: Path, tmp_path: Path) -> None:
    """Half an export never takes the place of a whole one; here a limit on file sizes plays the full disk."""
    resource = pytest.importorskip("resource", reason="this system has no limits on file sizes")
    lines = [{"episode": f"number {i} " + "x" * 2000, "score": 1, "member": f"m{i}"} for i in range(50)]
    assert run("learn", "-", stdin="\n".join(map(json.dumps, lines))).code == 0
    file = tmp_path / "out.jsonl"
    file.write_text("precious")
    limit = (50_000, 50_000)
    process = spawn(
        "--dir", store, "export", file, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.decode().startswith("agenthood: error: ")
    assert err.count(b"\n") == 1
    assert file.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {".agenthood", "out.jsonl"}


def test_json_says_where_the_export_went(run: Run, tmp_path: Path) -> None:
    """Programs get the number of lines; on standard output there is nothing but the export."""
    file = tmp_path / "out.jsonl"
    assert run("export", file, "--json").json == {"file": str(file), "lines": 5}
    assert len([json.loads(line) for line in run("export", "--json").out.splitlines()]) == 5


def test_ctrl_c_while_waiting_for_lines_ends_at_once(store: Path) -> None:
    """An import from a pipe that stays open is interrupted like any other command."""
    process = spawn("--dir", store, "import", "-", stdin=-1)
    assert process.stdin is not None
    process.stdin.write(b"not json\n" * 500)  # one batch; its reports show that the program reads
    process.stdin.flush()
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"agenthood: line 1: ")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"import the file again" in err
    assert b"Traceback" not in err
