"""Exact similarity for many vectors at once: which pairs reach a threshold, found by blocked matrix products."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from agenthood.blas import products
from agenthood.learning.calibration import LEXICAL, Calibration, match_score
from agenthood.learning.numbered import UNREAD, NumberedTexts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from agenthood.stores.base import Vector

Cosines: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.int64]
"""Which rows of an array."""

FEW = 8
"""So many alike may each be looked at by the whole rule; from more of them those of other numbers are sieved first."""

_BLOCK = 256
_MOST_PRODUCTS = 4 * 1024**2  # float32: 16 MiB, and 16 bytes for each pair found
# Every step of a group begins with a product, which also compares what never becomes a lesson.
_STEP = 256
# A float32 product may fall this much short of the exact one; pairs within it are computed exactly.
_MARGIN = 1e-5


def lowest_cosine(calibration: Calibration | None, threshold: float) -> float:
    """The cosine whose calibrated score is `threshold`; without a calibration the threshold itself."""
    return threshold if calibration is None else calibration.inverse(threshold)


def pairs_above(queries: Vector, stored: Vector, lowest: float) -> Iterator[tuple[Rows, Rows]]:
    """The pairs whose cosine is about `lowest` or more, some at a time.

    Args:
        queries: float32 (n, d), rows of unit length or zero.
        stored: float32 (m, d), rows of unit length or zero.
        lowest: cosine in [-1, 1]; pairs up to `_MARGIN` below come too.

    Yields:
        int64 (k,) rows of `queries`, rising, and int64 (k,) rows of `stored`; all pairs of a query at once.
    """
    block = max(1, min(_BLOCK, _MOST_PRODUCTS // max(1, len(stored))))
    for start in range(0, len(queries), block):
        rows, columns = _set_in(products(queries[start : start + block], stored) >= lowest - _MARGIN)
        yield rows + start, columns


def _set_in(pairs: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """The rows and columns, int64 (k,) each, in which `pairs`, bool (n, m), is true: as `nonzero`, at a tenth of it."""
    return np.divmod(np.flatnonzero(pairs), max(1, pairs.shape[1]))


def exact_cosines(first: Vector, second: Vector) -> Cosines:
    """Row by row cosines, float64 (n,), so that every path to a score gives the same six decimals; 0 for zero rows.

    Args:
        first: float (n, d).
        second: float (n, d).
    """
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products = np.einsum("ij,ij->i", a, b)
    cosines: Cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return np.clip(cosines, -1.0, 1.0)


def cosines_of_pairs(queries: Vector, rows: Rows, stored: Vector, columns: Rows) -> Cosines:
    """The exact cosines, float64 (k,), of pairs given by their rows, int64 (k,) each, of two arrays of vectors."""
    cosines = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):  # a copy of both sides of all pairs at once would be large
        some = slice(start, start + _BLOCK)
        cosines[some] = exact_cosines(queries[rows[some]], stored[columns[some]])
    return cosines


def exact_cosine(first: Vector, second: Vector) -> float:
    """As `exact_cosines`, for two vectors, float (d,)."""
    return float(exact_cosines(first.reshape(1, -1), second.reshape(1, -1))[0])


def crowded(rows: Rows) -> Iterator[tuple[int, slice]]:
    """The rows that are in more than `FEW` pairs, and which these are; `rows`, int64 (k,), of all pairs, rise."""
    found, starts, counts = np.unique(rows, return_index=True, return_counts=True)
    many = counts > FEW
    for row, start, count in zip(*(some[many].tolist() for some in (found, starts, counts)), strict=True):
        yield row, slice(start, start + count)


@dataclass(frozen=True, slots=True)
class Lowest:
    """The cosines from which a pair may reach a match threshold, by meaning and by wording."""

    semantic: float
    words: float

    @classmethod
    def of(cls, calibration: Calibration | None, threshold: float) -> Lowest:
        """Those for a threshold on the calibrated scale."""
        return cls(lowest_cosine(calibration, threshold), lowest_cosine(LEXICAL, threshold))


@dataclass(slots=True)
class _Members:
    """The episodes of one group.

    Attributes:
        to_come: positions of those not compared yet, rising.
        lessons: positions of those that became lessons.
        compared: the position before which all are compared.
    """

    to_come: deque[int] = field(default_factory=deque)
    lessons: list[int] = field(default_factory=list)
    compared: int = 0

    def step(self) -> list[int]:
        """The next few to compare."""
        few = [self.to_come.popleft() for _ in range(min(_STEP, len(self.to_come)))]
        self.compared = few[-1] + 1
        return few


class AddedLessons:
    """The lessons a batch has added so far, compared with its later episodes.

    Episodes are asked for in order. The next few of a group are compared with all lessons that it has by then, and with
    each other, in one product.
    """

    def __init__(  # noqa: PLR0913, PLR0917  one comparison
        self,
        texts: Sequence[str],
        groups: Sequence[Hashable],
        semantic: Vector,
        words: Vector,
        calibration: Calibration | None,
        threshold: float,
    ) -> None:
        """Take the episodes of a batch.

        Args:
            texts: of the n episodes.
            groups: only episodes of one group are alike.
            semantic: float32 (n, d).
            words: float32 (n, LEXICAL_DIMENSION).
            calibration: that of the space.
            threshold: match score in [0, 1].
        """
        members: dict[Hashable, _Members] = {}
        self._members = [members.setdefault(group, _Members()) for group in groups]
        for position, those in enumerate(self._members):
            those.to_come.append(position)
        self._texts = texts
        self._semantic = semantic
        self._words = words
        self._calibration = calibration
        self._lowest = Lowest.of(calibration, threshold)
        self._ids: dict[int, str] = {}
        self._near: dict[int, list[int]] = {}
        self._numbered = NumberedTexts()
        self._slots = np.full(len(texts), UNREAD)

    def add(self, position: int, id_: str) -> None:
        """The episode at `position` has become a lesson of its own."""
        self._members[position].lessons.append(position)
        self._ids[position] = id_

    def similar(self, position: int) -> list[tuple[float, str]]:
        """The (match score, id) of the added lessons that may reach the threshold."""
        members = self._members[position]
        while members.compared <= position:
            self._compare(np.array(members.step()), members.lessons)
        rows = [row for row in self._near.get(position, ()) if row in self._ids]
        if not rows:
            return []
        here = [position] * len(rows)
        scores = match_score(
            exact_cosines(self._semantic[rows], self._semantic[here]),
            exact_cosines(self._words[rows], self._words[here]),
            self._calibration,
        )
        return [(score, self._ids[row]) for score, row in zip(scores.tolist(), rows, strict=True)]

    def _compare(self, here: Rows, lessons: Sequence[int]) -> None:
        """Note for the episodes `here` which of each other, and of the `lessons`, all of one group, may be near."""
        others = np.concatenate([np.array(lessons, dtype=np.int64), here])
        alike = products(self._semantic[here], self._semantic[others]) >= self._lowest.semantic - _MARGIN
        alike |= products(self._words[here], self._words[others]) >= self._lowest.words - _MARGIN
        alike &= others < here[:, np.newaxis]
        episodes, columns = _set_in(alike)
        positions, rows = self._not_numbered(here[episodes], others[columns])
        for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
            self._near.setdefault(position, []).append(row)

    def _not_numbered(self, positions: Rows, others: Rows) -> tuple[Rows, Rows]:
        """Those of the pairs that do not name other numbers, where an episode has many."""
        kept = np.ones(len(positions), dtype=np.bool_)
        for position, pairs in crowded(positions):
            some = others[pairs]
            for unread in some[self._slots[some] == UNREAD].tolist():
                self._slots[unread] = self._numbered.add(self._texts[unread])
            kept[pairs] = ~self._numbered.others(self._texts[position], self._slots[some])
        return positions[kept], others[kept]
