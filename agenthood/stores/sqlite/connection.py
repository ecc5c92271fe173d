"""Opening the database file: whose it is, in which format, and the settings every connection needs."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agenthood.errors import MissingExtraError, StoreUnavailableError
from agenthood.stores.sqlite.errors import load_apsw
from agenthood.stores.sqlite.schema import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import apsw

    from agenthood.stores.sqlite.errors import Trouble

FORMAT: Final = 1
"""The number in `pragma user_version` of the files this module reads and writes."""
APPLICATION: Final = 0x6167_6864
"""`aghd`: the number in `pragma application_id` of files that are ours."""

_SETTINGS = (
    # What is removed is overwritten, so that a purge leaves nothing.
    "pragma secure_delete = on",
    # What was acknowledged survives a power cut too.
    "pragma synchronous = full",
    "pragma cache_size = -16000",
)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open database.

    Attributes:
        connection: the connection, for one thread at a time.
        identity: which file it is, however the path is named.
        lasting: False if it must be opened anew for whatever comes next.
    """

    connection: apsw.Connection
    identity: tuple[int, int]
    lasting: bool = True

    def is_current(self, path: Path) -> bool:
        """Whether `path` still names this file; another program may have moved or removed it."""
        try:
            found = path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.identity


def open_connection(
    path: Path, *, create: bool, wait: Callable[[int], bool], trouble: Trouble
) -> Opened | None:
    """The database at `path`, or None if there is none and none is to be made.

    Args:
        path: the file.
        create: whether to make it, and its directory.
        wait: SQLite's busy handler: whether to ask again.
        trouble: where to note what the operating system said.

    Raises:
        MissingExtraError: apsw or sqlite-vec is not installed.
        StoreUnavailableError: it is no file of ours, or of a newer format.
    """
    apsw = load_apsw()
    if not _is_there(path):
        if not create:
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    attempt = 0
    while True:
        try:
            return _open(apsw, str(path), flags, create=create, wait=wait, trouble=trouble)
        except apsw.BusyError:
            # Two processes that make it at once: SQLite does not wait to change the journal mode.
            if not wait(attempt):
                raise
            attempt += 1
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if not _may(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
            if not path.exists() or not _is_settled(path):
                raise
            return _open_unchanging(apsw, path, trouble)


def _is_there(path: Path) -> bool:
    """Whether there is a file to open.

    Raises:
        StoreUnavailableError: there is something else.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(mode):
        raise StoreUnavailableError(
            f"{str(path)!r} is a symbolic link: give the path of the file itself, since all must name it alike"
        )
    if not stat.S_ISREG(mode):
        raise StoreUnavailableError(f"{str(path)!r} is not a file: choose another path or move it away")
    return True


def _open(  # noqa: PLR0913  how to open, and whom to tell
    apsw: Any,  # noqa: ANN401  the module
    name: str,
    flags: int,
    *,
    create: bool,
    wait: Callable[[int], bool],
    trouble: Trouble,
) -> Opened | None:
    connection = apsw.Connection(name, flags)
    try:
        connection.set_busy_handler(wait)
        _prepare(connection)
        if not _is_ours(connection, name):
            if not create:
                connection.close()
                return None
            _make(connection, name)
        if create and connection.pragma("journal_mode") != "wal":
            connection.pragma("journal_mode", "wal")
        found = os.stat(name)  # noqa: PTH116  as given to SQLite
    except BaseException:  # also an interruption: nobody has it yet
        trouble.system_errno = connection.system_errno
        connection.close()
        raise
    return Opened(connection, (found.st_dev, found.st_ino))


def _open_unchanging(apsw: Any, path: Path, trouble: Trouble) -> Opened | None:  # noqa: ANN401  the module
    """The database where not even the files that readers share may be made beside it."""
    name = f"{path.absolute().as_uri()}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags)
    try:
        _prepare(connection)
        there = _is_ours(connection, str(path))
    except BaseException:  # also an interruption: nobody has it yet
        trouble.system_errno = connection.system_errno
        connection.close()
        raise
    if not there:
        connection.close()
        return None
    return Opened(connection, (0, 0), lasting=False)


def _may(path: Path) -> bool:
    """Whether we may read the file, or make it: SQLite itself does not say why it cannot."""
    return os.access(path, os.R_OK) if path.exists() else os.access(path.parent, os.W_OK | os.X_OK)


def _is_settled(path: Path) -> bool:
    """Whether we may not write beside the file, and whoever may has nothing under way."""
    log = path.with_name(path.name + "-wal")
    return not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)


def _prepare(connection: apsw.Connection) -> None:
    try:
        import sqlite_vec  # noqa: PLC0415  an extra
    except ImportError as exc:
        raise MissingExtraError("sqlite-vec", "sqlite") from exc
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    for setting in _SETTINGS:
        connection.execute(setting)


def _is_ours(connection: apsw.Connection, name: str) -> bool:
    """Whether the tables are there; False if the file is empty.

    Raises:
        StoreUnavailableError: another program's, or of a format that is not known here.
    """
    application, version, objects = connection.execute(
        "select a.application_id, u.user_version, (select count(*) from sqlite_schema) "
        "from pragma_application_id a, pragma_user_version u"
    ).get
    if (application, version) == (APPLICATION, FORMAT):
        return True
    if not objects and not application and not version:
        return False
    if application != APPLICATION:
        raise StoreUnavailableError(
            f"{name!r} is another program's database: choose another path or move the file away"
        )
    raise StoreUnavailableError(
        f"{name!r} has the format {version}, and this version of agenthood knows {FORMAT}: "
        "upgrade agenthood, or choose another path"
    )


def _make(connection: apsw.Connection, name: str) -> None:
    with writing(connection):
        if _is_ours(connection, name):  # another process was faster
            return
        connection.execute(CATALOGUE)
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {FORMAT}")


class _Transaction:
    """A transaction from its beginning to its end."""

    def __init__(self, connection: apsw.Connection, begin: str, end: str) -> None:
        self._connection = connection
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        self._connection.execute(self._begin)

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute(self._end)
        finally:
            # Some errors end it by themselves.
            if self._connection.in_transaction:
                self._connection.execute("rollback")


def writing(connection: apsw.Connection) -> _Transaction:
    """One commit, or none if an error comes; takes its turn at once, since who waits later is refused at once."""
    return _Transaction(connection, "begin immediate", "commit")


def reading(connection: apsw.Connection) -> _Transaction:
    """One state of the database, whatever others write meanwhile."""
    return _Transaction(connection, "begin", "commit")
