"""Importing a stream of JSON lines batch by batch; bad lines are told with their numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agenthood.cli.interrupts import completed
from agenthood.cli.jsonl import ByteSource, RawLine, raw_lines
from agenthood.cli.reasons import Reasons
from agenthood.records import Imported

if TYPE_CHECKING:
    from agenthood import Hood
    from agenthood.cli.output import Output
    from agenthood.cli.progress import Advance

_BATCH = 500
_MAX_LINE = 256 * 2**20
"""Bytes; every line that an export wrote is far shorter."""


class Importer:
    """Imports a stream batch by batch.

    The engine would read the lines in a thread of its own, where Ctrl-C does not reach a read that waits.

    Attributes:
        done: what was done so far, with the numbers of lines in the whole stream.
    """

    def __init__(self, hood: Hood, output: Output) -> None:
        self.done = Imported()
        self._hood = hood
        self._output = output
        self._reasons = Reasons(output)
        self._numbers: list[int] = []
        self._texts: list[str] = []
        self._bad: list[tuple[int, str]] = []

    def run(self, source: ByteSource, advance: Advance) -> None:
        """Import everything; `advance` is told how many lines are done."""
        try:
            for raw in raw_lines(source, limit=_MAX_LINE):
                self._take(raw)
                if len(self._texts) + len(self._bad) >= _BATCH:
                    self._flush()
                    advance(raw.number, None)
            self._flush()
        except BaseException:  # also Ctrl-C: the person should know that nothing is half done
            self._output.problem("stopped: import the file again, what is there already is skipped")
            raise
        finally:
            self._reasons.rest()

    def _take(self, raw: RawLine) -> None:
        if not raw.first:
            return
        if raw.too_long:
            self._bad.append((raw.number, f"longer than {_MAX_LINE // 2**20} MiB"))
            return
        try:
            text = raw.body.decode("utf-8")
        except UnicodeDecodeError as error:
            at = error.start
            self._bad.append((raw.number, f"not UTF-8: byte {raw.body[at]:#04x} at position {at}"))
        else:
            self._numbers.append(raw.number)
            self._texts.append(text)

    def _flush(self) -> None:
        """Import the lines taken since the last time; Ctrl-C waits for that."""
        with completed(lambda: "ended at once: import the file again, what is there already is skipped"):
            self._import()

    def _import(self) -> None:
        """Import the lines taken since the last time, and report the bad ones among them."""
        found = self._hood.import_(self._texts) if self._texts else Imported()
        bad = self._bad + [
            (self._numbers[number - 1], _explained(self._texts[number - 1], reason))
            for number, reason in found.rejected
        ]
        for number, reason in sorted(bad):
            self._reasons.say(number, reason)
        self.done = Imported(
            stored=self.done.stored + found.stored,
            merged=self.done.merged + found.merged,
            skipped=self.done.skipped + found.skipped,
            rejected=(*self.done.rejected, *sorted(bad)),
        )
        self._numbers, self._texts, self._bad = [], [], []


def _explained(text: str, reason: str) -> str:
    """`reason`, or a better one for a line that is no part of an export at all."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return reason
    if not isinstance(fields, dict) or "type" in fields:
        return reason
    hint = "agenthood learn reads lines with an 'episode'" if "episode" in fields else "see agenthood export"
    return f"no 'type', so no line of an export: {hint}"
