"""Exact similarity, without any store."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.learning.calibration import LEXICAL, Calibration
from agenthood.learning.similar import (
    Lowest,
    cosines_of_pairs,
    exact_cosine,
    exact_cosines,
    lowest_cosine,
    pairs_above,
)

RISING = Calibration((0.1, 0.2, 0.3, 0.45), 400)
COSINES = st.floats(-1, 1)


@given(COSINES)
def test_the_inverse_of_a_calibration_undoes_it(cosine: float) -> None:
    """Every cosine comes back from its score, and the ends stay the ends."""
    assert RISING.inverse(float(RISING(cosine))) == pytest.approx(cosine, abs=1e-9)
    assert (RISING.inverse(0.0), RISING.inverse(1.0)) == (-1.0, 1.0)


@given(st.floats(0, 1))
def test_the_lowest_cosine_scores_the_threshold(threshold: float) -> None:
    """On the calibrated scale it gives the threshold back; without a calibration it is the threshold."""
    assert float(RISING(lowest_cosine(RISING, threshold))) == pytest.approx(threshold, abs=1e-9)
    assert lowest_cosine(None, threshold) == threshold
    assert Lowest.of(None, threshold) == Lowest(threshold, LEXICAL.inverse(threshold))


def test_cosines_are_those_of_the_angles() -> None:
    """For vectors of any length; a zero vector is like nothing."""
    first = np.array([1.0, 0.0], np.float32)
    for degrees in (0, 30, 60, 90, 180):
        angle = math.radians(degrees)
        second = np.array([3 * math.cos(angle), 3 * math.sin(angle)], np.float32)
        assert exact_cosine(first, second) == pytest.approx(math.cos(angle), abs=1e-6)
    assert exact_cosine(first, np.zeros(2, np.float32)) == 0


@given(st.integers(1, 600), st.integers(0, 2**32 - 1), COSINES)
def test_pairs_are_found_in_blocks_as_one_by_one(count: int, seed: int, lowest: float) -> None:
    """Every pair that reaches the lowest cosine comes once, with its exact cosine."""
    vectors = np.random.default_rng(seed).standard_normal((count, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries, stored = vectors, vectors[: min(count, 3)]
    found: dict[tuple[int, int], float] = {}
    for rows, columns in pairs_above(queries, stored, lowest):
        cosines = cosines_of_pairs(queries, rows, stored, columns)
        pairs = zip(rows.tolist(), columns.tolist(), strict=True)
        found |= dict(zip(pairs, cosines.tolist(), strict=True))
    for row, one in enumerate(stored):
        cosines = exact_cosines(queries, np.repeat(one[np.newaxis], count, axis=0))
        for query, cosine in enumerate(cosines.tolist()):
            assert found.get((query, row), cosine) == cosine
            assert cosine < lowest or (query, row) in found
