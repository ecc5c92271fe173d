"""The lexical vector: hashed words, character trigrams and CJK pairs in 256 dimensions.

It compares wording, not meaning. It needs no files, gives the same vector on every machine, and sees what
semantic models overlook: identifiers, flags and version numbers. `keywords` has the tokens for BM25.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from agenthood.embedding.base import EmbeddingSpace, Role, Vectors, clean
from agenthood.embedding.keywords import terms
from agenthood.embedding.stopwords import DAMPED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["DIMENSION", "LexicalEmbedder", "lexical_vector", "lexical_vectors", "terms"]

DIMENSION = 256

_TOKEN = re.compile(r"[a-z0-9]+|[^\W_a-z0-9]")
_FIRST_CJK = "\u2e80"
_DAMPING = 0.15
_LONGEST_CACHED = 32
_CHUNK = 1_024
_INLINE = 32  # fewer texts take less time than a hop to a worker thread


def lexical_vector(text: str) -> Vectors:
    """Return the lexical vector of one text: float32 of shape (256,), unit length or all zero."""
    row: Vectors = lexical_vectors([text])[0]
    return row


def lexical_vectors(texts: Sequence[str], *, dimension: int = DIMENSION, salt: str = "") -> Vectors:
    """Return the lexical vectors of `texts`, in order.

    Args:
        texts: any number of texts; each is passed through `clean`.
        dimension: length of the vectors; the hashes are folded into it.
        salt: changes every hash, so vectors of two salts have nothing in common.

    Returns:
        float32 array (len(texts), dimension), rows of unit length; a text without a letter or digit
        gives a zero row.
    """
    out = np.zeros((len(texts), dimension), dtype=np.float32)
    for start in range(0, len(texts), _CHUNK):
        rows = out[start : start + _CHUNK]
        _fill(rows, texts[start : start + _CHUNK], salt)
    return out


def _fill(rows: Vectors, texts: Sequence[str], salt: str) -> None:
    """Write the vectors of one chunk into `rows`: one array operation for all its features."""
    hashes: list[int] = []
    counts: list[float] = []
    sizes: list[int] = []
    for text in texts:
        features = _features(text, salt)
        hashes.extend(features)
        counts.extend(features.values())
        sizes.append(len(features))
    count, dimension = rows.shape
    keys = np.array(hashes, dtype=np.uint64)
    buckets = (keys % np.uint64(dimension)).astype(np.intp)
    buckets += np.repeat(np.arange(count, dtype=np.intp) * dimension, sizes)
    signs = ((keys >> np.uint64(32)) & np.uint64(1)).astype(np.float64) * 2 - 1
    values = signs * np.sqrt(np.array(counts, dtype=np.float64))
    sums = np.bincount(buckets, weights=values, minlength=count * dimension).reshape(count, dimension)
    norms = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
    np.divide(sums, norms, out=rows, where=norms > 0, casting="same_kind")


def _features(text: str, salt: str) -> dict[int, float]:
    """Count the features of one text: 64-bit hash to weighted count.

    Counting in half units lets `Counter` do the work in C: a word's own feature is listed twice.
    """
    words: list[str] = []
    damped: list[str] = []
    cjk: list[int] = []
    previous = ""
    for token in _TOKEN.findall(clean(text).lower()):
        if token >= _FIRST_CJK:
            cjk.append(_hash("u:" + token, salt))
            if previous:
                cjk += [_hash("b:" + previous + token, salt)] * 2
            previous = token
        else:
            previous = ""
            (damped if token in DAMPED else words).append(token)
    halves = Counter(chain.from_iterable(_word_features(word, salt) for word in words))
    halves.update(cjk)
    features = {key: 0.5 * n for key, n in halves.items()}
    for key in chain.from_iterable(_word_features(word, salt) for word in damped):
        features[key] = features.get(key, 0.0) + 0.5 * _DAMPING
    return features


def _word_features(word: str, salt: str) -> tuple[int, ...]:
    """Return the hashes of a word (twice) and of its trigrams, cached unless the word is very long."""
    if len(word) > _LONGEST_CACHED:
        return tuple(_spell(word, salt))
    return _cached_word_features(word, salt)


@lru_cache(maxsize=16_384)
def _cached_word_features(word: str, salt: str) -> tuple[int, ...]:
    return tuple(_spell(word, salt))


def _spell(word: str, salt: str) -> Iterator[int]:
    whole = _hash("w:" + word, salt)
    yield whole
    yield whole
    padded = f"#{word}#"
    for i in range(len(padded) - 2):
        yield _hash("c:" + padded[i : i + 3], salt)


@lru_cache(maxsize=65_536)
def _hash(feature: str, salt: str) -> int:
    digest = blake2b(feature.encode(), digest_size=8, salt=salt.encode()).digest()
    return int.from_bytes(digest, "little")


class LexicalEmbedder:
    """The lexical vector as an embedder: the last resort when no semantic model works.

    `semantic` is False: it finds the same words again, not the same meaning.
    """

    semantic = False
    pinned = True

    def __init__(self) -> None:
        self._space = EmbeddingSpace("lexical", "hashed-words-trigrams", "1", DIMENSION)

    @property
    def space(self) -> EmbeddingSpace:
        """Return the lexical space; its revision changes with any change of features."""
        return self._space

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:  # noqa: ARG002
        """Embed `texts`; `role` makes no difference. Same as `lexical_vectors`, in a worker thread."""
        if len(texts) <= _INLINE:
            return lexical_vectors(texts)
        return await asyncio.to_thread(lexical_vectors, list(texts))

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""
