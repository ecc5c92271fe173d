"""LanceDB raises builtin errors that only their text tells apart: one table from there to ours."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agenthood.errors import AgenthoodError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAMAGED = (
    "a file of it is damaged, most likely its newest manifest after a power cut: move the smallest-numbered "
    "file out of its _versions folder to open the version before"
)
_UNAVAILABLE = {
    "no space left": "the disk is full: free some space and try again",
    "quota exceeded": "the disk quota is used up: free some of it and try again",
    "file too large": "a file would exceed the size limit: raise it (ulimit -f) and try again",
    # LanceDB overlooks that the last piece of a file did not fit, and stumbles over it when it reads.
    "failed to fill whole buffer": "a file was cut short: raise its size limit (ulimit -f) or free some space",
    "permission denied": "permission denied: check who owns the directory",
    "read-only file system": "the file system is read-only: choose a directory on a writable disk",
    "too many open files": "too many open files: raise the limit (ulimit -n)",
    "invalid range 0..0": _DAMAGED,
    "file size is too small": _DAMAGED,
    "does not have sufficient data": _DAMAGED,
    "not found": "a file of the table is missing: was the directory moved or cleaned by another program?",
    "not a directory": "the path is not a directory: choose another or move the file away",
    "file exists": "the path is not a directory: choose another or move the file away",
}
# Where in LanceDB's own source it happened: of no use to who reads the message.
_SOURCE = re.compile(r",? ?/\S+\.rs:\d+(?::\d+)?")


def is_stale(exc: BaseException) -> bool:
    """Whether the handle points at a version another process has cleaned up; reopening helps."""
    return isinstance(exc, RuntimeError | ValueError | OSError) and "not found" in str(exc).lower()


def is_conflict(exc: BaseException) -> bool:
    """Whether a concurrent commit came first and the operation may simply be run again."""
    text = str(exc).lower()
    return isinstance(exc, RuntimeError | ValueError | OSError) and (
        "commit conflict" in text or "incompatible transaction" in text or "preempted" in text
    )


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn LanceDB's errors into ours, chained; `doing` says what was being done, such as `reading 'vectors'`."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as exc:
        if isinstance(exc, AgenthoodError):
            raise
        text = _SOURCE.sub("", str(exc))
        for sign, advice in _UNAVAILABLE.items():
            if sign in text.lower():
                raise StoreUnavailableError(f"{doing} failed: {advice} ({text[:200]!r})") from exc
        raise StoreError(f"{doing} failed: {text[:400]!r}") from exc
