"""What a person sees of a run: its text as it comes, how it ended, and what was learned."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agenthood.cli.text import counted, shown, shown_text

if TYPE_CHECKING:
    from typing import Any

    from agenthood.cli.output import Output
    from agenthood.runtime.chat.base import ToolCall
    from agenthood.runtime.loop import Listener
    from agenthood.runtime.runs import Run

_ARGUMENT = 60


class Show:
    """Shows a run as it goes: text and tool calls at a terminal, the answer alone to a pipe."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._live = sys.stdout.isatty() and not output.json
        self._open_line = False

    def listener(self) -> Listener:
        """Who the run tells what happens."""
        from agenthood.runtime.loop import Listener  # noqa: PLC0415

        return Listener(text=self._text, tool=self._tool) if self._live else Listener()

    def _text(self, piece: str) -> None:
        self._output.piece(piece)
        self._open_line = not piece.endswith("\n")

    def _tool(self, call: ToolCall) -> None:
        self._break()
        arguments = ", ".join(
            f"{shown(str(name), _ARGUMENT)}={shown(repr(value), _ARGUMENT)}"
            for name, value in call.arguments.items()
        )
        self._output.note(f"  {shown(f'{call.name[:_ARGUMENT]}({arguments})', 4 * _ARGUMENT)}")

    def _break(self) -> None:
        if self._open_line:
            self._output.piece("\n")
            self._open_line = False

    def end(self, done: Run) -> None:
        """Print the answer, unless it was seen already, how the run ended, and what was learned."""
        self._break()
        if self._output.json:
            self._output.document(done.to_dict())
        elif not self._live and done.answer and done.status not in {"failed", "interrupted"}:
            self._output.line(shown_text(done.answer))
        sys.stdout.flush()  # before the notes, where both go to one file
        if done.reason and done.status != "interrupted":  # which the program says itself
            self._output.problem(f"run {done.id} {_ENDED.get(done.status, 'stopped')}: {done.reason}")
        if not self._output.json:
            first, *more = map(shown, _summary(done))
            self._output.note(first)
            for line in more:
                self._output.note(f"  {line}")


_ENDED = {"failed": "failed", "refused": "was refused"}


def _summary(done: Run) -> list[str]:
    cost = "" if done.cost is None else f", ${done.cost:.4f}"
    tokens = f"{done.input_tokens} + {done.output_tokens} tokens"
    steps, lessons = counted(done.steps, "step"), counted(len(done.lessons), "lesson")
    lines = [f"run {done.id}: {done.status}, {steps}, {tokens}{cost}, {done.seconds:.1f} s, {lessons} shown"]
    lines += [f"{score['name']}: {_told(score)} ({score['source']})" for score in done.scores]
    return [*lines, *map(learned, done.receipts), *done.notes]


def _told(score: dict[str, Any]) -> str:
    if score["value"] is None:
        return str(score["detail"])
    return f"{score['value']:g}, {score['detail']}" if score["detail"] else f"{score['value']:g}"


def learned(receipt: dict[str, Any]) -> str:
    """A receipt in a line."""
    what = f"{receipt['kind']} " if receipt["kind"] else ""
    count = f", evidence {receipt['evidence']}" if receipt["evidence"] else ""
    why = f": {receipt['reason']}" if receipt["reason"] else ""
    return f"{what}lesson {receipt['status']}{count}{why}"
