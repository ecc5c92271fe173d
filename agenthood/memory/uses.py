"""Which lessons were put before an agent, and when: noted in a file beside the store, counted by upkeep.

A recall must not wait for a write to the store, so it appends a line for each lesson. The file is bounded: when it is
full it becomes the old one, and what that held is dropped, oldest first.
"""

from __future__ import annotations

import logging
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.errors import InvalidInputError
from agenthood.files import unavailable
from agenthood.formats import dumps, iso, loads_object, parse_time, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MOST_BYTES = 1 << 20
"""Size of one file, some 15,000 uses; there are at most three."""

_log = logging.getLogger("agenthood")


class UseLog:
    """The file of uses. Any number of threads and processes may note uses in it at once, without a lock."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], datetime] = utc_now,
        most_bytes: int = MOST_BYTES,
        make_folder: bool = False,
    ) -> None:
        """Put it together; nothing is read or made.

        Args:
            path: the file.
            clock: gives the current time in UTC.
            most_bytes: how many bytes a file may have.
            make_folder: whether the first use makes the folder of the file; else none is noted without one.
        """
        self._path = Path(path)
        self._old = self._path.with_suffix(f".old{self._path.suffix}")
        self._counting = self._path.with_suffix(f".counting{self._path.suffix}")
        self._clock = clock
        self._most_bytes = most_bytes
        self._make_folder = make_folder

    def note(self, ids: Iterable[str]) -> None:
        """Note that these lessons were put before an agent now; never raises: a use only hints."""
        at = iso(self._clock())
        lines = "".join(dumps({"id": id_, "at": at}) + "\n" for id_ in ids)
        if not lines:
            return
        try:
            self._append(lines.encode())
        except OSError as exc:
            _log.debug("uses were not noted in %r: %s", str(self._path), exc)

    def _append(self, data: bytes) -> None:
        # One write to a file opened for appending: lines of several processes never mix.
        try:
            file = self._opened()
        except FileNotFoundError:
            if not self._make_folder:
                raise
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._opened()
        try:
            found = os.fstat(file)
            if found.st_size + len(data) <= self._most_bytes or not found.st_size:
                os.write(file, data)
                return
        finally:
            os.close(file)
        if self._path.stat().st_ino == found.st_ino:  # else another process has just made room
            self._path.replace(self._old)
        self._append(data)

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def claimed(self) -> Iterator[dict[str, list[str]]]:
        """All uses noted until now, file by file: lesson id -> ISO 8601 times, earliest first.

        A file is set aside before it is given and removed when the next one is asked for, so that what is not
        finished is given again. One caller at a time: hold the store's lock.

        Raises:
            StoreUnavailableError: a file cannot be read, renamed or removed.
        """
        try:
            for path in (self._counting, self._old, self._path):
                if path.exists():
                    if path is not self._counting:
                        path.replace(self._counting)
                    yield _read(self._counting)
                    self._counting.unlink(missing_ok=True)
        except OSError as exc:
            raise unavailable("count the uses in", self._path, exc) from exc


def _read(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text("utf-8", "replace").splitlines():
        use = loads_object(line)  # a line that a killed writer left half is none
        id_, at = use.get("id"), use.get("at")
        if isinstance(id_, str) and isinstance(at, str):
            try:
                found.setdefault(id_, []).append(iso(parse_time(at)))
            except InvalidInputError:
                continue
    return {id_: sorted(times) for id_, times in found.items()}
