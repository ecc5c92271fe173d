"""The ring of the latest items."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.errors import InvalidInputError
from agenthood.memory.short_term import ShortTermMemory


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        """The time it was set to."""
        return self.now


@given(
    st.lists(st.integers()), st.integers(min_value=1, max_value=25), st.integers(min_value=-3, max_value=30)
)
def test_it_holds_the_last_items_in_order(items: list[int], capacity: int, n: int) -> None:
    """Items, iteration, length and the latest agree with the end of a plain list."""
    memory = ShortTermMemory[int](capacity)
    for item in items:
        memory.add(item)
    kept = items[-capacity:]
    assert memory.items() == list(memory) == kept
    assert len(memory) == len(kept)
    assert memory.latest(n) == (kept[-n:] if n > 0 else [])


def test_twenty_by_default() -> None:
    """The ring of the design has room for 20."""
    memory = ShortTermMemory[int]()
    for n in range(50):
        memory.add(n)
    assert memory.items() == list(range(30, 50))
    assert memory.capacity == 20


def test_old_items_are_not_shown() -> None:
    """An item is shown up to its maximum age, and not after."""
    clock = Clock()
    memory = ShortTermMemory[str](max_age=timedelta(minutes=5), clock=clock)
    memory.add("early")
    clock.now += timedelta(minutes=3)
    memory.add("late")
    clock.now += timedelta(minutes=2)
    assert memory.items() == ["early", "late"]
    clock.now += timedelta(microseconds=1)
    assert memory.items() == ["late"]
    assert len(memory) == 1
    assert memory.latest(5) == ["late"]


def test_clear_forgets_everything() -> None:
    """A cleared ring is empty and can be used again."""
    memory = ShortTermMemory[str]()
    memory.add("a")
    memory.clear()
    assert memory.items() == []
    memory.add("b")
    assert memory.items() == ["b"]


def test_what_makes_no_sense_is_refused() -> None:
    """A ring without room or with no age to live is an error that names the value."""
    with pytest.raises(InvalidInputError, match="not 0"):
        ShortTermMemory(0)
    with pytest.raises(InvalidInputError, match="max_age"):
        ShortTermMemory(max_age=timedelta(0))
