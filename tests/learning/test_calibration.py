"""Calibration: monotone, in [0, 1], anchored at the quantiles; and the reference texts behind it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.embedding.bundled import BundledEmbedder
from agenthood.embedding.lexical import lexical_vectors
from agenthood.errors import InvalidInputError
from agenthood.learning.calibration import LEXICAL, Calibration, match_score, reference_texts

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.embedding.base import Vectors

COSINES = st.floats(-1, 1)
# Many of them tie, sit at an end or lie closer together than the rounding.
QUANTILES = st.lists(
    COSINES | st.sampled_from([-1.0, 0.0, 0.5, 0.5 + 1e-9, 1.0]), min_size=4, max_size=4
).map(lambda values: tuple(sorted(values)))
CALIBRATIONS = QUANTILES.map(lambda quantiles: Calibration(quantiles, 300))


@given(CALIBRATIONS, st.lists(st.floats(-1.5, 1.5), min_size=2, max_size=30))
def test_scores_keep_the_order_of_cosines_and_stay_in_range(calibration: Calibration, cosines: list[float]):
    """A higher cosine never scores lower, whatever the quantiles."""
    scores = calibration(sorted(cosines))
    assert (np.diff(scores) >= -1e-12).all()
    assert ((scores >= 0) & (scores <= 1)).all()


@given(CALIBRATIONS)
def test_ends_and_quantiles_are_anchored(calibration: Calibration):
    """1 becomes 1; each quantile reaches its level, or a higher one where quantiles are equal."""
    assert calibration(1.0) == 1
    assert (calibration(calibration.quantiles) >= np.array([0.5, 0.6, 0.7, 0.8]) - 1e-12).all()
    if calibration.q50 > -1:
        assert calibration(-1.0) == 0


@given(CALIBRATIONS)
def test_json_round_trip(calibration: Calibration):
    """What is stored with a space is read back equal."""
    assert Calibration.from_json(calibration.to_json()) == calibration


def test_the_levels_are_exact_between_the_anchors():
    """The map is linear between quantiles and keeps the shape of its argument."""
    calibration = Calibration((0.1, 0.3, 0.5, 0.6), 450)
    scores = calibration([[0.1, 0.3, 0.5], [0.6, 0.8, -0.45]])
    assert scores.shape == (2, 3)
    assert scores == pytest.approx(np.array([[0.5, 0.6, 0.7], [0.8, 0.9, 0.25]]))
    assert calibration(0.1).shape == ()
    assert calibration(np.float32(0.1)) == pytest.approx(0.5)
    assert np.isnan(calibration(float("nan")))


@pytest.mark.parametrize(
    ("quantiles", "texts"),
    [
        ((0.1, 0.3, 0.2, 0.6), 450),
        ((0.1, 0.3, 0.5), 450),
        ((0.1, 0.3, 0.5, 0.6, 0.7), 450),
        ((0.1, 0.3, 0.5, 1.1), 450),
        ((-1.1, 0.3, 0.5, 0.9), 450),
        ((0.1, 0.3, float("nan"), 0.6), 450),
        ((0.1, 0.3, 0.5, float("inf")), 450),
        ((0.1, 0.3, 0.5, 0.6), 1),
    ],
)
def test_impossible_calibrations_are_refused(quantiles, texts: int):
    """Quantiles must be four, finite, rising and cosines."""
    with pytest.raises(InvalidInputError):
        Calibration(quantiles, texts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"quantiles":[0.1],"texts":3}',
        '{"quantiles":["a",0,0,0],"texts":3}',
        "[" * 9_999,
    ],
)
def test_damaged_json_is_refused(text: str):
    """A stored calibration that cannot be read says: fit it again."""
    with pytest.raises(InvalidInputError, match="fit it again"):
        Calibration.from_json(text)


def test_fit_takes_every_pair_once():
    """The quantiles are those of all pairs of different texts; zero rows are left out."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(60, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = [float(rows[i] @ rows[j]) for i in range(60) for j in range(i)]
    fitted = Calibration.fit(np.vstack([rows, np.zeros((3, 16), np.float32)]))
    assert fitted.texts == 60
    assert fitted.quantiles == pytest.approx(np.quantile(cosines, [0.5, 0.9, 0.99, 0.999]), abs=2e-6)


