"""What the tests of the memories share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agenthood.stores.lance.store import LanceStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LanceStore]:
    """An empty store."""
    opened = LanceStore(tmp_path / "memory")
    yield opened
    await opened.close()
