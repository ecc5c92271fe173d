"""What commands print: tables for people, tabs for pipes, JSON for programs; notes and errors beside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from agenthood.cli.said import Said
from agenthood.cli.text import shown, shown_text

if TYPE_CHECKING:
    from collections.abc import Sequence


class Output:
    """Writes answers to standard output and everything else to standard error.

    Attributes:
        json: answers are JSON instead of text.
        quiet: notes and warnings are left out; errors are not.
    """

    def __init__(self) -> None:
        self.json = False
        self.quiet = False
        self._said = Said()

    def line(self, text: str = "") -> None:
        """One line of the answer."""
        print(text)  # noqa: T201  (this is the one place that prints)

    def piece(self, text: str) -> None:
        """Part of the answer as it comes, safe to show, at once."""
        print(shown_text(text), end="", flush=True)  # noqa: T201

    def flush(self) -> None:
        """Hand on what was written of the answer until now."""
        sys.stdout.flush()

    def document(self, value: object) -> None:
        """`value` as one line of JSON."""
        self.line(json_text(value, ascii_only=not _speaks_utf8(sys.stdout)))

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, details: Sequence[str] = ()
    ) -> None:
        """Rows of texts: a table at a terminal, otherwise one line per row with tabs between the columns.

        Every cell is made safe to show.

        Args:
            columns: the headings, for a terminal.
            rows: one text per column.
            details: for each row a line to show below its last cell, at a terminal.
        """
        cells = [[shown(cell) for cell in row] for row in rows]
        if sys.stdout.isatty():
            _rich_table(columns, cells, [shown(detail) for detail in details])
        else:
            for row in cells:
                self.line("\t".join(row))

    def facts(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Names and values: aligned at a terminal, otherwise with a tab between them."""
        if not sys.stdout.isatty():
            for name, value in pairs:
                self.line(f"{name}\t{shown(value)}")
            return
        width = max((len(name) for name, _ in pairs), default=0) + 2
        for name, value in pairs:
            self.line(f"{name:<{width}}{shown(value)}")

    def note(self, text: str) -> None:
        """Something worth knowing that is not part of the answer."""
        if not self.quiet:
            _to_stderr(text)

    def warn(self, text: str) -> None:
        """Something that may be wrong; the command goes on. What was said before is left out."""
        if not self.quiet and (news := self._said.add(shown(text))):
            _to_stderr(f"agenthood: warning: {news}")

    def problem(self, text: str) -> None:
        """One of several things that went wrong; said even when quiet."""
        _to_stderr(f"agenthood: {shown(text)}")


def error_line(text: str) -> None:
    """The one line that says why a command failed and what to do."""
    _to_stderr(f"agenthood: error: {shown(text)}")


def json_text(value: object, *, ascii_only: bool = False) -> str:
    """`value` as compact JSON on one line."""
    from agenthood.formats import dumps  # noqa: PLC0415

    text = dumps(value)
    if not ascii_only:
        return text
    return "".join(c if ord(c) < 0x80 else _json_escape(c) for c in text)  # noqa: PLR2004


def tolerate_encodings() -> None:
    """Let output to a terminal that lacks a character show an escape in its place instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _speaks_utf8(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf8")


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], details: Sequence[str]) -> None:
    # rich is only worth its import where someone looks.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for number, row in enumerate(rows):
        cells = [Text(cell) for cell in row]  # Text, not str: markup in a lesson stays what it is
        if details:
            cells[-1].append(f"\n{details[number]}", style="dim")
        table.add_row(*cells)
    Console().print(table)