def test_fit_survives_a_model_that_sees_no_difference():
    """Equal vectors for all texts put every quantile at 1, and scores stay monotone."""
    fitted = Calibration.fit(np.tile(np.array([[0.6, 0.8]], np.float32), (5, 1)))
    assert fitted.quantiles == (1, 1, 1, 1)
    assert fitted.blind
    assert not Calibration((0.97, 0.98, 0.99, 0.999), 300).blind
    assert fitted([-1, 0, 1]).tolist() == [0, 0.25, 1]


@pytest.mark.parametrize(
    "vectors",
    [np.zeros((5, 3)), np.ones((1, 3)), np.ones(3), np.full((4, 3), np.nan), np.zeros((0, 3))],
)
def test_fit_refuses_what_holds_no_pairs(vectors: Vectors):
    """Fewer than two usable rows cannot be calibrated."""
    with pytest.raises(InvalidInputError, match="check the embedder"):
        Calibration.fit(vectors)


def test_the_match_score_is_the_better_of_meaning_and_wording():
    """Each half can carry a match; without a semantic calibration the raw cosine stands in."""
    semantic = Calibration((0.1, 0.3, 0.5, 0.6), 450)
    scores = match_score([0.6, 0.1], [0.0, 1.0], semantic)
    assert scores.tolist() == [0.8, 1.0]
    assert match_score([0.42], [-1.0], None).tolist() == [0.42]
    assert match_score(0.1, 0.3, semantic, semantic) == 0.6


@given(COSINES, COSINES, st.integers(-8, 8))
def test_the_match_score_ignores_the_last_bits(semantic: float, lexical: float, steps: int):
    """A product that differs by a few units in the last place of float32 moves a score by 1e-5 at most."""
    calibration = Calibration((0.0836, 0.3196, 0.4869, 0.6056), 450)
    near = np.clip(semantic + steps * np.finfo(np.float32).eps, -1, 1)
    first, second = (match_score(value, lexical, calibration) for value in (semantic, near))
    assert abs(first - second) <= 1e-5
    assert round(float(first), 6) == first


def test_reference_texts_are_many_short_and_different():
    """They are enough for a stable 99.9 % quantile, and no two are alike but for case."""
    texts = reference_texts()
    assert len(texts) >= 450
    assert len({text.casefold() for text in texts}) == len(texts)
    assert all(text == text.strip() and 3 < len(text) < 400 for text in texts)


def test_the_lexical_constant_is_that_of_the_reference_texts():
    """`LEXICAL` is what fitting gives, so texts and constant cannot drift apart."""
    fitted = Calibration.fit(lexical_vectors(reference_texts()))
    assert fitted.texts == LEXICAL.texts
    assert fitted.quantiles == pytest.approx(LEXICAL.quantiles, abs=2e-6)


def _bundled(texts: tuple[str, ...] | list[str]) -> Vectors:
    return asyncio.run(BundledEmbedder().embed(texts))


@pytest.mark.parametrize("embed", [lexical_vectors, _bundled])
def test_our_texts_calibrate_like_those_the_thresholds_were_chosen_with(shared: Path, embed):
    """Under both built-in models the quantiles agree with the measured reference within 0.012."""
    lines = (shared / "data" / "calibration_reference.jsonl").read_text(encoding="utf-8").splitlines()
    theirs = [json.loads(line)["text"] for line in lines]
    assert not set(theirs) & set(reference_texts())
    ours = Calibration.fit(embed(reference_texts()))
    assert ours.quantiles == pytest.approx(Calibration.fit(embed(theirs)).quantiles, abs=0.012)


@pytest.mark.parametrize("name", ["pypa/pip", "aio-libs/aiohttp"])
def test_unrelated_work_rarely_passes_the_default_threshold(shared: Path, name: str):
    """On commits the texts never saw, 0.85 finds about half of the true pairs and passes few others."""
    lines = (shared / "data" / "commit_changelog_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["repo"] == name][:200]
    subjects, fragments = ([row[key] for row in rows] for key in ("subject", "fragment"))
    semantic = _bundled(subjects) @ _bundled(fragments).T
    lexical = lexical_vectors(subjects) @ lexical_vectors(fragments).T
    passed = match_score(semantic, lexical, Calibration.fit(_bundled(reference_texts()))) >= 0.85
    true = np.eye(len(rows), dtype=bool)
    assert passed[true].mean() > 0.45
    assert passed[~true].mean() < 1.5e-3
