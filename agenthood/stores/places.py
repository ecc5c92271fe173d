"""Where an embedded store is to be: whether it can be made there, looked at without making anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agenthood.errors import StoreUnavailableError

if TYPE_CHECKING:
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
