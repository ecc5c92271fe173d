"""How fast episodes are learned, many at once and one by one, and how fast lessons are moved to a new index."""

from __future__ import annotations

import shutil
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import data
import numpy as np
from lookup import settings
from measure import (
    Bar,
    Result,
    Stopwatch,
    Times,
    each,
    figure,
    folder_size,
    ms,
    number,
    progress,
    ratio,
    size,
)

import agenthood
from agenthood.embedding.bundled import BundledEmbedder
from agenthood.embedding.lexical import lexical_vectors
from agenthood.learning import migration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from agenthood import AsyncHood, EvalResult, Receipt
    from agenthood.embedding.base import Embedder

SAMPLE = 300
_FEW = 20
_SPACE_FILE = "vectors.npz"


class Bench:
    """A store with a history, made once and copied for whoever needs it, and the embedders to open it with."""

    def __init__(self, texts: Path, work: Path, before: int, after: int) -> None:
        """Args: the folder of `texts`, where to `work`, and how many episodes come `before` and `after`."""
        self.work = work
        self.episodes = data.episodes(texts, before, after)
        self.bundled = BundledEmbedder()
        self._made = work / "before"

    async def prepare(self) -> None:
        """Load the model, prepare vectors for every text, and learn the history, unless that was done before."""
        await self.bundled.load()
        self.given = await self._given()
        done = self.work / "before.done"
        if not done.exists():
            shutil.rmtree(self._made, ignore_errors=True)
            async with self.opened(self._made, self.given) as hood:
                await hood.learn_many(self.episodes.before)
                await hood.migrate()
            done.touch()
        async with self.opened(self._made, self.given) as hood:
            self.lessons = len(await hood.lessons())

    async def _given(self) -> data.Given:
        file = self.work / _SPACE_FILE
        if file.exists():
            with np.load(file) as kept:
                return data.Given(self.bundled.space, kept["texts"].tolist(), kept["vectors"])
        progress(f"  embedding {len(self.episodes.texts):,} texts to look them up later")
        given = await data.given(self.bundled, self.episodes.texts)
        np.savez(file, texts=np.array(given.texts), vectors=given.vectors)
        return given

    @asynccontextmanager
    async def opened(self, path: Path, embedder: Embedder) -> AsyncIterator[AsyncHood]:
        """A store with default settings; its calibration is there afterwards."""
        async with agenthood.open_async(
            path,
            settings=settings(),
            # A store closes its embedder; another one is free, since all share the weights.
            embedder=BundledEmbedder() if embedder is self.bundled else embedder,
            start_migration=False,
        ) as hood:
            await hood.space.prepare()
            yield hood

    def copy(self, name: str) -> Path:
        """A copy of the store with the history."""
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self._made, path)
        return path

    async def embedder_rate(self, texts: Sequence[str]) -> tuple[float, float]:
        """Texts a second of the bundled model, alone and with the lexical half."""
        with Stopwatch() as semantic:
            await self.bundled.embed(texts)
        with Stopwatch() as words:
            lexical_vectors(texts)
        return len(texts) / semantic.seconds, len(texts) / (semantic.seconds + words.seconds)


async def learn_many(bench: Bench) -> Result:
    """Episodes a second through `learn_many`, from text to durable, and whether one by one ends the same."""
    after = bench.episodes.after
    result = Result(
        f"`learn_many` of {len(after):,} episodes into {bench.lessons:,} lessons",
        ("what", "a second", "against the embedder"),
    )
    alone, rate = await bench.embedder_rate([one.episode for one in after])
    from_text, receipts = await _learned(bench, bench.bundled, after)
    with_vectors, _ = await _learned(bench, bench.given, after)
    for label, value in (
        ("the bundled model alone", alone),
        ("the bundled model and the lexical half", rate),
        ("`learn_many`, from text to durable", from_text),
        ("`learn_many`, vectors given", with_vectors),
    ):
        result.rows.append((label, number(value), ratio(value / rate)))
    different = await _differences(bench)
    outcomes = _outcomes(receipts)
    result.notes += [
        f"Four in five episodes are new, the others repeat or reword an earlier one. Outcome: {outcomes}.",
        f"{min(SAMPLE, len(after))} of them learned one by one: {different} with another outcome.",
    ]
    result.figures |= {
        "embedder": rate,
        "text": from_text,
        "given": with_vectors,
        "different": float(different),
    }
    result.bars += [
        Bar(
            "`learn_many` from text, against the embedder's own rate", from_text / rate, 0.6, "x", least=True
        ),
        Bar("`learn_many` with vectors given", with_vectors, 5_000, "a second", least=True),
        Bar("`learn_many`: episodes with another outcome one by one", different, 0, ""),
    ]
    return result


