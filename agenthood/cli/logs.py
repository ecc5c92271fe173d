"""What the library logs, shown by the program."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Handler(logging.Handler):
    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message without time and place, which mean nothing to the person at the terminal."""
        self._show(record.getMessage())


@contextmanager
def logged_to(show: Callable[[str], None]) -> Iterator[None]:
    """Hand the text of every warning and error that agenthood logs to `show` for the length of a block."""
    logger = logging.getLogger("agenthood")
    handler = _Handler(show)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
