"""A batch has exactly the outcome of learning its episodes one by one."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenthood.embedding.testing import HashedEmbedder
from agenthood.learning.index import EmbeddingIndex
from agenthood.learning.learner import EpisodeLearner
from agenthood.learning.spaces import ActiveSpace
from agenthood.records import EvalResult, Receipt
from agenthood.stores.lance.index import IndexRules
from agenthood.stores.lance.store import LanceStore
from agenthood.stores.testing import Fault, FaultyStore
from hoods import good, opened, small

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from agenthood.embedding.base import Role, Vectors
    from agenthood.engine import AsyncHood
    from agenthood.records import Lesson
    from agenthood.stores.base import Collection, Record, UpsertResult, VectorStore

NOW = datetime(2026, 5, 1, tzinfo=UTC)

# Few words, so that exact repeats, near duplicates and unrelated texts all come up, and two that share a hash.
TEXTS = st.one_of(
    st.lists(
        st.sampled_from(["retry", "upload", "cache", "login", "clock", "mock", "token", "proxy"]),
        min_size=1,
        max_size=5,
    ).map(" ".join),
    st.sampled_from(["fixed Aa", "fixed BB", "fixed Aa!", "!!!", "", "a\x00b", "重试上传", "重试上传。"]),
)
EPISODES = st.builds(
    lambda text, score, member, skill: EvalResult(text, {"score": score}, "", member, skill, NOW),
    TEXTS,
    st.sampled_from([1.0, 0.8, 0.9, 0.6, 0.39, 0.0, 1.5]),
    st.sampled_from(["developer", "qa"]),
    st.sampled_from(["test", "test", "deploy"]),
)


async def _outcome(  # noqa: PLR0913, PLR0917  what one run is made of
    folder: Path,
    before: list[EvalResult],
    episodes: list[EvalResult],
    embedder: Any,
    size: int,
    part: int = 500,
) -> tuple[list[Receipt], list[Lesson], Any]:
    """Learn in batches of `size`, each written in parts; what came back, and what a reopened store then holds."""
    async with opened(folder, embedder) as hood:
        await hood.learn_many(before)
        learner = EpisodeLearner(
            hood.store,
            index=hood.index,
            space=hood.space,
            residual=hood.residual,
            batch_size=size,
            part_size=part,
            clock=lambda: NOW,
        )
        receipts = await learner.learn_many(episodes)
    async with opened(folder, embedder) as hood:
        return await _read(hood, receipts)


async def _read(hood: AsyncHood, receipts: list[Receipt]) -> tuple[list[Receipt], list[Lesson], Any]:
    """The same, with episode ids, which are random, replaced by whether there is one."""
    lessons = [replace(one, episodes=("ep",) * len(one.episodes)) for one in await hood.lessons()]
    told = [replace(one, episode_id=one.episode_id and "ep") for one in receipts]
    others = [sorted((await hood.index.present()).items()), await hood.learner.get_status()]
    return told, sorted(lessons, key=lambda one: one.id), others


@settings(max_examples=10)
@given(
    embedder=st.sampled_from(["lexical", "semantic", "semantic", "down"]),
    before=st.lists(EPISODES, max_size=4),
    episodes=st.lists(EPISODES, min_size=2, max_size=14),
    size=st.integers(2, 14),
    part=st.integers(1, 9),
)
def test_batches_decide_as_one_by_one(
    embedder: str, before: list[EvalResult], episodes: list[EvalResult], size: int, part: int
) -> None:
    """Receipts, lessons, index rows and counts are equal, whatever the size of the batches and of their parts."""
    model: Any = {"lexical": "lexical", "semantic": small(), "down": small(fail_after=0)}[embedder]

    async def both() -> None:
        with TemporaryDirectory() as one, TemporaryDirectory() as many:
            expected = await _outcome(Path(one), before, episodes, model, 1)
            found = await _outcome(Path(many), before, episodes, model, size, part)
            assert found[0] == expected[0]
            assert found[1] == expected[1]
            assert found[2] == expected[2]

    asyncio.run(both())


async def test_progress_is_told_after_each_batch(tmp_path: Path) -> None:
    """Done and total, once per batch, also where inputs were refused."""
    told: list[tuple[int, int]] = []
    async with opened(tmp_path) as hood:
        learner = EpisodeLearner(hood.store, index=hood.index, space=hood.space, batch_size=2)
        receipts = await learner.learn_many(
            [good("one thing"), good(""), good("another")], on_progress=lambda *args: told.append(args)
        )
        assert await learner.learn_many([]) == []
    assert [receipt.status for receipt in receipts] == ["stored", "rejected", "stored"]
    assert told == [(2, 3), (3, 3)]


async def test_an_embedder_that_stops_between_batches(tmp_path: Path) -> None:
    """What it could not embed is pending in its batch, and only there."""
    embedder = small()
    async with opened(tmp_path, embedder=embedder) as hood:
        embedder.fail_after = embedder.texts_embedded + 2
        learner = EpisodeLearner(hood.store, index=hood.index, space=hood.space, batch_size=2)
        episodes = [good(f"{text} the upload") for text in ("retry", "mock", "cache", "log", "close")]
        receipts = await learner.learn_many(episodes)
        assert [receipt.status for receipt in receipts] == ["stored"] * 2 + ["pending"] * 3
        assert all("fail_after" in receipt.reason for receipt in receipts[2:])
        embedder.fail_after = None
        await hood.migrate()
        assert len(await hood.lessons()) == 5
        assert not (await hood.status()).pending


class Blocking(HashedEmbedder):
    """Computes where it is called, as a model without a thread of its own does, and takes its time once it is slow."""

    slow = False

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        """As `HashedEmbedder`, slowly."""
        time.sleep(0.1 * len(texts) * self.slow)  # noqa: ASYNC251  that is what it is for
        return await super().embed(texts, role=role)


async def test_an_embedder_that_blocks_the_loop_is_not_taken_for_a_slow_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline is for the store: while a batch is written, no embedder keeps its answer from being heard."""
    monkeypatch.setenv("AGENTHOOD_DEADLINE", "0.4")
    embedder = Blocking(dimension=16)
    async with opened(tmp_path, embedder=embedder) as hood:
        await hood.space.prepare()  # the model is calibrated on hundreds of texts
        embedder.slow = True
        hood.learner._batch_size = 10
        receipts = await hood.learn_many(
            [good(f"{number} ways to retry {number} uploads") for number in range(30)]
        )
        assert {receipt.status for receipt in receipts} <= {"stored", "merged"}