async def _learned(
    bench: Bench, embedder: Embedder, episodes: Sequence[EvalResult]
) -> tuple[float, list[Receipt]]:
    async with bench.opened(bench.copy("many"), embedder) as hood:
        with Stopwatch() as watch:
            receipts = await hood.learn_many(episodes)
    return len(episodes) / watch.seconds, receipts


def _outcomes(receipts: Sequence[Receipt]) -> str:
    counts: dict[str, int] = {}
    for receipt in receipts:
        counts[receipt.status] = counts.get(receipt.status, 0) + 1
    return ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))


async def _differences(bench: Bench) -> int:
    """How many of a sample of episodes end differently one by one: receipts, and what the store knows after."""
    some = bench.episodes.after[:SAMPLE]
    async with bench.opened(bench.copy("many"), bench.given) as hood:
        many = [_essence(one) for one in await hood.learn_many(some)]
        lessons = await _known(hood)
    async with bench.opened(bench.copy("one"), bench.given) as hood:
        single = [
            _essence(await hood.learn(
                one.episode, scores=one.scores, outcome=one.outcome,
                member=one.member, skill=one.skill, timestamp=one.timestamp,
            ))
            for one in some
        ]  # fmt: skip
        others = await _known(hood)
    unlike = sum(a != b for a, b in zip(many, single, strict=True))
    return max(unlike, len(lessons ^ others))


def _essence(receipt: Receipt) -> tuple[object, ...]:
    similarity = None if receipt.similarity is None else round(receipt.similarity, 6)
    return receipt.status, receipt.id, receipt.kind, receipt.evidence, similarity


async def _known(hood: AsyncHood) -> set[tuple[object, ...]]:
    return {(one.id, one.text, one.evidence, round(one.mean, 9)) for one in await hood.lessons()}


async def learn_one(bench: Bench) -> Result:
    """Milliseconds one `learn` takes, after the first few."""
    title = f"`learn` one by one into {bench.lessons:,} lessons"
    result = Result(title, ("what", "p50 ms", "p95 ms"))
    after = bench.episodes.after[: SAMPLE + _FEW]
    for name, label, embedder in (
        ("text", "from text", bench.bundled),
        ("given", "vectors given", bench.given),
    ):
        path = bench.copy("one")
        before = folder_size(path)
        async with bench.opened(path, embedder) as hood:
            _, times = await each(hood.learner.learn, after)
        grown = folder_size(path) - before
        result.notes.append(f"{len(after)} episodes, {label}: {size(before)} on disk grew by {size(grown)}.")
        times = times.part(_FEW if len(after) > _FEW else None, None)
        result.rows.append((f"`learn`, {label}", ms(times.p50), ms(times.p95)))
        result.figures |= {f"{name}.p50": times.p50, f"{name}.p95": times.p95}
    result.rows.append(await _embedding_one(bench))
    what = f"`learn` one by one at {bench.lessons:,} lessons: p50"
    result.bars.append(Bar(what, 1_000 * result.figures["text.p50"], 25, "ms"))
    return result


async def _embedding_one(bench: Bench) -> tuple[str, str, str]:
    texts = [[one.episode] for one in bench.episodes.after[:SAMPLE]]
    _, times = await each(bench.bundled.embed, texts)
    return "the bundled model alone, one text", ms(times.p50), ms(times.p95)


