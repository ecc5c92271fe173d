"""What the tests of the tools share: projects to work in and a short way to call a tool."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.runtime.chat.base import ToolCall

if TYPE_CHECKING:
    from agenthood.runtime.tools import Toolbox, ToolResult

SECRET = "nobody-may-see-this"
KEY = "sk-ant-api03-" + "A1b2C3d4E5f6G7h8" * 4


async def call(tools: Toolbox, name: str, **arguments: object) -> ToolResult:
    """Call one tool as the loop does."""
    return await tools.call(ToolCall("1", name, arguments))


async def text(tools: Toolbox, name: str, **arguments: object) -> str:
    """The text of a call that must work."""
    result = await call(tools, name, **arguments)
    assert not result.is_error, result.text
    return result.text


async def error(tools: Toolbox, name: str, **arguments: object) -> str:
    """The text of a call that must fail."""
    result = await call(tools, name, **arguments)
    assert result.is_error, result.text
    return result.text


def entries(folder: Path) -> list[Path]:
    """Everything below `folder`, sorted; links are not followed."""
    return sorted(folder.rglob("*"))


def git(folder: Path, *arguments: str) -> str:
    """Run git in `folder` with nothing of the user's configuration."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    person = {
        f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _PERSON.items()
    }
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environ | person | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


_PERSON = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": "2026-11-30T12:00:00Z"}


def repository(folder: Path) -> Path:
    """A repository with two commits, an ignored file and a new one."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("build/\n", encoding="utf-8")
    (folder / "src").mkdir()
    (folder / "src" / "main.py").write_text("print('one')\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Start")
    (folder / "src" / "main.py").write_text("print('two')\n", encoding="utf-8")
    git(folder, "commit", "-qam", "Say two")
    (folder / "build").mkdir()
    (folder / "build" / "out.py").write_text("ignored\n", encoding="utf-8")
    (folder / "new.py").write_text("fresh\n", encoding="utf-8")
    return folder
