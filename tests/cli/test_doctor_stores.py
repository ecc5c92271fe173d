"""`agenthood doctor` on each store: what it tells of one that works, and of a server that does not."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.cli.checks_store import MANY_UNINDEXED, collection_check, wall_checks
from agenthood.stores.base import Health
from stores.http_servers import Answer, Request, serving
from stores.postgres_server import PostgresServer, settings_for, shared_url, sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli_support import Done, Run

JSON = {"content-type": "application/json"}
SECRET = "hush-0123456789"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function: sets variables of the environment, such as `store_url` for AGENTHOOD_STORE_URL."""

    def set_all(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"AGENTHOOD_{name.upper()}", value)

    return set_all


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, which its tests may stop."""
    made = PostgresServer()
    made.start()
    yield made
    made.remove()


def checks(done: Done) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in done.json["checks"]}


def lessons_of(run: Run) -> None:
    assert run("learn", "--episode", "fixed the flaky login test", "--score", 1).code == 0


@pytest.mark.parametrize(("backend", "version"), [("lancedb", "LanceDB 0."), ("sqlite", "SQLite 3.")])
def test_an_embedded_store(run: Run, use, store: Path, backend: str, version: str) -> None:
    """It says where it is, its version, whose it is, and of each collection the rows and indices; it makes nothing."""
    use(vector_backend=backend)
    lessons_of(run)
    before = sorted(store.rglob("*"))
    done = run("doctor", "--json")
    assert sorted(store.rglob("*")) == before
    found = checks(done)
    assert done.code == 0, done.out
    assert found["store backend"]["found"] == f"{backend} (AGENTHOOD_VECTOR_BACKEND)"
    assert found["store"]["found"] == f"{backend}, 1 lesson, 1 episode"
    assert found["store place"]["found"].startswith(str(store / "memory"))
    assert found["store version"]["found"].startswith(version)
    assert found["scope"]["found"] == "the directory's own"
    assert found["collection vectors"]["detail"]["rows"] >= 2
    (patterns,) = [check for name, check in found.items() if name.startswith("collection patterns")]
    assert patterns["detail"]["rows"] == 1
    assert patterns["found"].startswith("1 row; ")
    assert "tenant wall" not in found


def test_a_scope_and_the_rows_of_each_tenant(run: Run, use) -> None:
    """The scope in use is told, and how much each tenant has where they share a collection."""
    use(vector_backend="sqlite", tenant="acme", project="shop")
    lessons_of(run)
    use(tenant="b")
    lessons_of(run)
    found = checks(run("doctor", "--json"))
    assert found["scope"]["found"] == "tenant 'b' project 'shop'"
    (patterns,) = [check for name, check in found.items() if name.startswith("collection scoped_patterns")]
    assert patterns["detail"]["tenants"] == {"acme": 1, "b": 1}
    assert patterns["found"].endswith("tenants 'acme' 1, 'b' 1")


def test_postgres(run: Run, use, tmp_path: Path) -> None:
    """Server and extension have their versions, and the second wall holds; the password is nowhere."""
    settings = settings_for(tmp_path)
    use(vector_backend="postgres", store_url=shared_url(), store_namespace=settings.namespace, tenant="acme")
    empty = checks(run("doctor", "--json"))
    assert empty["store"]["result"] == "ok"
    assert empty["store timeout"]["found"] == "30 s (default)"
    assert not [name for name in empty if name.startswith("collection")]
    assert not sql("select 1 from pg_namespace where nspname = %s", [settings.namespace])
    lessons_of(run)
    done = run("doctor", "--json")
    found = checks(done)
    assert done.code == 0, done.out
    assert "pgvector 0." in found["store version"]["found"]
    assert found["store version"]["found"].startswith("PostgreSQL 1")
    assert found["tenant wall"] == {
        "name": "tenant wall", "result": "ok", "found": "row level security is in force",
    }  # fmt: skip
    use(tenant="b")
    lessons_of(run)
    done = run("doctor", "--json")
    found = checks(done)
    assert found["scope"]["found"].startswith("tenant 'b'")
    assert found["collection scoped_vectors"]["detail"]["tenants"].keys() == {"acme", "b"}
    password = shared_url().split(":")[2].partition("@")[0]
    assert password not in done.out + done.err


def test_a_user_who_may_only_read(run: Run, use, server: PostgresServer, tmp_path: Path) -> None:
    """The check of the store says that nothing can be learned, which tables refuse it, and what to grant."""
    settings = settings_for(tmp_path)
    use(vector_backend="postgres", store_url=server.url, store_namespace=settings.namespace)
    lessons_of(run)
    schema, reader = settings.namespace, f"reader_of_{settings.namespace}"
    for statement in (
        f"create role {reader} login password '{SECRET}'",
        f"grant usage on schema {schema} to {reader}",
        f"grant select on all tables in schema {schema} to {reader}",
    ):
        sql(statement, url=server.url)
    use(store_url=server.url.replace(f"agenthood:{server.password}", f"{reader}:{SECRET}"))
    done = run("doctor", "--json")
    found = checks(done)
    assert done.code == 1
    assert found["store"]["result"] == "failed"
    assert "the user may not write to rows_" in found["store"]["found"]
    assert "grant insert, update and delete" in found["store"]["found"]
    sql(f"grant insert, update, delete on all tables in schema {schema} to {reader}", url=server.url)
    assert checks(run("doctor", "--json"))["store"]["result"] == "ok"


def test_a_wrong_password(run: Run, use, server: PostgresServer) -> None:
    """The check of the store fails with what to do, once, and the password is nowhere."""
    use(vector_backend="postgres", store_url=server.url.replace(server.password, SECRET))
    done = run("doctor")
    assert done.code == 1
    (line,) = [line for line in done.out.splitlines() if line.startswith("failed\tstore\t")]
    assert "refused the user or password" in line
    assert SECRET not in done.out + done.err
    assert done.err == "failed: store\n"


@pytest.mark.parametrize("backend", ["postgres", "qdrant"])
def test_a_server_that_is_down(run: Run, use, backend: str) -> None:
    """It says which server cannot be reached; what waits to be learned is counted all the same, also of scopes."""
    scheme = "postgresql" if backend == "postgres" else "http"
    use(
        vector_backend=backend,
        store_url=f"{scheme}://me:{SECRET}@127.0.0.1:1",
        store_api_key=SECRET,
        tenant="t",
    )
    assert run("learn", "--episode", "fixed it", "--score", 1).code == 0
    started = time.monotonic()
    done = run("doctor", "--json")
    assert time.monotonic() - started < 10
    found = checks(done)
    assert done.code == 1
    assert found["store"]["result"] == "failed"
    assert "cannot" in found["store"]["found"]
    assert "127.0.0.1:1" in found["store place"]["found"]
    assert found["queue"]["detail"]["episodes"] == 1
    assert found["queue"]["detail"]["oldest"].startswith("20")
    assert SECRET not in done.out + done.err


def qdrant(key: str) -> Callable[[Request], Answer]:
    """A Qdrant without collections that wants `key`."""

    def answer(request: Request) -> Answer:
        if request.headers.get("api-key") != key:
            return Answer(401, f"Invalid API key {request.headers.get('api-key')}".encode())
        body: dict[str, Any] = {"title": "qdrant", "version": "1.17.1"}
        if request.path == "/collections":
            body = {"result": {"collections": []}, "status": "ok", "time": 0.0}
        elif request.path != "/":
            return Answer(404, b'{"status": {"error": "Not found: no such collection"}}', JSON)
        return Answer(200, json.dumps(body).encode(), JSON)

    return answer


def test_qdrant(run: Run, use) -> None:
    """It says which version answers; a key that is refused fails the check, and is not shown."""
    with serving(qdrant(SECRET)) as url:
        use(vector_backend="qdrant", store_url=url, store_api_key=SECRET)
        done = run("doctor", "--json")
        found = checks(done)
        assert done.code == 0, done.out
        assert "1.17.1" in found["store version"]["found"]
        assert found["store key"]["found"].startswith("set (")
        assert found["tenant wall"]["result"] == "ok"
        use(store_api_key=SECRET + "x")
        refused = run("doctor", "--json")
    assert refused.code == 1
    assert "key" in checks(refused)["store"]["found"]
    for one in (done, refused):
        assert SECRET not in one.out + one.err


def test_a_qdrant_that_hangs_is_given_up_on(run: Run, use) -> None:
    """It accepts requests and answers nothing."""
    with serving(lambda _: Answer(hang=30.0)) as url:
        use(vector_backend="qdrant", store_url=url, store_timeout="2", deadline="0.3")
        started = time.monotonic()
        done = run("doctor", "--json")
        assert time.monotonic() - started < 15
    assert done.code == 1
    assert "no answer within 2 s" in checks(done)["store"]["found"]


def test_an_address_that_is_no_url_is_not_shown(run: Run, use) -> None:
    """Libpq also takes a list of parameters, among them the password."""
    use(vector_backend="postgres", store_url=f"host=127.0.0.1 port=1 password={SECRET}")
    done = run("doctor", "--json")
    assert checks(done)["store address"]["found"].startswith("set, and not shown")
    assert SECRET not in done.out + done.err


def test_a_server_that_hangs_is_given_up_on(run: Run, use, server: PostgresServer) -> None:
    """It accepts connections and answers nothing: the verdict comes all the same, and names the backend."""
    use(vector_backend="postgres", store_url=server.url, store_timeout="2", deadline="0.3")
    server.pause()
    try:
        started = time.monotonic()
        done = run("doctor", "--json")
        assert time.monotonic() - started < 15
    finally:
        server.resume()
    assert done.code == 1
    assert checks(done)["store"]["found"].startswith("postgres: ")
    assert "did not answer within" in checks(done)["store"]["found"]


def told(**changes: Any) -> dict[str, Any]:
    indices = {"vector": {"type": "hnsw", "unindexed_rows": 0}}
    return {"rows": 5, "indices": indices, "unindexed_rows": 0, "quantization": "float16"} | changes


def test_what_falls_behind_is_a_warning() -> None:
    """Many rows outside of the index are one, with the command; few are not."""
    few = collection_check("a", told(rows=MANY_UNINDEXED, unindexed_rows=MANY_UNINDEXED))
    many = collection_check("a", told(rows=MANY_UNINDEXED + 1, unindexed_rows=MANY_UNINDEXED + 1))
    assert (few.result, many.result) == ("ok", "warning")
    assert many.found.startswith("20,001 rows; hnsw in float16; 20,001 not indexed; ")
    assert many.found.endswith("run agenthood maintain")
    text = collection_check("a", told(tenants={f"t{n}": 9 - n for n in range(9)})).found
    assert text.endswith("'t7' 2 and 1 more")


def test_a_missing_wall_is_a_warning_where_there_is_somebody_to_keep_out() -> None:
    """One tenant needs none, two do, and then it says how to."""
    for tenants, result in (({"a": 1}, "ok"), ({"a": 1, "b": 2}, "warning")):
        detail = {"row_level_security": "connect as another user", "scoped": told(tenants=tenants)}
        (check,) = wall_checks(Health("postgres", ok=True, detail=detail))
        assert check.result == result
        assert check.found.endswith("connect as another user")
