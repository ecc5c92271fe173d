"""The guard over every test: it bites beyond loopback, in this process and in others, and nowhere else."""

from __future__ import annotations

import asyncio
import http.server
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

import network_guard
from network_guard import NetworkForbiddenError

# Reserved for documentation: nothing answers there, should the guard ever fail.
OUTSIDE = ("192.0.2.1", 80)
OUTSIDE_6 = ("2001:db8::1", 80, 0, 0)


@pytest.fixture
def attempts(network_attempts: Path):
    """What was written down in this test, taken back at the end so that the test may pass."""
    yield lambda: network_attempts.read_text(encoding="utf-8").splitlines()
    network_attempts.write_text("", encoding="utf-8")


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, OUTSIDE), (socket.AF_INET6, OUTSIDE_6), (socket.AF_INET, ("host.example", 80))],
)
def test_connecting_beyond_loopback_fails(attempts, method, family, address):
    """A connection to an outside address or name raises and is written down."""
    with socket.socket(family) as opened, pytest.raises(NetworkForbiddenError, match="loopback only"):
        getattr(opened, method)(address)
    assert attempts() == [f"socket.connect {address[0]!r}"]


def test_datagrams_beyond_loopback_fail(attempts):
    """A datagram to an outside address raises, by either call that sends one."""
    with socket.socket(type=socket.SOCK_DGRAM) as opened:
        with pytest.raises(NetworkForbiddenError):
            opened.sendto(b"x", OUTSIDE)
        with pytest.raises(NetworkForbiddenError):
            opened.sendmsg([b"x"], [], 0, OUTSIDE)
    assert len(attempts()) == 2


@pytest.mark.parametrize(
    "resolve",
    [
        lambda: socket.getaddrinfo("host.example", 80),
        lambda: socket.getaddrinfo(b"host.example", 80),
        lambda: socket.gethostbyname("host.example"),
        lambda: socket.gethostbyaddr("192.0.2.1"),
        lambda: socket.getnameinfo(OUTSIDE, 0),
    ],
)
def test_resolving_a_name_fails(attempts, resolve):
    """Every function that would ask a name server raises."""
    with pytest.raises(NetworkForbiddenError):
        resolve()
    assert len(attempts()) == 1


async def test_asyncio_is_guarded(attempts):
    """Connections of an event loop, whose names are resolved in a thread, raise too."""
    with pytest.raises(NetworkForbiddenError):
        await asyncio.open_connection("host.example", 80)
    with pytest.raises(NetworkForbiddenError):
        await asyncio.open_connection(*OUTSIDE)
    assert len(attempts()) == 2


def test_other_processes_are_guarded(attempts):
    """A Python process started by a test is guarded, and its attempt reaches the test."""
    program = "import socket; socket.socket().connect(('192.0.2.1', 80))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "NetworkForbiddenError" in result.stderr
    assert attempts() == ["socket.connect '192.0.2.1'"]


def test_a_survived_attempt_still_fails_the_test(tmp_path):
    """A test whose code swallows the error is reported as failed."""
    test = tmp_path / "test_inner.py"
    test.write_text(
        "import contextlib, socket\n"
        "def test_inner():\n"
        "    with contextlib.suppress(Exception):\n"
        "        socket.create_connection(('192.0.2.1', 80))\n"
    )
    (tmp_path / "conftest.py").symlink_to(Path(__file__).parent / "conftest.py")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path, test],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(network_guard.__file__).parent)},
    )
    assert result.returncode == 1, result.stdout
    assert "left loopback" in result.stdout


def test_loopback_works(attempts):
    """A local server is reached by name, by address and over HTTP as ever."""
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    with closing(server.socket):
        with urllib.request.urlopen(f"http://localhost:{server.server_port}/", timeout=10) as answer:
            assert answer.status == 200
        thread.join()
    assert attempts() == []


@pytest.mark.parametrize(
    "host", [None, "", "localhost", "127.0.0.1", b"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]
)
def test_hosts_on_this_machine_are_local(host):
    """Loopback in all its spellings, and no host at all, are allowed."""
    assert network_guard.is_local(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "10.0.0.1", "::", "localhost.example", "127.0.0.1.example", "::ffff:10.0.0.1"]
)
def test_other_hosts_are_not_local(host):
    """Private networks, wildcard addresses and names that look local are refused."""
    assert not network_guard.is_local(host)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets on this system")
def test_unix_sockets_work(tmp_path, attempts):
    """Sockets in the file system never leave the machine."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as opened:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        opened.connect(str(tmp_path / "s"))
    assert attempts() == []


def test_the_environment_is_clean(monkeypatch):
    """No setting, key, server or proxy of the developer reaches a test; one of ours does, for slow machines."""
    wrong = [
        n
        for n in os.environ
        if n.upper().startswith("AGENTHOOD_") or n.upper().endswith(("_API_KEY", "_PROXY"))
    ]
    assert wrong == ["AGENTHOOD_DEADLINE"]
    assert "OLLAMA_HOST" not in os.environ
    assert os.environ["LANCEDB_LOG"] == "error"
