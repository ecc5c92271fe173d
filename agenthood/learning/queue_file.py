"""The episodes that wait for their store, in an append-only file of JSON lines.

A line is an episode, as `agenthood learn` reads it, with the `id` it is recorded under and a `key` of its own; or it
says which keys were `applied`. Once all are, the file goes. Whatever kills a writer leaves at most one torn line.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agenthood.files import locked, sync_folder, unavailable
from agenthood.formats import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

LOCK_SECONDS = 2.0
"""How long a writer waits for another, which takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the file holds.

    Attributes:
        entries: the episodes not applied yet, oldest first.
        damaged: the lines that are none, such as one that a killed process left torn.
    """

    entries: tuple[dict[str, Any], ...] = ()
    damaged: tuple[bytes, ...] = ()

    @property
    def since(self) -> str | None:
        """ISO 8601 time since when the oldest waits; None if none does or it does not say."""
        found = self.entries[0].get("queuedAt") if self.entries else None
        return found if isinstance(found, str) else None


class QueueFile:
    """The queue of one `.agenthood` directory, for any number of processes. Its calls wait for the disk.

    Attributes:
        path: the file, `queue.jsonl`; what could not be learned or read is kept beside it, see `set_aside`.
    """

    def __init__(self, path: Path) -> None:
        """Args: the file's `path`; it is made when something has to wait."""
        self.path = path

    def __bool__(self) -> bool:
        """Whether something may be waiting; asks for no more than the file's size."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size > 0

    def append(self, entries: Iterable[dict[str, Any]]) -> None:
        """Add entries at the end, in one piece, and wait until they are on the disk.

        Raises:
            StoreUnavailableError: they could not be written; nothing of them is there.
        """
        with locked(self.path, timeout=LOCK_SECONDS):
            _append(self.path, [dumps(entry).encode() for entry in entries])

    def read(self) -> Waiting:
        """What waits now.

        Raises:
            StoreUnavailableError: the file cannot be read.
        """
        if not self:
            return Waiting()
        with locked(self.path, timeout=LOCK_SECONDS):
            data = self._bytes()
        return _waiting(data)

    def applied(self, entries: Sequence[dict[str, Any]]) -> None:
        """Note that these entries of `read` were applied. What is left is not looked at: see `clear`.

        Raises:
            StoreUnavailableError: it could not be noted; applying them again must be harmless.
        """
        if entries:
            with locked(self.path, timeout=LOCK_SECONDS):
                _append(self.path, [dumps({"applied": [entry["key"] for entry in entries]}).encode()])

    def clear(self) -> None:
        """Remove the file if none of its entries is left.

        Raises:
            StoreUnavailableError: it could not be read or removed.
        """
        with locked(self.path, timeout=LOCK_SECONDS):
            data = self._bytes()
        left = _waiting(data)  # takes a while where many waited, in which others may append
        if left.entries:
            return
        with locked(self.path, timeout=LOCK_SECONDS):
            if self._bytes() != data:
                return  # who applies looks again
            if left.damaged:
                _append(self._beside("damaged"), left.damaged)
            try:
                self.path.unlink(missing_ok=True)
                sync_folder(self.path.parent)
            except OSError as error:
                raise unavailable("remove", self.path, error) from error

    def set_aside(self, entry: dict[str, Any], reason: str) -> Path:
        """Keep an entry that cannot be learned, with the reason, in `queue.refused.jsonl`; returns its path.

        Raises:
            StoreUnavailableError: it could not be written.
        """
        path = self._beside("refused")
        with locked(self.path, timeout=LOCK_SECONDS):
            _append(path, [dumps({**entry, "reason": reason}).encode()])
        return path

    def _beside(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.stem}.{name}{self.path.suffix}")

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise unavailable("read", self.path, error) from error


def _waiting(data: bytes) -> Waiting:
    entries: dict[str, dict[str, Any]] = {}
    applied: set[str] = set()
    damaged = []
    for line in filter(None, data.split(b"\n")):
        value = _value(line)
        if isinstance(value.get("applied"), list):
            applied.update(key for key in value["applied"] if isinstance(key, str))
        elif isinstance(value.get("key"), str):
            entries[value["key"]] = value
        else:
            damaged.append(line)
    return Waiting(tuple(one for key, one in entries.items() if key not in applied), tuple(damaged))


def _value(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _append(path: Path, lines: Iterable[bytes]) -> None:
    """Append whole lines under the lock; where that fails nothing of them stays."""
    data = b"".join(line + b"\n" for line in lines)
    try:
        # Without O_BINARY Windows would write other line ends.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            if size:
                os.lseek(descriptor, size - 1, os.SEEK_SET)
                if os.read(descriptor, 1) != b"\n":
                    data = b"\n" + data  # after a torn line, which must not take this one with it
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
        if not size:
            sync_folder(path.parent)
    except OSError as error:
        raise unavailable("write", path, error) from error


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