@pytest.mark.parametrize("harm", ["fail", "lost"])
async def test_a_store_that_stops_between_parts(tmp_path: Path, harm: Any) -> None:
    """What was written before is learned and said so, the rest is refused, and learned when it is handed in again."""
    episodes = [replace(good(f"{text} the upload"), timestamp=NOW) for text in WORDS[:6]]
    async with opened(tmp_path, "lexical") as hood:
        faulty = FaultyStore(hood.store)
        writes = iter([None, Fault(harm), None])
        faulty.plan = lambda name: next(writes) if name == "upsert" else None
        learner = EpisodeLearner(faulty, part_size=2, residual=hood.residual, clock=lambda: NOW)
        receipts = await learner.learn_many(episodes)
    assert [one.status for one in receipts] == ["pending"] * 2 + ["rejected"] * 4
    assert all("the test store is down" in one.reason for one in receipts[2:])
    assert faulty.calls.count("upsert") == 2, "what comes after a part that failed is not written"
    async with opened(tmp_path, "lexical") as hood:
        lost = 2 if harm == "lost" else 0
        status = await hood.status()
        assert (status.episodes, sum(status.learner.bands.values())) == (2 + lost, 2 + lost)
        hinted = {signal.text for signal in hood.residual.get_active()}
        assert hinted == {one.episode for one in episodes[:2]}, (
            "what was kept counts, what may be lost is no hint"
        )
        await hood.learn_many(episodes[2:])
        found = {lesson.text: lesson.evidence for lesson in await hood.lessons()}
    assert found == {one.episode: 1 + (lost and 2 <= n < 4) for n, one in enumerate(episodes)}


