"""The same as `changelog`, with every second subject learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import changelog

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "One half of the commit subjects learned, their changelog texts asked"
NOTE = changelog.NOTE


def run(folder: Path, limit: int | None) -> str:
    """Measure on every second pair of each repository; returns a Markdown table."""
    return changelog.measured(folder, limit, step=2)
