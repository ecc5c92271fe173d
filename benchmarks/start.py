"""What starting costs: CPU seconds of a new process, of all its threads, user and system."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import bulk
from measure import Bar, Result, ms

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HEADING = ("a new process", "CPU ms", "wall ms")
RUNS = 5

_OPEN_AND_RECALL = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
import lancedb
print(time.perf_counter() - wall, time.process_time() - cpu)
import agenthood
with agenthood.open(sys.argv[1]) as hood:
    assert len(hood.recall(sys.argv[2], threshold=0))
"""


async def run(texts: Path, work: Path, count: int) -> Result:
    """Start each thing a few times; the median of CPU and of wall time."""
    bench = bulk.Bench(texts, work, count, 0)
    await bench.prepare()
    result = Result(f"Starting, median of {RUNS}", HEADING)
    question = bench.episodes.before[0].episode
    python = _median(["-c", ""])
    whole, printed = _outputs(["-c", _OPEN_AND_RECALL, str(bench.copy("started")), question])
    lancedb = tuple(
        sorted(map(float, column))[RUNS // 2]
        for column in zip(*(one.split() for one in printed), strict=True)
    )
    helped, imported = _median(["-m", "agenthood", "--help"]), _median(["-c", "import agenthood"])
    for name, label, (wall, cpu) in (
        ("open", f"open a store of {bench.lessons:,} lessons, recall once, close", whole),
        ("lancedb", "of which importing LanceDB", lancedb),
        ("help", "`agenthood --help`", helped),
        ("import", "`import agenthood`", imported),
        ("python", "Python alone", python),
    ):
        result.rows.append((label, ms(cpu), ms(wall)))
        result.figures |= {f"{name}.cpu": cpu, f"{name}.wall": wall}
    result.notes.append(
        f"LanceDB's import is {100 * lancedb[1] / whole[1]:.0f} % of the CPU time of the first row."
    )
    result.bars += [
        Bar("`agenthood --help`: CPU", helped[1], 0.15, "s"),
        Bar("`import agenthood`: CPU", imported[1], 0.1, "s"),
    ]
    return result


def _median(arguments: Sequence[str]) -> tuple[float, float]:
    return _outputs(arguments)[0]


def _outputs(arguments: Sequence[str]) -> tuple[tuple[float, float], list[str]]:
    """The median (wall, CPU) seconds of Python with these arguments, and what each run printed."""
    # The store's own settings count, not the environment's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTHOOD_")}
    runs = [_process([sys.executable, *arguments], environment) for _ in range(RUNS)]
    walls, cpus, outputs = zip(*runs, strict=True)
    return (sorted(walls)[RUNS // 2], sorted(cpus)[RUNS // 2]), list(outputs)


def _process(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float, str]:
    """(wall seconds, CPU seconds of user and system, standard output) of a process that must succeed."""
    started, before = time.perf_counter(), os.times()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - started, cpu, done.stdout
