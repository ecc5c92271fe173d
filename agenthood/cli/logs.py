"""What the library logs, shown by the program."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


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


class Held(logging.Filter):
    """What is logged in a `with` block is held back to its end, and left out if somebody else says it then.

    Nothing of it is lost where the block fails.
    """

    def __init__(self) -> None:
        """Nothing is held yet."""
        super().__init__()
        self._records: list[logging.LogRecord] = []
        self._logger = logging.getLogger("agenthood")

    def __enter__(self) -> Self:
        self._logger.addFilter(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._logger.removeFilter(self)
        for record in self._records:
            self._logger.handle(record)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record for later."""
        self._records.append(record)
        return False

    def causes(self, reasons: Collection[str]) -> list[Exception]:
        """The errors among what was logged whose text one of `reasons` holds; their records are left out."""
        found: list[Exception] = []
        kept = []
        for record in self._records:
            error = _cause(record)
            if error is not None and any(str(error) in reason for reason in reasons):
                found.append(error)
            else:
                kept.append(record)
        self._records = kept
        return found


def _cause(record: logging.LogRecord) -> Exception | None:
    args = record.args if isinstance(record.args, tuple) else ()
    return next((arg for arg in args if isinstance(arg, Exception)), None)