class Noting(FaultyStore):
    """Notes when a write begins and when it is done."""

    def __init__(self, inner: VectorStore, noted: list[str]) -> None:
        super().__init__(inner)
        self.noted = noted

    async def upsert(self, collection: Collection, records: Sequence[Record]) -> UpsertResult:
        """As the store."""
        self.noted.append("write")
        result = await super().upsert(collection, records)
        self.noted.append("written")
        return result


class Noted(list[EvalResult]):
    """Episodes that note when they are taken in."""

    noted: list[str]

    def __getitem__(self, key: Any) -> Any:
        some = Noted(super().__getitem__(key))
        some.noted = self.noted
        return some

    def __iter__(self) -> Iterator[EvalResult]:
        self.noted.append("prepare")
        return super().__iter__()


async def test_a_batch_is_prepared_while_the_one_before_is_written(tmp_path: Path) -> None:
    """Not earlier, when there is nothing to wait for, nor later."""
    episodes = Noted(good(text) for text in WORDS[:3])
    episodes.noted = []
    async with opened(tmp_path, "lexical") as hood:
        learner = EpisodeLearner(Noting(hood.store, episodes.noted), batch_size=1)
        await learner.learn_many(episodes)
    assert episodes.noted == ["prepare", *["write", "prepare", "written"] * 2, "write", "written"]


async def test_a_part_that_is_refused_by_the_index(tmp_path: Path) -> None:
    """Its new lessons are pending, those of the other parts are not, and the migration finds them."""
    async with opened(tmp_path) as hood:
        await hood.space.prepare()
        faulty = FaultyStore(hood.store)
        learner = EpisodeLearner(faulty, index=hood.index, space=hood.space, part_size=2)
        written: list[str] = []

        def plan(name: str) -> Fault | None:
            written.extend([name] if name == "upsert" else [])
            return Fault("fail") if name == "upsert" and len(written) == 4 else None

        faulty.plan = plan
        receipts = await learner.learn_many([good(f"{text} the upload") for text in WORDS[:6]])
        assert [one.status for one in receipts] == ["stored"] * 2 + ["pending"] * 2 + ["stored"] * 2
        assert hood.space.behind
        await hood.migrate()
        assert not (await hood.status()).pending


async def test_giving_up_leaves_nothing_running(tmp_path: Path) -> None:
    """Who stops a long `learn_many` has whole batches, and no task goes on embedding."""
    async with opened(tmp_path) as hood:
        learner = EpisodeLearner(hood.store, index=hood.index, space=hood.space, batch_size=2)
        before = asyncio.all_tasks()
        begun = asyncio.Event()
        episodes = [good(f"{number} ways to retry {number} uploads") for number in range(40)]
        task = asyncio.create_task(
            learner.learn_many(episodes, on_progress=lambda done, _: begun.set() if done == 4 else None)
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert {one for one in asyncio.all_tasks() - before if "prepare" in repr(one)} == set()
        assert len(await hood.lessons()) % 2 == 0


@pytest.mark.parametrize("embedder", ["lexical", "small", "shared"])
async def test_a_large_batch_decides_as_small_ones(tmp_path: Path, embedder: str) -> None:
    """Where a batch is large enough to be compared in blocks, it decides as batches that are searched for."""
    model: Any = {"lexical": "lexical", "small": small(), "shared": HashedEmbedder()}[embedder]
    pick = random.Random(7)
    words = ["retry", "upload", "cache", "login", "clock", "mock", "token", "proxy", "日志", "重试"]
    texts = [" ".join(pick.choices(words, k=pick.randint(1, 4))) for _ in range(220)]
    episodes = [replace(good(text, pick.choice([0.9, 1.0])), timestamp=NOW) for text in texts]
    before, episodes = episodes[:70], episodes[70:]
    assert await _outcome(tmp_path / "a", before, episodes, model, 30) == await _outcome(
        tmp_path / "b", before, episodes, model, 1_000
    )


async def test_many_members_in_one_batch(tmp_path: Path) -> None:
    """A batch of many members' episodes merges within each member, as one by one does."""
    results = [good(f"restarted build number {n % 3}", member=f"m{n % 40:02d}") for n in range(160)]
    async with opened(tmp_path / "batch") as hood:
        await hood.learn_many(results[:80])
        batch = await hood.learn_many(results[80:])
    async with opened(tmp_path / "single") as hood:
        await hood.learn_many(results[:80])
        single = [await hood.learner.learn(result) for result in results[80:]]
    assert [(r.status, r.id, r.evidence) for r in batch] == [(r.status, r.id, r.evidence) for r in single]


WORDS = ["".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=7)) for number in range(400)]
INDEXED = 600
RULES = IndexRules(vectors_from=200, shared_from=200, ids_from=200)


