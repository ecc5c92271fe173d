"""The lexical vector: hashed words, character trigrams and CJK pairs in 256 dimensions.

It compares wording, not meaning. It needs no files, gives the same vector on every machine, and sees what
semantic models overlook: identifiers, flags and version numbers. `keywords` has the tokens for BM25.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from agenthood.embedding.base import EmbeddingSpace, Role, Vectors, clean
from agenthood.embedding.keywords import terms
from agenthood.embedding.stopwords import DAMPED

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DIMENSION", "LexicalEmbedder", "lexical_vector", "lexical_vectors", "terms"]

DIMENSION = 256

_TOKEN = re.compile(r"[a-z0-9]+|[^\W_a-z0-9]")
_FIRST_CJK = "\u2e80"
_LISTED = 0.5  # what a feature counts each time it is listed
_DAMPING = 0.15
_HASH_BYTES = 8
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
    """Write the vectors of one chunk into `rows`: a few array operations for all its features."""
    count, dimension = rows.shape
    parts = [part for text in texts for part in _features(text, salt)]
    sizes = np.array([len(part) // _HASH_BYTES for part in parts], dtype=np.intp)
    keys = np.frombuffer(b"".join(parts), dtype="<u8")
    owners = np.repeat(np.arange(2 * count) // 2, sizes)
    weights = np.repeat(np.tile([_LISTED, _LISTED * _DAMPING], count), sizes)
    values = _once_each(keys, owners, weights) * np.where(keys >> np.uint64(32) & np.uint64(1), 1.0, -1.0)
    buckets = owners * dimension + (keys % np.uint64(dimension)).astype(np.intp)
    sums = np.bincount(buckets, weights=values, minlength=count * dimension).reshape(count, dimension)
    norms = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
    np.divide(sums, norms, out=rows, where=norms > 0, casting="same_kind")


def _once_each(
    keys: npt.NDArray[np.uint64], owners: npt.NDArray[np.intp], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """For each feature of each text the root of its weights' sum where it is listed first, 0 where it is again."""
    # Those of one key stay in the order of the texts. By quarters, as NumPy sorts 16 bits in linear time.
    order = np.lexsort(keys.view("<u2").reshape(-1, 4).T)
    keys, owners = keys[order], owners[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (keys[1:] != keys[:-1]) | (owners[1:] != owners[:-1])
    values = np.zeros(len(order))
    values[order[first]] = np.sqrt(np.bincount(np.cumsum(first) - 1, weights=weights[order]))
    return values


def _features(text: str, salt: str) -> tuple[bytes, bytes]:
    """The features of one text, and those of its stop words, as hashes one after the other."""
    words: list[bytes] = []
    damped: list[bytes] = []
    cjk: list[bytes] = []
    previous = ""
    for token in _TOKEN.findall(clean(text).lower()):
        if token >= _FIRST_CJK:
            cjk.append(_hash("u:" + token, salt))
            if previous:
                cjk += [_hash("b:" + previous + token, salt)] * 2
            previous = token
        else:
            previous = ""
            (damped if token in DAMPED else words).append(_word_features(token, salt))
    return b"".join(words + cjk), b"".join(damped)


def _word_features(word: str, salt: str) -> bytes:
    """The hashes of a word (twice, as it counts double) and of its trigrams, cached unless the word is very long."""
    return _spell(word, salt) if len(word) > _LONGEST_CACHED else _cached_word_features(word, salt)


@lru_cache(maxsize=16_384)
def _cached_word_features(word: str, salt: str) -> bytes:
    return _spell(word, salt)


def _spell(word: str, salt: str) -> bytes:
    padded = f"#{word}#"
    trigrams = [_hash("c:" + padded[i : i + 3], salt) for i in range(len(padded) - 2)]
    return b"".join([_hash("w:" + word, salt) * 2, *trigrams])


@lru_cache(maxsize=65_536)
def _hash(feature: str, salt: str) -> bytes:
    return blake2b(feature.encode(), digest_size=_HASH_BYTES, salt=salt.encode()).digest()


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
