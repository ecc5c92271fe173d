"""Measures how fast agenthood is, alone and beside others, and prints Markdown. See benchmarks/README.md.

.venv/bin/python benchmarks/speed.py                                        everything
.venv/bin/python benchmarks/speed.py lookup-100k start                      some parts
.venv/bin/python benchmarks/speed.py --json speed.json                      everything that is not in the file yet
.venv/bin/python benchmarks/speed.py report --json speed.json               the tables of what is in the file
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import bulk
import common
import lookup
import peers
import start
import upserts
from measure import BARS, Result, progress

SCALES = {"full": 1, "small": 20, "tiny": 500}
LEAST = 120
QUERIES = {"full": 200, "small": 50, "tiny": 12}
EPISODES = 10_000
PEER_SIZES = (1_000, 10_000)
MOST_LOAD = 1.0
REPORT = "report"
Part = Callable[[Path, Path, str], Awaitable["Result | list[Result]"]]


def scaled(count: int, scale: str) -> int:
    """So many at this scale."""
    return max(LEAST, count // SCALES[scale]) if scale != "full" else count


def _lookup(case: lookup.Case) -> Part:
    def part(texts: Path, work: Path, scale: str) -> Awaitable[Result]:
        small = lookup.Case(scaled(case.count, scale), case.dimension, case.p50, case.recall, case.memory)
        return lookup.run(small, texts, work, QUERIES[scale])

    return part


def _bulk(name: str) -> Part:
    def part(texts: Path, work: Path, scale: str) -> Awaitable[Result]:
        count = scaled(EPISODES, scale)
        return bulk.run(name, texts, work, count, count)

    return part


PARTS: dict[str, Part] = {
    **{name: _lookup(case) for name, case in lookup.CASES.items()},
    **{name: _bulk(name) for name in bulk.PARTS},
    "start": lambda texts, work, scale: start.run(texts, work, scaled(EPISODES, scale)),
    "upserts": lambda texts, work, scale: upserts.run(
        texts, work, scaled(EPISODES, scale), QUERIES[scale], wait=scale == "full"
    ),
    "peers": lambda texts, work, scale: peers.run(
        texts, work, tuple(dict.fromkeys(scaled(size, scale) for size in PEER_SIZES)), QUERIES[scale]
    ),
}
SAME_STORE = tuple(bulk.PARTS)
"""Parts that begin with the same history; with --keep it is made once for all of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for; returns the exit code."""
    options = parsed(arguments)
    kept = read(options.json)
    if options.parts == [REPORT]:
        print(report(kept))
        return 0
    names = options.parts or [name for name in PARTS if name not in kept]
    folder = common.data_folder(options.data)
    print(common.machine(), flush=True)
    for name in names:
        kept[name] = measured(name, folder, options.keep, options.scale)
        for result in kept[name]["results"]:
            print(f"\n{Result.from_json(result).markdown()}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    print(f"\n{bars({name: kept[name] for name in names})}", flush=True)
    return 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure how fast agenthood is, and print Markdown tables.")
    known = f"{', '.join(PARTS)}; all if none is named"
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{known}; or `{REPORT}` alone")
    parser.add_argument("--json", metavar="FILE", type=Path, help="add what is measured to this file")
    parser.add_argument(
        "--scale", choices=SCALES, default="full", help="smaller for a quick look  [default: full]"
    )
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help="leave the stores here and use them again next time"
    )
    parser.add_argument(
        "--data", metavar="FOLDER", help="the texts  [default: $AGENTHOOD_SHARED/data, else ../shared/data]"
    )
    options = parser.parse_args(arguments)
    if REPORT in options.parts and (len(options.parts) > 1 or options.json is None):
        parser.error(f"{REPORT!r} goes alone and with --json FILE")
    if unknown := [part for part in options.parts if part not in (*PARTS, REPORT)]:
        parser.error(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    return options


def measured(name: str, texts: Path, keep: Path | None, scale: str) -> dict[str, Any]:
    """Run one part; what the JSON file keeps of it."""
    load = common.load()
    if load is not None and load > MOST_LOAD:
        progress(f"warning: {load:.1f} processes per core want to run: what is measured now is too slow")
    work = working_folder(name, keep, scale)
    started = time.perf_counter()
    progress(f"{name} ...")
    try:
        found = asyncio.run(PARTS[name](texts, work, scale))
    finally:
        if keep is None:
            shutil.rmtree(work, ignore_errors=True)
    results = found if isinstance(found, list) else [found]
    progress(f"{name}: {time.perf_counter() - started:.0f} s")
    return {
        "machine": common.machine(),
        "scale": scale,
        "load": load,
        "load_after": common.load(),
        "seconds": time.perf_counter() - started,
        "results": [result.as_json() for result in results],
    }


def working_folder(name: str, keep: Path | None, scale: str) -> Path:
    """Where a part keeps its stores."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="agenthood-speed-"))
    work = keep / scale / ("history" if name in SAME_STORE else name)
    work.mkdir(parents=True, exist_ok=True)
    return work


def read(file: Path | None) -> dict[str, Any]:
    """The parts measured before."""
    if file is None or not file.exists():
        return {}
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return kept


def report(kept: dict[str, Any]) -> str:
    """Everything measured, as Markdown."""
    if not kept:
        return "Nothing has been measured yet."
    machines = dict.fromkeys(one["machine"] for one in kept.values())
    parts = [name for name in PARTS if name in kept]
    tables = [Result.from_json(result).markdown() for name in parts for result in kept[name]["results"]]
    return "\n\n".join(["\n".join(machines), bars(kept), *tables])


def bars(kept: dict[str, Any]) -> str:
    """What must hold and whether it does, with a word on parts whose figures are not to be trusted."""
    parts = [name for name in PARTS if name in kept]
    rows = [
        bar.row(counts=kept[name]["scale"] == "full")
        for name in parts
        for result in kept[name]["results"]
        for bar in Result.from_json(result).bars
    ]
    doubts = [f"- {name}: {doubt}" for name in parts if (doubt := doubtful(kept[name]))]
    table = f"### What must hold\n\n{common.table(BARS, rows)}" if rows else ""
    return "\n".join([table, *(["", *doubts] if doubts else [])]).strip()


def doubtful(part: dict[str, Any]) -> str:
    """Why a part's figures say little; empty if they count."""
    reasons = []
    if part["scale"] != "full":
        reasons.append(f"measured at scale {part['scale']!r}")
    if (part["load"] or 0) > MOST_LOAD:
        reasons.append(f"{part['load']:.1f} processes per core wanted to run when it began")
    return "; ".join(reasons)


if __name__ == "__main__":
    sys.exit(main())
