"""The record of a run: `.agenthood/runs/{id}.json`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agenthood.errors import InvalidInputError
from agenthood.files import write_atomically
from agenthood.formats import base36, utc_now
from agenthood.redaction import redact_json

FOLDER = "runs"


@dataclass(slots=True)
class Run:
    """Everything worth knowing about one run.

    Attributes:
        id: `{UTC time}-{6 base-36 characters}`.
        member: who ran.
        skill: in which skill.
        task: what was to be done.
        status: `running`, then how it ended: `done`, `interrupted`, `failed`, or the limit that was reached.
        outcome: how it ended, in words.
        answer: the agent's last answer.
        provider: who answered last.
        model: which model.
        input_tokens: of all replies.
        output_tokens: of all replies.
        cost: in US dollars; None if the model's price is not known.
        seconds: wall time.
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
    status: str = "running"
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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(run.to_dict(), ensure_ascii=True, indent=2) + "\n")
    return path


def load_run(home: Path, run_id: str) -> Run:
    """The run with this id, or the only one whose id starts with it.

    Raises:
        InvalidInputError: there is none, there are several, or its file cannot be read.
    """
    found = (
        sorted(path for path in (home / FOLDER).glob("*.json") if path.stem.startswith(run_id))
        if run_id
        else []
    )
    exact = [path for path in found if path.stem == run_id]
    if len(exact or found) != 1:
        problem = "no run has" if not found else f"{len(found)} runs have"
        raise InvalidInputError(
            f"{problem} an id that starts with {run_id!r:.80}: see {str(home / FOLDER)!r}"
        )
    return _read(*(exact or found))


def _read(path: Path) -> Run:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        known = {name: body[name] for name in Run.__dataclass_fields__ if name in body}
        return Run(**known)
    except (ValueError, TypeError, OSError) as exc:
        raise InvalidInputError(f"run file {str(path)!r} cannot be read: {exc}") from exc


def lesson_line(lesson: Mapping[str, Any]) -> dict[str, Any]:
    """What a run file keeps of a lesson that was shown."""
    return {name: lesson[name] for name in ("id", "kind", "member", "similarity", "evidence")}
