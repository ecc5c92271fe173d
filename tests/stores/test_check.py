"""`check_store` passes on every backend, leaves nothing behind, and finds each fault that is planted."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreUnavailableError
from agenthood.stores.base import Collection
from agenthood.stores.check import StoreCheck, check_store
from agenthood.stores.check_ground import Ground, UnmetError
from agenthood.stores.check_rules import CHECKS
from agenthood.stores.naming import is_leftover, is_scratch, scratch_name
from agenthood.stores.sqlite.store import SqliteStore
from agenthood.stores.testing import READS, WRITES, Fault, FaultyStore
from stores.backends import TYPED, full
from stores.lying import (
    DeletesTooLittle,
    Distances,
    DropsNothing,
    ForgetsTerms,
    IgnoresCase,
    KeepsOldMetadata,
    LosesOneOfMany,
    MissesTheNearest,
    NoCombiningMarks,
    NoLock,
    RefusesTheWholeBatch,
    RoundsVectors,
    SeesEveryScope,
    TiesAsTheyCome,
    WholeWordsOnlyAtTheStart,
    WritesInTwoSteps,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agenthood.stores.base import VectorStore
    from stores.backends import Backend

REACHED, CLEAN = "can be reached and written to", "leaves nothing behind"


async def checked(open_store: Callable[[], VectorStore]) -> dict[str, StoreCheck]:
    """The checks by name, in their order."""
    async with aclosing(check_store(open_store)) as found:
        return {one.name: one async for one in found}


async def test_every_backend_passes(backend: Backend, store: VectorStore):
    """All checks pass, in seconds, and collections and records of others are as they were."""
    if backend.name == "scoped":
        pytest.skip("scopes of a scope: the checks are of what holds them")
    await store.upsert(TYPED, [full(1)])
    found = await checked(backend.open)
    assert list(found) == [REACHED, *CHECKS, CLEAN]
    assert [one for one in found.values() if not one.ok] == []
    assert sum(one.seconds for one in found.values()) < 20
    async with backend.reopened() as again:
        assert [one.name for one in await again.collections()] == [TYPED.name]
        assert await again.count(TYPED) == 1


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (KeepsOldMetadata, "an upsert replaces the whole record"),
        (ForgetsTerms, "records come back as they were"),
        (RoundsVectors, "records come back as they were"),
        (LosesOneOfMany, "records come back as they were"),
        (RefusesTheWholeBatch, "a bad record is refused alone"),
        (NoCombiningMarks, "texts of all scripts are kept"),
        (IgnoresCase, "filters give what brute force gives"),
        (Distances, "similarity is the cosine"),
        (TiesAsTheyCome, "the nearest come first, ties by id"),
        (MissesTheNearest, "the nearest come first, ties by id"),
        (DeletesTooLittle, "what is deleted is gone"),
        (SeesEveryScope, "scopes see only their own"),
        (NoLock, "the write lock has one holder"),
        (WritesInTwoSteps, "writers at once lose and mix nothing"),
        (WholeWordsOnlyAtTheStart, "terms are found"),
    ],
)
async def test_a_fault_is_found(tmp_path: Path, fault: type[FaultyStore], check: str):
    """The check that it concerns says what was expected and what was found."""
    file = tmp_path / "memory.sqlite"
    ground = Ground(fault(SqliteStore(file)), fault(SqliteStore(file)), scratch_name())
    await ground.reach()
    with pytest.raises(UnmetError, match=r"expected .*, found "):
        await CHECKS[check](ground)
    await ground.close()


async def test_all_checks_are_made_whatever_fails(tmp_path: Path):
    """A store that drops no collection fails the check of that, and only that."""
    found = await checked(lambda: DropsNothing(SqliteStore(tmp_path / "memory.sqlite")))
    assert list(found) == [REACHED, *CHECKS, CLEAN]
    assert [one.name for one in found.values() if not one.ok] == [CLEAN]
    assert found[CLEAN].found.startswith("collections left: expected [], found ['check_")


async def test_a_store_that_is_down_fails_once(tmp_path: Path):
    """There is one check, which says why."""

    def broken() -> FaultyStore:
        store = FaultyStore(SqliteStore(tmp_path / "memory.sqlite"))
        store.break_down(Fault("fail", error=StoreUnavailableError("nobody there")), READS | WRITES)
        return store

    found = await checked(broken)
    assert list(found) == [REACHED]
    assert "nobody there" in found[REACHED].found


async def test_garbage_is_a_failed_check_not_a_crash(tmp_path: Path):
    """A store may answer with anything; every check is told."""

    def broken() -> FaultyStore:
        return FaultyStore(
            SqliteStore(tmp_path / "memory.sqlite"),
            lambda name: Fault("garbage") if name in {"query", "get"} else None,
        )

    found = await checked(broken)
    assert list(found) == [REACHED, *CHECKS, CLEAN]
    assert not found["similarity is the cosine"].ok
    assert found["terms are found"].ok
    assert found[CLEAN].ok


@pytest.mark.parametrize("how", ["left early", "cancelled"])
async def test_what_was_made_is_removed_however_it_ends(tmp_path: Path, how: str):
    """Also where the checks are broken off in the middle of one."""

    def open_store() -> SqliteStore:
        return SqliteStore(tmp_path / "memory.sqlite")

    begun = asyncio.Event()

    async def some() -> None:
        async with aclosing(check_store(open_store)) as found:
            async for one in found:
                if one.name == "filters give what brute force gives":
                    begun.set()
                    if how == "left early":
                        return

    work = asyncio.create_task(some())
    await begun.wait()
    if how == "cancelled":
        work.cancel()
    await asyncio.wait([work])
    store = open_store()
    assert await store.collections() == ()
    await store.close()


async def test_what_a_killed_check_left_is_removed_later(tmp_path: Path):
    """Names say when they were made: the old ones go, those of a check that may be running stay."""
    store = SqliteStore(tmp_path / "memory.sqlite")
    old, young, other = "check_60000000_abcdef_3", f"{scratch_name()}_1", "check_list"
    for name in (old, young, other, f"scoped_{old}"):
        await store.ensure_collection(Collection(name, 8, typed=True))
    assert [is_leftover(name) for name in (old, young, other, f"scoped_{old}")] == [True, False, False, True]
    assert [is_scratch(name) for name in (old, young, other, f"scoped_{old}")] == [True, True, False, True]
    await checked(lambda: SqliteStore(tmp_path / "memory.sqlite"))
    assert {one.name for one in await store.collections()} == {young, other}
    await store.close()
