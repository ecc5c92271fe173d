"""Residual memory: short signals that fade unless they are reinforced, in one JSON file."""

from __future__ import annotations

import heapq
import math
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agenthood.block import inert
from agenthood.errors import InvalidInputError
from agenthood.formats import unstorable_reason
from agenthood.memory.signal_file import SignalFile, Signals, Stored
from agenthood.redaction import redact

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable

DECAY_PER_DAY = 0.9
PRUNE_LINE = 0.1
MAX_SIGNALS = 1_000
MAX_SIGNAL_CHARACTERS = 4_000
MAX_HINT_LINES = 10
MAX_HINT_CHARACTERS = 500
LOCK_SECONDS = 10.0
"""How long a change waits for another holder of the file's lock."""
BRIEF_LOCK_SECONDS = 2.0
"""The same for an engine at work, which others wait for in turn."""

_DAY = 86_400.0


class Signal(NamedTuple):
    """One signal as it stands at some moment.

    Attributes:
        text: the signal, redacted.
        weight: its strength, above 0.1 and at most 1.
    """

    text: str
    weight: float


class ResidualMemory:
    """Signals with weights: reinforced by +score, weakened by -score, fading by 0.9 per day.

    Any number of threads and processes may use the same file: each change is read, made and written under
    a lock. A file that is not ours or is damaged is moved aside, with a warning, and memory starts empty.

    Every call waits for the disk, and a change for the lock: from an event loop call it in a thread, such as
    `await asyncio.to_thread(memory.record_many, scored, timeout=BRIEF_LOCK_SECONDS)`.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Use the file at `path`, which is made by the first change.

        Args:
            path: the JSON file; `path` + `.lock` is its lock.
            clock: gives the present time, aware.
        """
        self._file = SignalFile(Path(path))
        self._clock = clock

    def record(self, signal: str, score: float, *, at: datetime | None = None) -> float:
        """Add `score` to the weight of `signal`.

        Args:
            signal: 1 to 4,000 characters; secrets in it are redacted.
            score: in [-1, 1]; above zero it reinforces, below it weakens.
            at: when it was observed, aware; None for now. The order in which signals come in does not matter.

        Returns:
            The weight now, at most 1; 0.0 if it is at or below 0.1 and the signal was dropped.

        Raises:
            InvalidInputError: another score, a blank or too long signal, or a time without a zone.
            StoreUnavailableError: the file cannot be read, locked or written; nothing was changed.
        """
        return self.record_many([(signal, score)], at=at)[_checked_signal(signal)]

    def record_many(
        self,
        scored: Iterable[tuple[str, float]],
        *,
        at: datetime | None = None,
        timeout: float = LOCK_SECONDS,
    ) -> dict[str, float]:
        """Same as `record` for many, in order, in one write; all are refused if one is.

        Args:
            scored: signals with scores, as `record` takes them.
            at: as `record`, for all of them.
            timeout: seconds to wait for another holder of the lock.

        Returns:
            The weight of each signal after all changes, by (redacted) signal.

        Raises:
            InvalidInputError: as `record`.
            StoreUnavailableError: as `record`.
        """
        checked = [(_checked_signal(signal), _checked_score(score)) for signal, score in scored]
        moment = self._moment(at)
        if not checked:
            return {}
        with self._file.lock(timeout):
            signals = self._file.read()
            for signal, score in checked:
                _apply(signals, signal, score, moment)
            self._file.write(_strongest(signals, moment))
        return {
            signal: _weight_at(signals[signal], moment) if signal in signals else 0.0 for signal, _ in checked
        }

    def decay(self, at: datetime | None = None, *, timeout: float = LOCK_SECONDS) -> int:
        """Drop the signals that have faded to 0.1 or less; calling it often or never changes no weight.

        Args:
            at: the moment to look from, aware; None for now.
            timeout: seconds to wait for another holder of the lock.

        Returns:
            How many signals were dropped.

        Raises:
            InvalidInputError: a time without a zone.
            StoreUnavailableError: as `record`.
        """
        moment = self._moment(at)
        if not self._file.path.exists():
            return 0
        return self._drop(lambda _, stored: _is_faded(_weight_at(stored, moment)), timeout=timeout)

    def get_active(self, limit: int | None = None, at: datetime | None = None) -> list[Signal]:
        """The signals that have not faded, strongest first, ties by text.

        Args:
            limit: at most so many; None for all, none for 0 and below.
            at: the moment to look from, aware; None for now.

        Raises:
            InvalidInputError: a time without a zone.
            StoreUnavailableError: the file cannot be read.
        """
        moment = self._moment(at)
        stored = self._file.load(LOCK_SECONDS)
        active = [Signal(text, _weight_at(one, moment)) for text, one in stored.items()]
        active = sorted((s for s in active if not _is_faded(s.weight)), key=lambda s: (-s.weight, s.text))
        return active if limit is None else active[: max(limit, 0)]

    def to_prompt_hints(self, at: datetime | None = None) -> str:
        """The strongest signals as lines `- signal`, at most 10 and 500 characters; "" if there are none.

        A signal is one whole line, made safe for a prompt (`block.inert`); one that does not fit is left
        out and shorter ones after it still get their turn.

        Raises:
            InvalidInputError: a time without a zone.
            StoreUnavailableError: the file cannot be read.
        """
        lines: list[str] = []
        room = MAX_HINT_CHARACTERS
        for signal in self.get_active(at=at):
            line = f"- {inert(signal.text)}"
            if len(line) <= room:
                lines.append(line)
                room -= len(line) + 1
            if len(lines) == MAX_HINT_LINES:
                break
        return "\n".join(lines)

    def forget(
        self, what: str | Collection[str] | Callable[[str], bool], *, timeout: float = LOCK_SECONDS
    ) -> int:
        """Remove signals, also from what damaged files and killed writers left beside the file.

        Args:
            what: a signal, several, or a function that says of a signal whether it goes.
            timeout: seconds to wait for another holder of the lock.

        Returns:
            How many signals were removed.

        Raises:
            StoreUnavailableError: as `record`.
        """
        if not self._file.path.parent.is_dir():
            return 0
        if callable(what):
            return self._drop(lambda text, _: what(text), forget=True, timeout=timeout)
        texts = (what,) if isinstance(what, str) else what
        wanted = {*texts, *map(redact, texts)}
        return self._drop(lambda text, _: text in wanted, forget=True, texts=wanted, timeout=timeout)

    def _drop(
        self,
        goes: Callable[[str, Stored], bool],
        *,
        timeout: float,
        forget: bool = False,
        texts: Iterable[str] = (),
    ) -> int:
        with self._file.lock(timeout):
            signals = self._file.read()
            gone = {text for text, stored in signals.items() if goes(text, stored)}
            if gone:
                self._file.write({text: stored for text, stored in signals.items() if text not in gone})
            if forget:
                self._file.sweep({*gone, *texts})
        return len(gone)

    def _moment(self, at: datetime | None) -> datetime:
        moment = self._clock() if at is None else at
        if moment.tzinfo is None:
            raise InvalidInputError(f"{moment!r} has no time zone: pass one such as datetime.now(UTC)")
        return moment.astimezone(UTC)


