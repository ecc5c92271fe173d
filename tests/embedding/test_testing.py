"""The shipped test embedder: deterministic, rankable, and failing on request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.embedding.base import Embedder
from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import EmbedderUnavailableError

if TYPE_CHECKING:
    import numpy as np


def embed(embedder: HashedEmbedder, texts: list[str]) -> np.ndarray:
    return asyncio.run(embedder.embed(texts))


@given(st.lists(st.text(max_size=30), max_size=6), st.sampled_from([8, 384, 1536]))
def test_a_batch_equals_its_texts_one_by_one(texts: list[str], dimension: int):
    """Every dimension gives the same rows in a batch and alone."""
    embedder = HashedEmbedder(dimension=dimension)
    batch = embed(embedder, texts)
    assert batch.shape == (len(texts), dimension)
    for text, row in zip(texts, batch, strict=True):
        assert (embed(embedder, [text])[0] == row).all()


def test_true_sentences_rank():
    """A rewording is nearer than another subject."""
    base, near, far = embed(
        HashedEmbedder(),
        ["fixed the login test by mocking the clock", "login test: mock the clock", "upgrade the parser"],
    )
    assert base @ near > 0.5 > base @ far


def test_it_counts_and_fails_on_request():
    """After `fail_after` texts each call fails whole, until it is repaired."""
    embedder = HashedEmbedder(fail_after=3)
    assert isinstance(embedder, Embedder)
    assert embed(embedder, ["a1", "b2"]).shape == (2, 1536)
    with pytest.raises(EmbedderUnavailableError, match="3 texts"):
        embed(embedder, ["c3", "d4"])
    assert (embedder.calls, embedder.texts_embedded) == (2, 2)
    embedder.fail_after = None
    embed(embedder, ["c3", "d4"])
    assert (embedder.calls, embedder.texts_embedded) == (3, 4)


def test_a_salt_changes_the_vectors_and_not_the_space():
    """It plays the model that changed behind its name."""
    old, new = HashedEmbedder(), HashedEmbedder(salt="a longer salt than sixteen bytes")
    assert old.space == new.space
    assert abs(embed(old, ["the same text"])[0] @ embed(new, ["the same text"])[0]) < 0.5


def test_flags():
    """It says of itself what it is told to."""
    embedder = HashedEmbedder(semantic=False, pinned=True, model="m", revision="2", dimension=5)
    assert (embedder.semantic, embedder.pinned) == (False, True)
    assert embedder.space.fingerprint == "testing:m@2/5/episode"
    assert (HashedEmbedder().semantic, HashedEmbedder().pinned) == (True, False)
