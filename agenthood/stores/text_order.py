"""Comparing texts by code points in a database: prefixes as ranges, and pairs of compact JSON as parts of it."""

from __future__ import annotations

import re

from agenthood.formats import dumps, unstorable_reason

_LAST = "\U0010ffff"
_FIRST_SURROGATE = 0xD800
_SURROGATE = re.compile("[\ud800-\udfff]")


def prefix_range(prefix: str) -> tuple[str, str | None] | None:
    """The first text that starts with `prefix` and the first after all that do: `least <= text < end`.

    Returns:
        None if no text that can be stored starts so; an end of None if nothing sorts after them.
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


def json_pairs(field: str, value: str) -> tuple[str, str]:
    """The two texts of which compact JSON holds one if `field` is a key of it at the top, with this text as value.

    Inside a JSON string a backslash stands before a quote, so the first quote is one that opens a key: a quote that
    closes is followed by what no field starts with (see `filters`).
    """
    pair = f"{dumps(field)}:{dumps(value)}"
    return "{" + pair, "," + pair
