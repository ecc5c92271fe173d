"""How long one look-up takes among many patterns, and whether it finds what brute force finds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import data
import numpy as np
from measure import Bar, Result, Stopwatch, Times, each_sync, folder_size, ms, number, progress, ratio, size
from raw_lance import RawTable

import agenthood
from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings
from agenthood.embedding.testing import HashedEmbedder
from agenthood.formats import pattern_text, utc_now
from agenthood.learning.lessons import lesson_id, lesson_record
from agenthood.learning.patterns import IndexEntry
from agenthood.learning.rules import new_lesson
from agenthood.stores.base import SHARED, SHARED_DIMENSION

HEADING = ("one look-up, 10 best", "p50 ms", "p95 ms", "recall@10", "raw LanceDB's p50 over this")
BATCH = 10_000
MEMBER = 7
_HERE = Path(__file__).parent
_NODE = _HERE.parent / "tests" / "node"


@dataclass(frozen=True, slots=True)
class Case:
    """One table to look things up in, and the bars it is held to.

    Attributes:
        count: how many patterns.
        dimension: of their vectors; that of the shared table puts them there.
        p50: most milliseconds one look-up may take at the median.
        recall: least recall@10.
        memory: most bytes a process may have resident that only looks up; None for no bar.
    """

    count: int
    dimension: int
    p50: float
    recall: float
    memory: int | None = None

    @property
    def shared(self) -> bool:
        """Whether the patterns are in the shared table, beside the rows of their lessons."""
        return self.dimension == SHARED_DIMENSION

    @property
    def title(self) -> str:
        """For the report."""
        where = "the shared table" if self.shared else "a table of their own"
        return f"Look-up among {self.count:,} patterns of {self.dimension} dimensions in {where}"


CASES = {
    "lookup-10k-shared": Case(10_000, SHARED_DIMENSION, 6, 0.99),
    "lookup-100k": Case(100_000, 256, 10, 0.99),
    "lookup-100k-shared": Case(100_000, SHARED_DIMENSION, 25, 0.99),
    "lookup-1m": Case(1_000_000, 256, 20, 0.98, 4 * 1024**3),
}


def settings() -> Settings:
    """The defaults, whatever the environment says."""
    return Settings(EmbedderSettings())


def embedder(dimension: int) -> HashedEmbedder:
    """Gives a space of this dimension; nothing is embedded with it."""
    return HashedEmbedder(dimension=dimension, pinned=True)


async def run(case: Case, texts: Path, work: Path, queries: int) -> Result:
    """Fill a store unless `work` has it, ask it from a new process, and compare.

    Args:
        case: what to measure.
        texts: the folder with the data.
        work: where the store is kept.
        queries: how many look-ups.
    """
    result = Result(case.title, HEADING)
    points = data.points(case.count, case.dimension)
    asked = data.clustered(queries, case.dimension, around=case.count, seed=data.SEED, draw=1)
    store = work / "store"
    filled = work / "filled.json"
    if not filled.exists():
        shutil.rmtree(store, ignore_errors=True)  # of a run that was ended
        filled.write_text(json.dumps(await fill(case, points, texts, store)), encoding="utf-8")
    told = json.loads(filled.read_text(encoding="utf-8"))
    np.save(work / "queries.npy", asked)
    answer = ask(store, work / "queries.npy", case.dimension)
    raw, raw_times = raw_lookups(case, points, asked, work / "raw")
    _rows(result, points, asked, answer, raw_times)
    _notes(result, case, told, answer)
    if case.shared:
        _typescript(result, asked, raw, store / "memory", work)
    _bars(result, case)
    return result


async def fill(case: Case, points: data.Points, texts: Path, store: Path) -> dict[str, Any]:
    """Put the rows into a new store through its public path; what that took."""
    source = data.recombined(texts)
    at = utc_now()
    making = writing = 0.0
    async with agenthood.open_async(
        store, settings=settings(), embedder=embedder(case.dimension), start_migration=False
    ) as hood:
        with Stopwatch() as whole:
            for start in range(0, case.count, BATCH):
                rows = range(start, min(start + BATCH, case.count))
                entries = [entry(row, points, next(source)) for row in rows]
                with Stopwatch() as made:
                    records = hood.index.rows(entries, points.vectors[rows.start : rows.stop])
                if case.shared:
                    records[SHARED] += [lesson(one, at) for one in entries]
                with Stopwatch() as written:
                    for collection, some in records.items():
                        await hood.store.upsert(collection, some)
                making, writing = making + made.seconds, writing + written.seconds
                progress(f"  {rows.stop:,} of {case.count:,} rows after {making + writing:.0f} s")
        with Stopwatch() as maintained:
            report = await hood.store.maintain(hood.index.main)
        report.pop("bytes_freed", None)
    return {
        "seconds": whole.seconds,
        "making": making,
        "writing": writing,
        "maintaining": maintained.seconds,
        "report": report,
        "disk": folder_size(store),
    }


def entry(row: int, points: data.Points, text: str) -> IndexEntry:
    """The pattern in one row."""
    kind = "antipattern" if points.antipattern[row] else "learned"
    member, key = f"member-{points.member[row]}", data.row_key(row)
    return IndexEntry(
        key, lesson_id(kind, key), kind, member, "code", text, pattern_text(kind, member, "code", text)
    )


def lesson(one: IndexEntry, at: Any) -> Any:
    """The long-term row of a pattern, which every real store has beside it."""
    mean = 0.9 if one.kind == "learned" else 0.1
    made = new_lesson(
        lesson_id(one.kind, one.key), one.kind, one.member, one.skill, one.episode,
        mean=mean, episode_id="ep:0-bench", seen="2026-06-01T00:00:00.000Z", outcome="done",
    )  # fmt: skip
    return lesson_record(made, at=at)


def ask(store: Path, queries: Path, dimension: int) -> dict[str, Any]:
    """What `lookup_process.py` measures in a process of its own."""
    command = [sys.executable, str(_HERE / "lookup_process.py"), str(store), str(queries), str(dimension)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the process that looks up failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def raw_lookups(case: Case, points: data.Points, asked: Any, folder: Path) -> tuple[RawTable, Times]:
    """The same rows in raw LanceDB, and how long its look-ups take."""
    shutil.rmtree(folder, ignore_errors=True)
    raw = RawTable(folder, case.dimension)
    raw.load([data.row_key(row) for row in range(case.count)], points.vectors, lessons=case.shared)
    raw.search(asked[0], data.BEST)
    _, times = each_sync(lambda query: raw.search(query, data.BEST), asked, limit=30)
    return raw, times


def _rows(result: Result, points: data.Points, asked: Any, answer: dict[str, Any], raw: Times) -> None:
    kind, both = points.mask(), points.mask(MEMBER)
    _, brute = each_sync(lambda query: data.brute_force(points.vectors, query, kind), asked, limit=30)
    share = common.percent(float(both.mean()))
    for name, label, mask in (
        ("find_similar", "`EmbeddingIndex.find_similar`, filter on kind", kind),
        ("query", "`store.query`, the same", kind),
        ("selective", f"`find_similar`, filter on kind and member ({share} % of the rows)", both),
        ("batch", f"`find_similar` with {answer['batch_size']} in one call, per look-up", kind),
    ):
        times = Times(answer[name]["seconds"])
        found = [[data.row_of(key) for key in keys] for keys in answer[name]["keys"]]
        recall = data.recall(points.vectors, asked[: len(found)], found, mask)
        result.figures |= {
            f"{name}.p50": times.p50,
            f"{name}.p95": times.p95,
            f"{name}.recall": recall,
        }
        against = ratio(raw.p50 / times.p50)
        result.rows.append((label, ms(times.p50), ms(times.p95), f"{recall:.3f}", against))
    for name, label, times in (
        ("raw", "raw LanceDB as the TypeScript program uses it: flat, l2, LIKE", raw),
        ("numpy", "NumPy brute force over an array in memory, filter on kind", brute),
    ):
        result.figures |= {f"{name}.p50": times.p50, f"{name}.p95": times.p95}
        against = "1x" if name == "raw" else ratio(raw.p50 / times.p50)
        result.rows.append((label, ms(times.p50), ms(times.p95), "1.000" if name == "numpy" else "", against))


def _notes(result: Result, case: Case, told: dict[str, Any], answer: dict[str, Any]) -> None:
    indices = told["report"]["indices"]
    shown = ", ".join(
        f"{name} {about['type']} ({about['unindexed_rows']} rows not in it, {about['deltas']} deltas)"
        for name, about in sorted(indices.items())
    )
    beside = " with a lesson's row beside each" if case.shared else ""
    rate = case.count / told["seconds"]
    notes = (
        (
            f"Filled{beside} in batches of {BATCH:,} in {number(told['seconds'])} s, {number(rate)} patterns a second: "
            f"{number(told['making'])} s for lexical vectors and terms, {number(told['writing'])} s for writing. "
            "Indices are built meanwhile."
        ),
        f"`maintain` after that took {number(told['maintaining'])} s. Indices: {shown or 'none'}.",
        f"On disk {size(told['disk'])}; the vectors alone are {size(case.count * case.dimension * 4)}.",
        (
            f"A new process that only looks up: first look-up {ms(answer['first'])} ms after opening, "
            f"at most {size(answer['memory'])} of memory."
        ),
    )
    result.notes += notes
    result.figures |= {
        "fill.seconds": told["seconds"],
        "fill.rate": rate,
        "maintain.seconds": told["maintaining"],
        "disk": told["disk"],
        "memory": answer["memory"],
    }


def _bars(result: Result, case: Case) -> None:
    what = f"one look-up, {case.count:,} patterns, {case.dimension} dimensions"
    figures = result.figures
    result.bars += [
        Bar(f"{what}: p50", 1_000 * figures["find_similar.p50"], case.p50, "ms"),
        Bar(
            f"{what}: recall@10, filter on kind", figures["find_similar.recall"], case.recall, "", least=True
        ),
        Bar(f"{what}: recall@10, filter on member", figures["selective.recall"], case.recall, "", least=True),
    ]
    if case.memory:
        limit = case.memory / 1024**3
        result.bars.append(Bar(f"{what}: memory", figures["memory"] / 1024**3, limit, "GiB"))
    if "typescript.difference" in figures:
        difference = figures["typescript.difference"]
        result.bars.append(Bar(f"{what}: change of TypeScript's scores", difference, 1e-5, ""))


def _typescript(result: Result, asked: Any, raw: RawTable, memory: Path, work: Path) -> None:
    """Compare Node's scores on the table without an index with those on ours."""
    if shutil.which("node") is None or not (_NODE / "node_modules" / "@lancedb").is_dir():
        result.notes.append(
            "The TypeScript program's scores were not looked at: no Node, or no packages for it "
            "(`npm ci --ignore-scripts` in tests/node)."
        )
        return
    most = 0.0
    same = total = 0
    some: Sequence[Any] = asked[:5]
    for query in some:
        before = _node_scores(raw.folder, query, work)
        after = _node_scores(memory, query, work)
        total, same = total + len(before), same + len(before.keys() & after.keys())
        most = max([most, *(abs(before[id_] - after.get(id_, -9.0)) for id_ in before)])
    result.figures |= {"typescript.difference": most}
    result.notes.append(
        f"The TypeScript program's search through Node: the same {same} of {total} rows with and without our index, "
        f"scores at most {most:.1e} apart."
    )


def _node_scores(folder: Path, query: Any, work: Path) -> dict[str, float]:
    file = work / "query.json"
    file.write_text(json.dumps({"vector": query.tolist(), "limit": data.BEST}), encoding="utf-8")
    command = ["node", str(_NODE / "store.mjs"), "search", str(folder), str(file)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return {hit["id"]: hit["score"] for hit in map(json.loads, done.stdout.splitlines())}
