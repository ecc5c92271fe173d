"""Memory that is down: nobody waits for it, nothing is lost, and it comes back by itself."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenthood.errors import InvalidInputError, StoreError, StoreUnavailableError
from agenthood.learning.queue_file import QueueFile
from agenthood.learning.queued import PER_EPISODE
from agenthood.records import EvalResult
from agenthood.stores.testing import READS, WRITES, Fault
from agents import KEY
from hoods import bodies, good, opened, small
from outages import DEADLINE, SOON, FaultyHood, FaultySync, left_over
from stores.test_errors import mount, read_only

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from agenthood.engine import AsyncHood
    from agenthood.records import Receipt

TEXT = "fixed the flaky login test by mocking the clock"
WHO: Any = {"member": "dev", "skill": "test"}
HARMS = ["hang", "fail", "garbage", "drip", "late"]


async def prepared(folder: Path) -> Receipt:
    """A store with one lesson, made with all the time it takes."""
    async with opened(folder) as hood:
        receipt = await hood.learn(TEXT, score=0.9, **WHO)
    assert receipt.status == "stored"
    return receipt


async def soon(work: Awaitable[Any]) -> Any:
    """What `work` gives, which it does within `SOON`."""
    start = time.monotonic()
    result = await work
    assert time.monotonic() - start < SOON
    return result


async def healed(hood: FaultyHood) -> None:
    """Wait until nothing is queued and a recall is whole."""
    end = time.monotonic() + 20
    while hood.parts.learner.waits or (await hood.recall(TEXT)).degraded:
        assert time.monotonic() < end, "it did not heal"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("harm", HARMS)
async def test_an_outage_costs_the_deadline_and_loses_nothing(
    tmp_path: Path, harm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong: recalls are empty and say why, learning is queued, one line is logged, and it heals."""
    first = await prepared(tmp_path)
    before = left_over()
    async with FaultyHood(tmp_path) as hood:
        hood.faulty.break_down(Fault(harm, seconds=0.15))
        for _ in range(3):
            found = await soon(hood.recall(TEXT))
            assert (len(found), found.degraded) == (0, True)
            assert found.reason
        receipts = [
            await soon(hood.learn(TEXT, score=0.9, **WHO)),
            *(await soon(hood.learn_many([good(TEXT)] * 2))),
        ]
        assert [(one.status, one.id) for one in receipts] == [("pending", None)] * 3
        assert all(one.episode_id and one.reason for one in receipts)
        warned = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert [one.getMessage()[:19] for one in warned] == ["memory is degraded:"]
        hood.faulty.recover()
        await healed(hood)
        assert (await hood.recall(TEXT))[0].evidence == 4
        assert (await hood.status()).episodes == 4
    assert left_over() == before
    async with opened(tmp_path) as again:
        (lesson,) = await again.lessons()
    assert set(lesson.episodes) == {first.episode_id, *(one.episode_id for one in receipts)}


@pytest.mark.parametrize("harm", HARMS[:3])
async def test_a_store_that_is_down_can_be_opened(tmp_path: Path, harm: Any) -> None:
    """The hood is there, degraded, within the deadline; what is learned meanwhile is applied when it returns."""
    await prepared(tmp_path)
    hood = FaultyHood(tmp_path)
    hood.faulty.break_down(Fault(harm, seconds=0.3))
    await soon(hood.start())
    assert (await soon(hood.recall(TEXT))).degraded
    assert (await soon(hood.learn(TEXT, score=0.9, **WHO))).status == "pending"
    hood.faulty.recover()
    await healed(hood)
    assert [lesson.evidence for lesson in await hood.lessons()] == [2]
    await hood.close()


@pytest.mark.parametrize("harm", ["hang", "fail"])
async def test_a_batch_is_queued_as_one_episode_is(tmp_path: Path, harm: Any) -> None:
    """What `learn_many` does before it asks the store waits for nothing: all is queued within the deadline."""
    async with FaultyHood(tmp_path, embedder=small()) as hood:
        hood.faulty.break_down(Fault(harm))
        started = time.monotonic()
        receipts = await hood.learn_many(
            [EvalResult(f"episode {number}", {"s": 0.9}) for number in range(50)]
        )
        assert time.monotonic() - started < SOON + 50 * PER_EPISODE
        assert {receipt.status for receipt in receipts} == {"pending"}
        hood.faulty.recover()


