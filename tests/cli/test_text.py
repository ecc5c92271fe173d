"""Text made safe for a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.cli.text import counted, shown, size


@given(st.text(st.characters(codec=None, categories=None)), st.none() | st.integers(1, 40))
def test_whatever_is_shown_cannot_steer_a_terminal(text: str, limit: int | None) -> None:
    """No control character, direction override, surrogate or line break survives, and the limit holds."""
    line = shown(text, limit)
    assert all(c.isprintable() or c in "\u200c\u200d" or not c.isascii() for c in line)
    assert not set(line) & set(
        map(chr, [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), 0x2028, 0x2029])
    )
    line.encode("utf-8")
    assert limit is None or len(line) <= limit


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\r\nb\tc  d", "a b c d"),
        ("\x9b2J", "\\x9b2J"),
        ("evil\u202etxt", "evil\\u202etxt"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("[bold]kept[/bold]", "[bold]kept[/bold]"),
        ("membaiki ujian 修复测试 👩‍💻", "membaiki ujian 修复测试 👩‍💻"),
    ],
)
def test_examples(text: str, line: str) -> None:
    """Escape sequences are written out, ordinary text in any script stays as it is."""
    assert shown(text) == line


def test_long_texts_are_cut() -> None:
    """A text over the limit ends in an ellipsis."""
    assert shown("x" * 10**6, 10) == "x" * 9 + "…"


def test_numbers_for_people() -> None:
    """Counts agree with their noun, and bytes have a unit."""
    assert counted(1, "lesson") == "1 lesson"
    assert counted(2000, "near miss", "near misses") == "2,000 near misses"
    assert [size(999), size(1500), size(2.5e9), size(7e15)] == ["999 B", "1.5 kB", "2.5 GB", "7000.0 TB"]
