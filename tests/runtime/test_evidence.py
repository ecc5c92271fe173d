"""Evidence: what the end of a command is worth, and scores that are given."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agenthood.errors import InvalidInputError
from agenthood.runtime.evidence import Outcome, Score, by_name, check_score, parse_scores, run_check, told
from agents import KEY


async def scored(command: str, folder: Path, *, seconds: float = 20) -> Score:
    """The score of one check."""
    return check_score(command, await run_check(command, folder, seconds=seconds))


async def test_a_check_that_passes_is_one(tmp_path: Path) -> None:
    """Exit status 0 is a score of 1, found in the project."""
    (tmp_path / "there").touch()
    assert await scored("test -e there", tmp_path) == Score("check: test -e there", 1.0, "check", "passed")


async def test_a_check_that_fails_is_zero_and_says_how(tmp_path: Path) -> None:
    """Any other status is 0, with the end of its output and its errors."""
    score = await scored("echo first; seq 9999; echo 1 failed >&2; exit 3", tmp_path)
    assert score.value == 0
    assert score.detail.startswith("exit status 3: ")
    assert score.detail.endswith("1 failed")
    assert len(score.detail) < 300
    assert "first" not in score.detail


async def test_a_check_killed_by_a_signal_has_failed(tmp_path: Path) -> None:
    """A crash is a failure."""
    assert (await scored("kill -SEGV $$", tmp_path)).value == 0


@pytest.mark.parametrize("command", ["no-such-program --now", "./not-executable", "true\0"])
async def test_a_check_that_cannot_be_run_is_not_judged(command: str, tmp_path: Path) -> None:
    """A mistake in the check says nothing about the run, so it has no score."""
    (tmp_path / "not-executable").write_text("#!/bin/sh\n", encoding="utf-8")
    score = await scored(command, tmp_path)
    assert score.value is None
    assert score.detail.startswith("could not be run")


async def test_a_check_in_a_project_that_has_gone_is_not_judged(tmp_path: Path) -> None:
    """An agent may have removed the directory it worked in; that does not raise."""
    score = await scored("true", tmp_path / "gone")
    assert score.value is None
    assert "gone" in score.detail


async def test_a_check_that_takes_too_long_fails_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """At the time limit everything it started is killed, also what left its session."""
    command = "setsid sh -c 'echo $$ > inner; sleep 60' & echo $! > outer; sleep 60"
    start = time.monotonic()
    score = await scored(command, tmp_path, seconds=1)
    assert time.monotonic() - start < 10
    assert (score.value, score.detail) == (0, "ran out of time")
    await asyncio.sleep(0.2)
    assert is_gone(tmp_path / "inner")


def is_gone(pid_file: Path) -> bool:
    """Whether that process has ended; a dead one that nobody has reaped yet has no command line."""
    if not Path("/proc/self").exists():
        pytest.skip("what left its session is only found through /proc")
    command = Path("/proc", pid_file.read_text(encoding="utf-8").strip(), "cmdline")
    return not command.exists() or not command.read_bytes()


@pytest.mark.parametrize(
    ("before", "detail"),
    [
        (Outcome(1, "x"), "passed, failed before"),
        (Outcome(0, ""), "passed, passed before"),
        (Outcome(127, ""), "passed"),
    ],
)
def test_before_and_after_are_told(before: Outcome, detail: str) -> None:
    """The detail says what changed; a check that could not be run before tells nothing."""
    assert check_score("make", Outcome(0, ""), before).detail == detail


async def test_no_secret_of_a_check_is_kept(tmp_path: Path) -> None:
    """Keys in the command and in its output are redacted, also where the kept end begins within one."""
    lines = "\n".join(["A" * 64] * 60)
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    (tmp_path / "out").write_text(f"{key}\n{KEY}\n", encoding="utf-8")
    score = await scored(f"cat out; false {KEY}", tmp_path)
    text = f"{score.name} {score.detail}"
    assert KEY[:20] not in text
    (tmp_path / "out").write_text(f"token={'Ab3xQ9' * 500}\n", encoding="utf-8")
    assert "Ab3xQ9" not in (await scored("cat out; false", tmp_path)).detail
    assert "A" * 40 not in text


async def test_output_that_is_no_text_does_no_harm(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are replaced."""
    assert "\ufffd" in (await scored("printf '\\377\\376'; false", tmp_path)).detail


def test_scores_are_parsed() -> None:
    """`NAME=0.9` gives a score; a name may hold an equals sign."""
    assert parse_scores(["tests=0.9", "a=b=1"]) == [Score("tests", 0.9, "given"), Score("a=b", 1.0, "given")]


@pytest.mark.parametrize(
    "text",
    ["", "0.9", "=0.9", " =0.9", "a=", "a=x", "a=1.1", "a=-0.1", "a=nan", "a=inf", "a\0=1", "a\udcff=1"],
)
def test_scores_that_are_none_are_refused(text: str) -> None:
    """What is no NAME=NUMBER, or outside [0, 1], is an error that shows the form."""
    with pytest.raises(InvalidInputError, match=r"=0\.9|from 0 to 1"):
        parse_scores([text])


def test_one_name_twice_is_refused() -> None:
    """Which of two should count is not guessed."""
    with pytest.raises(InvalidInputError, match="'a' is given twice"):
        parse_scores(["a=1", "a=0"])


def test_scores_without_a_value_do_not_count() -> None:
    """What was not judged is left out, and of two with one name both count."""
    scores = [Score("a", 1.0, "given"), Score("b", None, "judge", "not judged"), Score("a", 0.0, "check")]
    assert by_name(scores) == {"a": 1.0, "a (2)": 0.0}
    assert told(scores) == "a: 1.0; a: 0.0"