@pytest.mark.parametrize("harm", ["fail", "lost", "hang"])
async def test_of_a_batch_only_what_is_not_on_disk_is_queued(tmp_path: Path, harm: Any) -> None:
    """What was written before the store went down is said to be stored; the rest is queued, and counts once."""
    texts = ("retried the upload", "mocked a clock", "purged every cache", "closed both sockets")
    episodes = [EvalResult(text, {"s": 0.9}, **WHO) for text in texts]
    async with FaultyHood(tmp_path, embedder="lexical") as hood:
        hood.learner._part_size = 2
        writes = 0

        def plan(name: str) -> Fault | None:
            nonlocal writes
            writes += name == "upsert"
            return Fault(harm) if name in WRITES and writes > 2 else None  # shared table and index, once

        hood.faulty.plan = plan
        receipts = await hood.learn_many(episodes)
        assert [one.status for one in receipts] == ["stored"] * 2 + ["pending"] * 2
        assert len({one.episode_id for one in receipts}) == 4
        hood.faulty.recover()
        await healed(hood)
        status = await hood.status()
        assert (status.episodes, sum(status.learner.bands.values())) == (4, 4)
        assert [lesson.evidence for lesson in await hood.lessons()] == [1] * 4
        # What was written and not heard of is found to be learned already, and gives no hint.
        hinted = texts[:2] if harm == "lost" else texts
        assert {signal.text for signal in hood.residual.get_active()} == set(hinted)


async def test_closing_a_store_that_hangs(tmp_path: Path) -> None:
    """It is over within the deadline, nothing is left running, and what was queued is there at the next start."""
    await prepared(tmp_path)
    before = left_over()
    hood = await FaultyHood(tmp_path)
    hood.faulty.break_down(Fault("hang"))
    receipt = await hood.learn(TEXT, score=0.9, **WHO)
    await soon(hood.close())
    assert left_over() == before
    hood.faulty.recover()
    await hood.faulty.close()
    async with opened(tmp_path) as again:
        assert receipt.episode_id in (await again.lessons())[0].episodes


def test_the_synchronous_form(tmp_path: Path) -> None:
    """The same answers; closing returns soon although a call of another thread hangs, and no thread is left."""
    asyncio.run(prepared(tmp_path))
    before = threading.active_count()
    hood = FaultySync(tmp_path)
    faulty = hood.hood.faulty  # type: ignore[attr-defined]  a FaultyHood
    hood.recall(TEXT)
    faulty.break_down(Fault("hang"))
    assert hood.recall(TEXT).degraded
    assert hood.learn(TEXT, score=0.9, **WHO).status == "pending"
    errors: list[BaseException] = []

    def list_lessons() -> None:
        try:
            hood.lessons()
        except BaseException as exc:  # noqa: BLE001  whatever ends it
            errors.append(exc)

    thread = threading.Thread(target=list_lessons)
    thread.start()
    time.sleep(0.1)
    start = time.monotonic()
    hood.close()
    assert time.monotonic() - start < SOON
    thread.join(SOON)
    assert errors
    assert threading.active_count() == before


