# ruff: noqa: D102  what `add` and `search` do is said once, in Memory
"""Adds episodes to one memory, searches it, and prints what that took, as JSON.

peer_process.py SYSTEM text|given COUNT WORK SECONDS

WORK has the files that `peers.py` and `bulk.py` put there. Nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import data
import numpy as np
from lookup import settings
from measure import each_sync
from raw_lance import RawTable

import agenthood
from agenthood import EvalResult
from agenthood.embedding.bundled import DIMENSION, SPACE, BundledEmbedder
from agenthood.formats import hash_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agenthood.embedding.base import Embedder, Vectors

SCORE = {"score": 0.9}
_CHUNK = 100

Embed = "Callable[[Sequence[str]], Vectors]"


class Memory(Protocol):
    """What is measured of each."""

    def add(self, texts: Sequence[str]) -> None:
        """Keep these texts."""

    def search(self, text: str) -> list[str]:
        """The ten best texts for one."""


class Agenthood:
    """Ours, through the synchronous front door."""

    chunk = 1 << 30

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.hood = agenthood.open(folder, settings=settings(), embedder=embedder)
        self.hood.recall("load the model")

    def add(self, texts: Sequence[str]) -> None:
        self.hood.learn_many([EvalResult(text, SCORE, member="bench", skill="code") for text in texts])

    def search(self, text: str) -> list[str]:
        return [lesson.text for lesson in self.hood.recall(text, limit=data.BEST, threshold=0)]


class OneByOne(Agenthood):
    """Ours, an episode at a time, and searched by meaning alone."""

    chunk = 1

    def add(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.hood.learn(text, score=0.9, member="bench", skill="code")

    def search(self, text: str) -> list[str]:
        return [match.pattern.split(":", 3)[3] for match in self.hood._call(self._similar, text)]  # noqa: SLF001

    async def _similar(self, text: str) -> Any:
        (vector,) = await self.hood.hood.space.embed([text])
        return await self.hood.hood.index.find_similar(vector, -1.0, data.BEST, kind="learned")


class Mem0:
    """mem0ai with its default vector store, local Qdrant, and without a language model."""

    chunk = 1

    def __init__(self, folder: Path, embed: Embed) -> None:
        # Read when it is imported: no telemetry, and its files in the folder that goes away.
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder), "OPENAI_API_KEY": "none"}
        from mem0 import Memory as Mem0Memory  # noqa: PLC0415
        from mem0.embeddings.base import EmbeddingBase  # noqa: PLC0415

        class Ours(EmbeddingBase):  # type: ignore[misc]
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002
                return embed([text])[0].tolist()

        place = {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSION}
        self._memory = Mem0Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = Ours()

    def add(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._memory.add(text, user_id="bench", infer=False)

    def search(self, text: str) -> list[str]:
        found = self._memory.search(text, filters={"user_id": "bench"}, top_k=data.BEST, threshold=0.0)
        return [one["memory"] for one in found["results"]]


class LangGraph:
    """LangGraph's store in memory, fed in batches."""

    chunk = _CHUNK

    def __init__(self, embed: Embed) -> None:
        from langgraph.store.base import PutOp  # noqa: PLC0415
        from langgraph.store.memory import InMemoryStore  # noqa: PLC0415

        def listed(texts: Sequence[str]) -> list[list[float]]:
            return embed(list(texts)).tolist()

        self._put = PutOp
        self._store = InMemoryStore(index={"dims": DIMENSION, "embed": listed, "fields": ["text"]})

    def add(self, texts: Sequence[str]) -> None:
        self._store.batch([self._put(("bench",), hash_pattern(text), {"text": text}) for text in texts])

    def search(self, text: str) -> list[str]:
        found = self._store.search(("bench",), query=text, limit=data.BEST)
        return [one.value["text"] for one in found]


