"""`agenthood store copy` and `agenthood store check`: every row is looked at where it went."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from agenthood.stores.check_rules import CHECKS
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.sqlite.store import SqliteStore
from cli_support import spawn
from stores.backends import TYPED, everything, fields, full
from stores.postgres_server import schema_of, settings_for, shared_url, sql

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.stores.base import VectorStore
    from cli_support import Run

EPISODES = (
    ("fixed the flaky login test by mocking the clock", "0.95"),
    ("broke the deployment on Friday", "0.1"),
)


def rows_of(store: VectorStore) -> dict[str, list[tuple[object, ...]]]:
    """Every record by collection; closes the store."""

    async def read() -> dict[str, list[tuple[object, ...]]]:
        found = {
            one.name: sorted(map(fields, await everything(store, one)), key=repr)
            for one in await store.collections()
        }
        await store.close()
        return found

    return asyncio.run(read())


@pytest.fixture
def learned(run: Run, store: Path) -> Path:
    """A store with two lessons."""
    for text, score in EPISODES:
        assert run("learn", "--episode", text, "--score", score).code == 0
    return store


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A Postgres server, and a namespace of the test's own in it, both in one URL."""
    settings_for(tmp_path)  # drops it at the end
    return f"{shared_url()}?namespace={schema_of(tmp_path)}"


def test_copy_to_another_backend_of_the_directory(run: Run, learned: Path):
    """One line per collection with counts and checksum; the rows are the same; a second copy writes none."""
    done = run("store", "copy", "--from", "lancedb", "--to", "sqlite")
    assert done.code == 0
    assert [(row[0], row[1], row[2:5], row[-2:]) for row in done.rows][-1] == (
        "6", "6", ["0", "0", "0"], ["vectors", ""],
    )  # fmt: skip
    assert "8 records there, compared by count and checksum" in done.err
    assert rows_of(SqliteStore(learned / "memory.sqlite")) == rows_of(LanceStore(learned / "memory"))
    again = run("store", "copy", "--from", "lancedb", "--to", "sqlite", "--json")
    assert again.code == 0
    assert again.json["ok"] is True
    assert [(one["written"], one["unchanged"]) for one in again.json["layers"]] == [(0, 2), (0, 6)]
    assert all(one["source"] == one["target"] and len(one["source"]) == 64 for one in again.json["layers"])


def test_to_a_server_and_back(
    run: Run, learned: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The lessons are recalled from the server under the directory's project, and come back as they were."""
    password = urlsplit(url).password
    assert password
    with monkeypatch.context() as other:
        other.setenv("AGENTHOOD_TENANT", "zeta")
        assert run("learn", "--episode", EPISODES[0][0], "--score", "0.9").code == 0
    done = run("store", "copy", "--from", "lancedb", "--to", url)
    assert done.code == 0
    assert f"as tenant 'local' project {tmp_path.name!r}" in done.err
    assert password not in done.out + done.err
    with monkeypatch.context() as server:
        server.setenv("AGENTHOOD_VECTOR_BACKEND", "postgres")
        server.setenv("AGENTHOOD_STORE_URL", shared_url())
        server.setenv("AGENTHOOD_STORE_NAMESPACE", schema_of(tmp_path))
        recalled = run("recall", "the login test is flaky", "--json")
        assert EPISODES[0][0] in recalled.out
        assert run("status", "--json").json["lessons"] == {"learned": 1, "antipattern": 1}
    back = tmp_path / "elsewhere" / ".agenthood"
    done = run("store", "copy", "--from", url, "--to", f"sqlite:{back}")
    assert done.code == 0
    assert "nothing on the server is of tenant 'local' project 'elsewhere'" in done.err
    there = ", ".join(f"tenant {one!r} project {tmp_path.name!r}" for one in ("local", "zeta"))
    assert f"there are those of {there}; say with --tenant and --project" in done.err
    assert [name[:7] for name in rows_of(SqliteStore(back / "memory.sqlite"))] == ["scoped_", "scoped_"]
    named = ("--project", tmp_path.name)
    back = tmp_path / "again" / ".agenthood"
    done = run("store", "copy", "--from", url, "--to", back, *named)
    assert done.code == 0
    assert "nothing on the server" not in done.err
    assert rows_of(LanceStore(back / "memory")) == rows_of(LanceStore(learned / "memory"))


def test_a_copy_that_differs_fails(run: Run, learned: Path, url: str, tmp_path: Path):
    """A trigger on the server that alters a record is noticed: the collection is named, and the exit code is 1."""
    assert run("store", "copy", "--from", "lancedb", "--to", url).code == 0
    schema = schema_of(tmp_path)
    sql(
        f'create function "{schema}".alter_it() returns trigger language plpgsql as $$ begin '
        "new.content = new.content || ' '; return new; end $$"
    )
    tables = sql(
        "select table_name from information_schema.columns where table_schema = %s and column_name = 'content'",
        [schema],
    )
    for (table,) in tables:
        sql(
            f'create trigger alter_it before insert or update on "{schema}"."{table}" '
            f'for each row execute function "{schema}".alter_it()'
        )
    assert run("learn", "--episode", "wrote the release notes early", "--score", "0.9").code == 0
    done = run("store", "copy", "--from", "lancedb", "--to", url)
    assert done.code == 1
    assert f"collection 'scoped_vectors' of tenant 'local' project {tmp_path.name!r}: " in done.err
    assert "records differ in the target" in done.err
    assert "compared by count" not in done.err
    assert learned.exists()


def test_interrupted_it_goes_on(run: Run, store: Path):
    """Ctrl-C ends it with 130 and says that the same command goes on; it does."""

    async def fill() -> None:
        source = LanceStore(store / "memory")
        await source.upsert(TYPED, [full(n, lexical=None) for n in range(5_000)])
        await source.close()

    asyncio.run(fill())
    command = ("--dir", store, "store", "copy", "--from", "lancedb", "--to", "sqlite")
    process = spawn(*command)
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"copying")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"the same command goes on where this one was" in errors
    done = run(*command[2:], "--json")
    assert done.code == 0
    (layer,) = done.json["layers"]
    assert layer["records"] == layer["written"] + layer["unchanged"] == 5_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "sqlite", "--to", "lancedb"), "there is no store to copy: sqlite in"),
        (("--from", "lancedb", "--to", "lancedb"), "both are the same store"),
        (("--from", "lancedb", "--to", "sqlite", "--project", "x"), "--tenant and --project say"),
        (("--from", "lancedb", "--to", "postgres"), "needs the address of its server"),
        (("--from", "lancedb", "--to", "http://me:p4ssw0rd@127.0.0.1:1"), "cannot be reached"),
        (("--from", "postgresql://me:p4ssw0rd@127.0.0.1:1/x", "--to", "sqlite"), "cannot reach Postgres"),
    ],
)
def test_what_cannot_be_copied(run: Run, learned: Path, arguments: tuple[str, ...], words: str):
    """Exit code 1 and one line that says why; no store is made, and no password is shown."""
    before = sorted(learned.iterdir())
    done = run("store", "copy", *arguments)
    assert done.code == 1
    assert words in done.err
    assert "p4ssw0rd" not in done.out + done.err
    assert sorted(learned.iterdir()) == before


