"""Texts shortened so that an index of Postgres can hold them: a B-tree takes no more than 2,704 bytes."""

from __future__ import annotations

import hashlib

LONGEST = 200
"""Up to so many bytes of UTF-8 a text is its own key."""
HEAD = 140
"""So many characters of a longer text begin its key, so that prefixes up to this length are found in keys."""


def key(text: str) -> str:
    """`text` itself, or if it is long its first characters and its SHA-256.

    Two texts have the same key only if they are equal: the key of a long text is longer than any short text.
    Keys compare with texts of at most `HEAD` characters as the texts themselves do.
    """
    data = text.encode()
    return text if len(data) <= LONGEST else text[:HEAD] + hashlib.sha256(data).hexdigest()


def long(text: str) -> str | None:
    """`text` if its key is another one, else None: what has to be kept beside the key."""
    return text if len(text.encode()) > LONGEST else None