class Raw:
    """Raw LanceDB as the TypeScript program uses it."""

    chunk = 1

    def __init__(self, folder: Path, embed: Embed) -> None:
        self._embed = embed
        self._table = RawTable(folder, DIMENSION)

    def add(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._table.put(f"pattern:{hash_pattern(text)}", self._embed([text])[0], text)

    def search(self, text: str) -> list[str]:
        return [row["content"] for row in self._table.search(self._embed([text])[0], data.BEST)]


class Numpy:
    """An array: nothing is kept, nothing is filtered."""

    chunk = _CHUNK

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._texts: list[str] = []
        self._vectors = np.zeros((0, DIMENSION), np.float32)

    def add(self, texts: Sequence[str]) -> None:
        self._texts += texts
        self._vectors = np.concatenate([self._vectors, self._embed(texts)])

    def search(self, text: str) -> list[str]:
        everything = np.ones(len(self._texts), bool)
        best = data.brute_force(self._vectors, self._embed([text])[0], everything)
        return [self._texts[row] for row in best]


def opened(system: str, folder: Path, embedder: Embedder, embed: Embed) -> Any:
    """The memory of that name, empty."""
    ours = {"agenthood": Agenthood, "agenthood-one": OneByOne}
    if system in ours:
        return ours[system](folder, embedder)
    return {
        "mem0": lambda: Mem0(folder, embed),
        "langgraph": lambda: LangGraph(embed),
        "raw": lambda: Raw(folder, embed),
        "numpy": lambda: Numpy(embed),
    }[system]()


def measured(system: str, mode: str, count: int, work: Path, seconds: float) -> dict[str, Any]:
    """Add up to `count` texts, then search."""
    with np.load(work / "peers.npz") as kept:
        texts, asked = kept["texts"].tolist()[:count], kept["asked"].tolist()
    with np.load(work / "vectors.npz") as kept:
        known = data.Given(SPACE, kept["texts"].tolist(), kept["vectors"])
    embedder: Embedder = BundledEmbedder() if mode == "text" else known
    loop = asyncio.new_event_loop()

    def embed(some: Sequence[str]) -> Vectors:
        return loop.run_until_complete(embedder.embed(list(some)))

    embed(asked[:1])
    folder = Path(tempfile.mkdtemp(dir=work))
    memory = opened(system, folder, embedder, embed)
    added, taken = fill(memory, texts, seconds)
    memory.search(asked[0])
    found, times = each_sync(memory.search, asked, limit=seconds)
    answer = {"added": added, "seconds": taken, "search": times.seconds}
    answer["recall"] = (
        None if system == "agenthood" else _recall(known, held(memory, texts[:added]), asked, found)
    )
    shutil.rmtree(folder, ignore_errors=True)
    return answer


def fill(memory: Any, texts: Sequence[str], seconds: float) -> tuple[int, float]:
    """Add texts until they or the time run out: how many, and how long it took."""
    started = time.perf_counter()
    added = 0
    while added < len(texts) and time.perf_counter() - started < seconds:
        part = texts[added : added + memory.chunk]
        memory.add(part)
        added += len(part)
    return added, time.perf_counter() - started


def held(memory: Any, texts: Iterable[str]) -> list[str]:
    """What there is to find: ours merges what says the same."""
    if isinstance(memory, Agenthood):
        return [lesson.text for lesson in memory.hood.lessons()]
    return list(texts)


def _recall(known: data.Given, texts: list[str], asked: list[str], found: list[list[str]]) -> float:
    rows = {text: row for row, text in enumerate(texts)}
    both = asyncio.run(known.embed(texts)), asyncio.run(known.embed(asked[: len(found)]))
    everything = np.ones(len(texts), bool)
    return data.recall(*both, [[rows[text] for text in some] for some in found], everything)


if __name__ == "__main__":
    _system, _mode, _count, _work, _seconds = sys.argv[1:]
    print(json.dumps(measured(_system, _mode, int(_count), Path(_work), float(_seconds))), flush=True)
    os._exit(0)  # some of them keep threads or print while they are taken down
