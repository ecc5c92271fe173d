"""Prefixes as ranges of texts in the order of code points, without texts that no backend may see."""

from __future__ import annotations

import re

from agenthood.formats import unstorable_reason

_LAST = "\U0010ffff"
_FIRST_SURROGATE = 0xD800
_SURROGATE = re.compile("[\ud800-\udfff]")


def prefix_range(prefix: str) -> tuple[str, str | None] | None:
    """The texts that start with `prefix`, as `(least, end)`: they sort at or after `least` and before `end`.

    Returns:
        None if no text can start so; an `end` of None where nothing sorts after all of them.
    """
    if unstorable_reason(prefix) is not None:
        return None
    stem = prefix.rstrip(_LAST)
    if not stem:
        return prefix, None
    following = ord(stem[-1]) + 1
    return prefix, stem[:-1] + ("\ue000" if following == _FIRST_SURROGATE else chr(following))


def past_surrogates(value: str) -> str:
    """The first text without lone surrogates that sorts at or after `value`."""
    found = _SURROGATE.search(value)
    return value if found is None else value[: found.start()] + "\ue000"