@pytest.mark.parametrize("harm", HARMS)
async def test_failing_closed_raises(tmp_path: Path, harm: Any) -> None:
    """With `fail="closed"` recall, learning and opening raise, soon; nothing is queued."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path, fail="closed") as hood:
        hood.faulty.break_down(Fault(harm, seconds=0.3))
        for work in (hood.recall(TEXT), hood.learn(TEXT, score=0.9, **WHO), hood.learn_many([good(TEXT)])):
            with pytest.raises(StoreUnavailableError):
                await soon(work)
        assert not (tmp_path / ".agenthood" / "queue.jsonl").exists()
        hood.faulty.recover()
    other = FaultyHood(tmp_path, fail="closed")
    other.faulty.break_down(Fault(harm, seconds=0.3), READS)
    with pytest.raises(StoreUnavailableError):
        await soon(other.start())


async def test_what_is_wrong_with_the_caller_is_told_at_once(tmp_path: Path) -> None:
    """Bad input is refused also while the store is down, and never queued."""
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"))
        assert (await hood.learn("", score=0.9)).status == "rejected"
        assert (await hood.learn(TEXT, score=1.5)).status == "rejected"
        assert (await hood.learn(TEXT)).status == "skipped"
        with pytest.raises(InvalidInputError):
            await hood.recall("")
        assert not hood.parts.learner.waits
        hood.faulty.recover()


async def test_reading_goes_on_where_only_writing_fails(tmp_path: Path) -> None:
    """A full disk or a lock that is held keeps nobody from recalling; what waits is said."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail", error=StoreError("odd")), WRITES)
        assert (await hood.learn(TEXT, score=0.9, **WHO)).status == "pending"
        found = await hood.recall(TEXT)
        assert len(found) == 1
        assert "wait to be learned" in found.reason
        hood.faulty.recover()
        await healed(hood)
        assert (await hood.recall(TEXT))[0].evidence == 2


async def test_an_outage_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the store can be reached and only the commit fails, again and again."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"), frozenset({"upsert"}))
        for _ in range(5):
            await hood.learn(TEXT, score=0.9, **WHO)
            await asyncio.sleep(0.2)
        assert [one.levelname for one in caplog.records if "memory" in one.msg] == ["WARNING"]
        hood.faulty.recover()
        await healed(hood)


async def test_the_breaker_keeps_the_next_calls_cheap(tmp_path: Path) -> None:
    """After a call that hung the next ones ask nothing; after a while one may try, and its success lets all through."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path) as hood:
        hood.faulty.break_down(Fault("hang"))
        await hood.recall(TEXT)
        asked = len(hood.faulty.calls)
        start = time.monotonic()
        for _ in range(20):
            assert (await hood.recall(TEXT)).degraded
        assert time.monotonic() - start < DEADLINE * 5
        assert len(hood.faulty.calls) - asked < 3
        hood.faulty.recover()
        await healed(hood)
        assert not (await hood.recall(TEXT)).degraded


async def test_learning_in_a_given_time_does_not_wait_for_the_queue(tmp_path: Path) -> None:
    """Where others wait before it and the store hangs, an episode is queued once its own time is up."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path, deadline=SOON * 2) as hood:
        hood.faulty.break_down(Fault("hang"))
        hood.parts.learner.queue.append([{"key": "a", "episode": TEXT}])
        start = time.monotonic()
        receipt = await hood.learner.learn(good(TEXT), seconds=0.1)
        assert time.monotonic() - start < SOON
        assert receipt.status == "pending"


async def test_two_layers_wait_for_their_queues_together(tmp_path: Path) -> None:
    """A recall of an agent waits for the queue of the shared layer too, but not one after the other."""
    deadline = 1.0
    async with FaultyHood(tmp_path, deadline=deadline, agent="bot") as hood:
        await hood.learn(TEXT, score=0.9, **WHO)
        hood.faulty.break_down(Fault("hang"))
        for layer in hood.parts.layers:
            layer.learner.queue.path.parent.mkdir(parents=True, exist_ok=True)
            layer.learner.queue.append([{"key": "a", "episode": TEXT}])
        start = time.monotonic()
        assert (await hood.recall(TEXT)).degraded
        assert time.monotonic() - start < 2.7 * deadline


async def test_a_queue_that_cannot_be_written_rejects(tmp_path: Path) -> None:
    """With neither store nor queue to be had the receipt says both, and nothing is raised."""
    async with FaultyHood(tmp_path, deadline=5) as hood:
        (tmp_path / ".agenthood").mkdir(exist_ok=True)
        (tmp_path / ".agenthood" / "queue.jsonl").mkdir()
        hood.faulty.break_down(Fault("fail"))
        receipt = await hood.learn(TEXT, score=0.9, **WHO)
        assert receipt.status == "rejected"
        assert "the test store is down" in receipt.reason
        assert "queue.jsonl" in receipt.reason
        hood.faulty.recover()


