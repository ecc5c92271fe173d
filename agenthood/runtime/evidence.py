"""Evidence of how a run went: commands whose exit status is a score, and scores that were given."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agenthood.errors import InvalidInputError
from agenthood.learning.rules import mean_score
from agenthood.redaction import redact
from agenthood.runtime.processes import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Source: TypeAlias = Literal["check", "given", "judge", "feedback"]

CHECK_SECONDS = 300.0
_TAIL = 400
# What a shell answers when a command cannot be run or is not found: a mistake in the check, not evidence.
_NOT_RUN = (126, 127)


@dataclass(frozen=True, slots=True)
class Score:
    """One score and where it came from.

    Attributes:
        name: what was scored, such as `check: pytest -q`.
        value: number in [0, 1]; None if it could not be judged.
        source: `check` a command's exit status, `given` by the caller, `judge` an LLM, `feedback` given later.
        detail: what happened, in a line; secrets redacted.
    """

    name: str
    value: float | None
    source: Source
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The score as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a check command ended.

    Attributes:
        status: exit status; None if it was stopped at the time limit.
        tail: the end of its output, redacted.
    """

    status: int | None
    tail: str

    @property
    def passed(self) -> bool:
        """Whether it exited with 0."""
        return self.status == 0

    @property
    def ran(self) -> bool:
        """Whether it could be run at all."""
        return self.status not in _NOT_RUN


async def run_check(command: str, project: Path, *, seconds: float = CHECK_SECONDS) -> Outcome:
    """Run `command` in a shell in `project`; when it ends or runs out of time, all it started is killed."""
    finished = await run(command, cwd=project, seconds=seconds, head=0, tail=4 * _TAIL)
    return Outcome(finished.status, _text(finished.tail))


def _text(tail: bytes) -> str:
    return redact(tail.decode("utf-8", "replace"))[-_TAIL:].strip()


def check_score(command: str, after: Outcome, before: Outcome | None = None) -> Score:
    """The score of a check: 1 if it passes, 0 if it fails, none if it could not be run.

    Args:
        command: the command.
        after: how it ended after the run.
        before: how it ended before the run, if that was asked for; it is told in the detail.
    """
    name = f"check: {redact(command)}"
    if not after.ran:
        return Score(
            name, None, "check", f"could not be run (exit status {after.status}): {after.tail[-200:]}"
        )
    told = (
        "passed"
        if after.passed
        else ("ran out of time" if after.status is None else f"exit status {after.status}")
    )
    if before is not None:
        told += ", passed before" if before.passed else ", failed before"
    if not after.passed and after.tail:
        told += f": {after.tail[-200:]}"
    return Score(name, 1.0 if after.passed else 0.0, "check", told)


def parse_scores(given: Sequence[str]) -> list[Score]:
    """Scores given as `NAME=0.9`.

    Raises:
        InvalidInputError: one is not of that form, or no finite number in [0, 1].
    """
    scores = []
    for text in given:
        name, separator, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not separator or not name.strip():
            raise InvalidInputError(f"score {text!r:.80} is not of the form NAME=0.9")
        mean_score({name: number})
        scores.append(Score(redact(name.strip()), number, "given"))
    return scores


def told(scores: Sequence[Score]) -> str:
    """The scores in a line, for an outcome."""
    return "; ".join(f"{one.name}: {one.detail or one.value}" for one in scores if one.value is not None)
