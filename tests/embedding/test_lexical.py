"""The lexical vector: its numbers, its rules, and that it sees wording."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.embedding.base import MAX_CHARACTERS, Embedder
from agenthood.embedding.lexical import DIMENSION, LexicalEmbedder, lexical_vector, lexical_vectors
from agenthood.embedding.stopwords import DAMPED, STOP_WORDS
from agenthood.learning.calibration import Calibration

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(["fix", "the", "login", "修复", "测试", "--dry-run", "v2.1", "yang", "ß", "É"]),
    max_size=12,
).map(" ".join)


KNOWN_PLACES = [4, 14, 15, 24, 40, 47, 61, 62]
KNOWN_VALUES = [-0.1369092, -0.0530247, 0.1369092, -0.1369092, -0.1369092, 0.1369092, 0.1369092, 0.0749883]


def test_known_values_never_change():
    """Stored vectors stay valid: these sums were fixed with revision 1."""
    vector = lexical_vector("Fix the flaky login test: 修复登录测试 in v2.1")
    assert vector.dtype == np.float32
    assert vector.shape == (DIMENSION,)
    assert np.flatnonzero(vector)[:8].tolist() == KNOWN_PLACES
    assert vector[KNOWN_PLACES].tolist() == pytest.approx(KNOWN_VALUES, abs=1e-6)


@given(st.lists(TEXTS, max_size=8))
def test_a_batch_equals_its_texts_one_by_one(texts: list[str]):
    """No text changes the vector of its neighbours, to the last bit."""
    batch = lexical_vectors(texts)
    assert batch.shape == (len(texts), DIMENSION)
    for text, row in zip(texts, batch, strict=True):
        assert (lexical_vector(text) == row).all()


def plain_vector(text: str) -> list[float]:
    """The vector of words of letters by its definition, one feature after the other."""
    weights: Counter[str] = Counter()
    for word in text.split():
        padded = f"#{word}#"
        trigrams = [f"c:{padded[start : start + 3]}" for start in range(len(word))]
        for feature in (f"w:{word}", f"w:{word}", *trigrams):
            weights[feature] += 0.5 * (0.15 if word in DAMPED else 1)
    sums = [0.0] * DIMENSION
    for feature, weight in weights.items():
        key = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "little")
        sums[key % DIMENSION] += weight**0.5 * (1 if key >> 32 & 1 else -1)
    norm = sum(value**2 for value in sums) ** 0.5
    return [value / norm for value in sums]


def test_long_texts_follow_the_definition():
    """Each of their many features counts once, with the root of its weight; also beside other texts."""
    draw = random.Random(7)
    words = ["".join(draw.choices("aeinrst", k=draw.randint(1, 6))) for _ in range(2_000)]
    texts = [" ".join(draw.choices([*words, "the", "and"], k=500)) for _ in range(20)]
    vectors = lexical_vectors(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert vector.tolist() == pytest.approx(plain_vector(text), abs=1e-6)


@given(TEXTS)
def test_rows_are_unit_or_zero(text: str):
    """Every row has length one, or is zero where the text holds no letter or digit."""
    norm = float(np.linalg.norm(lexical_vector(text)))
    assert norm == pytest.approx(1, abs=1e-5) or norm == 0
    assert (norm > 0) >= any(c.isalnum() and c.isascii() for c in text)


def test_chunks_beyond_the_first_are_filled():
    """More texts than one chunk holds come out in order."""
    texts = [f"text {i}" for i in range(2_500)]
    out = lexical_vectors(texts)
    for i in (0, 1_023, 1_024, 2_047, 2_048, 2_499):
        assert (out[i] == lexical_vector(texts[i])).all()


def test_texts_without_features_give_zero_rows():
    """Empty text, punctuation and nothing at all are fine."""
    assert not lexical_vectors(["", "  ", "!?… --", "___"]).any()
    assert lexical_vectors([]).shape == (0, DIMENSION)


def test_hostile_texts_are_harmless():
    """Surrogates, NUL, and texts of a million characters give finite vectors; the cut is the common one."""
    out = lexical_vectors(["a\ud800b", "nul\0byte", "x" * 1_000_000, "字" * 100_000, "é" * 5_000])
    assert np.isfinite(out).all()
    assert (out[2] == lexical_vector("x" * MAX_CHARACTERS)).all()


def test_wording_decides():
    """The same words in another order or case stay close, others are far, function words hardly count."""
    base, same, other, function = lexical_vectors(
        [
            "Fixed flaky login test with --frozen-clock",
            "login test with --frozen-clock fixed, FLAKY",
            "Drop support for Windows 7",
            "Fixed a flaky login test with the --frozen-clock",
        ]
    )
    assert base @ same == pytest.approx(1, abs=1e-5)
    assert base @ other < 0.3
    assert base @ function > 0.95


def test_chinese_pairs_are_features():
    """The order of Chinese characters matters a little, the characters more."""
    base, swapped, other = lexical_vectors(["登录测试失败", "失败测试登录", "天气很好"])
    assert 0.5 < base @ swapped < 1
    assert base @ other < 0.2
    apart, turned = lexical_vectors(["登 x 录", "录 x 登"])
    assert (apart == turned).all()  # a word in between parts a pair


def test_salt_and_dimension_make_other_vectors():
    """A salt hashes every feature anew; any dimension keeps the likeness of texts."""
    texts = ["mock the clock in the login test", "the login test mocks a clock"]
    assert abs(lexical_vector(texts[0]) @ lexical_vectors(texts[:1], salt="other")[0]) < 0.3
    wide = lexical_vectors(texts, dimension=1536)
    assert wide.shape == (2, 1536)
    narrow = lexical_vectors(texts)
    assert wide[0] @ wide[1] == pytest.approx(narrow[0] @ narrow[1], abs=0.15)


def test_the_embedder_keeps_the_protocol():
    """It says that it is not semantic, and embeds few and many texts alike."""
    embedder = LexicalEmbedder()
    assert isinstance(embedder, Embedder)
    assert (embedder.semantic, embedder.pinned) == (False, True)
    assert embedder.space.fingerprint == "lexical:hashed-words-trigrams@1/256/episode"
    texts = [f"text {i}" for i in range(100)]
    assert (asyncio.run(embedder.embed(texts, role="query")) == lexical_vectors(texts)).all()
    assert (asyncio.run(embedder.embed(texts[:2])) == lexical_vectors(texts[:2])).all()


def test_vectors_do_not_depend_on_the_process():
    """No `hash()` is involved: another process with another hash seed gives the same bytes."""
    code = (
        "from agenthood.embedding.lexical import lexical_vector as v;"
        "print(v('Fix the flaky login test 修复').tobytes().hex())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {lexical_vector("Fix the flaky login test 修复").tobytes().hex() + "\n"}


def test_the_calibration_corpus_gives_the_measured_quantiles(shared: Path):
    """On the reference data the quantiles are those the thresholds were chosen with."""
    lines = (shared / "data" / "calibration_reference.jsonl").read_text(encoding="utf-8").splitlines()
    vectors = lexical_vectors([json.loads(line)["text"] for line in lines])
    assert Calibration.fit(vectors).quantiles == pytest.approx((0.0811, 0.2045, 0.3268, 0.4371), abs=1e-4)


def test_damped_words_are_fixed():
    """The damped words are part of revision 1: their number changes with the revision only."""
    assert len(DAMPED) == 111
    assert DAMPED < STOP_WORDS
