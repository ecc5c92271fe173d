"""Progress bars on standard error, for people who wait at a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Advance: TypeAlias = "Callable[[int, int | None], None]"
"""Called with how much is done, and of how much in all (None while that is unknown)."""


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Advance]:
    """Show how far long work is.

    Args:
        what: the work, in a word or two.
        quiet: show nothing; nor is anything shown when standard error is no terminal.

    Yields:
        The function to call as the work goes on.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console  # noqa: PLC0415  rich is only worth its import where someone looks
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