def _fading(since: datetime, until: datetime) -> float:
    if until <= since:
        return 1.0
    return float(DECAY_PER_DAY ** ((until - since).total_seconds() / _DAY))


def _is_faded(weight: float) -> bool:
    # Rounded, as 0.4 - 0.3 is a little more than 0.1.
    return round(weight, 9) <= PRUNE_LINE


def _weight_at(stored: Stored, moment: datetime) -> float:
    """The faded weight; a moment before it was stored sees it unfaded."""
    return stored.weight * _fading(stored.at, moment)


def _apply(signals: Signals, signal: str, score: float, at: datetime) -> None:
    """Change one weight. Fading is exponential, so moving `at` on changes nothing for later moments."""
    old = signals.pop(signal, Stored(0.0, at))
    # A score that comes in late has faded itself, and a weight that has faded away does not come back.
    latest = max(old.at, at)
    before = _weight_at(old, latest)
    weight = (0.0 if _is_faded(before) else before) + score * _fading(at, latest)
    if not _is_faded(weight):
        signals[signal] = Stored(min(weight, 1.0), latest)


def _strongest(signals: Signals, moment: datetime) -> Signals:
    """At most 1,000 signals, as a file that only grows would slow every run down."""
    if len(signals) <= MAX_SIGNALS:
        return signals

    def weakness(text: str) -> tuple[float, str]:
        stored = signals[text]
        # What is dated later than now has not faded.
        return -_strength(stored if stored.at <= moment else stored._replace(at=moment)), text

    weakest = heapq.nlargest(len(signals) - MAX_SIGNALS, signals, key=weakness)
    gone = set(weakest)
    return {text: stored for text, stored in signals.items() if text not in gone}


@lru_cache(maxsize=2 * MAX_SIGNALS)
def _strength(stored: Stored) -> float:
    """What orders signals as their weights do at every moment since the latest `at`: all fade alike from then on."""
    return math.log(stored.weight) - math.log(DECAY_PER_DAY) * stored.at.timestamp() / _DAY


def _checked_signal(signal: str) -> str:
    if not signal.strip():
        raise InvalidInputError(f"a signal needs some text, not {signal!r}")
    if len(signal) > MAX_SIGNAL_CHARACTERS:
        raise InvalidInputError(
            f"the signal {signal[:40]!r}... has {len(signal)} characters: at most {MAX_SIGNAL_CHARACTERS} fit"
        )
    if reason := unstorable_reason(signal):
        raise InvalidInputError(f"the signal {signal[:40]!r} cannot be stored: {reason}")
    return redact(signal)


def _checked_score(score: float) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not -1 <= score <= 1:
        raise InvalidInputError(f"a signal's score is a number from -1 to 1, not {score!r}")
    return float(score)
