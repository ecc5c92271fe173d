"""`agenthood learn`: what is learned, what is refused, and that nothing is lost in between."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

import agenthood
from cli_support import Run, at_terminal, read_terminal, spawn
from stores.test_errors import read_only

GOOD = {
    "episode": "fixed the flaky login test by mocking the clock",
    "score": 0.95,
    "member": "dev",
    "skill": "test",
}
BAD = {"episode": "deployed on friday without a rollback plan", "scores": {"tests": 0.2, "review": 0.0}}
MIXED = [
    json.dumps(GOOD).encode() + b"\r\n",
    b"not json\n",
    b"\n",
    json.dumps(BAD).encode() + b"\n",
    b'{"episode": "half way", "score": 0.5}\n',
    b'{"episode": "\xff", "score": 1}\n',
    b'{"episode": "out of range", "score": 2}\n',
    b'{"episode": "nul \\u0000", "score": 1}\n',
    b'{"episode": "last line without newline", "score": 1, "outcome": "ok"}',
]
REFUSED = [2, 6, 7, 8]


def test_good_lines_are_learned_and_bad_ones_reported_and_kept(run: Run, store: Path, tmp_path: Path) -> None:
    """One bad line costs only itself: it is named by number, kept byte for byte, and the exit code is 1."""
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b"".join(MIXED))
    rejects = tmp_path / "rejects.jsonl"
    done = run("learn", file, "--rejects", rejects)
    assert done.code == 1
    assert done.facts == {"stored": "3", "merged": "0", "pending": "0", "skipped": "1", "rejected": "4"}
    assert [line.split(":")[1].strip() for line in done.err.splitlines()] == [f"line {n}" for n in REFUSED]
    assert rejects.read_bytes() == b"".join(MIXED[number - 1] for number in REFUSED)
    with agenthood.open(store) as hood:
        lessons = {lesson.text: lesson for lesson in hood.lessons()}
        assert hood.status().episodes == 4
    assert lessons.keys() == {GOOD["episode"], BAD["episode"], "last line without newline"}
    assert lessons[BAD["episode"]].kind == "antipattern"
    assert lessons[GOOD["episode"]].member == "dev"


def test_json_has_one_receipt_per_line_in_order(run: Run) -> None:
    """Programs get the fate of every line that is not blank, with its number."""
    done = run("--json", "learn", "-", stdin=b"".join(MIXED))
    receipts = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 1
    assert [receipt["line"] for receipt in receipts] == [1, 2, 4, 5, 6, 7, 8, 9]
    assert [receipt["line"] for receipt in receipts if receipt["status"] == "rejected"] == REFUSED
    assert all(receipt["reason"] for receipt in receipts if receipt["status"] == "rejected")
    assert receipts[0]["id"].startswith("ltm:learnings/v1:")


@pytest.mark.parametrize("batch", [1, 2, 500])
def test_batches_make_no_difference(run: Run, store: Path, batch: int) -> None:
    """The same line again is merged, in the same batch or the next."""
    done = run("learn", "-", "--batch", batch, stdin=(json.dumps(GOOD) + "\n") * 5)
    assert (done.code, done.facts["stored"], done.facts["merged"]) == (0, "1", "4")
    with agenthood.open(store) as hood:
        assert [lesson.evidence for lesson in hood.lessons()] == [5]


def test_one_episode_can_be_given_by_options(run: Run, store: Path) -> None:
    """All fields have an option; the receipt is printed."""
    options = [
        "--outcome",
        "green",
        "--member",
        "dev",
        "--skill",
        "test",
        "--timestamp",
        "2026-06-01T12:00:00Z",
    ]
    done = run("learn", "--episode", GOOD["episode"], "--score", 0.9, *options)
    assert done.code == 0
    assert done.rows[0][0] == "stored"
    assert run("learn", "--episode", GOOD["episode"], "--score", 1, *options).out.startswith("merged\t")
    with agenthood.open(store) as hood:
        (lesson,) = hood.lessons()
    assert (lesson.member, lesson.skill, lesson.first_seen) == ("dev", "test", "2026-06-01T12:00:00.000Z")
    assert lesson.evidence == 2


def test_one_episode_that_is_refused_fails(run: Run, store: Path) -> None:
    """An unusable episode is exit code 1 and a reason, and nothing is stored."""
    done = run("learn", "--episode", " ", "--score", 1)
    assert (done.code, done.out) == (1, "")
    assert "rejected: " in done.err
    with agenthood.open(store) as hood:
        assert hood.lessons() == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such permissions")
def test_a_directory_that_cannot_be_written_is_the_only_reason(run: Run, store: Path) -> None:
    """No store was ever made there: none was removed, and no lesson waits."""
    store.mkdir()
    with read_only(store):
        done = run("learn", "--episode", "x", "--score", 1)
    assert (done.code, done.out) == (1, "")
    assert "ermission" in done.err or "ead-only" in done.err
    assert "was removed" not in done.err
    assert "cannot be found by meaning yet" not in done.err


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such permissions")
@pytest.mark.parametrize("backend", ["lancedb", "sqlite"])
def test_a_file_is_not_begun_where_nothing_can_be_written(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """One line says what cannot be made, and what to do; there is no line to go on after."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", backend)
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(GOOD))
    store.mkdir()
    with read_only(store):
        done = run("learn", file)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"agenthood: error: '{store / 'memory'}")
    assert f"check who owns {str(store)!r}, or choose a path on a writable disk\n" in done.err
    assert done.err.count("\n") == 1
    assert list(store.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such permissions")
@pytest.mark.parametrize("part", ["memory", "memory/vectors.lance"])
def test_a_file_waits_where_only_the_store_cannot_be_written(
    run: Run, store: Path, tmp_path: Path, part: str
) -> None:
    """As with one episode: its lines are queued, and learned once the store can be written again."""
    run("learn", "--episode", "x y z", "--score", 1)
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(GOOD))
    with read_only(store / part):
        done = run("learn", file)
    assert (done.code, done.facts["pending"]) == (0, "1")
    assert "what is learned waits until the store can take it: " in done.err
    assert run("status").facts["queued"] == "0"
    assert run("status").facts["lessons that worked"] == "2"


