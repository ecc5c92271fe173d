"""What the tests of outages share: a hood whose real store goes wrong on command, and what is left behind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings
from agenthood.engine import AsyncHood
from agenthood.stores.testing import FaultyStore
from agenthood.sync import Hood

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.scope import Scope
    from agenthood.stores.base import VectorStore

DEADLINE = 0.15
SOON = 2.0
"""Seconds that anything under `DEADLINE` takes at most, on a machine that does other things too."""


class FaultyHood(AsyncHood):
    """A hood on a `FaultyStore` around the real one; `faulty` is there from the start."""

    def __init__(self, folder: Path, *, deadline: float = DEADLINE, fail: Any = None, **options: Any) -> None:
        settings = Settings(EmbedderSettings(kind="lexical"), deadline=deadline)
        super().__init__(folder / ".agenthood", fail=fail, **options | {"settings": settings})
        self.faulty = FaultyStore(super()._new_store(settings, None))

    def _new_store(self, settings: Settings, scope: Scope | None) -> VectorStore:  # noqa: ARG002
        return self.faulty


class FaultySync(Hood):
    """The same for `with`."""

    engine = FaultyHood


def left_over() -> tuple[int, int]:
    """How many threads and tasks there are, without the pool that an event loop keeps for its whole life."""
    threads = [one for one in threading.enumerate() if not one.name.startswith("asyncio_")]
    return len(threads), len(asyncio.all_tasks())
