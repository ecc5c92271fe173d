"""Exact similarity for many vectors at once: which pairs reach a threshold, found by blocked matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agenthood.learning.calibration import LEXICAL, Calibration, match_score

if TYPE_CHECKING:
    from agenthood.stores.base import Vector

_BLOCK = 256
# Every step begins with a product, which also compares what never becomes a lesson.
_STEP = 256
# A float32 product may fall this much short of the exact one; pairs within it are computed exactly.
_MARGIN = 1e-5


def lowest_cosine(calibration: Calibration | None, threshold: float) -> float:
    """The cosine whose calibrated score is `threshold`; without a calibration the threshold itself."""
    return threshold if calibration is None else calibration.inverse(threshold)


def pairs_above(queries: Vector, stored: Vector, lowest: float) -> Iterator[tuple[int, int, float]]:
    """The (query, stored row, exact cosine) of every pair whose cosine is about `lowest` or more.

    Args:
        queries: float32 (n, d), rows of unit length or zero.
        stored: float32 (m, d), rows of unit length or zero.
        lowest: cosine in [-1, 1]; pairs up to `_MARGIN` below may come too.
    """
    for start in range(0, len(queries), _BLOCK):
        rows, columns = np.nonzero(queries[start : start + _BLOCK] @ stored.T >= lowest - _MARGIN)
        for first in range(0, len(rows), _BLOCK):
            row, column = rows[first : first + _BLOCK] + start, columns[first : first + _BLOCK]
            cosines = exact_cosines(queries[row], stored[column])
            yield from zip(row.tolist(), column.tolist(), cosines.tolist(), strict=True)


def exact_cosines(first: Vector, second: Vector) -> Vector:
    """Row by row cosines in float64, so that every path to a score gives the same six decimals; 0 for zero rows.

    Args:
        first: float (n, d).
        second: float (n, d).
    """
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products = np.einsum("ij,ij->i", a, b)
    cosines: Vector = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return np.clip(cosines, -1.0, 1.0)


def exact_cosine(first: Vector, second: Vector) -> float:
    """As `exact_cosines`, for two vectors, float (d,)."""
    return float(exact_cosines(first.reshape(1, -1), second.reshape(1, -1))[0])


@dataclass(frozen=True, slots=True)
class Lowest:
    """The cosines from which a pair may reach a match threshold, by meaning and by wording."""

    semantic: float
    words: float

    @classmethod
    def of(cls, calibration: Calibration | None, threshold: float) -> Lowest:
        """Those for a threshold on the calibrated scale."""
        return cls(lowest_cosine(calibration, threshold), lowest_cosine(LEXICAL, threshold))


class AddedLessons:
    """The lessons a batch has added so far, compared with its later episodes.

    Episodes are asked for in order. Those of a step are compared with all lessons added before it, and with each
    other, in one product.
    """

    def __init__(
        self, semantic: Vector, words: Vector, calibration: Calibration | None, threshold: float
    ) -> None:
        """Args: vectors (n, d) of the batch's episodes, the space's `calibration`, the match `threshold`."""
        self._semantic = semantic
        self._words = words
        self._calibration = calibration
        self._lowest = Lowest.of(calibration, threshold)
        self._rows: list[int] = []
        self._ids: list[str] = []
        self._groups: list[object] = []
        self._step = -1
        self._slots: dict[int, int] = {}
        # Position -> those that may be near, in the order they were added: the keys of a dict.
        self._near: dict[int, dict[int, None]] = {}

    def add(self, position: int, group: object, id_: str) -> None:
        """The episode at `position` has become a lesson of its own; only episodes of its group are like it."""
        self._slots[position] = len(self._rows)
        self._rows.append(position)
        self._ids.append(id_)
        self._groups.append(group)

    def similar(self, position: int, group: object) -> list[tuple[float, str]]:
        """The (match score, id) of the added lessons that may reach the threshold."""
        self._enter(position // _STEP)
        near = self._near.get(position, ())
        added = (self._slots[other] for other in near if other in self._slots)
        slots = [slot for slot in added if self._groups[slot] == group]
        if not slots:
            return []
        rows = [self._rows[slot] for slot in slots]
        scores = match_score(
            exact_cosines(self._semantic[rows], self._semantic[[position] * len(rows)]),
            exact_cosines(self._words[rows], self._words[[position] * len(rows)]),
            self._calibration,
        )
        return [(float(score), self._ids[slot]) for score, slot in zip(scores, slots, strict=True)]

    def _enter(self, step: int) -> None:
        if step == self._step:
            return
        self._step, self._near = step, {}
        here = range(step * _STEP, min((step + 1) * _STEP, len(self._words)))
        others = [*self._rows, *here]
        self._compare(self._semantic, here, others, self._lowest.semantic)
        self._compare(self._words, here, others, self._lowest.words)

    def _compare(self, vectors: Vector, here: range, others: list[int], lowest: float) -> None:
        products = vectors[here.start : here.stop] @ vectors[others].T
        for row, other in np.argwhere(products >= lowest - _MARGIN).tolist():
            self._near.setdefault(row + here.start, {})[others[other]] = None
