"""Why lines of a file were refused: said with their numbers, and no reason over and over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agenthood.cli.text import counted

if TYPE_CHECKING:
    from agenthood.cli.output import Output

_ALIKE = 10
_REASONS = 1_000
"""Different reasons that are counted; all lines with any other are named."""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(slots=True)
class _Seen:
    """A reason as it was first given, in which line, and how many lines had it."""

    line: int
    reason: str
    lines: int = 0


class Reasons:
    """Says why lines were refused; of those refused for the same reason only the first ten.

    Reasons that differ in numbers only, such as the column where JSON ends, are the same.
    """

    def __init__(self, output: Output) -> None:
        """Args: the `output` to say it to."""
        self._output = output
        self._seen: dict[str, _Seen] = {}

    def say(self, number: int, reason: str) -> None:
        """Say why line `number` was refused, or keep it for the rest."""
        kind = _NUMBER.sub("", reason)
        seen = self._seen.get(kind) or _Seen(number, reason)
        if len(self._seen) < _REASONS:
            self._seen[kind] = seen
        seen.lines += 1
        if seen.lines <= _ALIKE:
            self._output.problem(f"line {number}: {reason}")

    def rest(self) -> None:
        """Say how many more there were."""
        for seen in self._seen.values():
            if seen.lines > _ALIKE:
                more = counted(seen.lines - _ALIKE, "more line")
                self._output.problem(f"... and {more} for the same reason as line {seen.line}: {seen.reason}")
        self._seen.clear()
