"""A circuit breaker: when something that keeps failing is left alone, and when it is tried again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

State: TypeAlias = Literal["closed", "open", "half-open"]


@dataclass(slots=True)
class Breaker:
    """The circuit of one provider, or of a store.

    Closed lets everything through. After `threshold` failures in a row it opens and lets nothing through for
    `cooldown` seconds. Then, with `probe`, it is half open: one request goes through, and its outcome closes
    the circuit or opens it for another `cooldown`. Without `probe` it simply closes.

    Attributes:
        threshold: failures in a row that open it, at least 1.
        cooldown: seconds that it stays open.
        probe: whether one request at a time is let through after that.
        clock: seconds that never go back.
    """

    threshold: int
    cooldown: float
    probe: bool
    clock: Callable[[], float]
    _failures: int = field(default=0, init=False)
    _blocked_until: float | None = field(default=None, init=False)
    _probing: bool = field(default=False, init=False)
    _held_until: float = field(default=float("-inf"), init=False)

    @property
    def state(self) -> State:
        """What the circuit is now."""
        if self._blocked_until is None:
            return "closed"
        if self.clock() < self._blocked_until:
            return "open"
        return "half-open" if self.probe else "closed"

    @property
    def opens_in(self) -> float:
        """Seconds until a request may go through, 0 if one may now; a running probe is not counted."""
        until = max(self._held_until, self._blocked_until or float("-inf"))
        return max(until - self.clock(), 0.0)

    def allow(self) -> bool:
        """Whether a request may go through now; if so, one of the methods below must tell its outcome."""
        if self.opens_in > 0 or self._probing:
            return False
        if self.state == "closed" and self._blocked_until is not None:
            self._reset()
        self._probing = self.state == "half-open"
        return True

    def succeeded(self) -> None:
        """The request was answered."""
        self._reset()

    def failed(self, *, at_once: bool = False, cooldown: float | None = None) -> None:
        """The request failed.

        Args:
            at_once: open without waiting for more, since the next request would fail as well.
            cooldown: seconds that it stays open this time, if that is another time than usual.
        """
        self._failures += 1
        if at_once or self._probing or self._failures >= self.threshold:
            self._blocked_until = self.clock() + (self.cooldown if cooldown is None else cooldown)
        self._probing = False

    def undecided(self) -> None:
        """The request says nothing about whom it went to: it was cancelled, or was itself at fault."""
        self._probing = False

    def hold(self, seconds: float) -> None:
        """Let nothing through for so long, as it asked for itself."""
        self._held_until = max(self._held_until, self.clock() + seconds)

    def _reset(self) -> None:
        self._failures, self._blocked_until, self._probing = 0, None, False
        self._held_until = float("-inf")
