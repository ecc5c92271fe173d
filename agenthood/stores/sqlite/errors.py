"""SQLite's errors as ours: one table, by the class that apsw raises."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agenthood.errors import MissingExtraError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = "the disk is full: free some space and try again"
_READ_ONLY = (
    "permission denied, or the file system is read-only: check who owns it, or choose one on a writable disk"
)
_DENIED = "permission denied: check who owns the file and its directory"

_UNAVAILABLE = {
    "FullError": _FULL,
    "ReadOnlyError": _READ_ONLY,
    "PermissionsError": _DENIED,
    "AuthError": _DENIED,
    "CantOpenError": "the file cannot be opened: check that its directory exists, and who may read and write there",
    "BusyError": "another process has kept it locked too long: wait for it to finish, or end it",
    "LockedError": "another process has kept it locked too long: wait for it to finish, or end it",
    "NotADBError": "the file is no SQLite database: choose another path or move the file away",
    "CorruptError": "the file is damaged: move it away and restore a copy, or recover it with `sqlite3 FILE .recover`",
    "IOError": "the disk failed: check it and its free space, and try again",
    "NoMemError": "there is not enough memory: free some and try again",
    "ProtocolError": "too many processes opened it at once: try again",
    "SchemaChangeError": "another process changed the tables: try again",
}
# What the operating system said, where SQLite only says that a call failed.
_SYSTEM = {
    errno.EFBIG: "a file would exceed the size limit: raise it (ulimit -f) and try again",
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "the disk quota is used up: free some of it and try again",
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.ENOTDIR: "the path is not a directory: choose another or move the file away",
    errno.EEXIST: "the path is not a directory: choose another or move the file away",
    errno.EISDIR: "the path is a directory: name the file in it",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
}
_VAGUE = frozenset({"IOError", "CantOpenError"})


def load_apsw() -> Any:  # noqa: ANN401  a module
    """The module `apsw`.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import apsw  # noqa: PLC0415  an extra
    except ImportError as exc:
        raise MissingExtraError("apsw", "sqlite") from exc
    return apsw


class Trouble:
    """What the operating system said last, noted while the connection that knows is at hand."""

    system_errno: int = 0


@contextmanager
def translated(doing: str, trouble: Trouble | None = None) -> Iterator[None]:
    """Turn errors of SQLite and the operating system into ours, chained.

    Args:
        doing: what is being done, such as `reading 'vectors' in '/a/memory.sqlite'`.
        trouble: what the operating system said.
    """
    apsw = load_apsw()
    try:
        yield
    except OSError as exc:
        advice = _SYSTEM.get(exc.errno or 0, "the operating system refused")
        raise StoreUnavailableError(f"{doing} failed: {advice} ({exc.strerror or exc})") from exc
    except apsw.Error as exc:
        raise _ours(doing, exc, trouble.system_errno if trouble else 0) from exc


def _ours(doing: str, exc: Exception, system_errno: int) -> StoreError:
    name, text = type(exc).__name__, str(exc)
    advice = _UNAVAILABLE.get(name)
    if advice is None:
        return StoreError(f"{doing} failed: {text[:400]!r}")
    if name in _VAGUE:
        advice = _SYSTEM.get(system_errno, advice)
    return StoreUnavailableError(f"{doing} failed: {advice} ({text[:200]!r})")
