"""What ten thousand writes of one row each do to writes, look-ups and the disk."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import data
import numpy as np
from lookup import embedder, entry, settings
from measure import (
    Bar,
    Result,
    Stopwatch,
    Times,
    each,
    each_sync,
    folder_size,
    ms,
    number,
    progress,
    ratio,
    size,
)
from raw_lance import RawTable

import agenthood

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood import AsyncHood
    from agenthood.stores.base import Record

DIMENSION = 256
HEADING = ("10 best of kind `learned`, or one row written", "p50 ms", "p95 ms", "disk")
_TENTH = 10
_RAW = 1_000
_TURNS = 3
_VERSIONS_STAY = 12.0  # seconds; upkeep keeps those of the last ten


async def run(texts: Path, work: Path, count: int, queries: int, *, wait: bool = True) -> Result:
    """Load `count` rows at once, write `count` more one by one, and compare with loading all at once.

    Half of the single writes replace a row, half add one.
    """
    title = f"{count:,} single upserts into {count:,} rows of {DIMENSION} dimensions"
    result = Result(title, HEADING)
    for name in ("single", "bulk", "raw"):  # each run begins anew, also with --keep
        shutil.rmtree(work / name, ignore_errors=True)
    total = count + count // 2
    points = data.points(total, DIMENSION)
    asked = data.clustered(queries, DIMENSION, around=total, seed=data.SEED, draw=1)
    records = _Rows(points, texts)
    async with _opened(work / "single") as hood:
        await _loaded(result, hood, records, range(count), asked, work, "loaded at once")
        order = np.random.default_rng(data.SEED).permutation(np.arange(count // 2, total))
        times = await _written(hood, records, [int(row) for row in order])
        await _asked(result, hood, asked, work / "single", "after the single writes")
        with Stopwatch() as watch:
            await hood.store.maintain(hood.index.main)
        await _asked(result, hood, asked, work / "single", "after `maintain`")
        if wait:
            progress("  waiting until the old versions may go")
            await asyncio.sleep(_VERSIONS_STAY)
            await hood.store.maintain(hood.index.main)
        label = "after `maintain` ten seconds later" if wait else "the same again"
        await _asked(result, hood, asked, work / "single", label)
    disk = folder_size(work / "single")
    async with _opened(work / "bulk") as hood:
        await _loaded(result, hood, records, range(total), asked, work, "the same rows, loaded at once")
    after, before = await _alternately(work, asked)
    for label, found in (("written one by one", after), ("loaded at once", before)):
        result.rows.append((f"look-up, opened anew, in turns, {label}", ms(found.p50), ms(found.p95), ""))
    _report(result, times, before, after, watch.seconds)
    result.figures |= {"disk.maintained": disk, "disk.bulk": folder_size(work / "bulk")}
    _raw(result, points, work, count)
    _bars(result, count)
    return result


class _Rows:
    """Makes records of rows; each text is made once."""

    def __init__(self, points: data.Points, texts: Path) -> None:
        self._points = points
        self._texts: list[str] = []
        self._source = data.recombined(texts)

    def records(self, hood: AsyncHood, rows: Any) -> list[Record]:
        while len(self._texts) <= max(rows):
            self._texts.append(next(self._source))
        entries = [entry(row, self._points, self._texts[row]) for row in rows]
        ((_, records),) = hood.index.rows(entries, self._points.vectors[list(rows)]).items()
        return records


def _opened(path: Path) -> AsyncHood:
    return agenthood.open_async(
        path, settings=settings(), embedder=embedder(DIMENSION), start_migration=False
    )


async def _loaded(  # noqa: PLR0913, PLR0917
    result: Result, hood: AsyncHood, rows: _Rows, which: range, asked: Any, work: Path, label: str
) -> Times:
    await hood.store.upsert(hood.index.main, rows.records(hood, which))
    await hood.store.maintain(hood.index.main)
    folder = work / ("bulk" if "same" in label else "single")
    return await _asked(result, hood, asked, folder, f"{len(which):,} rows, {label}")


async def _asked(result: Result, hood: AsyncHood, asked: Any, folder: Path, label: str) -> Times:
    find = partial(_find, hood)
    await each(find, asked[:10])
    _, times = await each(find, asked)
    disk = folder_size(folder)
    result.rows.append((f"look-up, {label}", ms(times.p50), ms(times.p95), size(disk)))
    result.figures |= {f"look-up, {label}": times.p50, f"disk, {label}": disk}
    return times


async def _alternately(work: Path, asked: Any) -> tuple[Times, Times]:
    """Look-ups in both stores, opened anew and asked in turns: a machine that slows down slows down both."""
    async with _opened(work / "single") as single, _opened(work / "bulk") as bulk:
        seconds: list[list[float]] = [[], []]
        for _ in range(_TURNS):
            for hood, taken in zip((single, bulk), seconds, strict=True):
                find = partial(_find, hood)
                await each(find, asked[:10])
                taken.extend((await each(find, asked))[1].seconds)
    return Times(seconds[0]), Times(seconds[1])


async def _find(hood: AsyncHood, query: Any) -> object:
    return await hood.index.find_similar(query, -1.0, data.BEST, kind="learned")


async def _written(hood: AsyncHood, rows: _Rows, order: list[int]) -> Times:
    prepared = rows.records(hood, order)

    async def one(record: Record) -> object:
        return await hood.store.upsert(hood.index.main, [record])

    done: list[float] = []
    step = max(1, len(prepared) // _TENTH)
    for start in range(0, len(prepared), step):
        _, times = await each(one, prepared[start : start + step])
        done += times.seconds
        progress(f"  {len(done):,} single writes, p50 {ms(times.p50)} ms, p95 {ms(times.p95)} ms")
    return Times(done)


def _report(result: Result, times: Times, before: Times, after: Times, maintaining: float) -> None:
    tenth = max(1, len(times.seconds) // _TENTH)
    first, last = times.part(None, tenth), times.part(-tenth, None)
    for label, some in (("first", first), ("last", last)):
        result.rows.append((f"single upsert, {label} {tenth:,}", ms(some.p50), ms(some.p95), ""))
    result.notes.append(
        f"Single writes: {number(len(times.seconds) / sum(times.seconds))} a second in the mean, the longest "
        f"{ms(max(times.seconds))} ms. `maintain` after them took {number(maintaining)} s."
    )
    result.figures |= {
        "first.p95": first.p95,
        "last.p95": last.p95,
        "before.p50": before.p50,
        "after.p50": after.p50,
    }


def _raw(result: Result, points: data.Points, work: Path, count: int) -> None:
    """A thousand rows written as the TypeScript program does, without upkeep."""
    raw = RawTable(work / "raw", DIMENSION)
    raw.load([data.row_key(row) for row in range(count)], points.vectors[:count], lessons=False)
    rows = range(min(_RAW, count))
    _, times = each_sync(
        lambda row: raw.put(f"pattern:{data.row_key(row)}", points.vectors[row]), rows, limit=60
    )
    tenth = max(1, len(times.seconds) // _TENTH)
    for label, some in (("first", times.part(None, tenth)), ("last", times.part(-tenth, None))):
        what = f"raw LanceDB, delete and add, {label} {tenth:,} of {len(times.seconds):,}"
        result.rows.append((what, ms(some.p50), ms(some.p95), size(folder_size(work / "raw"))))


def _bars(result: Result, count: int) -> None:
    figures = result.figures
    used = figures["disk, after the single writes"]
    result.bars += [
        Bar(f"{count:,} single upserts: p95 of the last tenth against the first",
            figures["last.p95"] / figures["first.p95"], 1.5, "x"),
        Bar("disk after them against a bulk load", used / figures["disk.bulk"], 3, "x"),
        Bar("disk after `maintain` ten seconds later", figures["disk.maintained"] / figures["disk.bulk"], 3, "x"),
        Bar("look-ups then against a bulk load, in turns", figures["after.p50"] / figures["before.p50"], 1.1, "x"),
    ]  # fmt: skip
    result.notes.append(
        f"Right after the single writes the disk holds {ratio(used / figures['disk.bulk'])} a bulk load: versions of "
        "the last ten seconds are kept for other processes that read them."
    )
