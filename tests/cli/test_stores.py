"""The program on the stores that can be chosen, and for scopes: by environment and config.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cli_support import ROOT, Done, Run, spawn
from stores.postgres_server import settings_for

if TYPE_CHECKING:
    from pathlib import Path

MINE = "rotated the key of the payment gateway"
OURS = "fixed the flaky login test by mocking the clock"
WITHOUT = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] == {name!r} else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path = [Without(finder) for finder in sys.meta_path]
from agenthood.cli import main
sys.exit(main(sys.argv[1:]))
"""


def program(*arguments: object) -> Done:
    """Run the program in a process of its own, in the environment as it is."""
    process = spawn(*arguments)
    out, err = process.communicate(timeout=60)
    return Done(process.returncode, out.decode(), err.decode())


def without(package: str, backend: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program on a backend, one of whose packages is not installed."""
    url = {"postgres": "postgresql://127.0.0.1:1/x", "qdrant": "http://127.0.0.1:1"}.get(backend)
    environ = (
        os.environ | {"AGENTHOOD_VECTOR_BACKEND": backend} | ({"AGENTHOOD_STORE_URL": url} if url else {})
    )
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.replace("{name!r}", repr(package)), *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(params=["sqlite", "postgres"])
def chosen(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend that the environment chooses."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", request.param)
    if request.param == "postgres":
        settings = settings_for(tmp_path)
        monkeypatch.setenv("AGENTHOOD_STORE_URL", settings.url or "")
        monkeypatch.setenv("AGENTHOOD_STORE_NAMESPACE", settings.namespace)
    name: str = request.param
    return name


def test_every_command_works_on_the_store_that_is_chosen(
    chosen: str, run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From learning to forgetting, each in a process of its own or here; no other store is made."""
    place = ("--dir", store)
    done = program("learn", "--episode", OURS, "--score", "0.9", *place)
    assert (done.code, done.err) == (0, ""), done.err
    lesson = done.rows[0][1]
    assert program("recall", "flaky login test", *place).rows[0][-1] == OURS
    assert run("learn", "--episode", MINE, "--score", "0.1").code == 0
    assert {row[-1] for row in run("lessons").rows} == {OURS, MINE}
    status = run("status", "--json").json
    assert (status["store"], status["lessons"]) == (chosen, {"learned": 1, "antipattern": 1})
    assert chosen in run("doctor").out
    exported = program("export", *place)
    assert len(exported.out.splitlines()) == 4
    assert run("forget", lesson, "--yes", "--episodes").code == 0
    assert [row[-1] for row in run("lessons").rows] == [MINE]
    assert run("maintain").code == 0
    assert run("migrate").code == 0
    monkeypatch.setenv("AGENTHOOD_PROJECT", "another")
    lines = tmp_path / "lines.jsonl"
    lines.write_text(exported.out, encoding="utf-8")
    assert program("import", lines, *place).code == 0
    assert {row[-1] for row in run("lessons").rows} == {OURS, MINE}
    monkeypatch.delenv("AGENTHOOD_PROJECT")
    assert [row[-1] for row in run("lessons").rows] == [MINE]
    assert not (store / "memory").exists()
    assert (store / "memory.sqlite").exists() is (chosen == "sqlite")


def test_learning_for_all_agents(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`--shared` with an episode or a file is seen by every agent, and without it by the one that learned it."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"episode": "wrote the changelog", "score": 0.9}), encoding="utf-8")
    monkeypatch.setenv("AGENTHOOD_AGENT", "A")
    for arguments in (
        ("learn", "--episode", MINE, "--score", "0.9"),
        ("learn", "--episode", OURS, "--score", "0.9", "--shared"),
        ("learn", lines, "--shared"),
    ):
        assert run(*arguments).code == 0
    assert [row[-1] for row in run("lessons").rows] == [MINE]
    monkeypatch.setenv("AGENTHOOD_AGENT", "B")
    done = run("lessons")
    assert (done.code, done.out) == (0, "")
    assert [row[-1] for row in run("recall", "flaky login test").rows] == [OURS]
    assert [row[-1] for row in run("recall", "the changelog").rows] == ["wrote the changelog"]
    assert MINE not in run("recall", MINE, "--threshold", "0").out
    monkeypatch.delenv("AGENTHOOD_AGENT")
    assert {row[-1] for row in run("lessons").rows} == {OURS, "wrote the changelog"}


def test_a_scope_of_the_file(run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config.json` names it, the environment goes before it; who finds nothing is told for whom."""
    store.mkdir()
    (store / "config.json").write_text(
        '{"tenant": "acme", "agent": "A", "store": "sqlite"}', encoding="utf-8"
    )
    assert run("learn", "--episode", OURS, "--score", "0.9").code == 0
    assert run("status", "--json").json["scope"] == "tenant 'acme' agent 'A'"
    assert {"tenant", "agent"} <= {row[1] for row in run("doctor").rows}
    monkeypatch.setenv("AGENTHOOD_TENANT", "globex")
    done = run("recall", "flaky login test")
    assert (done.code, done.out) == (0, "")
    assert "nothing is stored for tenant 'globex' agent 'A'" in done.err


def test_doctor_reads_the_queue_of_the_scope(run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent's episodes wait in lies in a directory of its own."""
    monkeypatch.setenv("AGENTHOOD_AGENT", "A")
    assert run("learn", "--episode", OURS, "--score", "0.9").code == 0
    (folder,) = (store / "scopes").iterdir()
    (folder / "queue.jsonl").write_text("{damaged\n", encoding="utf-8")
    assert "1 line of" in run("doctor").out
    monkeypatch.setenv("AGENTHOOD_AGENT", "B")
    assert "1 line of" not in run("doctor").out


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"AGENTHOOD_VECTOR_BACKEND": "postgress"}, "did you mean 'postgres'"),
        ({"AGENTHOOD_VECTOR_BACKEND": "postgres"}, "AGENTHOOD_STORE_URL"),
        (
            {"AGENTHOOD_VECTOR_BACKEND": "postgres", "AGENTHOOD_STORE_URL": "://secret-1"},
            "store.url cannot be read",
        ),
        (
            {"AGENTHOOD_VECTOR_BACKEND": "qdrant", "AGENTHOOD_STORE_URL": "secret-1"},
            "store.url is no address",
        ),
        ({"AGENTHOOD_AGENT": "x" * 201}, "agent 'xxx"),
    ],
)
def test_a_store_that_cannot_be_chosen(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: str
) -> None:
    """One line says what is wrong and what to do, without a secret and without a trace; nothing is made."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    done = run("learn", "--episode", OURS, "--score", "0.9")
    assert done.code == 1
    assert said in done.err
    assert "secret-1" not in done.err
    assert "Traceback" not in done.err
    assert not store.exists()
    assert "failed" in run("doctor").out


@pytest.mark.parametrize(
    ("package", "backend"),
    [
        ("psycopg", "postgres"),
        ("pgvector", "postgres"),
        ("qdrant_client", "qdrant"),
        ("apsw", "sqlite"),
        ("sqlite_vec", "sqlite"),
    ],
)
def test_a_missing_extra_is_named(store: Path, package: str, backend: str) -> None:
    """Without the backend's packages the error has the line that installs them."""
    done = without(package, backend, "learn", "--episode", OURS, "--score", "0.9", "--dir", str(store))
    assert done.returncode == 1
    assert f"pip install 'agenthood-learning[{backend}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("package", "backend"), [("pgvector", "postgres"), ("qdrant_client", "qdrant"), ("sqlite_vec", "sqlite")]
)
def test_doctor_fails_where_an_extra_is_missing(store: Path, package: str, backend: str) -> None:
    """Before there is a store too, since the first lesson would have no place."""
    done = without(package, backend, "doctor", "--dir", str(store))
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("failed\tstore\t")]
    assert f"pip install 'agenthood-learning[{backend}]'" in line
    assert done.stderr == "failed: store\n"
    assert not store.exists()