async def test_everything_of_an_episode_is_kept(tmp_path: Path) -> None:
    """Scores, outcome, time, member and skill of a queued episode are those it was learned with; secrets are not."""
    result = EvalResult(f"{TEXT} {KEY}", {"a": 1.0, "b": 0.9}, "20 of 20", "dev", "test")
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"))
        receipts = await hood.learn_many([result, good("half", 0.5), EvalResult("ß 北京\n ", {"x": 0.1})])
        assert KEY not in (tmp_path / ".agenthood" / "queue.jsonl").read_text()
        assert [one.status for one in receipts] == ["pending"] * 3
        hood.faulty.recover()
        await healed(hood)
        assert not (tmp_path / ".agenthood" / "queue.jsonl").exists()
        episodes = await bodies(hood, "ep:")
        assert set(episodes) == {one.episode_id for one in receipts}
        kept = episodes[receipts[0].episode_id or ""]
        assert (kept["outcome"], kept["member"], kept["skill"]) == ("20 of 20", "dev", "test")
        assert kept["scores"] == {"a": 1.0, "b": 0.9}
        assert kept["timestamp"][:16] <= time.strftime("%Y-%m-%dT%H:%M", time.gmtime())
        assert (await hood.status()).learner.bands == {"learned": 1, "antipattern": 1, "skipped": 1}


async def test_status_tells_what_waits(tmp_path: Path) -> None:
    """How many, and since when."""
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"), WRITES)
        await hood.learn_many([good(TEXT), good("other")])
        status = await hood.status()
        assert status.queued == 2
        assert status.queued_since is not None
        assert status.queued_since.endswith("Z")
        hood.faulty.recover()
        await healed(hood)
        assert ((await hood.status()).queued, (await hood.status()).queued_since) == (0, None)


