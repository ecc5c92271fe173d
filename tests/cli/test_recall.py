"""`agenthood recall` and `agenthood lessons`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agenthood.cli.filters import HEADINGS
from agenthood.records import KINDS
from cli_support import Run, at_terminal, read_terminal

HOSTILE = "printed [bold red]markup[/bold red] and \x1b]0;owned\x07\x1b[2J\x1b[31mred\ttab\nline \u202egnp"
EPISODES = [
    {
        "episode": "fixed the flaky login test by mocking the clock",
        "score": 0.95,
        "member": "dev",
        "skill": "test",
    },
    {
        "episode": "deployed on friday without a rollback plan",
        "score": 0.1,
        "member": "ops",
        "skill": "deploy",
    },
    {"episode": HOSTILE, "score": 1.0, "member": "\x1b[31mdev", "skill": "te\tst"},
]


@pytest.fixture(autouse=True)
def _learned(run: Run) -> None:
    """Three lessons, one of them hostile."""
    assert run("learn", "-", stdin="\n".join(map(json.dumps, EPISODES))).code == 0


def test_a_pipe_gets_lines_with_tabs(run: Run) -> None:
    """Without a terminal each lesson is one line of seven columns, and notes go to standard error."""
    done = run("recall", "flaky", "login", "test", "--threshold", 0.6)
    assert done.code == 0
    ((kind, similarity, evidence, member, skill, id_, text),) = done.rows
    assert (kind, evidence, member, skill) == ("learned", "1", "dev", "test")
    assert 0.6 <= float(similarity) <= 1
    assert id_.startswith("ltm:learnings/")
    assert text == EPISODES[0]["episode"]
    assert done.err == ""


def test_json_is_the_whole_recall(run: Run) -> None:
    """Programs get every field, the near misses too."""
    found = run("recall", "flaky login test", "--json").json
    (lesson,) = found["lessons"]
    assert lesson["text"] == EPISODES[0]["episode"]
    assert (found["semantic"], found["near_misses"]) == (False, 0)
    above = lesson["similarity"] + 0.05
    missed = run("recall", "flaky login test", "--threshold", above, "--json").json
    assert (missed["lessons"], missed["near_misses"]) == ([], 1)
    assert missed["nearest_miss"] == lesson["similarity"] < missed["threshold"]


def test_standard_input_is_looked_up(run: Run) -> None:
    """`-` reads the text, for error messages of many lines."""
    assert run("recall", "-", stdin="\ufefflogin test\nflaky\n").rows[0][-1] == EPISODES[0]["episode"]


def test_nothing_found_is_no_failure(run: Run) -> None:
    """The exit code is 0, and how near the best was is said."""
    text = "fixed the flaky login test by mocking a clock"
    done = run("recall", text, "--threshold", 1)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("no lesson fits\n")
    assert "1 near miss below the threshold of 1.000, the nearest at 0.997 " in done.err
    assert run("-q", "recall", text, "--threshold", 1).err == ""


@pytest.mark.parametrize(("above", "digits"), [(0.0004, 3), (0.00004, 4)])
def test_a_near_miss_is_told_from_the_threshold(run: Run, above: float, digits: int) -> None:
    """Two numbers that differ are not shown as one."""
    text = "fixed the flaky login test by mocking a clock"
    similarity = run("recall", text, "--json").json["lessons"][0]["similarity"]
    said = run("recall", text, "--threshold", similarity + above).err
    threshold, nearest = re.findall(r"\d\.\d+", said)
    assert float(nearest) < float(threshold), said
    assert abs(float(nearest) - similarity) < 10**-digits


@pytest.mark.parametrize("threshold", ["5", "nan", "high"])
def test_a_threshold_that_is_none_is_misuse(run: Run, threshold: str) -> None:
    """A mistyped option is exit code 2, as for every command."""
    done = run("recall", "x", "--threshold", threshold)
    assert done.code == 2
    assert f"{threshold!r} is no number from -4 to 1. See agenthood recall --help" in done.err


@pytest.mark.parametrize("stdin", [b"", b" \n", b"\0\0"])
def test_an_empty_text_is_no_failure(run: Run, stdin: bytes) -> None:
    """A run that pipes its last error into a recall is not stopped where there was none."""
    done = run("recall", "-", stdin=stdin)
    assert (done.code, done.out) == (0, "")
    assert done.err == "agenthood: warning: there is nothing to look up: the text is empty\n"
    found = run("recall", "", "--json").json
    assert (found["degraded"], found["reason"]) == (False, "there is nothing to look up: the text is empty")


def test_what_cannot_be_searched_for_is_left_out(run: Run) -> None:
    """NUL in standard input, or bytes on the command line that are no text, find what the rest finds."""
    assert run("recall", "-", stdin=b"flaky\0login test \xff").rows[0][-1] == EPISODES[0]["episode"]
    assert run("recall", "flaky login test \udcff").rows[0][-1] == EPISODES[0]["episode"]


def test_a_store_that_cannot_be_read_stops_no_run(run: Run, store: Path) -> None:
    """The exit code of a recall is 0, with the reason on standard error; a list of lessons fails."""
    shutil.rmtree(store / "memory" / "vectors.lance" / "_versions")
    (store / "memory" / "vectors.lance" / "_versions").write_text("damaged")
    done = run("recall", "flaky login test")
    assert (done.code, done.out) == (0, "")
    assert "warning" in done.err
    assert run("lessons").code == 1


@pytest.mark.parametrize("content", ["{", '{"recallThreshold": 2}', '{"store": "none such"}'])
def test_settings_that_cannot_be_used_are_an_error(run: Run, store: Path, content: str) -> None:
    """As the help says: what is mistaken does not pass by itself, and would go unseen for ever."""
    (store / "config.json").write_text(content)
    done = run("recall", "flaky login test")
    assert (done.code, done.out) == (1, "")
    assert str(store / "config.json") in done.err


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such permissions")
@pytest.mark.parametrize(("part", "code"), [(".", 1), ("memory", 0)])
def test_a_directory_that_nobody_may_look_into(store: Path, part: str, code: int) -> None:
    """Settings that may be in there are an error, a store that is in there is not."""
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if bound and shutil.which(bound[0]) is None:
        pytest.skip("there is no setpriv, and root may look into everything")
    program = [sys.executable, "-m", "agenthood", "--dir", str(store), "recall", "flaky login test"]
    (store / part).chmod(0)
    try:
        done = subprocess.run([*bound, *program], capture_output=True, text=True, check=False)
    finally:
        (store / part).chmod(0o755)
    assert (done.returncode, done.stdout) == (code, "")
    assert ("cannot read" if code else "memory is degraded") in done.stderr


def test_without_a_store_a_recall_finds_nothing_and_makes_nothing(run: Run, tmp_path: Path) -> None:
    """A run that asks first in a new project is not stopped; every other command says there is no store."""
    absent = tmp_path / "absent"
    done = run("recall", "x", directory=absent)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(
        f"agenthood: warning: there is no store at {str(absent)!r}: learn something first"
    )
    assert "degraded" not in done.err
    assert run("recall", "x", "--json", directory=absent).json["degraded"] is False
    assert run("recall", "x", "--prompt", directory=absent).out == ""
    for command in ["lessons", "status", "migrate", "maintain", "export"]:
        failed = run(command, directory=absent)
        assert (failed.code, failed.out) == (1, "")
        assert "learn something first" in failed.err
    assert not absent.exists()


@pytest.mark.parametrize("text", ["x", ""])
@pytest.mark.parametrize("below", ["", "deeper/store"])
def test_a_file_in_place_of_the_store_is_a_mistake(run: Run, tmp_path: Path, text: str, below: str) -> None:
    """Nothing can be learned there, so it is not said to be a store to come; the file is named."""
    file = tmp_path / "file"
    file.write_text("")
    for command in (["recall", text], ["lessons"], ["learn", "--episode", "x y z", "--score", 1]):
        done = run(*command, directory=file / below)
        assert (done.code, done.out) == (1, "")
        assert f"error: {str(file)!r} is not a directory, so no store can be there" in done.err


def test_prompt_prints_the_fenced_block_alone(run: Run) -> None:
    """What goes into a prompt is exactly the block; nothing without lessons."""
    done = run("recall", "flaky login test", "--prompt")
    assert done.out.startswith("<agenthood-lessons>\n")
    assert done.out.endswith("</agenthood-lessons>\n")
    assert run("recall", "flaky login test", "--prompt", "--json").json["prompt"] + "\n" == done.out
    assert run("recall", "zzz", "--prompt", "--threshold", 1).out == ""


def test_filters_choose(run: Run) -> None:
    """Kind, skill and text narrow the list; a recall takes kind and skill."""
    assert [row[-1] for row in run("lessons", "--kind", "antipattern").rows] == [EPISODES[1]["episode"]]
    assert [row[-1] for row in run("lessons", "--member", "dev").rows] == [EPISODES[0]["episode"]]
    assert [row[-1] for row in run("lessons", "--contains", "FRIDAY").rows] == [EPISODES[1]["episode"]]
    assert len(run("lessons", "--limit", 2).rows) == 2
    assert run("lessons", "--skill", "none").err == "no lessons\n"
    assert run("recall", "flaky login test", "--kind", "antipattern").out == ""
    assert run("recall", "flaky login test", "--skill", "deploy").out == ""
    assert tuple(HEADINGS) == KINDS


@pytest.mark.parametrize(
    "arguments", [["recall"], ["recall", "x", "--limit", "0"], ["lessons", "--kind", "good"]]
)
def test_misuse_is_exit_code_2(run: Run, arguments: list[str]) -> None:
    """What the parser refuses is one line that names the help."""
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert done.err.endswith(f"See agenthood {arguments[0]} --help\n")


def test_hostile_texts_cannot_steer_a_pipe_or_break_its_columns(run: Run) -> None:
    """Escape sequences are written out, tabs and newlines flattened; JSON keeps the text exactly."""
    row = next(row for row in run("lessons").rows if "markup" in row[-1])
    assert len(row) == 8
    assert row[4:6] == ["\\x1b[31mdev", "te st"]
    assert row[-1] == (
        "printed [bold red]markup[/bold red] and \\x1b]0;owned\\x07\\x1b[2J\\x1b[31mred tab line \\u202egnp"
    )
    assert HOSTILE in [lesson["text"] for lesson in run("lessons", "--json").json]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_hostile_texts_cannot_steer_a_terminal(store: Path, columns: int) -> None:
    """At a terminal the only escape sequences are the table's own, and markup is shown as it is."""
    with at_terminal("--dir", store, "lessons", columns=columns) as (process, ours):
        shown = read_terminal(ours)
        assert process.wait(60) == 0
    own = shown.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert "\x1b" not in own
    assert "\x07" not in own
    assert "\u202e" not in own
    everything = "".join(own.split())
    assert "what" in everything
    if columns == 200:
        assert "[bold red]markup[/bold red] and \\x1b]0;owned\\x07" in own
        assert "ltm:antipatterns/v1:" in own


def test_a_person_sees_a_table(store: Path) -> None:
    """At a terminal: headings, what worked, the lesson and its id."""
    with at_terminal("--dir", store, "recall", "flaky login test", columns=160) as (process, ours):
        shown = read_terminal(ours)
        assert process.wait(60) == 0
    for part in [
        "similarity",
        "what worked",
        "dev/test",
        str(EPISODES[0]["episode"]),
        "ltm:learnings/v1:",
    ]:
        assert part in shown
