"""What `agenthood doctor` finds out about the store in use: what it runs on, who is in it, and what falls behind."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

from agenthood.cli.check import Check
from agenthood.cli.text import counted
from agenthood.errors import AgenthoodError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from agenthood.config import Settings
    from agenthood.records import Status
    from agenthood.stores.base import Health

MANY_UNINDEXED = 20_000
"""Rows compared one by one that no longer go unnoticed: twice what the backends begin to index at."""
_TENANTS_SHOWN = 8
_WALL = "tenant wall"


def store_checks(path: Path, settings: Settings) -> Iterator[Check]:
    """Ask the store how it is, as the one whose it is, then open it as every command does.

    Whoever may connect is told of all tenants. A store that does not answer is waited for only so long, and once.

    Args:
        path: the `.agenthood` directory.
        settings: what to open it with.
    """
    status: Status | None = None
    try:
        health = asyncio.run(_health(path, settings))
        if health.ok:  # else everything that is asked of it fails, one after the other
            status = _status(path, settings)
    except AgenthoodError as error:
        yield Check("store", "failed", str(error))
        return
    yield _summary(health, status)
    yield from _runs_on(health)
    if status is not None:
        yield Check("scope", "ok", status.scope or "the directory's own")
    for name, told in health.collections.items():
        yield collection_check(name, told)
    yield from wall_checks(health)
    if status is not None:
        yield _active(status.space, status.reason)
        if status.pending:
            text = f"{counted(status.pending, 'lesson')} not findable by meaning yet: run agenthood migrate"
            yield Check("pending", "warning", text)


async def _health(path: Path, settings: Settings) -> Health:
    """What the store says of everything in it."""
    from agenthood.stores.factory import create_store  # noqa: PLC0415  these load numpy
    from agenthood.stores.guarded import GuardedStore  # noqa: PLC0415

    store = GuardedStore(
        create_store(settings.store, path),
        backend=str(settings.store.backend),
        deadline=settings.deadline,
        quiet=True,
    )
    try:
        return await store.health()
    finally:
        await store.close()


def _status(path: Path, settings: Settings) -> Status:
    import agenthood  # noqa: PLC0415
    from agenthood.cli.logs import logged_to  # noqa: PLC0415

    logged: list[str] = []  # the checks say the same, each in its place
    with (
        logged_to(logged.append),
        agenthood.open(path, settings=settings, start_migration=False) as hood,
    ):
        return hood.status()


def _summary(health: Health, status: Status | None) -> Check:
    if status is None:
        return Check("store", "failed", f"{health.backend}: {health.problem}")
    lessons = counted(sum(status.lessons.values()), "lesson")
    return Check("store", "ok", f"{health.backend}, {lessons}, {counted(status.episodes, 'episode')}")


def _runs_on(health: Health) -> Iterator[Check]:
    """Where it is, and in which versions; both are known only as far as it answered."""
    place = health.detail.get("address") or health.detail.get("path")
    if place:
        yield Check("store place", "ok", str(place))
    if version := health.detail.get("version"):
        yield Check("store version", "ok", f"{health.backend} {version}" if version[0].isdigit() else version)


def collection_check(name: str, told: Mapping[str, Any]) -> Check:
    """How much is in it, how it is indexed, and how far the indices are."""
    unindexed = told["unindexed_rows"]
    found = [counted(told["rows"], "row"), _indices(told)]
    if unindexed:
        found.append(f"{unindexed:,} not indexed")
    if tenants := told.get("tenants"):
        found.append(f"tenants {_tenants(tenants)}")
    text = "; ".join(filter(None, found))
    detail = dict(told)
    if unindexed > MANY_UNINDEXED:
        advice = "searches read each of these: run agenthood maintain"
        return Check(f"collection {name}", "warning", f"{text}; {advice}", detail)
    return Check(f"collection {name}", "ok", text, detail)


def _indices(told: Mapping[str, Any]) -> str:
    """The types of the indices of vectors, which are what a search by meaning takes its time for."""
    vectors = ("vector", "lexical", "vector_idx", "lexical_idx")
    kinds = dict.fromkeys(told["indices"][name]["type"] for name in vectors if name in told["indices"])
    if not kinds:
        return "no index of vectors yet"
    return " and ".join(kinds) + (f" in {told['quantization']}" if told["quantization"] else "")


def _tenants(rows: Mapping[str, int]) -> str:
    shown = ", ".join(f"{tenant!r} {count:,}" for tenant, count in islice(rows.items(), _TENANTS_SHOWN))
    more = len(rows) - _TENANTS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def wall_checks(health: Health) -> Iterator[Check]:
    """Whether the server itself keeps tenants apart; without it, agenthood's own filters do that alone."""
    wall = health.detail.get("row_level_security")
    if wall is None:
        return
    if wall == "in force":
        yield Check(_WALL, "ok", "row level security is in force")
        return
    tenants = {tenant for told in health.collections.values() for tenant in told.get("tenants", ())}
    # Nobody has to be kept from anybody where there is one.
    yield Check(_WALL, "warning" if len(tenants) > 1 else "ok", f"no row level security: {wall}")


def _active(space: str | None, reason: str) -> Check:
    """Which embedder the store is really used with."""
    if space is None:
        return Check("active embedder", "failed", f"none: {reason or 'no embedder works'}")
    return Check("active embedder", "warning" if reason else "ok", f"{space}; {reason}" if reason else space)