async def test_a_session_while_the_store_is_down(tmp_path: Path) -> None:
    """The run goes on; its episode is kept, judged or not, and says why lessons may be missing."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"))
        async with hood.session(TEXT, **WHO) as judged:
            judged.score("tests", 1.0)
            judged.end("it worked")
        async with hood.session("an errand nobody judged") as other:
            other.end("done")
        assert judged.degraded
        assert judged.receipt is not None
        assert judged.receipt.status == "pending"
        hood.faulty.recover()
        await healed(hood)
        episodes = await bodies(hood, "ep:")
        assert episodes[judged.episode_id or ""]["outcome"] == "it worked"
        assert episodes[other.episode_id or ""]["episode"] == "an errand nobody judged"
        assert [lesson.evidence for lesson in await hood.lessons()] == [2]


def test_a_torn_line_costs_nothing_else(tmp_path: Path) -> None:
    """A write cut off by a kill is set aside; what comes before and after it is read."""
    queue = QueueFile(tmp_path / "queue.jsonl")
    queue.append([{"key": "a"}, {"key": "b"}])
    with queue.path.open("ab") as file:
        file.write(b'{"key": "to')
    assert [len(part) for part in (queue.read().entries, queue.read().damaged)] == [2, 1]
    queue.append([{"key": "c"}])
    assert [entry["key"] for entry in queue.read().entries] == ["a", "b", "c"]
    queue.applied([{"key": "b"}])
    assert [entry["key"] for entry in queue.read().entries] == ["a", "c"]
    queue.clear()
    queue.applied([{"key": "a"}, {"key": "c"}])
    assert queue
    queue.clear()
    assert not queue
    assert (tmp_path / "queue.damaged.jsonl").read_bytes() == b'{"key": "to\n'


def test_applying_a_long_queue_does_not_read_it_again_for_every_batch(tmp_path: Path) -> None:
    """After a long outage: noting that a batch is applied costs the same however many wait."""
    queue = QueueFile(tmp_path / "queue.jsonl")
    queue.append([{"key": str(number), "episode": TEXT} for number in range(60_000)])

    def seconds(work: Callable[[], object]) -> float:
        start = time.monotonic()
        work()
        return time.monotonic() - start

    reading = min(seconds(queue.read) for _ in range(2))
    noting = min(seconds(partial(queue.applied, [{"key": str(number)}])) for number in range(5))
    assert noting < reading / 3
    assert len(queue.read().entries) == 60_000 - 5


async def test_what_is_refused_in_its_turn_is_kept(tmp_path: Path) -> None:
    """A queue edited by hand: what cannot be learned is set aside with the reason, and the rest is learned."""
    await prepared(tmp_path)
    queue = QueueFile(tmp_path / ".agenthood" / "queue.jsonl")
    at = "2026-05-01T00:00:00+00:00"
    whole = {"episode": TEXT, "scores": {"x": 1.0}, "timestamp": at, "id": "ep:1777593600000-aaaaaa"} | WHO
    changes: list[dict[str, object]] = [
        {"scores": {"x": 7}},
        {"id": "nonsense"},
        {"timestamp": None},
        {"episode": 5},
    ]
    queue.append([whole | change | {"key": str(n)} for n, change in enumerate([*changes, {}])])
    async with opened(tmp_path) as hood:
        assert [lesson.evidence for lesson in await hood.lessons()] == [2]
    assert not queue.path.exists()
    refused = (tmp_path / ".agenthood" / "queue.refused.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in refused] == ["0", "1", "2", "3"]
    assert all(json.loads(line)["reason"] for line in refused)


# -- exactness -----------------------------------------------------------------------------------------------

TEXTS = ["parsed the dates in UTC", "warmed the cache before the test", TEXT, f"{TEXT} again today"]
LEARNS = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from([0.1, 0.6, 0.9])), min_size=1, max_size=6)
FAULTS = st.lists(
    st.sampled_from(
        [
            None,
            ("exclusive", "fail"),
            ("get", "fail"),
            ("upsert", "fail"),
            ("upsert", "lost"),
            ("upsert", "lost"),
        ]
    ),
    max_size=8,
)
"""What goes wrong with each attempt to learn or to apply the queue."""


async def contents(folder: Path) -> Any:
    """Everything that learning leaves, but for what is drawn at random."""
    async with opened(folder) as hood:
        assert not hood.parts.learner.waits
        lessons = {
            (one.id, one.text, one.evidence, round(one.mean, 9), one.first_seen, one.last_seen)
            for one in await hood.lessons()
        }
        episodes = sorted(
            (body["timestamp"], body["episode"], body["outcome"], body.get("lesson", ""))
            for body in (await bodies(hood, "ep:")).values()
        )
        status = await hood.status()
        cited = sorted(len(one.episodes) for one in await hood.lessons())
        return lessons, episodes, cited, status.learner.bands, status.learner.members, status.indexed


async def learned(hood: AsyncHood, learns: list[tuple[str, float]]) -> None:
    """Learn one after the other, at times of their own."""
    for n, (text, score) in enumerate(learns):
        receipt = await hood.learn(text, score=score, outcome=f"end {n}", timestamp=f"2026-05-01T00:00:0{n}Z")
        assert receipt.status != "rejected"


@settings(max_examples=15)
@given(learns=LEARNS, faults=FAULTS)
def test_after_any_outage_the_store_is_as_if_there_had_been_none(
    learns: list[tuple[str, float]], faults: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Failures before and after a commit, at any point of any learning: same lessons, evidence, episodes, counts."""

    async def compare() -> None:
        broken, whole = (tmp_path_factory.mktemp(name) for name in ("broken", "whole"))
        hood = await FaultyHood(broken, deadline=10)
        to_come = iter(faults)
        now: list[Any] = [None]

        def plan(method: str) -> Fault | None:
            if method == "exclusive":  # an attempt begins
                now[0] = next(to_come, None)
            wrong, harm = now[0] or ("", "")
            if wrong != method:
                return None
            now[0] = None
            return Fault(harm)

        hood.faulty.plan = plan
        await learned(hood, learns)
        hood.faulty.recover()
        await hood.close()
        async with opened(whole) as never_failed:
            await learned(never_failed, learns)
        assert await contents(broken) == await contents(whole)

    asyncio.run(compare())


