"""Calibration: one threshold for every embedding model.

Two unrelated texts score 0.1 under one model and 0.8 under another. A `Calibration` knows the cosines of
unrelated texts in one space and maps them to a scale on which 0.7 is passed by one unrelated pair in 100,
0.8 by one in 1,000, and 0.85 by one in several thousand, whatever the model.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from agenthood.errors import InvalidInputError

if TYPE_CHECKING:
    from agenthood.embedding.base import Vectors

__all__ = ["LEXICAL", "Calibration", "Quantiles", "Scores", "match_score", "reference_texts"]

Scores: TypeAlias = npt.NDArray[np.float64]
Quantiles: TypeAlias = tuple[float, float, float, float]

_SHARES: Final = (0.5, 0.9, 0.99, 0.999)
_LEVELS: Final = (0.0, 0.5, 0.6, 0.7, 0.8, 1.0)
_DIGITS: Final = 6
_BLIND: Final = 0.999


@dataclass(frozen=True, slots=True)
class Calibration:
    """The background of one embedding space: how alike unrelated texts are in it.

    Attributes:
        quantiles: the 50, 90, 99 and 99.9 % quantiles of the cosines between unrelated texts, rounded to
            six decimals, not decreasing, each in [-1, 1].
        texts: how many texts they were measured on; from 300 up the last quantile is good to about 0.01.

    Raises:
        InvalidInputError: the quantiles are not four such numbers, or `texts` is under two.
    """

    quantiles: Quantiles
    texts: int

    def __post_init__(self) -> None:
        values = tuple(round(float(q), _DIGITS) for q in self.quantiles)
        ordered = all(a <= b for a, b in zip((-1.0, *values), (*values, 1.0), strict=True))
        if len(values) != len(_SHARES) or not all(map(math.isfinite, values)) or not ordered:
            raise InvalidInputError(
                f"a calibration needs four rising quantiles in [-1, 1], got {self.quantiles!r}: fit it again"
            )
        if self.texts < 2:  # noqa: PLR2004  (a pair)
            raise InvalidInputError(f"a calibration needs at least 2 texts, got {self.texts!r}")
        object.__setattr__(self, "quantiles", values)

    @classmethod
    def fit(cls, vectors: Vectors) -> Calibration:
        """Measure the background of a space on mutually unrelated texts.

        Args:
            vectors: float array (n, d) of unit rows, best those of `reference_texts()`. Zero rows have no
                direction and are left out.

        Raises:
            InvalidInputError: not two-dimensional, not finite, or fewer than two rows that are not zero.
        """
        rows = np.asarray(vectors, dtype=np.float64)
        if rows.ndim != 2 or not np.isfinite(rows).all():  # noqa: PLR2004
            raise InvalidInputError(
                f"expected a finite array (n, d), got shape {rows.shape!r}: check the embedder"
            )
        rows = rows[rows.any(axis=1)]
        if len(rows) < 2:  # noqa: PLR2004
            raise InvalidInputError(
                f"a calibration needs at least 2 vectors, got {len(rows)}: check the embedder"
            )
        cosines = np.clip((rows @ rows.T)[np.triu_indices(len(rows), 1)], -1.0, 1.0)
        q50, q90, q99, q999 = (float(q) for q in np.quantile(cosines, _SHARES))
        return cls((q50, q90, q99, q999), len(rows))

    def __call__(self, cosines: npt.ArrayLike) -> Scores:
        """Map cosines to calibrated scores, keeping their order.

        Args:
            cosines: array-like of any shape; values beyond [-1, 1] count as the nearest end.

        Returns:
            float64 array of the same shape in [0, 1]: -1 becomes 0, the quantiles 0.5, 0.6, 0.7 and 0.8,
            and 1 becomes 1. Where quantiles are equal the highest of their levels counts. NaN stays NaN.
        """
        values = np.asarray(cosines, dtype=np.float64)
        return np.asarray(np.interp(values, (-1.0, *self.quantiles, 1.0), _LEVELS), dtype=np.float64)

    def inverse(self, score: float) -> float:
        """The cosine in [-1, 1] that is mapped to `score`, a calibrated score in [0, 1]."""
        return float(np.interp(score, _LEVELS, (-1.0, *self.quantiles, 1.0)))

    @property
    def q50(self) -> float:
        """The median cosine of unrelated texts: what recall counts as no likeness at all."""
        return self.quantiles[0]

    @property
    def blind(self) -> bool:
        """Whether the model tells no texts apart: unrelated ones are as alike as equal ones."""
        return self.quantiles[-1] > _BLIND

    def to_json(self) -> str:
        """Return compact JSON that `from_json` reads back to an equal calibration."""
        return json.dumps({"quantiles": self.quantiles, "texts": self.texts}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Read what `to_json` wrote; keys it does not know are ignored.

        Raises:
            InvalidInputError: `text` is no such JSON.
        """
        try:
            data = json.loads(text)
            return cls(tuple(data["quantiles"]), int(data["texts"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise InvalidInputError(f"{text[:80]!r} is not a stored calibration: fit it again") from error


LEXICAL: Final = Calibration((0.075411, 0.203572, 0.334674, 0.441961), 455)
"""The background of the lexical vector, revision 1."""


def match_score(
    semantic: npt.ArrayLike,
    lexical: npt.ArrayLike,
    semantic_calibration: Calibration | None,
    lexical_calibration: Calibration = LEXICAL,
) -> Scores:
    """Return how surely two texts report the same thing: the better of meaning and wording.

    Args:
        semantic: cosines under the semantic model, any shape.
        lexical: cosines of the lexical vectors, of the same or a broadcastable shape.
        semantic_calibration: that of the semantic space; None if it could not be measured, and the raw
            cosine is used in its place.
        lexical_calibration: that of the lexical space.

    Returns:
        float64 array, in [0, 1] if calibrated, higher is closer. Rounded to six decimals: the same product
        comes out of different BLAS routines (one row, many rows, another machine) with other last bits, and
        a decision at a threshold or a tie in a ranking must not depend on them.
    """
    meaning = np.asarray(semantic, dtype=np.float64)
    if semantic_calibration is not None:
        meaning = semantic_calibration(meaning)
    best: Scores = np.maximum(meaning, lexical_calibration(lexical))
    return np.asarray(np.round(best, _DIGITS), dtype=np.float64)


@cache
def reference_texts() -> tuple[str, ...]:
    """Return the mutually unrelated texts that ship with agenthood, on which a space is calibrated."""
    resource = files("agenthood.learning").joinpath("reference_texts.txt")
    return tuple(line for line in resource.read_text(encoding="utf-8").splitlines() if line)