def _text(number: int, *, changed: bool = False) -> str:
    """One of many texts that share few words; changed, one that is nearly the same."""
    words = random.Random(number).sample(WORDS, 7)
    return " ".join([*words[:6], "again"] if changed else words)


async def _learned_apart(
    folder: Path, episodes: list[EvalResult], size: int
) -> list[tuple[str, str | None, int]]:
    """Learn `size` at a time, each time in a new opening of the store; the reopened store's lessons are the same."""
    told: list[Receipt] = []
    for start in range(0, len(episodes), size):
        async with _indexed(folder) as learner:
            told += await learner.learn_many(episodes[start : start + size])
    return [(receipt.status, receipt.id, receipt.evidence) for receipt in told]


@asynccontextmanager
async def _indexed(folder: Path) -> AsyncIterator[EpisodeLearner]:
    store = LanceStore(folder, index_rules=RULES)
    space = ActiveSpace(small(), store)
    await space.prepare()
    index = EmbeddingIndex(store, space.space, calibration=space.calibration)
    try:
        yield EpisodeLearner(store, index=index, space=space, clock=lambda: NOW)
        indices = (await store.maintain(index.main))["indices"]
        assert indices["vector_idx"]["type"] == "IVF_SQ"
        assert indices["lexical_idx"]["type"] == "IVF_SQ"
    finally:
        await space.aclose()
        await store.close()


@pytest.fixture(scope="module")
def indexed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose vectors are indexed."""
    folder = tmp_path_factory.mktemp("indexed") / "memory"
    before = [EvalResult(_text(number), {"score": 0.9}, "", "dev", "test", NOW) for number in range(INDEXED)]
    asyncio.run(_learned_apart(folder, before, INDEXED))
    return folder


@settings(max_examples=4)
@given(
    picks=st.lists(
        st.tuples(st.integers(0, INDEXED + 5), st.booleans(), st.booleans()), min_size=70, max_size=80
    ),
)
def test_batches_decide_as_one_by_one_where_vectors_are_indexed(
    indexed_store: Path, picks: list[tuple[int, bool, bool]]
) -> None:
    """A search through the index, in a new opening for each, finds what comparing with every vector finds."""
    episodes = [
        EvalResult(_text(number, changed=changed), {"score": 0.9 if well else 0.1}, "", "dev", "test", NOW)
        for number, changed, well in picks
    ]
    with TemporaryDirectory() as one, TemporaryDirectory() as many:
        for folder in (one, many):
            shutil.copytree(indexed_store, folder, dirs_exist_ok=True)
        few = asyncio.run(_learned_apart(Path(one), episodes[:12], 1))
        assert asyncio.run(_learned_apart(Path(many), episodes, len(episodes)))[:12] == few
        assert {status for status, _, _ in few} & {"merged", "stored"}
