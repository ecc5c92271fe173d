"""What the tests of the agent run share: replies, models that break, and runs on a store of the test's own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from agenthood.runtime.chat.base import Reply, ToolCall, Usage
from agenthood.runtime.run import Job
from agenthood.runtime.runs import FOLDER, Run
from agenthood.runtime.tools.toolbox import Toolbox

KEY = "sk-ant-api03-" + "A1b2C3d4E5f6G7h8" * 4


def wants(name: str, text: str = "", /, *, tokens: int = 10, **arguments: Any) -> Reply:
    """A reply that wants one tool called."""
    return Reply(text, (ToolCall("1", name, arguments),), "tools", Usage(tokens, 1))


def says(text: str, stop: Any = "end", tokens: int = 10) -> Reply:
    """A reply that only says something."""
    return Reply(text, (), stop, Usage(tokens, 1))


class Never:
    """A chat model that never answers, or breaks with an error of your own."""

    provider = "never"
    model = "never"

    def __init__(self, error: BaseException | None = None) -> None:
        self.asked = asyncio.Event()
        self.error = error

    async def reply(self, **_: Any) -> Reply:
        """Raise, or wait for ever."""
        self.asked.set()
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()
        raise AssertionError

    async def aclose(self) -> None:
        """Nothing to close."""


def job(folder: Path, **options: Any) -> Job:
    """A run in `folder`, of a member called `dev`."""
    parts: dict[str, Any] = {"member": "dev", "instructions": "You write code.", "task": "fix the login test"}
    return Job(project=folder, home=folder / ".agenthood", **parts | options)


def toolbox(folder: Path, **options: Any) -> Toolbox:
    """The real tools, in `folder`."""
    return Toolbox(folder, **options)


def run_files(home: Path) -> list[dict[str, Any]]:
    """Every run file, the oldest first."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((home / FOLDER).glob("*.json"))]


def the_file(folder: Path) -> dict[str, Any]:
    """The one run file below `folder`."""
    (found,) = run_files(folder / ".agenthood")
    return found


def score_of(run: Run | dict[str, Any], name: str) -> dict[str, Any]:
    """The one score of a run with this name."""
    scores = run.scores if isinstance(run, Run) else run["scores"]
    (found,) = (score for score in scores if score["name"] == name)
    return found
