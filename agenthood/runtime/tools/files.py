"""Opens and replaces regular files at a place in the project; nothing else can be opened."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from agenthood.runtime.tools.base import ToolError
from agenthood.runtime.tools.denied import check_readable, check_writable

if TYPE_CHECKING:
    from agenthood.runtime.tools.paths import Place

MAX_BYTES = 8_000_000
"""Larger files are not read."""
_BINARY_PROBE = 8_192
# Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_bytes(place: Place, *, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file that may be read.

    Raises:
        ToolError: it holds keys, is a folder, device or pipe, or has more than `limit` bytes.
        OSError: it is not there or may not be opened.
    """
    check_readable(place.parts)
    before = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    _check_regular(place, before)  # opening a device can already do something
    descriptor = os.open(place.name, _READ, dir_fd=place.folder)
    with os.fdopen(descriptor, "rb") as file:
        _check_regular(place, os.fstat(descriptor))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ToolError(
            f"{place.path!r:.200} is over {limit} bytes and is not read: search_text or list_files may find "
            "a smaller file that says the same"
        )
    return data


def read_text(place: Place, *, limit: int = MAX_BYTES) -> str:
    """The text of a file; a byte that is not UTF-8 becomes U+FFFD.

    Raises:
        ToolError: as `read_bytes`, or it is no text.
    """
    data = read_bytes(place, limit=limit)
    if is_binary(data):
        raise ToolError(f"{place.path!r:.200} is a binary file of {len(data)} bytes: read a text file")
    return data.decode("utf-8-sig", "replace")


def is_binary(data: bytes) -> bool:
    """Whether it is no text, by the rule git goes by."""
    return b"\0" in data[:_BINARY_PROBE]


def replace_file(place: Place, data: bytes) -> bool:
    """Replace a file's content or make the file: whole or not at all, keeping its mode.

    `agenthood.files.write_atomically` goes by path, which could be swapped for a link meanwhile; this stays in
    the open folder, and a rename does not follow links.

    Returns:
        Whether the file was there before.

    Raises:
        ToolError: it may not be written, or something that is no regular file is there.
    """
    check_writable(place.parts)
    if place.name == ".":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    before = place.status()
    if before is not None:
        _check_regular(place, before)
    temporary = f".{secrets.token_hex(8)}.tmp"
    try:
        descriptor = os.open(temporary, _CREATE, 0o666, dir_fd=place.folder)
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        os.fsync(place.folder)
    finally:
        with suppress(FileNotFoundError):  # after the rename there is nothing left to remove
            os.unlink(temporary, dir_fd=place.folder)
    return before is not None


def _check_regular(place: Place, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    raise ToolError(f"{place.path!r:.200} is a device, pipe or socket, not a file: choose another")
