"""Did you mean: the known name that a mistyped one is nearest to."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def closest(wanted: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `wanted` most likely meant, or None if none is near."""
    by_folded = {_folded(name): name for name in known}
    found = get_close_matches(_folded(wanted), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(wanted: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the empty text if nothing known is near."""
    found = closest(wanted, known)
    return f"; did you mean {found!r}?" if found else ""


def _folded(name: str) -> str:
    return name[:100].replace("_", "").replace("-", "").casefold()