APPLY = """
import asyncio, sys
from pathlib import Path
from agenthood.stores.testing import Fault
from outages import FaultyHood

async def main(folder, harm):
    hood = FaultyHood(Path(folder), deadline=30)
    hood.faulty.plan = lambda name: Fault(harm) if name == "upsert" else None
    async with hood:
        await asyncio.sleep(30)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_kill_while_the_queue_is_applied(tmp_path: Path) -> None:
    """Killed after the commit, before it is noted: the next start goes on, nothing is lost, nothing counted twice."""
    first = await prepared(tmp_path)
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"))
        receipts = await hood.learn_many([good(TEXT)] * 130 + [good("half", 0.5)])
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    for _ in range(2):  # one dies in the first hundred, the other in the rest
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", APPLY, str(tmp_path), "die"), env={**os.environ, "PYTHONPATH": path}
        )
        assert await asyncio.wait_for(child.wait(), 60) == -signal.SIGKILL
        assert (tmp_path / ".agenthood" / "queue.jsonl").exists()
    async with opened(tmp_path) as hood:
        (lesson,) = await hood.lessons()
        assert lesson.evidence == 131
        assert set(await bodies(hood, "ep:")) == {first.episode_id, *(one.episode_id for one in receipts)}
        assert (await hood.status()).learner.bands == {"learned": 131, "antipattern": 0, "skipped": 1}
    assert not (tmp_path / ".agenthood" / "queue.jsonl").exists()


async def test_two_apply_one_queue(tmp_path: Path) -> None:
    """Two engines on one queue take turns."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path, deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"))
        await hood.learn_many([good(TEXT)] * 250)
    one, other = await asyncio.gather(opened(tmp_path).start(), opened(tmp_path).start())
    assert [lesson.evidence for lesson in await one.lessons()] == [251]
    assert not other.parts.learner.waits
    await asyncio.gather(one.close(), other.close())


# -- faults of a real store ----------------------------------------------------------------------------------


async def test_another_process_holds_the_lock(tmp_path: Path) -> None:
    """Recalls go on, learning is queued after the deadline, and applied once the lock is free."""
    await prepared(tmp_path)
    code = "import sys, filelock\nx = filelock.FileLock(sys.argv[1])\nx.acquire(); print(flush=True); input()"
    lock = tmp_path / ".agenthood" / "memory" / ".agenthood.lock"
    async with FaultyHood(tmp_path, deadline=0.5) as hood:
        await hood.recall(TEXT)
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, str(lock)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        await holder.stdout.readline()
        assert (await soon(hood.learn(TEXT, score=0.9, **WHO))).status == "pending"
        assert len(await soon(hood.recall(TEXT))) == 1
        holder.kill()
        await holder.wait()
        await healed(hood)
        assert [lesson.evidence for lesson in await hood.lessons()] == [2]


async def test_a_store_one_may_not_write_to(tmp_path: Path) -> None:
    """Permission denied, or a read-only disk: recalls go on, learning is queued, and it heals."""
    await prepared(tmp_path)
    async with FaultyHood(tmp_path, deadline=5) as hood:
        with read_only(tmp_path / ".agenthood" / "memory"):
            receipt = await hood.learn(TEXT, score=0.9, **WHO)
            assert receipt.status == "pending"
            assert "ermission" in receipt.reason or "ead-only" in receipt.reason
            assert len(await hood.recall(TEXT)) == 1
        await healed(hood)
        assert [lesson.evidence for lesson in await hood.lessons()] == [2]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB; skips where one may not be made."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", folder)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk(disk: Path) -> None:
    """With no room for store or queue the receipt says so; nothing is raised, and with room again all works."""
    await prepared(disk)
    async with FaultyHood(disk, deadline=10) as hood:
        ballast = disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        receipt = await hood.learn(TEXT, score=0.9, **WHO)
        assert receipt.status == "rejected"
        assert "disk" in receipt.reason
        assert len(await hood.recall(TEXT)) == 1
        ballast.unlink()
        end = time.monotonic() + 20
        while (await hood.learn(TEXT, score=0.9, **WHO)).status != "merged":
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
