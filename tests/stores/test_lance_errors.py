"""Damage to the files of a LanceDB directory: each is an error of ours in one line with the next step."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreUnavailableError
from agenthood.stores.lance.store import LanceStore
from stores.backends import TYPED, everything, full
from stores.failing import fails

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("content", [b"", b"garbage", None], ids=["empty", "garbage", "cut"])
async def test_a_damaged_manifest(tmp_path: Path, content: bytes | None):
    """The error says how to go back to the version before, and that works."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(1)])
    await store.upsert(TYPED, [full(2)])
    await store.close()
    newest = min((tmp_path / f"{TYPED.name}.lance" / "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[:300] if content is None else content)

    again = LanceStore(tmp_path)
    for step in (lambda: again.count(TYPED), lambda: again.upsert(TYPED, [full(3)]), again.collections):
        await fails(step, StoreUnavailableError, "its newest manifest", "smallest-numbered file")
    health = await again.health()
    assert not health.ok
    assert "its newest manifest" in health.problem
    await again.close()

    shutil.move(newest, tmp_path / "aside")
    repaired = LanceStore(tmp_path)
    assert await repaired.ids(TYPED) == {full(1).id}
    await repaired.upsert(TYPED, [full(3)])
    assert await repaired.ids(TYPED) == {full(1).id, full(3).id}
    await repaired.close()


async def test_a_missing_data_file(tmp_path: Path):
    """A table whose data was taken away is unavailable, for every way of reading, and health tells."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(1)])
    await store.close()
    for file in (tmp_path / f"{TYPED.name}.lance" / "data").iterdir():
        file.unlink()
    again = LanceStore(tmp_path)
    query = full(1).vector[None]
    for step in (
        lambda: again.get(TYPED, ["a"]),
        lambda: everything(again, TYPED),
        lambda: again.query(TYPED, query),
    ):
        await fails(step, StoreUnavailableError, "a file of the table is missing")
    await again.close()
