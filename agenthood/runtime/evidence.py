"""Evidence of how a run went: commands whose exit status is a score, and scores that were given."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agenthood.errors import InvalidInputError
from agenthood.formats import unstorable_reason
from agenthood.learning.rules import mean_score
from agenthood.redaction import redact
from agenthood.runtime.processes import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Source: TypeAlias = Literal["check", "given", "judge", "feedback"]

CHECK_SECONDS = 300.0
_TAIL = 400
_DETAIL = 200
_KEPT = 16 * _TAIL  # of the output before redaction, so that no secret begins before it
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
        status: exit status, negative for a signal; None if it was stopped at the time limit, or never began.
        tail: the end of its output, redacted; where it never began, why.
        began: whether there was anything to run.
    """

    status: int | None
    tail: str
    began: bool = True

    @property
    def passed(self) -> bool:
        """Whether it exited with 0."""
        return self.status == 0

    @property
    def ran(self) -> bool:
        """Whether it could be run at all."""
        return self.began and self.status not in _NOT_RUN


async def run_check(command: str, project: Path, *, seconds: float = CHECK_SECONDS) -> Outcome:
    """Run `command` in a shell in `project`; when it ends or runs out of time, all it started is killed.

    It gets the environment as it is, keys included: it is the user's own command. Never raises for one that
    cannot be run.
    """
    try:
        finished = await run(command, cwd=project, seconds=seconds, head=0, tail=_KEPT)
    except (OSError, ValueError) as exc:  # the project has gone, no process is to be had, NUL in the command
        return Outcome(None, redact(str(exc))[-_TAIL:], began=False)
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
        status = f" (exit status {after.status})" if after.began else ""
        return Score(name, None, "check", f"could not be run{status}: {after.tail[-_DETAIL:]}".rstrip(": "))
    how = _ended(after)
    if before is not None and before.ran:
        how += ", passed before" if before.passed else ", failed before"
    if not after.passed and after.tail:
        how += f": {after.tail[-_DETAIL:]}"
    return Score(name, 1.0 if after.passed else 0.0, "check", how)


def _ended(outcome: Outcome) -> str:
    if outcome.status is None:
        return "ran out of time"
    return "passed" if outcome.passed else f"exit status {outcome.status}"


def parse_scores(given: Sequence[str]) -> list[Score]:
    """Scores given as `NAME=0.9`.

    Raises:
        InvalidInputError: one is not of that form, or no finite number in [0, 1].
    """
    scores: dict[str, Score] = {}
    for text in given:
        name, separator, value = text.rpartition("=")
        name = redact(name.strip())
        if not separator or not name or unstorable_reason(text):
            raise InvalidInputError(f"score {redact(text)!r:.80} is not of the form NAME=0.9")
        if name in scores:
            raise InvalidInputError(f"score {name!r:.80} is given twice: give each name once")
        scores[name] = Score(name, _number(name, value), "given")
    return list(scores.values())


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise InvalidInputError(
            f"score {name!r:.80} is {redact(value)!r:.80}: give it as NAME=0.9, from 0 to 1"
        ) from None
    mean_score({name: number})
    return number


def by_name(scores: Sequence[Score]) -> dict[str, float]:
    """The scores that have a value, to learn from; of several with one name each counts."""
    named: dict[str, float] = {}
    for score in scores:
        if score.value is not None:
            name, number = score.name, 2
            while name in named:
                name, number = f"{score.name} ({number})", number + 1
            named[name] = score.value
    return named


def told(scores: Sequence[Score]) -> str:
    """The scores in a line, for an outcome."""
    return "; ".join(f"{one.name}: {one.detail or one.value}" for one in scores if one.value is not None)
