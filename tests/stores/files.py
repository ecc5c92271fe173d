"""What the files of a store hold, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def left(folder: Path, words: Iterable[bytes]) -> set[str]:
    """Which of `words` occur in any file below `folder`, in a name or the bytes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    held = [path.read_bytes() + str(path).encode() for path in files]
    return {repr(word) for word in words if any(word in data for data in held)}
