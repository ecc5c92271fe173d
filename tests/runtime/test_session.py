"""Sessions: what an agent of the user's own is shown, and what is kept of its run, in both colours."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

import agenthood
from agenthood.errors import InvalidInputError
from agenthood.session import MAX_OUTCOME, shortened
from agents import KEY
from hoods import bad, bodies, good, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenthood import Hood
    from agenthood.session import Session

TASK = "fix the flaky login test"


@contextmanager
def opened_sync(folder: Path) -> Iterator[Hood]:
    """The same store as `opened`, for `with`."""
    with agenthood.open(folder / ".agenthood", embedder="lexical") as hood:
        yield hood


async def test_lessons_first_learning_last(tmp_path: Path) -> None:
    """The block has what bears on the task; on leaving, episode and lesson are there with their outcome."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(f"{TASK} by mocking the clock"), bad(f"{TASK} by sleeping longer")])
        async with hood.session(TASK, member="dev", skill="test") as session:
            assert "mocking the clock" in session.block
            assert "sleeping longer" in session.block
            assert len(session.lessons) == 2
            session.end("seeded the random numbers")
            session.score("tests", 1.0)
            session.score("review", 0.8)
        assert session.receipt is not None
        assert (session.receipt.status, session.receipt.score) == ("merged", 0.9)
        episode = await hood.episodic.get_episode(session.episode_id or "")
        (lesson,) = await hood.lessons(kind="learned")
    assert episode is not None
    assert (episode.episode, episode.outcome) == (TASK, "seeded the random numbers")
    assert episode.details["scores"] == {"tests": 1.0, "review": 0.8}
    assert (lesson.member, lesson.skill, lesson.evidence) == ("dev", "test", 2)
    assert session.episode_id in lesson.episodes


def test_the_synchronous_form_does_the_same(tmp_path: Path) -> None:
    """`with` shows, records and learns like `async with`."""
    with opened_sync(tmp_path) as hood:
        hood.learn(f"{TASK} by mocking the clock", score=0.9, member="dev")
        with hood.session(TASK, member="dev") as session:
            assert "mocking the clock" in session.block
            assert session.lessons[0].member == "dev"
            session.end("seeded the random numbers")
            session.score("tests", 0.1)
        assert session.receipt is not None
        assert (session.receipt.status, session.receipt.kind) == ("stored", "antipattern")
        assert session.receipt.episode_id == session.episode_id
        assert hood.recall(TASK)[0].outcome == "seeded the random numbers"


async def test_lessons_of_the_same_skill_come_first(tmp_path: Path) -> None:
    """Those of other skills fill what room is left, each lesson once."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(TASK, skill=skill) for skill in ("a", "b", "c")])
        async with hood.session(TASK, skill="b", limit=2) as session:
            assert len({lesson.id for lesson in session.lessons}) == 2
            assert session.lessons[0].skill == "b"


async def test_equal_lessons_give_equal_blocks(tmp_path: Path) -> None:
    """Two sessions on the same store show the same bytes."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(TASK, skill=f"skill {n}") for n in range(5)])
        blocks = []
        for _ in range(2):
            async with hood.session(TASK) as session:
                blocks.append(session.block)
                assert len(session.lessons) == 5
        assert blocks[0] == blocks[1] != ""


