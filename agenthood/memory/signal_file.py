"""The JSON file of residual memory: read and written whole, and read again only when somebody else changed it."""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from agenthood.files import locked, sweep_temporaries, unavailable, write_atomically
from agenthood.formats import unstorable_reason

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

_VERSION = 1
_log = logging.getLogger("agenthood")


class Stored(NamedTuple):
    """A weight and the moment it held at. What it has faded to since is computed, never stored.

    Attributes:
        weight: above 0 and at most 1.
        at: in UTC.
    """

    weight: float
    at: datetime


Signals = dict[str, Stored]
_Mark = tuple[int, int, int, int]


class _Known(NamedTuple):
    """What the file held when it was last looked at, told from later contents by `mark`."""

    mark: _Mark | None
    signals: Signals
    entries: dict[str, tuple[Stored, str]]


class SignalFile:
    """The file. What is damaged or not ours is moved aside, with a warning, and memory starts empty."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`, which is made by the first write."""
        self.path = path
        self._known = _Known(None, {}, {})

    def lock(self, timeout: float) -> AbstractContextManager[None]:
        """Hold the file's lock: see `locked`."""
        return locked(self.path, timeout=timeout)

    def load(self, timeout: float) -> Signals:
        """Read without the lock, as writes are atomic; only moving a damaged file aside needs it."""
        try:
            return self._content()
        except ValueError:
            with self.lock(timeout):
                return self.read()

    def read(self) -> Signals:
        """Read under the lock; a damaged file is moved aside."""
        try:
            return self._content()
        except ValueError as error:
            self._move_aside(error)
            return {}

    def write(self, signals: Signals) -> None:
        """Replace the content, under the lock."""
        # Encoded anew is what changed: of 1,000 signals at the most that is one in a usual run.
        entries = {text: self._entry(text, stored) for text, stored in signals.items()}
        # Not escaped, so that a search of the disk for a forgotten text means something.
        body = ", ".join(entry for _, entry in entries.values())
        content = f'{{"version": {_VERSION}, "signals": {{{body}}}}}'
        # Hints that fade anyway are not worth waiting for the disk at every episode.
        write_atomically(self.path, content, durable=False)
        self._known = _Known(self._mark(), dict(signals), entries)

    def sweep(self, texts: set[str]) -> None:
        """Remove the leftovers of killed writers, and the files moved aside that hold one of `texts`."""
        sweep_temporaries(self.path)
        spellings = {spelt.encode() for text in texts for spelt in (text, _as_json(text)[1:-1])}
        for aside in self.path.parent.iterdir():
            if not aside.name.startswith(f"{self.path.name}.corrupt-"):
                continue
            try:
                content = aside.read_bytes()
                if any(spelt in content for spelt in spellings):
                    aside.unlink()
                    _log.warning("removed %s: it held a signal that is to be forgotten", aside)
            except OSError as error:
                raise unavailable("forget in", aside, error) from error

    def _entry(self, text: str, stored: Stored) -> tuple[Stored, str]:
        known = self._known.entries.get(text)
        return known if known is not None and known[0] == stored else (stored, _entry(text, stored))

    def _content(self) -> Signals:
        known, mark = self._known, self._mark()
        if mark is None or known.mark != mark:
            try:
                signals = {} if mark is None else _decode(self.path.read_bytes())
            except FileNotFoundError:  # removed since
                signals, mark = {}, None
            except OSError as error:
                raise unavailable("read", self.path, error) from error
            # The mark was taken first: what was written in between is read again.
            self._known = known = _Known(mark, signals, {})
        return dict(known.signals)

    def _mark(self) -> _Mark | None:
        """What changes with the content, as every write makes a new file; None if there is none."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unavailable("read", self.path, error) from error
        return found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size

    def _move_aside(self, reason: ValueError) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.corrupt-{number}")).exists():
            number += 1
        try:
            self.path.rename(aside)
        except OSError as error:
            raise unavailable("move aside", self.path, error) from error
        _log.warning("%s holds no signals (%s): moved to %s, starting empty", self.path, reason, aside)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _entry(text: str, stored: Stored) -> str:
    at = stored.at.isoformat().replace("+00:00", "Z")
    return f"{_as_json(text)}: {_as_json({'weight': stored.weight, 'at': at})}"


def _decode(content: bytes) -> Signals:
    """Read the file's content.

    Raises:
        ValueError: it is damaged or was not written by us.
    """
    try:
        document = json.loads(content)
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']!r}")
        signals = {text: _decoded(entry) for text, entry in document["signals"].items()}
    except (LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not a file of signals: {error!r}") from error
    if any(unstorable_reason(text) for text in signals):
        raise ValueError("a signal holds NUL or a lone surrogate")
    return signals


def _decoded(entry: dict[str, object]) -> Stored:
    weight, at = entry["weight"], datetime.fromisoformat(str(entry["at"]))
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise TypeError(f"weight {weight!r}")
    if not (math.isfinite(weight) and 0 < weight <= 1) or at.tzinfo is None:
        raise ValueError(f"weight {weight!r} at {at!r}")
    return Stored(float(weight), at.astimezone(UTC))
