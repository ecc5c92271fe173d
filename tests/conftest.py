"""For every test: no network, a clean environment, the same examples; and fixtures for the golden stores."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

import network_guard

TESTS = Path(__file__).parent
SHARED = Path(os.environ.get("AGENTHOOD_SHARED", TESTS.parent.parent / "shared"))
"""Inputs that lie beside the repository, made by the TypeScript program."""

GoldenStore = Callable[[str], Path]

# LanceDB reads it when it is imported; processes that tests start inherit it.
os.environ["LANCEDB_LOG"] = "error"

# The same examples on every run; `--hypothesis-profile thorough` looks for new ones.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1_000)
hypothesis.settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    """Guard this process, and through `PYTHONPATH` every Python process that a test starts."""
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS / "guard"), inherited]))
    network_guard.install()


@pytest.fixture(scope="session")
def network_attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file in which the guard writes down every attempt to leave loopback."""
    return tmp_path_factory.mktemp("network") / "attempts.txt"


@pytest.fixture(autouse=True)
def _no_network(network_attempts: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that tried to leave loopback, itself or by a process, even if the code survived that."""
    network_attempts.write_text("", encoding="utf-8")
    monkeypatch.setenv(network_guard.LOG_VARIABLE, str(network_attempts))
    yield
    attempts = network_attempts.read_text(encoding="utf-8")
    if attempts:
        pytest.fail(f"left loopback:\n{attempts}", pytrace=False)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the developer's own environment would change: settings, keys, servers, proxies."""
    for name in os.environ:
        if _changes_behaviour(name.upper()):
            monkeypatch.delenv(name)
    # On a machine that runs other tests beside this one, a store's answer may take longer than the second it has.
    monkeypatch.setenv("AGENTHOOD_DEADLINE", "30")


def _changes_behaviour(name: str) -> bool:
    return (
        name.startswith("AGENTHOOD_")
        or name.endswith(("_API_KEY", "_BASE_URL", "_PROXY"))
        or name == "OLLAMA_HOST"
    )


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run `async def` tests on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository, or `$AGENTHOOD_SHARED`; skips where there is none."""
    if not SHARED.is_dir():
        pytest.skip(
            f"no folder {str(SHARED)!r}: set AGENTHOOD_SHARED to run the tests on real TypeScript stores"
        )
    return SHARED


@pytest.fixture
def golden_store(shared: Path, tmp_path: Path) -> GoldenStore:
    """A function: unpacks the TypeScript store `a` or `b` as `.agenthood`, whose path it returns.

    The LanceDB folder is `memory` below it. A second store of one test goes to a second folder.
    """

    def unpack(name: str) -> Path:
        folder = _unused(tmp_path / ".agenthood")
        with tarfile.open(shared / "ts-store" / f"{name}.tar.gz") as archive:
            # Python 3.11 before 3.11.4 has no such filter, and later ones warn where none is named.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder)
        return folder

    return unpack


def _unused(folder: Path) -> Path:
    while folder.exists():
        folder = folder.with_name(folder.name + "-more")
    return folder
