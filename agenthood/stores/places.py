"""Where an embedded store is to be: whether it can be made there, looked at without making anything."""

from __future__ import annotations

import os
from glob import escape
from itertools import chain
from typing import TYPE_CHECKING

from agenthood.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST_TENANTS = 100
"""How many tenants a store tells the rows of, the largest ones."""


def check_writable(path: Path) -> None:
    """Look whether something could be written at `path`, or made where there is nothing yet.

    Raises:
        StoreUnavailableError: it could not.
    """
    path = path.absolute()
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    if there != path and not os.path.isdir(there):  # noqa: PTH112  Path's own methods raise where they may not look
        raise StoreUnavailableError(
            f"{str(path)!r} cannot be made: {str(there)!r} is not a directory: move it away, or choose another path"
        )
    if not os.access(there, os.W_OK | (os.X_OK if os.path.isdir(there) else 0)):  # noqa: PTH112
        what = "be made" if there != path else "be written to"
        raise StoreUnavailableError(
            f"{str(path)!r} cannot {what}: permission denied or read-only file system: "
            f"check who owns {str(there)!r}, or choose a path on a writable disk"
        )


def is_writable(path: Path) -> bool:
    """Whether something could be written at `path`, or made where there is nothing yet."""
    try:
        check_writable(path)
    except StoreUnavailableError:
        return False
    return True


def check_parts_writable(path: Path) -> None:
    """As `check_writable`, but also of what is written in or beside the store at `path`: others may own some of it.

    Raises:
        StoreUnavailableError: something of it could not be written.
    """
    check_writable(path)
    for part in _parts(path):
        check_writable(part)


def _parts(path: Path) -> Iterable[Path]:
    """Lock files, and of a LanceDB directory the folders in which every write makes files, of a file its logs."""
    if not path.is_dir():
        return path.parent.glob(f"{escape(path.name)}[.-]*")
    return chain.from_iterable(path.glob(one) for one in (".agenthood*", "*.lance", "*.lance/*/"))
