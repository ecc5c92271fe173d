"""Telling many texts of one template apart at once, by the numbers they name.

A fleet writes lessons such as "ticket 17: step 4 failed" by the thousands. Each is alike to all the others, and only
`distinct` keeps them apart. Of its signs numbers are the one that takes thousands of values, so only they are looked
at here, for all texts in a few array operations; what is left is few enough for the whole rule.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from agenthood.learning.distinct import SHARED_TERMS, common_terms, numbers_in

Slots: TypeAlias = npt.NDArray[np.int64]
"""Which of the texts, by the order they were added in."""

UNREAD = -1
"""In the place of the slot of a text that was not added."""

_NO_NUMBERS = 0
_NO_TERM = 0


class NumberedTexts:
    """Texts of which those are found that name other numbers than a given one."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {(): _NO_NUMBERS}
        self._terms: dict[str, int] = {}
        self._words: dict[frozenset[str], int] = {}
        # For each text the numbers it names and the words it is in.
        self._named = array("q")
        self._worded = array("q")
        # The terms of all sets of words, one set after the other, and where each begins.
        self._members = array("q")
        self._starts = array("q")

    def add(self, text: str) -> int:
        """Add a text: its slot."""
        numbers, words = numbers_in(text), common_terms(text)
        if words not in self._words:
            self._words[words] = len(self._words)
            self._starts.append(len(self._members))
            self._members.append(_NO_TERM)  # so that a set without words has a sum, too
            self._members.extend(self._terms.setdefault(term, len(self._terms) + 1) for term in words)
        self._named.append(self._numbers.setdefault(numbers, len(self._numbers)))
        self._worded.append(self._words[words])
        return len(self._named) - 1

    def others(self, text: str, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which of the texts name other numbers in the same words, and are therefore distinct from `text`.

        Args:
            text: it need not be one of them.
            slots: int (n,), the texts to compare with.

        Returns:
            bool (n,); where it is true `are_distinct` is, while the reverse does not hold.
        """
        numbers, words = numbers_in(text), common_terms(text)
        if not numbers or not len(slots):
            return np.zeros(len(slots), dtype=np.bool_)
        named = np.frombuffer(self._named, dtype=np.int64)[slots]
        worded = np.frombuffer(self._worded, dtype=np.int64)[slots]
        others = (named != _NO_NUMBERS) & (named != self._numbers.get(numbers, UNREAD))
        distinct: npt.NDArray[np.bool_] = others & self._same_words(words)[worded]
        return distinct

    def _same_words(self, words: frozenset[str]) -> npt.NDArray[np.bool_]:
        """For each set of words whether it has enough terms in common with `words`."""
        known = [code for term in words if (code := self._terms.get(term))]
        is_asked = np.zeros(len(self._terms) + 1, dtype=np.int64)
        is_asked[np.array(known, dtype=np.int64)] = 1
        starts = np.frombuffer(self._starts, dtype=np.int64)
        sizes = np.diff(starts, append=len(self._members)) - 1
        common = np.add.reduceat(is_asked[np.frombuffer(self._members, dtype=np.int64)], starts)
        same: npt.NDArray[np.bool_] = common >= SHARED_TERMS * (sizes + len(words) - common)
        return same
