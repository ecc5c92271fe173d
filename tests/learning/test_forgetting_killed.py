"""A forget that is killed: whatever it left undone, the next start, upkeep or forget does."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agenthood.learning.forgetting import UNFINISHED_KEY
from hoods import bodies, files_with, good, opened

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "rotated the zyxquartz credential after the outage"
WORD = "zyxquartz"
KEPT = "wrote the release notes from the commit log"

# A store that dies at a given change: before it, or in the middle of a purge, when the rows are marked only.
DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from agenthood.learning.forgetting import forget
from agenthood.memory.residual import ResidualMemory
from agenthood.stores.lance.store import LanceStore

class Dying(LanceStore):
    left = int(sys.argv[2])

    async def _step(self):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def upsert(self, collection, records):
        await self._step()
        return await super().upsert(collection, records)

    async def delete(self, collection, ids):
        await self._step()
        return await super().delete(collection, ids)

    async def purge(self, collection, ids):
        await self._step()
        if self.left == 0:
            await super().delete(collection, ids)
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().purge(collection, ids)

async def main():
    folder = Path(sys.argv[1])
    store = Dying(folder / "memory")
    await forget(store, [sys.argv[3]], episodes=True, residual=ResidualMemory(folder / "residual.json"))
    await store.close()

asyncio.run(main())
"""
STEPS = 6
"""The changes a forget makes there: the note, the index, the rows, the note, the shared table, the note."""


async def _filled(folder: Path) -> str:
    async with opened(folder) as hood:
        receipts = await hood.learn_many([good(SECRET), good(KEPT), good(SECRET), good("an unrelated thing")])
        return receipts[0].id or ""


def _forget(folder: Path, steps: int, id_: str) -> int:
    """Forget in a process that is killed after so many changes; returns its exit code."""
    command = [sys.executable, "-c", DYING, str(folder / ".agenthood"), str(steps), id_]
    return subprocess.run(command, check=False, timeout=60).returncode


async def _assert_forgotten(folder: Path) -> None:
    assert files_with(folder, WORD) == []
    async with opened(folder) as hood:
        assert sorted(lesson.text for lesson in await hood.lessons()) == ["an unrelated thing", KEPT]
        assert [lesson.text for lesson in await hood.recall(KEPT, limit=1)] == [KEPT]
        assert len(await bodies(hood, "ep:")) == 2
        assert await hood.long_term.retrieve(UNFINISHED_KEY) is None


@pytest.mark.parametrize("steps", range(1, STEPS))
async def test_the_next_start_finishes_it(tmp_path: Path, steps: int) -> None:
    """Killed at any of its changes: opening the store leaves no word of it on disk, and everything else."""
    id_ = await _filled(tmp_path)
    assert _forget(tmp_path, steps, id_) == -signal.SIGKILL
    assert files_with(tmp_path, WORD) != [] or steps == STEPS - 1
    async with opened(tmp_path):
        pass
    await _assert_forgotten(tmp_path)


async def test_killed_before_its_note_nothing_is_lost_but_the_signal(tmp_path: Path) -> None:
    """The lesson is there whole, and can be forgotten; in the end no note is left of the one that is through."""
    id_ = await _filled(tmp_path)
    assert _forget(tmp_path, 0, id_) == -signal.SIGKILL
    async with opened(tmp_path) as hood:
        assert next(one for one in await hood.lessons() if one.id == id_).evidence == 2
    assert _forget(tmp_path, STEPS, id_) == 0
    await _assert_forgotten(tmp_path)


@pytest.mark.parametrize("steps", [2, STEPS - 2])
async def test_upkeep_and_the_next_forget_finish_it(tmp_path: Path, steps: int) -> None:
    """In a store that has been open all the time; the ids of the note stay on disk no longer than the text."""
    id_ = await _filled(tmp_path)
    async with opened(tmp_path) as hood:
        assert _forget(tmp_path, steps, id_) == -signal.SIGKILL
        await (hood.maintain() if steps == 2 else hood.forget("ltm:learnings/none"))
        assert files_with(tmp_path, id_) == []
    await _assert_forgotten(tmp_path)


async def test_what_is_learned_anew_meanwhile_stays(tmp_path: Path) -> None:
    """Once only old versions are left to remove, a lesson of the same text is a new one."""
    id_ = await _filled(tmp_path)
    async with opened(tmp_path) as hood:
        assert _forget(tmp_path, STEPS - 2, id_) == -signal.SIGKILL
        assert (await hood.learn_many([good(SECRET)]))[0].status == "stored"
    async with opened(tmp_path) as hood:
        assert next(one for one in await hood.lessons() if one.id == id_).evidence == 1
