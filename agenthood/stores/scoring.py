"""What a score is, the same in every backend: an exact cosine, in an order that does not depend on chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from agenthood.stores.base import Hit, Vector

SCORE_DIGITS = 6
"""Scores that agree to so many digits count as a tie: float32 carries no more."""
TIE_MARGIN = 8
"""Extra hits to read beyond a limit, so that ties at the cut are ordered by id and not by chance."""


def cosine(vector: Vector | None, query: Vector) -> float | None:
    """The cosine in [-1, 1] of two float (d,) vectors, computed in float64.

    Returns:
        None where there is no vector, or none that can be compared: another program may have left NaN or zeros.
    """
    if vector is None:
        return None
    exact, wanted = vector.astype(np.float64), query.astype(np.float64)
    lengths = np.linalg.norm(exact) * np.linalg.norm(wanted)
    found = float(exact @ wanted / lengths) if lengths > 0 else np.nan
    return max(-1.0, min(1.0, found)) if np.isfinite(found) else None


def best_first(hit: Hit) -> tuple[float, str]:
    """The sort key of hits: highest score first, ties by id."""
    return -round(hit.score, SCORE_DIGITS), hit.record.id


def apart(better: Hit, worse: Hit) -> bool:
    """Whether two scores differ by so much that no rounding makes them a tie."""
    return better.score - worse.score > 10.0**-SCORE_DIGITS * 2
