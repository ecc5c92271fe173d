"""A warning is given once, and a long reason too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenthood
from agenthood.cli.said import Said
from cli_support import Run, spawn

REASON = (
    "embedding model 'm' at 'http://127.0.0.1:9/v1': not reached (all attempts failed): check that it runs"
)
RETRY = "; it is asked again in 4 s"


def said(*texts: str) -> list[str]:
    one = Said()
    return [one.add(text) for text in texts]


def test_a_reason_is_given_once() -> None:
    """What else a warning says is kept, and one that says nothing else is left out."""
    assert said(
        REASON,
        REASON + RETRY,
        f"the index is not complete: {REASON}{RETRY}",
        f"2 lessons are missing ({REASON}): run agenthood migrate",
        f"the index is not complete: {REASON}; it is asked again in 3 s",
    ) == [
        REASON,
        "",
        "the index is not complete: for the same reason",
        "2 lessons are missing (for the same reason): run agenthood migrate",
        "",
    ]


def test_a_reason_inside_a_warning_is_known_too() -> None:
    """Whichever warning comes first has it whole."""
    assert said(f"wording is compared: {REASON}{RETRY}", REASON) == [
        f"wording is compared: {REASON}{RETRY}",
        "",
    ]
    assert said("a: b", "b", "c: b") == ["a: b", "b", "c: b"]


@given(st.lists(st.text(max_size=60) | st.sampled_from([REASON, f"x: {REASON}", f"y: {REASON}{RETRY}"])))
def test_nothing_is_lost_and_nothing_said_twice(texts: list[str]) -> None:
    """Every text was said, or shares a reason with one that was."""
    found = [text for text in said(*texts) if text]
    assert len(set(found)) == len(found)
    assert len(found) <= len(set(texts))
    for text in set(texts) - {""}:
        assert text in found or REASON in text


@pytest.fixture
def down(run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a lesson, whose embedder cannot be reached any more."""
    run("learn", "--episode", "fixed the flaky login test", "--score", 1)
    monkeypatch.delenv("AGENTHOOD_EMBEDDER")
    embedder = {
        "kind": "http",
        "model": "m",
        "baseUrl": "http://127.0.0.1:9/v1",
        "dimension": 8,
        "maxRetries": 0,
    }
    (store / "config.json").write_text(json.dumps({"embedder": embedder}))
    return store


@pytest.mark.parametrize(
    "arguments",
    [
        ("learn", "--episode", "learned without it", "--score", 1),
        ("recall", "flaky login test"),
        ("status",),
        ("maintain",),
    ],
)
def test_a_command_gives_the_reason_once(run: Run, down: Path, arguments: tuple[str, ...]) -> None:
    """An embedder that is down is explained in one warning, whatever else it leads to."""
    done = run(*arguments)
    assert done.err.count("not reached") == 1
    assert len(set(done.err.splitlines())) == len(done.err.splitlines())


def test_batches_give_the_reason_once(run: Run, down: Path) -> None:
    """A file of many batches is not a flood."""
    lines = [json.dumps({"episode": f"number {i}", "score": 1}) for i in range(12)]
    done = run("learn", "-", "--batch", 2, stdin="\n".join(lines))
    assert done.facts["pending"] == "12"
    assert done.err.count("not reached") == 1
    assert len(done.err.splitlines()) <= 4


def test_a_store_that_cannot_be_written_says_so_once(run: Run, store: Path) -> None:
    """`learn` gives one line with the reason; `migrate`, which has nothing to do, has nothing to complain of."""
    resource = pytest.importorskip("resource", reason="this system has no limits on file sizes")
    run("learn", "--episode", "fixed the flaky login test", "--score", 1)

    def unwritable() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    process = spawn("--dir", store, "learn", "--episode", "x", "--score", 1, preexec_fn=unwritable)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith(b"agenthood: rejected: ")
    assert err.count(b"\n") == 1
    process = spawn("--dir", store, "migrate", preexec_fn=unwritable)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    with agenthood.open(store) as hood:
        assert hood.status().episodes == 1
