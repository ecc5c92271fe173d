"""Text from a store made safe and short enough to show in a terminal. Pure functions."""

from __future__ import annotations

import re
import unicodedata

_SPACES = re.compile(r"[\s\x1c-\x1f\x85]+")
_JOINERS = "\u200c\u200d"  # Persian, Indic scripts and emoji are spelt with them
_ESCAPED_CATEGORIES = {"Cc", "Cf", "Cs"}


def shown(text: str, limit: int | None = None) -> str:
    r"""`text` on one line, with everything that could steer a terminal written out.

    White space is flattened; control characters, escape sequences, direction overrides, invisible
    formatting and lone surrogates become escapes such as `\x1b`.

    Args:
        text: any text.
        limit: the longest result in characters; more is cut and marked with `…`.
    """
    if limit is not None:
        text = text[: 4 * limit]  # flattening a text of megabytes to show 80 characters of it would be slow
    line = _SPACES.sub(" ", text).strip()
    if not line.isprintable():
        line = "".join(map(_escaped, line))
    return line if limit is None or len(line) <= limit else line[: limit - 1].rstrip() + "…"


def shown_text(text: str) -> str:
    """`text` with its lines kept, and everything else that could steer a terminal written out as by `shown`."""
    return "".join(c if c in "\n\t" or c.isprintable() else _escaped(c) for c in text.replace("\r\n", "\n"))


def _escaped(character: str) -> str:
    if character in _JOINERS or unicodedata.category(character) not in _ESCAPED_CATEGORIES:
        return character
    code = ord(character)
    if code < 0x100:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """`1 lesson`, `2,000 lessons`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def size(count: float) -> str:
    """A number of bytes for people: `1.5 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
