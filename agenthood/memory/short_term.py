"""Short-term memory: the last few things, in this process only."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from agenthood.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

DEFAULT_CAPACITY = 20


def _now() -> datetime:
    return datetime.now(UTC)


class ShortTermMemory(Generic[T]):
    """A ring of the latest items: a full one forgets its oldest. Nothing is written to disk."""

    def __init__(
        self,
        capacity: int = DEFAULT_CAPACITY,
        *,
        max_age: timedelta | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """Make an empty ring.

        Args:
            capacity: how many items it holds, at least 1.
            max_age: items older than this are no longer shown; None keeps them until pushed out.
            clock: gives the present time, aware.

        Raises:
            InvalidInputError: `capacity` below 1, or `max_age` not above zero.
        """
        if capacity < 1:
            raise InvalidInputError(f"capacity must be at least 1, not {capacity!r}")
        if max_age is not None and max_age <= timedelta(0):
            raise InvalidInputError(f"max_age must be above zero, not {max_age!r}; None means no limit")
        self._ring: deque[tuple[datetime, T]] = deque(maxlen=capacity)
        self._max_age = max_age
        self._clock = clock

    @property
    def capacity(self) -> int:
        """How many items the ring holds at most."""
        return self._ring.maxlen or 0

    def add(self, item: T) -> None:
        """Remember `item`, pushing out the oldest item of a full ring."""
        self._ring.append((self._clock(), item))

    def items(self) -> list[T]:
        """What is remembered, oldest first."""
        kept = tuple(self._ring)
        if self._max_age is None:
            return [item for _, item in kept]
        oldest = self._clock() - self._max_age
        return [item for added, item in kept if added >= oldest]

    def latest(self, n: int = 1) -> list[T]:
        """The `n` youngest items, oldest of them first; fewer if there are fewer, none for `n` <= 0."""
        return self.items()[-n:] if n > 0 else []

    def clear(self) -> None:
        """Forget everything."""
        self._ring.clear()

    def __len__(self) -> int:
        return len(self.items())

    def __iter__(self) -> Iterator[T]:
        return iter(self.items())
