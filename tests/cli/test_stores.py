"""The program on the stores that can be chosen, and for scopes: by environment and config.json."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agenthood.stores.settings import StoreSettings
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


@pytest.mark.parametrize(("made", "chosen"), [("lancedb", "sqlite"), ("sqlite", "lancedb")])
def test_the_store_of_another_backend_is_not_passed_over(
    made: str, chosen: str, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes the backend is told that the lessons are still there, and how to bring them along."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", made)
    assert run("learn", "--episode", OURS, "--score", "0.9").code == 0
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", chosen)
    command = f"store copy --from {made} --to {chosen} --dir {store}"
    for asked in (("status",), ("recall", "flaky login test"), ("learn", "--episode", "a", "--score", "0.5")):
        assert f"there is a {made} store: agenthood {command}" in run(*asked).err
        if asked == ("recall", "flaky login test"):
            (row,) = (row for row in run("doctor").rows if row[1] == "store")
            assert row[0] == "warning"
            assert command in row[2]
    assert run(*command.split()).code == 0
    done = run("recall", "flaky login test")
    assert (done.rows[0][-1], done.err) == (OURS, "")


def test_a_mistyped_backend_is_told_where_there_is_no_store(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store that is not found is the default one: what was mistyped is said as well."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEN", "sqlite")
    for command in (("status",), ("recall", "x")):
        said = run(*command).err
        assert "there is no store at" in said
        assert "did you mean 'AGENTHOOD_VECTOR_BACKEND'" in said


@pytest.fixture
def down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server where nobody listens is the store."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", "postgres")
    monkeypatch.setenv("AGENTHOOD_STORE_URL", "postgresql://127.0.0.1:1/x")
    monkeypatch.setenv("AGENTHOOD_DEADLINE", "0.3")


@pytest.mark.usefixtures("down")
def test_a_recall_while_the_server_is_down(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open, the answer is degraded and says so; closed, it is an error."""
    done = run("recall", "x")
    assert (done.code, done.out) == (0, "")
    assert "the answer is degraded" in done.err
    assert "warning: " in done.err
    told = run("recall", "x", "--json").json
    assert (told["threshold"], told["degraded"], told["lessons"]) == (0.65, True, [])
    assert run("recall", "x", "--json", "--threshold", "0.4").json["threshold"] == 0.4
    monkeypatch.setenv("AGENTHOOD_FAIL", "closed")
    for arguments in (("recall", "x"), ("recall", "x", "--json")):
        done = run(*arguments)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("agenthood: error: ")


@pytest.mark.usefixtures("down")
def test_a_file_is_queued_while_the_server_is_down(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an episode by itself is; closed, nothing is, and the exit code is 1."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps({"episode": text, "score": 0.9}) + "\n" for text in (OURS, MINE)))
    monkeypatch.setenv("AGENTHOOD_FAIL", "closed")
    assert run("learn", lines).code == 1
    assert not list(store.rglob("queue.jsonl"))
    monkeypatch.setenv("AGENTHOOD_FAIL", "open")
    done = run("learn", lines, "--batch", 1)
    assert (done.code, done.facts["pending"], done.facts["rejected"]) == (0, "2", "0")
    assert "waits until the store can take it" in done.err
    (queue,) = store.rglob("queue.jsonl")
    assert [json.loads(line)["episode"] for line in queue.read_text().splitlines()] == [OURS, MINE]


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
    (row,) = run("recall", "flaky login test").rows
    assert (row[0], row[-1]) == ("learned, shared", OURS)
    assert [row[-1] for row in run("recall", "the changelog").rows] == ["wrote the changelog"]
    for command in (("pin", row[-2]), ("forget", row[-2]), ("forget", row[-2], "--yes")):
        done = run(*command)
        assert done.code == 1
        assert done.err.endswith("; lessons of the project's shared layer: leave out AGENTHOOD_AGENT\n")
    assert MINE not in run("recall", MINE, "--threshold", "0").out
    assert run("status").facts["scope"] == "tenant 'local' agent 'B'"
    monkeypatch.delenv("AGENTHOOD_AGENT")
    assert {row[-1] for row in run("lessons").rows} == {OURS, "wrote the changelog"}
    assert "shared" not in run("recall", "flaky login test").out
    assert "AGENTHOOD_AGENT" not in run("pin", "nosuch").err


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
    """What an agent's episodes wait in lies in a directory of its own; doctor looks into those of all."""
    monkeypatch.setenv("AGENTHOOD_AGENT", "A")
    assert run("learn", "--episode", OURS, "--score", "0.9").code == 0
    (folder,) = (store / "scopes").iterdir()
    (folder / "queue.jsonl").write_text("{damaged\n", encoding="utf-8")
    for agent in ("B", "A"):
        monkeypatch.setenv("AGENTHOOD_AGENT", agent)
        assert "1 line of" in run("doctor").out


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


def test_what_waits_for_one_store_is_not_learned_in_another(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typo in the address or the namespace takes nothing that was meant for the right server."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", "postgres")
    monkeypatch.setenv("AGENTHOOD_STORE_URL", "postgresql://ann:secret@127.0.0.1:1/nowhere")
    assert run("learn", "--episode", OURS, "--score", "0.9").code == 0
    monkeypatch.delenv("AGENTHOOD_STORE_URL")
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", "sqlite")
    assert run("learn", "--episode", "sped up the cache", "--score", "0.9").code == 0
    assert len(run("lessons", "--json").json) == 1
    assert "1 episode since" in run("doctor").out
    assert "another store than the one configured" in run("doctor").out
    first, *others = [
        StoreSettings(backend="postgres", url=url, namespace=namespace).folder
        for url, namespace in (
            ("postgresql://ann:secret@host/db", "a"),
            ("postgresql://bob@host/db/", "a"),
            ("postgresql://host/db", "b"),
            ("postgresql://host/other", "a"),
        )
    ]
    assert [other == first for other in others] == [True, False, False]


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
