"""Many processes and tasks on one store: no evidence is lost and nothing is there twice."""

from __future__ import annotations

import asyncio
import multiprocessing
from typing import TYPE_CHECKING

import pytest

import agenthood
from agenthood.embedding.testing import HashedEmbedder
from agenthood.learning.calibration import reference_texts
from hoods import bodies, good, opened, small

if TYPE_CHECKING:
    from pathlib import Path

# LanceDB's threads do not survive a fork.
SPAWN = multiprocessing.get_context("spawn")
TEXT = "fixed the flaky login test by mocking the clock"


def _learn_alone(folder: str, texts: list[str], at_once: object) -> None:
    """What one process does: open the store, wait for the others, learn each text as a batch and one by one."""
    with agenthood.open(folder, embedder=HashedEmbedder()) as hood:
        at_once.wait(100)  # type: ignore[attr-defined]
        receipts = [hood.learn(texts[0], score=0.9, member="dev", skill="test")]
        receipts += hood.learn_many([good(text) for text in texts[1:]])
    if {receipt.status for receipt in receipts} > {"stored", "merged"}:
        raise SystemExit(f"{receipts!r}")


def _run(folder: Path, texts: list[list[str]]) -> None:
    at_once = SPAWN.Barrier(len(texts))
    processes = [
        SPAWN.Process(target=_learn_alone, args=(str(folder / ".agenthood"), own, at_once)) for own in texts
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(250)
    assert [process.exitcode for process in processes] == [0] * len(processes)


@pytest.mark.timeout(300)  # eight interpreters on two busy cores
async def test_eight_processes_lose_no_evidence(tmp_path: Path) -> None:
    """All learn one lesson and each some of its neighbours': every count is right, every lesson indexed once.

    The store itself is made in the same race, and its patterns are in the shared table.
    """
    others = reference_texts()[:24]
    texts = [[TEXT, *others[2 * n : 2 * n + 8]] for n in range(8)]
    everything = [text for own in texts for text in own]
    await asyncio.to_thread(_run, tmp_path, texts)
    async with opened(tmp_path, HashedEmbedder()) as hood:
        lessons = {lesson.text: lesson for lesson in await hood.lessons()}
        episodes = await bodies(hood, "ep:")
        present = list((await hood.index.present()).values())
        assert (await hood.learner.get_status()).bands["learned"] == len(everything)
    assert {text: one.evidence for text, one in lessons.items()} == {
        t: everything.count(t) for t in everything
    }
    assert lessons[TEXT].evidence == 8
    cited = [id_ for lesson in lessons.values() for id_ in lesson.episodes]
    assert sorted(cited) == sorted(episodes)
    assert len(present) == len(set(present)) == len(lessons)


async def test_many_tasks_learning_one_lesson(tmp_path: Path) -> None:
    """Tasks of one event loop share a store as processes do."""
    async with opened(tmp_path, small()) as hood:
        receipts = await asyncio.gather(*(hood.learn(TEXT, score=0.9) for _ in range(12)))
        assert sorted(receipt.evidence or 0 for receipt in receipts) == list(range(1, 13))
        assert [lesson.evidence for lesson in await hood.lessons()] == [12]


async def test_a_second_handle_sees_what_the_first_learned(tmp_path: Path) -> None:
    """A store opened before another wrote shows the new lesson to recall and merges into it."""
    async with opened(tmp_path, small()) as one, opened(tmp_path, small()) as two:
        await one.learn(TEXT, score=0.9)
        assert [lesson.text for lesson in await two.recall(TEXT)] == [TEXT]
        assert (await two.learn(TEXT, score=0.9)).evidence == 2
        assert (await one.recall(TEXT))[0].evidence == 2
        await two.forget((await one.lessons())[0].id)
        assert list(await one.recall(TEXT)) == []
