"""Files inside the project that hold keys or belong to git or agenthood: not for the model."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING

from agenthood.runtime.tools.base import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEYS = ".env"
_GIT = ".git"
_OWN = ".agenthood"
_CONFIG = "config"

GIT_EXCLUDES = (
    ":(exclude,icase,glob)**/.env*",
    ":(exclude,icase,glob)**/.env*/**",
    f":(exclude,icase,glob)**/{_OWN}/{_CONFIG}*",
)
"""Pathspecs that keep what may not be read out of what git shows."""


def check_readable(parts: Sequence[str]) -> None:
    """Refuse what holds keys: `.env*`, `.agenthood/config*`, anything in `.git`.

    Args:
        parts: true path from the project directory, links resolved.

    Raises:
        ToolError: it may not be read.
    """
    if not readable(parts):
        raise ToolError(f"{'/'.join(parts)!r:.200} may hold keys and is not shown: go on without it")


def readable(parts: Sequence[str]) -> bool:
    """Whether a file may be read; see `check_readable`."""
    names = [folded(part) for part in parts]
    if any(name.startswith(_KEYS) or name == _GIT for name in names):
        return False
    return not any(folder == _OWN and name.startswith(_CONFIG) for folder, name in pairwise(names))


def check_writable(parts: Sequence[str]) -> None:
    """Refuse `.git`, `.agenthood` and `.env*`.

    Args:
        parts: true path from the project directory, links resolved.

    Raises:
        ToolError: it may not be written.
    """
    for name in map(folded, parts):
        if name in (_GIT, _OWN) or name.startswith(_KEYS):
            raise ToolError(f"{'/'.join(parts)!r:.200} may not be written: choose a place outside {name!r}")


def folded(name: str) -> str:
    """`name` as the most tolerant file system would compare it.

    Some ignore case, some compose characters, HFS+ ignores invisible ones, NTFS dots and spaces at the end.
    """
    visible = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", visible.casefold()).rstrip(". ").partition(":")[0]
