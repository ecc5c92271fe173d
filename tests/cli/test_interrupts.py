"""Ctrl-C in a long `learn` or `import`: every settled line is counted, and the line named is the one to go on after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agenthood
from cli_support import spawn
from embedding.fake_endpoint import DIMENSION, good, serve

HELD = "number 15 was done"
LINES = [{"episode": f"number {i} was done", "score": 1, "member": f"m{i}"} for i in range(30)]


class Slow:
    """Holds the answer back to whoever has `HELD` embedded.

    Attributes:
        asked: set once a program waits for that answer.
        release: lets the answer go.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.release = threading.Event()

    def answer(self, handler: Any, request: dict[str, Any]) -> None:
        """Answer a request, perhaps later."""
        if any(HELD in text for text in request["input"]):
            self.asked.set()
            assert self.release.wait(60)
        try:
            good(handler, request)
        except OSError:
            handler.close_connection = True  # the program did not wait


@pytest.fixture
def slow(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """A store with an embedder that can be waited for."""
    monkeypatch.delenv("AGENTHOOD_EMBEDDER")
    one = Slow()
    with serve() as server:
        server.faults = [one.answer] * 1_000
        settings = {"kind": "http", "model": "m", "baseUrl": server.base_url, "dimension": DIMENSION}
        store.mkdir()
        (store / "config.json").write_text(json.dumps({"embedder": settings}))
        yield one
        one.release.set()


def buffered() -> dict[str, str]:
    """The environment, without what would make the program write unbuffered."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def interrupted(process: subprocess.Popen[bytes], slow: Slow) -> str:
    """Press Ctrl-C while the second batch runs; what the program says at once."""
    assert slow.asked.wait(60)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    return process.stderr.readline().decode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Thirty episodes."""
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def test_the_batch_that_runs_is_finished_and_counted(store: Path, file: Path, slow: Slow) -> None:
    """Ctrl-C in the second batch: both batches are in the store, in the counts, and in the line to go on after."""
    process = spawn("--dir", store, "learn", file, "--batch", 10)
    assert "finishing the batch" in interrupted(process, slow)
    slow.release.set()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.startswith(b"stored\t20\n")
    assert list(filter(None, err.decode().splitlines())) == [
        "agenthood: stopped: line 20 was the last one settled, go on after it",
        "agenthood: error: interrupted",
    ]
    with agenthood.open(store) as hood:
        assert (hood.status().episodes, hood.status().pending) == (20, 0)


def test_every_settled_line_has_its_receipt(store: Path, file: Path, slow: Slow) -> None:
    """With --json the last receipt is that of the last settled line, also where output is buffered."""
    process = spawn("--dir", store, "--json", "learn", file, "--batch", 10, env=buffered())
    interrupted(process, slow)
    slow.release.set()
    out, _ = process.communicate(timeout=60)
    assert [json.loads(line)["line"] for line in out.splitlines()] == list(range(1, 21))


def test_a_second_ctrl_c_ends_at_once(store: Path, file: Path, slow: Slow) -> None:
    """Nobody waits for an embedder that hangs; what is certain and what is not is said, and is so."""
    process = spawn("--dir", store, "--json", "learn", file, "--batch", 10, env=buffered())
    interrupted(process, slow)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode() == (
        "agenthood: ended at once: line 10 was the last one settled; up to line 20 lines may be learned or not\n"
    )
    assert len(out.splitlines()) == 10
    slow.release.set()
    with agenthood.open(store) as hood:
        assert hood.status().episodes == 10


def test_after_a_kill_the_status_tells_where_to_go_on(store: Path, file: Path, slow: Slow) -> None:
    """The batches before are whole, the one that ran is absent, and learning the rest counts every line once."""
    process = spawn("--dir", store, "learn", file, "--batch", 10)
    assert slow.asked.wait(60)
    process.kill()
    process.communicate(timeout=60)
    slow.release.set()
    with agenthood.open(store) as hood:
        learned = hood.status().episodes
    assert learned == 10
    tail = subprocess.run(["tail", "-n", f"+{learned + 1}", file], capture_output=True, check=True)
    rest = spawn("--dir", store, "learn", "-", stdin=subprocess.PIPE)
    out, _ = rest.communicate(tail.stdout, timeout=60)
    assert out.startswith(b"stored\t20\n")
    with agenthood.open(store) as hood:
        assert hood.status().episodes == 30
        assert {lesson.evidence for lesson in hood.lessons()} == {1}


def test_an_import_finishes_its_batch(store: Path, tmp_path: Path, slow: Slow) -> None:
    """The lessons of the batch are findable afterwards, as the embedder was not closed under it."""
    lessons = tmp_path / "lessons.jsonl"
    lessons.write_text(json.dumps({"type": "lesson", "kind": "learned", "text": HELD}) + "\n")
    process = spawn("--dir", store, "import", lessons)
    interrupted(process, slow)
    slow.release.set()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert list(filter(None, err.decode().splitlines())) == [
        "agenthood: stopped: import the file again, what is there already is skipped",
        "agenthood: error: interrupted",
    ]
    with agenthood.open(store) as hood:
        assert (hood.status().lessons["learned"], hood.status().pending) == (1, 0)
