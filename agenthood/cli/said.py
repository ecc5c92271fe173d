"""What a command has warned of: nothing is said twice, and no long reason is repeated."""

from __future__ import annotations

import re

_LONG = 40
"""Characters; a shorter reason may be repeated."""
_KEPT = 1_000
_RETRY = re.compile(r"; it is asked again in [\d.]+ s")
_SAME = "for the same reason"


class Said:
    """The texts of one command's warnings, and the reasons in them."""

    def __init__(self) -> None:
        """Nothing is said yet."""
        self._texts: set[str] = set()
        self._reasons: list[str] = []

    def add(self, text: str) -> str:
        """What of `text` is worth saying; empty if it says nothing new."""
        plain = _RETRY.sub("", text)
        short = self._shortened(plain)
        if short in self._texts or short == _SAME:
            return ""
        if len(self._texts) < _KEPT:
            self._texts.add(short)
        if short != plain:
            return short
        self._keep(plain)
        return text

    def _shortened(self, text: str) -> str:
        """`text` with a reason that was given before left out."""
        known = max((reason for reason in self._reasons if reason in text), key=len, default=None)
        return text if known is None else text.replace(known, _SAME)

    def _keep(self, text: str) -> None:
        """Remember the text and all that follows a colon in it, as each may be the reason in another."""
        starts = [0, *(match.end() for match in re.finditer(": ", text))]
        if len(self._reasons) < _KEPT:
            self._reasons += [text[start:] for start in starts if len(text) - start >= _LONG]
