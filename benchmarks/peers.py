"""agenthood beside other memories with the same embedder: adding episodes, and finding the ten nearest.

Each is measured in a process of its own, `peer_process.py`, from text and with the vectors given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bulk
import numpy as np
from measure import Result, Times, ms, number, progress, ratio

HEADING = (
    "memory",
    "episodes",
    "added a second",
    "search p50 ms",
    "p95 ms",
    "recall@10",
    "search against agenthood",
)
SYSTEMS = {
    "agenthood": "agenthood: `learn_many`, `recall`",
    "agenthood-one": "agenthood: `learn` one by one, `find_similar`",
    "mem0": "mem0ai: `add(infer=False)`, `search`, its local store",
    "langgraph": "LangGraph: `InMemoryStore.batch`, `search` (in memory only)",
    "raw": "raw LanceDB as the TypeScript program uses it",
    "numpy": "NumPy brute force over an array (in memory only)",
}
NEEDS = {"mem0": ("mem0", "mem0ai"), "langgraph": ("langgraph.store.memory", "langgraph-checkpoint")}
MODES = {"text": "from text", "given": "vectors given"}
SECONDS = 60
"""That adding may take; what was added by then is what is searched."""
_GRACE = 240


async def run(texts: Path, work: Path, sizes: tuple[int, ...], queries: int) -> list[Result]:
    """Measure every system that is installed at each size; one result for each way of embedding."""
    bench = bulk.Bench(texts, work, max(sizes), queries * 5)
    await bench.prepare()
    asked = [one.episode for one in bench.episodes.after[4::5]]  # the repeats and rewordings
    np.savez(
        work / "peers.npz",
        texts=np.array([one.episode for one in bench.episodes.before]),
        asked=np.array(asked[:queries]),
    )
    return [_compared(work, mode, sizes) for mode in MODES]


def _compared(work: Path, mode: str, sizes: tuple[int, ...]) -> Result:
    result = Result(f"Beside other memories, {MODES[mode]}", HEADING)
    for size in sizes:
        ours: float | None = None
        for name, label in SYSTEMS.items():
            if reason := missing(name):
                result.notes.append(f"{label}: {reason}.")
                continue
            progress(f"  {name}, {size:,} episodes, {MODES[mode]}")
            answer = _measured(work, name, mode, size)
            if isinstance(answer, str):
                result.notes.append(f"{label}, {size:,} episodes: {answer}.")
                continue
            times = Times(answer["search"])
            ours = times.p50 if ours is None else ours
            result.rows.append(_row(label, answer, times, ours))
            key = f"{name}.{answer['added']}"
            result.figures |= {f"{key}.added": answer["added"] / answer["seconds"], f"{key}.p50": times.p50}
    result.notes = list(dict.fromkeys(result.notes))
    result.notes.append(
        f"Adding stops after {SECONDS} s. agenthood also merges what says the same, so it holds fewer lessons than "
        "episodes; recall@10 is against brute force over what each holds. `recall` ranks by keywords too."
    )
    return result


def _row(label: str, answer: dict[str, Any], times: Times, ours: float) -> tuple[str, ...]:
    recall = "" if answer["recall"] is None else f"{answer['recall']:.3f}"
    return (
        label,
        f"{answer['added']:,}",
        number(answer["added"] / answer["seconds"]),
        ms(times.p50),
        ms(times.p95),
        recall,
        ratio(times.p50 / ours),
    )


def missing(name: str) -> str:
    """Why a system cannot be measured; empty if it can."""
    if name not in NEEDS:
        return ""
    module, package = NEEDS[name]
    try:
        found = find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    return "" if found else f"skipped, since {package} is not installed (see benchmarks/README.md)"


def _measured(work: Path, name: str, mode: str, size: int) -> dict[str, Any] | str:
    """What the process printed, or why there is nothing."""
    script = Path(__file__).with_name("peer_process.py")
    command = [sys.executable, str(script), name, mode, str(size), str(work), str(SECONDS)]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=SECONDS + _GRACE, check=False
        )
    except subprocess.TimeoutExpired as exc:
        return f"not done after {exc.timeout:.0f} s"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]:.200}"
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
