"""How long things take: bulk learning, a recall, opening in a new process, and starting for nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import common

import agenthood
from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings

TITLE = "Speed"
NOTE = "On a machine with nothing else to do; CPU time is of all threads."
HEADING = ("what", "wall time", "CPU time")
RECALLS = 40
RUNS = 3

_OPEN_AND_RECALL = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
import lancedb
print(time.perf_counter() - wall, time.process_time() - cpu)
import agenthood
with agenthood.open(sys.argv[1]) as hood:
    assert len(hood.recall(sys.argv[2], threshold=0))
"""


def run(folder: Path, limit: int | None) -> str:
    """Measure; returns a Markdown table."""
    pairs = [pair for pairs in common.changelog_pairs(folder).values() for pair in pairs[:limit]]
    subjects = [pair.learned for pair in pairs]
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / ".agenthood"
        rows = [
            *_in_process(path, subjects, [pair.asked for pair in pairs]),
            *_new_process(path, pairs[0].asked),
        ]
    return common.table(HEADING, rows)


def _in_process(path: Path, subjects: Sequence[str], asked: Sequence[str]) -> list[Sequence[str]]:
    with agenthood.open(path, settings=Settings(EmbedderSettings())) as hood:
        loading = _timed(lambda: hood.recall("load the model"))
        learning = _timed(lambda: common.learn(hood, subjects, skill="code"))
        recalls = [_timed(lambda text=text: hood.recall(text)) for text in asked[:RECALLS]]
    median = tuple(statistics.median(column) for column in zip(*recalls, strict=True))
    return [
        ("first recall: loading the model, calibrating a new space", *_shown(loading)),
        (f"`learn_many` of {len(subjects):,} episodes after that", *_shown(learning)),
        (f"one recall among them, median of {len(recalls)}", *_shown(median)),
    ]


def _new_process(path: Path, question: str) -> list[Sequence[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTHOOD_")}
    imports: list[tuple[float, ...]] = []

    def best(*arguments: str) -> tuple[float, float]:
        results = [_process([sys.executable, *arguments], environment) for _ in range(RUNS)]
        imports.extend(tuple(map(float, output.split())) for *_, output in results if output[:1].isdigit())
        return min(wall for wall, *_ in results), min(cpu for _, cpu, _ in results)

    both = best("-c", _OPEN_AND_RECALL, str(path), question)
    lancedb = (min(wall for wall, _ in imports), min(cpu for _, cpu in imports))
    return [
        (f"new process: open, one recall, close; best of {RUNS}", *_shown(both)),
        (f"of which importing LanceDB: {100 * lancedb[1] / both[1]:.0f} % of the CPU time", *_shown(lancedb)),
        (f"new process: `agenthood --help`; best of {RUNS}", *_shown(best("-m", "agenthood", "--help"))),
        (f"new process: `import agenthood`; best of {RUNS}", *_shown(best("-c", "import agenthood"))),
        (f"new process: Python alone; best of {RUNS}", *_shown(best("-c", ""))),
    ]


def _process(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float, str]:
    """(wall seconds, CPU seconds of user and system, standard output) of a process that must succeed."""
    started = time.perf_counter()
    before = os.times()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - started, cpu, done.stdout


def _timed(action: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def _shown(times: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"{1000 * one:.0f} ms" if one < 0.2 else f"{one:.2f} s" for one in times)
