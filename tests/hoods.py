"""What the tests of the engine share: opening a store, looking at its rows, and at its bytes on disk."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import agenthood
from agenthood.embedding.testing import HashedEmbedder
from agenthood.formats import loads_object
from agenthood.records import EvalResult
from agenthood.stores.base import SHARED, Record

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.engine import AsyncHood

SMALL = 64
"""Dimension of a space that has a table of its own; small, since calibration embeds some 450 texts."""


def small(**options: Any) -> HashedEmbedder:
    """A semantic test embedder of 64 dimensions."""
    return HashedEmbedder(dimension=SMALL, **options)


def opened(folder: Path, embedder: Any = "lexical", **options: Any) -> AsyncHood:
    """The store below `folder`, for `async with`; without a model unless one is given."""
    return agenthood.open_async(folder / ".agenthood", embedder=embedder, **options)


def good(episode: str, score: float = 0.9, member: str = "dev", skill: str = "test") -> EvalResult:
    """An episode that went well."""
    return EvalResult(episode, {"score": score}, member=member, skill=skill)


def bad(episode: str, score: float = 0.1, member: str = "dev", skill: str = "test") -> EvalResult:
    """An episode that failed."""
    return good(episode, score, member, skill)


async def shared_rows(hood: AsyncHood) -> dict[str, Record]:
    """Every row of the shared table, by id."""
    return {record.id: record async for batch in hood.store.scan(SHARED) for record in batch}


async def bodies(hood: AsyncHood, prefix: str) -> dict[str, dict[str, Any]]:
    """Id -> JSON content of the shared rows whose id starts with `prefix`."""
    rows = await shared_rows(hood)
    return {id_: loads_object(row.content) for id_, row in rows.items() if id_.startswith(prefix)}


def files_with(folder: Path, text: str) -> list[str]:
    """The files below `folder` that hold `text`, as it is or as a file name."""
    wanted = text.encode()
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if wanted in str(path).encode() or (path.is_file() and wanted in path.read_bytes())
    )


class Clock:
    """A clock that a test moves on.

    Attributes:
        now: what it shows.
    """

    def __init__(self, now: datetime = datetime(2026, 6, 1, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """The time it shows."""
        return self.now

    def wait(self, days: float) -> None:
        """Let days pass."""
        self.now += timedelta(days=days)