async def test_the_block_has_a_cap(tmp_path: Path) -> None:
    """`lessons` are those in the block, and it keeps to its size."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(f"{TASK} {'very ' * 30}", skill=f"skill {n}") for n in range(4)])
        async with hood.session(TASK, max_bytes=600) as session:
            assert len(session.block.encode()) <= 600
            assert 0 < session.block.count("\n- [") == len(session.lessons) < 4
        async with hood.session(TASK, limit=0) as session:
            assert (session.block, session.lessons) == ("", ())


async def test_without_scores_only_the_episode_is_kept(tmp_path: Path) -> None:
    """Nothing is learned from a run that nobody judged."""
    async with opened(tmp_path) as hood:
        async with hood.session(TASK) as session:
            session.end("done")
        assert session.receipt is not None
        assert session.receipt.status == "skipped"
        assert len(await bodies(hood, "ep:")) == 1


class OddError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("no such branch"), "failed with ValueError: no such branch"),
        (KeyboardInterrupt(), "interrupted"),
        (asyncio.CancelledError(), "interrupted"),
        (OddError(), "failed with "),
    ],
    ids=["error", "ctrl-c", "cancelled", "odd"],
)
async def test_an_exception_of_the_agents_own_passes_through(
    error: BaseException, outcome: str, tmp_path: Path
) -> None:
    """It is recorded as the outcome, and the very same exception reaches the caller."""
    async with opened(tmp_path) as hood:
        caught = None
        try:
            async with hood.session(TASK):
                raise error  # noqa: TRY301  the agent's own
        except BaseException as exc:  # noqa: BLE001  Ctrl-C and a cancellation too
            caught = exc
        (episode,) = (await bodies(hood, "ep:")).values()
    assert caught is error
    assert episode["outcome"].startswith(outcome)


def fail_in(session: Session) -> None:
    """An agent that gives a score and an end, and then breaks."""
    with session:
        session.score("tests", 0.0)
        session.end("could not find the branch")
        raise ValueError("no such branch")


def test_an_exception_passes_through_the_synchronous_form(tmp_path: Path) -> None:
    """The scores given before it count, and what was said about the end is kept."""
    with opened_sync(tmp_path) as hood:
        session = hood.session(TASK)
        with pytest.raises(ValueError, match="no such branch"):
            fail_in(session)
        assert hood.lessons()[0].kind == "antipattern"
        assert hood.lessons()[0].outcome == "could not find the branch"


async def test_a_cancelled_scope_is_recorded_all_the_same(tmp_path: Path) -> None:
    """Under anyio, where a cancelled scope cancels every further await, the episode is still kept."""
    async with opened(tmp_path) as hood:
        with anyio.move_on_after(0.3):
            async with hood.session(TASK) as session:
                await anyio.sleep(30)
        (episode,) = (await bodies(hood, "ep:")).values()
    assert episode["outcome"] == "interrupted"
    assert session.receipt is not None


async def test_the_outcome_keeps_no_secret(tmp_path: Path) -> None:
    """Task and outcome are redacted, also where the outcome is cut."""
    async with opened(tmp_path) as hood:
        async with hood.session(f"use {KEY}") as session:
            session.end(f"{'x' * 570} {KEY}")
            session.score("tests", 1.0)
        rows = json.dumps(await bodies(hood, ""))
    assert KEY[:20] not in rows


def test_outcomes_are_short_and_storable() -> None:
    """An outcome becomes one paragraph of at most 600 characters without anything no store can hold."""
    assert shortened("a\n\n b\0c \udcff") == "a b\ufffdc \ufffd"
    assert len(shortened("word " * 1_000)) == MAX_OUTCOME
    assert KEY[:15] not in shortened(f"{'x' * (MAX_OUTCOME - 30)} {KEY}")


async def test_a_score_that_is_none_is_an_error_at_once(tmp_path: Path) -> None:
    """A score outside [0, 1] is the caller's mistake, and does not count."""
    async with opened(tmp_path) as hood:
        async with hood.session(TASK) as session:
            for value in (1.1, float("nan"), -0.1):
                with pytest.raises(InvalidInputError):
                    session.score("tests", value)
        assert session.notes.scores == {}


async def test_sessions_nest_and_run_side_by_side(tmp_path: Path) -> None:
    """Each records its own episode and lesson."""
    async with opened(tmp_path) as hood:

        async def one(name: str) -> None:
            async with hood.session(f"{name} outer work of its own kind") as outer:
                async with hood.session(f"{name} inner errand quite apart") as inner:
                    inner.score("tests", 1.0)
                outer.score("tests", 0.0)

        await asyncio.gather(*map(one, ["parse", "deploy", "translate"]))
        assert len(await bodies(hood, "ep:")) == 6
        lessons = await hood.lessons()
    for kind in ("learned", "antipattern"):
        assert sum(lesson.evidence for lesson in lessons if lesson.kind == kind) == 3


def test_sessions_in_threads(tmp_path: Path) -> None:
    """Threads share one open store, each with a session of its own."""
    with opened_sync(tmp_path) as hood:

        def one(name: str) -> str:
            with hood.session(f"{name} {name} {name}", member=name) as session:
                session.score("tests", 1.0)
            return session.episode_id or ""

        with ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(one, ["parse", "deploy", "translate", "paint"]))
        assert len(set(ids)) == 4
        assert {lesson.member for lesson in hood.lessons()} == {"parse", "deploy", "translate", "paint"}


def test_a_session_serves_one_run(tmp_path: Path) -> None:
    """Entering it again says to make another."""
    with opened_sync(tmp_path) as hood:
        with hood.session(TASK) as session:
            pass
        with pytest.raises(RuntimeError, match=r"hood\.session"), session:
            pass


def test_a_store_closed_inside_the_block_does_not_fail_the_run(tmp_path: Path) -> None:
    """What the agent did ends as it does; the receipt says what was lost."""
    hood = agenthood.open(tmp_path / ".agenthood", embedder="lexical")
    with hood.session(TASK) as session:
        hood.close()
    assert session.receipt is not None
    assert session.receipt.status == "rejected"


async def test_a_store_that_hangs_costs_the_deadline(tmp_path: Path) -> None:
    """Recording and learning share one deadline, and the receipt has the reason."""
    async with opened(tmp_path) as hood:
        lock = tmp_path / ".agenthood" / "memory" / ".agenthood.lock"
        code = "import sys, filelock\nx = filelock.FileLock(sys.argv[1])\nx.acquire(); print(flush=True); input()"
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, str(lock)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        await holder.stdout.readline()
        async with hood.session(TASK, deadline=2) as session:
            session.score("tests", 1.0)
            start = time.monotonic()
        took = time.monotonic() - start
        holder.kill()
        await holder.wait()
    assert 1.9 < took < 3.5
    assert session.receipt is not None
    assert session.receipt.status == "pending"
    assert session.receipt.reason == "queued until the store can take it: memory took longer than 2 s"
