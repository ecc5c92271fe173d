"""The record of a run: `.agenthood/runs/{id}.json`."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agenthood.errors import AgenthoodError, InvalidInputError
from agenthood.files import write_atomically
from agenthood.formats import base36, utc_now
from agenthood.redaction import redact_json

FOLDER = "runs"
RUNNING = "running"
_log = logging.getLogger("agenthood")


@dataclass(slots=True)
class Run:
    """Everything worth knowing about one run.

    Attributes:
        id: `{UTC time}-{6 base-36 characters}`.
        member: who ran.
        skill: in which skill.
        task: what was to be done.
        status: `running`, then how it ended: `done`, `interrupted`, `failed`, `refused`, `length` (a reply cut
            off), or the limit that was reached: `steps`, `tokens`, `seconds`, `repeated`.
        reason: why it ended that way; empty if it is done.
        outcome: how it ended, in words, with the scores: what is stored with the episode.
        answer: the agent's last answer.
        provider: who answered last.
        model: which model.
        input_tokens: of all replies, those of the judge included.
        output_tokens: the same.
        cost: in US dollars; None if the price of a model that replied is not known.
        seconds: wall time, checks included.
        steps: replies of the model.
        tools: tool -> calls.
        tool_errors: calls that failed.
        lessons: lessons shown, with id, kind and similarity.
        scores: scores and where they came from.
        episode_id: the recorded episode.
        receipts: what was learned.
        notes: what went wrong beside the run, such as memory that was down.
        started_at: ISO 8601 time of the start.
    """

    id: str
    member: str
    skill: str
    task: str
    status: str = RUNNING
    reason: str = ""
    outcome: str = ""
    answer: str = ""
    provider: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    steps: int = 0
    tools: dict[str, int] = field(default_factory=dict)
    tool_errors: int = 0
    lessons: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    episode_id: str | None = None
    receipts: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    started_at: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The run as a JSON-ready mapping, with well-known secrets redacted."""
        redacted: dict[str, Any] = redact_json(asdict(self))
        return redacted


def new_run_id() -> str:
    """A fresh id that sorts by time."""
    suffix = base36(secrets.randbelow(36**6)).rjust(6, "0")
    return f"{utc_now():%Y%m%dT%H%M%S}-{suffix}"


def save_run(home: Path, run: Run) -> Path:
    """Write the run's file in one step, replacing what was there.

    Raises:
        StoreUnavailableError: it cannot be written.
    """
    path = home / FOLDER / f"{run.id}.json"
    write_atomically(path, json.dumps(run.to_dict(), ensure_ascii=True, indent=2) + "\n")
    return path


def save_softly(home: Path, run: Run) -> None:
    """Same as `save_run`, but a failure is a warning and a note of the run: it must not end the run."""
    try:
        save_run(home, run)
    except (AgenthoodError, OSError) as exc:
        _log.warning("the run is not recorded in a file: %s", exc)
        if str(exc) not in run.notes:
            run.notes.append(str(exc))


@contextmanager
def recorded(home: Path, run: Run) -> Iterator[Run]:
    """Keep the file of `run`: there from the start, and never left as `running` by an exception."""
    save_softly(home, run)
    try:
        yield run
    except BaseException as error:  # also Ctrl-C: whatever ends a run, its file says so
        if run.status == RUNNING:
            interrupted = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
            run.status = "interrupted" if interrupted else "failed"
            run.reason = run.reason or ("interrupted" if interrupted else f"{type(error).__name__}: {error}")
            save_softly(home, run)
        raise


def load_run(home: Path, run_id: str) -> Run:
    """The run with this id, or the only one whose id starts with it.

    Raises:
        InvalidInputError: there is none, there are several, or its file cannot be read.
    """
    folder = home / FOLDER
    paths = sorted(folder.glob("*.json")) if run_id else []
    found = [path for path in paths if path.stem == run_id] or [
        path for path in paths if path.stem.startswith(run_id)
    ]
    if len(found) != 1:
        problem = f"{len(found)} runs have" if found else "no run has"
        latest = ", ".join(path.stem for path in (found or paths)[-3:])
        hint = f"such as {latest}" if latest else f"there are none in {str(folder)!r}"
        raise InvalidInputError(f"{problem} an id that starts with {run_id!r:.80}: give one, {hint}")
    return _read(found[0])


def _read(path: Path) -> Run:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        run = Run(**{name: body[name] for name in Run.__dataclass_fields__ if name in body})
        _check(run)
    except (ValueError, TypeError, OSError, RecursionError) as exc:
        raise InvalidInputError(
            f"run file {str(path)!r} cannot be read ({exc}): move it away, or give another run"
        ) from exc
    return run


def _check(run: Run) -> None:
    """Make sure of what is worked with; a file may have been edited."""
    for name in ("id", "member", "skill", "task", "outcome"):
        if not isinstance(getattr(run, name), str):
            raise TypeError(f"{name} is no text")
    for name in ("scores", "receipts"):
        if not isinstance(getattr(run, name), list):
            raise TypeError(f"{name} is no list")
    if run.episode_id is not None and not isinstance(run.episode_id, str):
        raise TypeError("episode_id is no text")


def lesson_line(lesson: Mapping[str, Any]) -> dict[str, Any]:
    """What a run file keeps of a lesson that was shown."""
    return {name: lesson[name] for name in ("id", "kind", "member", "similarity", "evidence")}