def test_check_says_what_it_found(run: Run, learned: Path):
    """One line per check; the directory is as it was."""
    before, rows = sorted(learned.iterdir()), rows_of(LanceStore(learned / "memory"))
    done = run("store", "check")
    assert done.code == 0
    assert {row[0] for row in done.rows} == {"ok"}
    assert [row[1] for row in done.rows][1:-1] == list(CHECKS)
    assert "all is well" in done.err
    assert sorted(learned.iterdir()) == before
    assert rows_of(LanceStore(learned / "memory")) == rows


def test_check_of_a_server(run: Run, url: str, tmp_path: Path):
    """A good one passes; one that deletes nothing fails that check; the password is in neither answer."""
    password = urlsplit(url).password
    assert password
    good = run("store", "check", url, "--json")
    assert (good.code, good.json["ok"]) == (0, True)
    schema = schema_of(tmp_path)
    left = sql("select table_name from information_schema.tables where table_schema = %s", [schema])
    assert not [name for (name,) in left if "check" in name]
    event = "cut" + schema
    sql(
        f'create function "{schema}".cut() returns event_trigger language plpgsql as $$ declare one record; begin '
        "for one in select * from pg_event_trigger_ddl_commands() where object_type = 'table' loop "
        f"if one.schema_name = '{schema}' then execute format("
        "'create rule nothing as on delete to %s do instead nothing', one.object_identity); "
        "end if; end loop; end $$"
    )
    sql(
        f"create event trigger {event} on ddl_command_end when tag in ('CREATE TABLE') "
        f'execute function "{schema}".cut()'
    )
    try:
        bad = run("store", "check", url)
    finally:
        sql(f"drop event trigger {event}")
    assert bad.code == 1
    failed = {row[1]: row[3] for row in bad.rows if row[0] == "failed"}
    assert "what is deleted is gone" in failed
    assert "expected" in failed["what is deleted is gone"]
    assert password not in good.out + good.err + bad.out + bad.err


def test_check_of_a_server_that_is_down(run: Run):
    """It fails with the reason and without the password, and makes nothing here."""
    done = run("store", "check", "postgresql://me:p4ssw0rd@127.0.0.1:1/x", "--json")
    assert done.code == 1
    assert [one["ok"] for one in done.json["checks"]] == [False]
    assert "cannot reach Postgres" in done.json["checks"][0]["found"]
    assert "p4ssw0rd" not in done.out + done.err
    assert json.loads(done.out)["store"] == "postgres at 127.0.0.1:1/x, namespace 'agenthood'"


def test_the_names_on_the_server_are_those_of_the_settings(run: Run, learned: Path, url: str, tmp_path: Path):
    """Where tenant and project are configured the engine looks there, so the records go there; options come first."""
    (learned / "config.json").write_text(json.dumps({"tenant": "acme", "project": "web"}))
    done = run("store", "copy", "--from", "lancedb", "--to", url, "--json")
    assert {one["scope"] for one in done.json["layers"]} == {"tenant 'acme' project 'web'"}
    done = run("store", "copy", "--from", "lancedb", "--to", url, "--project", "shop", "--json")
    assert {one["scope"] for one in done.json["layers"]} == {"tenant 'acme' project 'shop'"}
    done = run("store", "copy", "--from", url, "--to", f"sqlite:{tmp_path / 'new'}", "--tenant", "acme")
    assert done.code == 0
    assert f"as tenant 'acme' project {tmp_path.name!r}" in done.err


def test_waiting_episodes_are_pointed_out(run: Run, learned: Path):
    """They are in a file beside the store, which is not copied."""
    (learned / "queue.jsonl").write_text('{"episode": "waits"}\n')
    done = run("store", "copy", "--from", "lancedb", "--to", "sqlite")
    assert done.code == 0
    assert "wait to be learned" in done.err
