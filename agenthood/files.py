"""Small files that several processes write: replaced whole or not at all, one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.errors import InvalidInputError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEMPORARY = ".tmp"
_NEXT_STEP = {
    errno.ENOSPC: "free some disk space and try again",
    errno.EDQUOT: "free some of the disk quota and try again",
    errno.EFBIG: "raise the file size limit (ulimit -f) and try again",
    errno.EACCES: "check who owns the file and its folder",
    errno.EPERM: "check who owns the file and its folder",
    errno.EROFS: "choose a folder on a writable disk",
    errno.ENAMETOOLONG: "choose a shorter path",
}


def unavailable(action: str, path: str | os.PathLike[str], error: OSError) -> StoreUnavailableError:
    """The error to raise from `error`, which happened while trying to `action` (`write`, `read`) `path`."""
    step = _NEXT_STEP.get(error.errno or 0, "check that its folder is there and can be written to")
    return StoreUnavailableError(f"cannot {action} {os.fspath(path)!r}: {error.strerror or error}; {step}")


def write_atomically(path: str | os.PathLike[str], data: bytes | str, *, durable: bool = True) -> None:
    """Replace the file's content; a reader sees the old content or the new, never a part of it.

    Unless `durable` is False the content is on the disk before the call returns. Missing parents are made, an existing
    file keeps its mode, and a link stays a link: what it points to is replaced.

    Args:
        path: the file to write.
        data: the whole new content; a str is written as UTF-8.
        durable: whether to wait for the disk, some milliseconds. Without it a power cut, though no killed
            process, may leave the old content or an empty file.

    Raises:
        InvalidInputError: a str with lone surrogates, which UTF-8 cannot hold.
        StoreUnavailableError: disk full, no permission and the like; the old content is intact.
    """
    target = Path(os.path.realpath(path))
    content = _encoded(data)
    # Beside the target: a rename across disks would not be atomic.
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(6)}{_TEMPORARY}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_through(temporary, content, durable=durable)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
        if durable:
            sync_folder(target.parent)
    except OSError as error:
        raise unavailable("write", path, error) from error
    finally:
        with contextlib.suppress(OSError):  # after the rename there is nothing left to remove
            temporary.unlink(missing_ok=True)


def sweep_temporaries(path: str | os.PathLike[str]) -> int:
    """Remove what killed writers of `path` left beside it; call it holding the lock of `path`.

    Returns:
        How many files were removed.
    """
    target = Path(os.path.realpath(path))
    removed = 0
    for leftover in target.parent.glob(f"{glob.escape(target.name)}.*{_TEMPORARY}"):
        with contextlib.suppress(OSError):
            leftover.unlink()
            removed += 1
    return removed


@contextmanager
def locked(path: str | os.PathLike[str], *, timeout: float = 10.0) -> Iterator[None]:
    """Hold the lock of `path`, the file `path` + `.lock`, against other threads and processes.

    The lock goes with its holder: a killed process frees it.

    Args:
        path: the file about to be read, changed and written.
        timeout: seconds to wait for another holder.

    Raises:
        StoreUnavailableError: still held after `timeout`, or the lock file cannot be made.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - keeps the import of agenthood light

    target = Path(os.path.realpath(path))
    # Not a singleton: each call opens the lock file anew, which is what shuts out other threads.
    lock = FileLock(f"{target}.lock", timeout=timeout)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreUnavailableError(
            f"{os.fspath(path)!r} stayed locked for {timeout} s: wait for the other process or end it"
        ) from error
    except OSError as error:
        raise unavailable("lock", path, error) from error
    try:
        yield
    finally:
        lock.release()


def _encoded(data: bytes | str) -> bytes:
    if isinstance(data, bytes):
        return data
    try:
        return data.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{data[error.start]!r} at character {error.start} cannot be written as UTF-8: replace it first"
        ) from error


def _write_through(path: Path, content: bytes, *, durable: bool) -> None:
    """Create `path`, with the mode that the umask leaves; if `durable` wait until `content` is on the disk."""
    with path.open("xb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