def test_unknown_keys_are_reported_once(run: Run) -> None:
    """A mistyped key is named with what was meant, not once per line."""
    line = '{"episode": "a", "score": 1, "skil": "x"}\n'
    done = run("learn", "-", stdin=line * 3)
    assert done.code == 0
    assert done.err == (
        "agenthood: warning: unknown key 'skil' ignored in 3 lines, the first of them line 1; did you mean 'skill'?\n"
    )
    assert run("-q", "learn", "-", stdin=line).err == ""


def test_a_key_that_is_there_is_not_meant_by_another(run: Run) -> None:
    """An unknown key beside `episode` is no mistyped `episode`."""
    lines = [{"episode_id": 7, **GOOD}, {"score_": {}, **GOOD}]
    done = run("learn", "-", stdin="\n".join(map(json.dumps, lines)))
    assert "unknown key 'episode_id' ignored in 1 line, the first of them line 1\n" in done.err
    assert "unknown key 'score_' ignored in 1 line, the first of them line 2\n" in done.err


def test_a_mistyped_score_loses_no_episode(run: Run, tmp_path: Path) -> None:
    """A line without scores but with an unknown key is a bad one, and is kept."""
    line = '{"episode": "a", "scroe": 0.9}\n'
    done = run("learn", "-", "--rejects", tmp_path / "rejects", stdin=line)
    assert (done.code, done.facts["rejected"], done.facts["skipped"]) == (1, "1", "0")
    assert done.err == "agenthood: line 1: no score, and unknown key 'scroe'; did you mean 'score'?\n"
    assert (tmp_path / "rejects").read_text() == line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give FILE, - for standard input, or --episode TEXT."),
        (["mended the clock"], "does not exist. If it is an episode: --episode 'mended the clock'. See"),
        (["done"], "'done' does not exist. See"),
        (["-", "--episode", "x"], "not both."),
        (["-", "--score", "1"], "--score goes with --episode"),
        (["--episode", "x", "--rejects", "r"], "--rejects is about"),
        (["--episode", "x"], "--episode needs --score NUMBER"),
        (["--episode", "x", "--outcome", "y"], "--episode needs --score NUMBER"),
        (["--episode", "x", "--score", "7"], "'7' is no number from 0 to 1."),
        (["--episode", "x", "--score", "nan"], "'nan' is no number from 0 to 1."),
        (["--episode", "x", "--score=-0.1"], "'-0.1' is no number from 0 to 1."),
        (["--episode", "x", "--score", "high"], "'high' is no number from 0 to 1."),
        (["absent.jsonl"], "'absent.jsonl' does not exist."),
        (["--episode", "x", "--timestamp", "yesterday"], "is not a time"),
        (["-", "--batch", "0"], "0 is not in the range"),
    ],
)
def test_misuse_is_exit_code_2(run: Run, store: Path, arguments: list[str], message: str) -> None:
    """The line says what is wrong and where help is; no store is made."""
    done = run("learn", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.startswith("agenthood: error: ")
    assert done.err.endswith("See agenthood learn --help\n")
    assert not store.exists()


def test_rejects_never_overwrite_lines(run: Run, tmp_path: Path) -> None:
    """Neither the file being learned nor what an earlier run left may be the file of rejects."""
    file = tmp_path / "in.jsonl"
    file.write_bytes(b"bad\n")
    assert "is the file being learned" in run("learn", file, "--rejects", file).err
    assert run("learn", file, "--rejects", tmp_path / "out").code == 1
    again = run("learn", file, "--rejects", tmp_path / "out")
    assert again.code == 1
    assert "is not empty" in again.err
    assert file.read_bytes() == (tmp_path / "out").read_bytes() == b"bad\n"


def test_an_empty_file_is_no_error(run: Run, tmp_path: Path) -> None:
    """No line, no lesson, nothing wrong."""
    done = run("learn", "-", "--rejects", tmp_path / "rejects")
    assert done.code == 0
    assert set(done.facts.values()) == {"0"}
    assert (tmp_path / "rejects").read_bytes() == b""


def test_ctrl_c_keeps_what_was_learned_and_says_where_to_go_on(store: Path) -> None:
    """Interrupted while waiting for input: exit code 130, no traceback, and the settled lines are in the store."""
    process = spawn("--dir", store, "--json", "learn", "-", "--batch", 1, stdin=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(GOOD).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["status"] == "stored"  # it now waits for more
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped: line 1 was the last one settled" in err.decode()
    assert err.decode().endswith("agenthood: error: interrupted\n")
    assert "Traceback" not in err.decode()
    with agenthood.open(store) as hood:
        assert len(hood.lessons()) == 1


@pytest.mark.parametrize("lines", [None, json.dumps(GOOD).encode() + b"\n"])
def test_ctrl_c_before_anything_was_learned_says_so(store: Path, lines: bytes | None) -> None:
    """While the store is opened, or before the first batch is complete: no line was learned, run it again."""
    process = spawn("--dir", store, "learn", "-", stdin=-1)
    assert process.stdin is not None
    folder = store / "memory" if lines else store  # made at the end of opening, or at its beginning
    while not folder.exists():
        assert process.poll() is None
        time.sleep(0.001)
    if lines:
        process.stdin.write(lines)
        process.stdin.flush()
        time.sleep(2)  # it now waits for more
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert list(filter(None, err.decode().splitlines())) == [
        "agenthood: stopped before any line was learned, run it again",
        "agenthood: error: interrupted",
    ]
    with agenthood.open(store) as hood:
        assert hood.status().episodes == 0


def test_progress_is_shown_at_a_terminal_only(store: Path, tmp_path: Path, run: Run) -> None:
    """People see a bar on long work, pipes do not."""
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"episode": f"episode {i}", "score": 0.5}) + "\n" for i in range(600)))
    with at_terminal("--dir", store, "learn", file) as (process, ours):
        assert "Learning" in read_terminal(ours)
        assert process.wait(60) == 0
    done = run("learn", file)
    assert done.err == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_a_file(store: Path, tmp_path: Path) -> None:
    """`agenthood learn <(generate)` reads what has no size."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = spawn("--dir", store, "learn", pipe)
    pipe.write_bytes(json.dumps(GOOD).encode())
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"stored\t1\n")


def test_a_disk_that_fills_up_stops_at_once(store: Path, tmp_path: Path) -> None:
    """One line has the reason and where to go on; nothing after that line is learned or among the rejects."""
    resource = pytest.importorskip("resource", reason="this system has no limits on file sizes")
    limit = (100_000, 100_000)  # plays the full disk
    noise = random.Random(1)
    texts = [f"number {i} {noise.randbytes(100 if i < 8 else 20_000).hex()}" for i in range(40)]
    lines = [json.dumps({"episode": text, "score": 1, "member": f"m{i}"}) for i, text in enumerate(texts)]
    lines[3] = lines[10] = "not json"
    file, rejects = tmp_path / "in.jsonl", tmp_path / "rejects"
    file.write_text("\n".join(lines))
    process = spawn(
        *("--dir", store, "learn", file, "--batch", 4, "--rejects", rejects),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    out, err = process.communicate(timeout=100)
    first, *warnings, last = err.decode().splitlines()
    assert process.returncode == 1
    assert first.startswith("agenthood: line 4: not JSON")
    assert all(line.startswith("agenthood: warning: compacting ") for line in warnings)
    assert last.startswith("agenthood: error: stopped: line 8 was the last one settled, go on after it: ")
    assert "file size" in last or "size limit" in last
    assert (out.splitlines()[0], out.splitlines()[-1]) == (b"stored\t7", b"rejected\t1")
    assert rejects.read_text() == "not json\n"
    with agenthood.open(store) as hood:
        assert hood.status().episodes == 7


def test_a_disk_that_is_full_from_the_start(store: Path, tmp_path: Path) -> None:
    """There is no line to go on after, and none is named."""
    resource = pytest.importorskip("resource", reason="this system has no limits on file sizes")
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(GOOD))
    process = spawn(
        *("--dir", store, "learn", file),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    _, err = process.communicate(timeout=100)
    last = err.decode().splitlines()[-1]
    assert process.returncode == 1
    assert last.startswith("agenthood: error: stopped before any line was learned, run it again: ")
    assert "size limit" in last


def test_reasons_that_repeat_are_counted(run: Run, tmp_path: Path) -> None:
    """Ten lines are named for a reason, then how many more; all are kept, and the other reasons are said."""
    lines = ["not json", " not json"] * 12 + ["not json", "{}"] + ["not json"] * 5
    done = run("learn", "-", "--batch", 7, "--rejects", tmp_path / "rejects", stdin="\n".join(lines))
    assert done.facts["rejected"] == "31"
    said = done.err.splitlines()
    assert [line.split(":")[1] for line in said[:11]] == [f" line {n}" for n in (*range(1, 11), 26)]
    assert said[11:] == [
        "agenthood: ... and 20 more lines for the same reason as line 1: not JSON: Expecting value at column 1"
    ]
    assert (tmp_path / "rejects").read_text() == "\n".join(lines)


def test_the_help_says_what_is_printed(run: Run) -> None:
    """The columns of one episode and the counts of a file are in the help, in their order."""
    text = " ".join(run("learn", "--help").out.split())
    status, id_, kind, evidence = run("learn", "--episode", "x", "--score", 1).rows[0]
    assert (status, kind, evidence) == ("stored", "learned", "evidence 1")
    assert id_.startswith("ltm:")
    assert "the lesson's id, kind and evidence, and the reason" in text
    assert list(run("learn", "-").facts) == ["stored", "merged", "pending", "skipped", "rejected"]
    assert "stored, merged, pending (learned, but not yet findable by meaning), skipped and rejected" in text
