"""What a score is, the same in every backend: an exact cosine, in an order that does not depend on chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from agenthood.stores.base import Hit, Vector

Scores: TypeAlias = npt.NDArray[np.float64]

SCORE_DIGITS = 6
"""Scores that agree to so many digits count as a tie: float32 carries no more."""
TIE_MARGIN = 8
"""Extra hits to read beyond a limit, so that ties at the cut are ordered by id and not by chance."""


def cosines(vectors: Vector, queries: Vector) -> Scores:
    """The cosine of each vector with the query in the same row, or with the only one, computed in float64.

    Args:
        vectors: float (n, d).
        queries: float (n, d) or (1, d).

    Returns:
        float64 (n,) in [-1, 1]; NaN where there is none: another program may have left zeros, NaN or infinity.
    """
    exact, wanted = vectors.astype(np.float64), queries.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(wanted, axis=1)
        products = np.einsum("ij,ij->i", exact, np.broadcast_to(wanted, exact.shape))
        found: Scores = np.clip(products / lengths, -1.0, 1.0)
    found[~np.isfinite(exact).all(axis=1)] = np.nan
    return found


def cosine(vector: Vector | None, query: Vector) -> float | None:
    """The cosine in [-1, 1] of two float (d,) vectors, as `cosines`; None where there is none."""
    if vector is None:
        return None
    found = float(cosines(vector[None], query[None])[0])
    return found if np.isfinite(found) else None


def best_first(hit: Hit) -> tuple[float, str]:
    """The sort key of hits: highest score first, ties by id."""
    return -round(hit.score, SCORE_DIGITS), hit.record.id


def apart(better: Hit, worse: Hit) -> bool:
    """Whether two scores differ by so much that no rounding makes them a tie."""
    return better.score - worse.score > 10.0**-SCORE_DIGITS * 2
