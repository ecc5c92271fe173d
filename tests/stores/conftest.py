"""The fixtures of the contract suite: every test that takes `backend` or `store` runs once per backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stores.backends import BACKENDS, ON_SERVERS, SHARED, TYPED, Backend
from stores.qdrant_local import remove_qdrant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from agenthood.stores.base import Collection, VectorStore


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for every backend, or for those that its module names in `TESTED`."""
    said = {str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize")}
    if "backend" in metafunc.fixturenames and "backend" not in " ".join(said):
        metafunc.parametrize("backend", getattr(metafunc.module, "TESTED", tuple(BACKENDS)), indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A backend with a place of its own, which is removed afterwards."""
    yield Backend(request.param, tmp_path)
    if request.param == "qdrant":
        remove_qdrant(tmp_path)


@pytest.fixture
def on_disk(backend: Backend) -> None:
    """For tests that look into the files: skips where these are a server's."""
    if backend.name in ON_SERVERS:
        pytest.skip("its files are a server's: see the docstring of its `purge` for what they keep")


@pytest.fixture
async def store(backend: Backend) -> AsyncIterator[VectorStore]:
    """An empty store."""
    opened = backend.open()
    yield opened
    await opened.close()


@pytest.fixture(params=[TYPED, SHARED], ids=["typed", "shared"])
def collection(request: pytest.FixtureRequest) -> Collection:
    """A table of our own, and the one shared with the TypeScript program."""
    found: Collection = request.param
    return found