async def learn_alike(bench: Bench) -> Result:
    """Episodes a second where all are of one template and differ in numbers: each is a lesson of its own."""
    episodes = data.numbered(len(bench.episodes.after))
    result = Result(
        f"`learn_many` of {len(episodes):,} episodes of one template into an empty store",
        ("what", "a second", "against the embedder"),
    )
    _, rate = await bench.embedder_rate([one.episode for one in episodes])
    path, ends = bench.work / "alike", [time.perf_counter()]
    shutil.rmtree(path, ignore_errors=True)
    async with bench.opened(path, bench.bundled) as hood:
        receipts = await hood.learn_many(episodes, on_progress=lambda *_: ends.append(time.perf_counter()))
        _, single = await each(hood.learner.learn, data.numbered(_FEW, start=len(episodes)))
    batch = -(-len(episodes) // (len(ends) - 1))
    batches = [batch / (end - start) for start, end in pairwise(ends)]
    for label, value in (
        ("the bundled model and the lexical half", rate),
        ("`learn_many`, from text to durable", len(episodes) / (ends[-1] - ends[0])),
        ("of which the first batch", batches[0]),
        ("of which the last batch", batches[-1]),
    ):
        result.rows.append((label, number(value), ratio(value / rate)))
        result.figures[label] = value
    result.notes += [
        f"Outcome: {_outcomes(receipts)}.",
        f"One `learn` of the same template afterwards takes {ms(single.p50)} ms (p95 {ms(single.p95)}).",
    ]
    stored = sum(receipt.status == "stored" for receipt in receipts)
    result.bars.append(
        Bar("`learn_many` of one template: lessons kept apart", stored, len(episodes), "", least=True)
    )
    return result


async def migrate(bench: Bench) -> Result:
    """Lessons a second into an empty index, and what it costs to find that nothing is to do."""
    result = Result(
        f"Migration of {bench.lessons:,} lessons into an empty index",
        ("what", "a second", "against the embedder"),
    )
    _, rate = await bench.embedder_rate([one.episode for one in bench.episodes.before])
    result.rows.append(("the bundled model and the lexical half", number(rate), "1x"))
    rates = {}
    for name, label, embedder in (
        ("text", "from text", bench.bundled),
        ("given", "vectors given", bench.given),
    ):
        rates[name] = await _migrated(bench, embedder)
        result.rows.append((f"`migrate`, {label}", number(rates[name]), ratio(rates[name] / rate)))
    idle = await _nothing_to_do(bench)
    for name, times in idle.items():
        result.notes.append(f"Nothing to do: {name} takes {ms(times.p50)} ms (p95 {ms(times.p95)}).")
    result.figures |= {"embedder": rate, **rates, **{name: times.p50 for name, times in idle.items()}}
    result.bars += [
        Bar(
            "migration from text, against the embedder's own rate", rates["text"] / rate, 0.6, "x", least=True
        ),
        Bar("migration with vectors given", rates["given"], 5_000, "a second", least=True),
        Bar("migration with nothing to do: the look", 1_000 * idle["the look at the start"].p50, 50, "ms"),
    ]
    return result


async def _migrated(bench: Bench, embedder: Embedder) -> float:
    path = bench.copy("migrated")
    async with bench.opened(path, embedder) as hood:
        await hood.store.drop_collection(hood.index.main.name)
    async with bench.opened(path, embedder) as hood:
        with Stopwatch() as watch:
            report = await hood.migrate()
    if not report.complete or not report.embedded:
        raise SystemExit(f"the migration did not do its work: {report}")
    return report.embedded / watch.seconds


async def _nothing_to_do(bench: Bench) -> dict[str, Times]:
    path = bench.work / "migrated"
    async with bench.opened(path, bench.given) as hood:
        await migration.is_current(hood.store, hood.index)
        _, looks = await each(lambda _: migration.is_current(hood.store, hood.index), range(_FEW))
        _, runs = await each(lambda _: hood.migrate(), range(3))

    async def open_and_close(_: int) -> None:
        async with agenthood.open_async(path, settings=settings(), embedder=bench.given):
            pass

    _, opens = await each(open_and_close, range(_FEW))
    return {"the look at the start": looks, "`migrate` itself": runs, "opening and closing the store": opens}


PARTS = {"learn-many": learn_many, "learn-one": learn_one, "learn-alike": learn_alike, "migrate": migrate}


async def run(name: str, texts: Path, work: Path, before: int, after: int) -> Result:
    """Prepare a store and measure one part."""
    bench = Bench(texts, work, before, after)
    await bench.prepare()
    progress(f"  the store holds {figure(bench.lessons, 'lessons')}")
    return await PARTS[name](bench)
